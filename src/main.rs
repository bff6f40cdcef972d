//! Two doors: the launcher, which the server starts for each sandbox, and the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(native)]
    if std::env::args_os().nth(1).is_some_and(|argument| argument == mcp_python_exec_sandbox::launcher::ENTRY)
    {
        mcp_python_exec_sandbox::launcher::main();
    }
    mcp_python_exec_sandbox::commands::main()
}
