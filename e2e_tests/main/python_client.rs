//! The examples of the Python program's documentation, called by the `mcp` package's own client.

use std::process::Command;

use crate::client::{binary, common_flags};

const EXAMPLES: &str = r#"
import asyncio, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

PANDAS = '''# /// script
# dependencies = ["pandas"]
# ///
import pandas as pd
print(pd.DataFrame({"a": [1, 2, 3]}).describe())
'''

async def main():
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        names = [tool.name for tool in (await session.list_tools()).tools]
        assert {"execute_python", "check_environment", "validate_script"} <= set(names), names
        async def run(script, **more):
            result = await session.call_tool("execute_python", {"script": script, "timeout_seconds": 280, **more})
            return "\n".join(part.text for part in result.content if part.type == "text")
        hello = await run("print('Hello, World!')")
        assert "Hello, World!" in hello, hello
        version = await run("import requests; print('version', requests.__version__)", dependencies=["requests"])
        assert "version 2." in version, version
        described = await run(PANDAS)
        assert "mean" in described and "2.0" in described, described
        state = await session.call_tool("check_environment", {})
        assert "Python version" in state.content[0].text
    print("all answered")

asyncio.run(main())
"#;

#[test]
fn the_documented_examples_work_with_the_python_client() {
    let Some(python) = std::env::var_os("E2E_PYTHON") else {
        assert!(std::env::var_os("CI").is_none(), "CI has to set E2E_PYTHON");
        crate::skipped::skipped("python client: E2E_PYTHON names no Python with the mcp package");
        return;
    };
    let output = Command::new(python)
        .args(["-c", EXAMPLES])
        .arg(binary())
        .arg("--no-warm-cache")
        .args(common_flags(&[]))
        .output()
        .expect("Python starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("all answered"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
