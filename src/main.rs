//! Two doors: the launcher, which the server starts for each sandbox, and the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(native)]
    mcp_python_exec_sandbox::launcher::enter_if_asked();
    mcp_python_exec_sandbox::commands::main()
}
