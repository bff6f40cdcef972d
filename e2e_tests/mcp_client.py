"""The server as the `mcp` package from Python's index sees it: python mcp_client.py SERVER [FLAG ...]

Needs only that package. Works with its first and second major version. Prints a line for each check, and ends with
status 1 when one failed.
"""

import asyncio
import os
import sys
import time
import traceback

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

HELLO = "print('Hello from the sandbox')"

REQUESTS = "import requests; print(requests.__version__)"

PANDAS = """\
# /// script
# dependencies = ["pandas>=2.2"]
# ///
import pandas as pd
print(pd.DataFrame({"a": range(5)}).describe())
"""


def fields(result):
    """The structured part, whichever way this version of the package spells it."""
    return getattr(result, "structured_content", None) or getattr(result, "structuredContent", None)


def failed(result):
    return bool(getattr(result, "is_error", None) or getattr(result, "isError", None))


def text(result):
    return result.content[0].text


async def run(session, script, **arguments):
    return await session.call_tool("execute_python", {"script": script, **arguments})


async def lists_its_tools(session):
    tools = (await session.list_tools()).tools
    assert [tool.name for tool in tools][:3] == ["execute_python", "check_environment", "validate_script"], tools
    for tool in tools:
        assert tool.title and tool.description and tool.annotations, tool


async def runs_hello(session):
    result = await run(session, HELLO)
    assert text(result).startswith("--- stdout ---\nHello from the sandbox\n\n--- exit_code: 0 ---\n"), text(result)
    assert fields(result)["stdout"] == "Hello from the sandbox\n", fields(result)


async def runs_with_a_dependency(session):
    result = await run(session, REQUESTS, dependencies=["requests"], timeout_seconds=200)
    assert fields(result)["exit_code"] == 0, text(result)
    assert fields(result)["stdout"].strip()[0].isdigit(), text(result)


async def runs_with_an_inline_block(session):
    result = await run(session, PANDAS, timeout_seconds=300)
    assert "count" in text(result) and "mean" in text(result), text(result)


async def tells_an_exit_code_from_a_failure(session):
    result = await run(session, "import sys; print('no', file=sys.stderr); sys.exit(3)")
    assert not failed(result) and fields(result)["exit_code"] == 3, result
    result = await run(session, HELLO, dependencies=["surely-no-such-package-5f1c"], timeout_seconds=60)
    assert failed(result) and fields(result)["error"], result


async def keeps_output_of_a_run_that_takes_too_long(session):
    result = await run(session, "print('early', flush=True)\nimport time; time.sleep(60)", timeout_seconds=2)
    assert fields(result)["timed_out"] is True and "early" in fields(result)["stdout"], result


async def names_a_wrong_argument(session):
    result = await run(session, HELLO, verbose=True)
    assert failed(result) and "verbose" in text(result), result


async def shows_its_environment(session):
    result = await session.call_tool("check_environment", {})
    assert text(result).startswith("Python version: 3."), text(result)


async def validates_without_running(session):
    result = await session.call_tool("validate_script", {"script": PANDAS})
    assert text(result).startswith("VALID\n") and "  - pandas>=2.2" in text(result), text(result)
    result = await session.call_tool("validate_script", {"script": "print('half"})
    assert text(result).startswith("INVALID: line 1"), text(result)


async def reports_progress(session):
    seen = []

    async def on_progress(progress, _total, message):
        seen.append((progress, message))

    script = "import time\nfor i in range(4):\n    print('row', i, flush=True)\n    time.sleep(0.7)"
    await session.call_tool("execute_python", {"script": script}, progress_callback=on_progress)
    assert seen == sorted(seen) and any("row" in message for _, message in seen), seen


async def answers_during_a_call(session):
    slow = asyncio.create_task(run(session, "import time; time.sleep(2); print('slow')"))
    await asyncio.sleep(0.5)
    before = time.monotonic()
    await session.send_ping()
    await session.list_tools()
    assert time.monotonic() - before < 0.5, "ping and list waited for the call"
    assert "slow" in text(await slow)


CHECKS = [
    lists_its_tools,
    runs_hello,
    runs_with_a_dependency,
    runs_with_an_inline_block,
    tells_an_exit_code_from_a_failure,
    keeps_output_of_a_run_that_takes_too_long,
    names_a_wrong_argument,
    shows_its_environment,
    validates_without_running,
    reports_progress,
    answers_during_a_call,
]


async def main(command, *arguments):
    broken = 0
    # By itself the package hands over a few variables only: no proxy, no certificates, no settings of the index.
    server = StdioServerParameters(command=command, args=list(arguments), env=dict(os.environ))
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        for check in CHECKS:
            name = check.__name__.replace("_", " ")
            try:
                await check(session)
                print("ok    ", name, flush=True)
            except Exception:
                broken += 1
                print("FAILED", name, traceback.format_exc(), flush=True)
    return broken


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(1 if asyncio.run(main(*sys.argv[1:])) else 0)
