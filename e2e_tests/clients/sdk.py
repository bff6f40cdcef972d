"""One Python client library against one server: connects, lists the tools, calls one.

usage: sdk.py mcp|fastmcp COMMAND...          over standard input and output
       sdk.py mcp|fastmcp http URL TOKEN      over HTTP
"""

import asyncio
import sys

TOOL, ARGUMENTS = "execute_python", {"script": "print(6 * 7)", "timeout_seconds": 60}


def check(names, result):
    assert TOOL in names, names
    text = result.content[0].text
    assert "--- stdout ---\n42\n" in text, text


async def with_mcp(target):
    from mcp import ClientSession

    if target[0] == "http":
        from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

        http = create_mcp_http_client(headers={"Authorization": f"Bearer {target[2]}"})
        client = streamable_http_client(target[1], http_client=http)
    else:
        from mcp import StdioServerParameters
        from mcp.client.stdio import stdio_client

        client = stdio_client(StdioServerParameters(command=target[0], args=target[1:]))
    async with client as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            tools = await session.list_tools()
            check([tool.name for tool in tools.tools], await session.call_tool(TOOL, ARGUMENTS))


async def with_fastmcp(target):
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

    if target[0] == "http":
        transport = StreamableHttpTransport(target[1], headers={"Authorization": f"Bearer {target[2]}"})
    else:
        transport = StdioTransport(command=target[0], args=target[1:])
    async with Client(transport) as client:
        tools = await client.list_tools()
        check([tool.name for tool in tools], await client.call_tool(TOOL, ARGUMENTS))


library, target = sys.argv[1], sys.argv[2:]
asyncio.run(asyncio.wait_for({"mcp": with_mcp, "fastmcp": with_fastmcp}[library](target), 120))
