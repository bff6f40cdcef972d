//! What an agent is told about the tools before it uses them. Every byte of it is paid for in every conversation.

/// `execute_python`.
pub const EXECUTE: &str = "Run a Python script in a fresh, throw-away sandbox; print what you need. Packages: PEP 723 \
                           `# /// script` block or `dependencies`.";
/// `check_environment`.
pub const CHECK: &str = "Python, sandbox, limits.";
/// `validate_script`.
pub const VALIDATE: &str = "Check metadata and syntax without running.";

/// `create_sandbox`.
pub const CREATE: &str = "Make a stateful sandbox: variables, files and packages stay until it is closed.";
/// `close_sandbox`.
pub const CLOSE: &str = "Close a sandbox and everything in it.";
/// `get_sandbox_status`.
pub const STATUS: &str = "One sandbox's age, memory, files, packages; without session_id, all sandboxes.";
/// `execute_code`.
pub const RUN: &str = "Run Python in a sandbox, like a notebook cell: the last expression, open figures and `display()` are \
                       shown; top-level await works.";
/// `install_package`.
pub const INSTALL: &str = "Install packages (PEP 508, several separated by blanks) into a running sandbox.";
/// `create_run_close`.
pub const ONCE: &str = "Run one cell in a sandbox of its own, closed afterwards.";
/// `list_files`.
pub const LIST: &str = "List a folder of the sandbox's working directory.";
/// `read_file`.
pub const READ: &str = "Read a file; offset and length are bytes.";
/// `write_file`.
pub const WRITE: &str = "Write a text file.";
/// `upload_file`.
pub const UPLOAD: &str = "Put a file into the sandbox, as text or base64.";
/// `delete_file`.
pub const DELETE: &str = "Delete a file or an empty folder.";
/// The template of a script's files.
pub const OUTPUT: &str = "A file that a script left in output/.";
/// The template of resources.
pub const FILES: &str = "A file of a sandbox's working directory, whole or a piece of it.";

/// Told where scripts are run, the most important first.
const SCRIPTS: &str = "\
Runs Python scripts, each in a sandbox of its own that is thrown away after the run: no variables, files or installed \
packages stay for the next call, and nothing of the user's files is visible.

- Print what you need; the last expression is not shown. Long output is cut, so print summaries.
- Packages: name them in the script as PEP 723 inline metadata, or in `dependencies`; pin versions where results must \
repeat. Do not call pip.
  # /// script
  # dependencies = [\"pandas>=2.2\"]
  # ///
- Write files only to the working directory or /tmp. Open matplotlib figures come back with the result, and so do \
files in `output/`, a folder that the script makes.
- A script that fails is an ordinary result with its exit code and stderr. `isError` means that it was not run to its \
end; the message says what to do.
- `timeout_seconds` covers installing and running; the first use of large packages may need more than the default.
- `validate_script` finds wrong metadata and syntax errors without running anything; `check_environment` shows the \
Python version, the sandbox, limits and network.";

/// Told after that where stateful sandboxes are served, too.
const STATEFUL: &str = "

For work in several steps make a sandbox with `create_sandbox` and pass its session_id on: `execute_code` works like a \
notebook cell there, and variables, files and installed packages stay until `close_sandbox`. Paths of files are relative \
to its working directory.";

/// Told where nothing but stateful sandboxes is served.
const SANDBOXES: &str = "\
Runs Python in stateful sandboxes: variables, files and installed packages stay from call to call until the sandbox is \
closed or was not used for a while. Nothing of the user's files is visible inside.

- Make a sandbox with `create_sandbox` and pass its session_id on. `execute_code` works like a notebook cell: the last \
expression, open figures and `display()` are shown. `create_run_close` runs one cell where nothing has to stay.
- Long output is cut, so print summaries; the whole is a resource.
- Packages: `install_package`; pin versions where results must repeat. Do not call pip.
- Paths of files are relative to the working directory; `upload_file` and `read_file` carry data in and out.
- An exception is an ordinary result with its traceback. `isError` means that the code was not run to its end; the message \
says what to do and whether variables are lost.
- Code that takes longer than `timeout_seconds` is interrupted; variables are kept where it reacts to that.";

/// Told once, at the start of a conversation: at most 2,048 characters, for the tools that are served and no others.
pub fn instructions(served: &[&str]) -> String {
    let (scripts, sandboxes) = (served.contains(&"execute_python"), served.contains(&"create_sandbox"));
    match (scripts, sandboxes) {
        (true, true) => format!("{SCRIPTS}{STATEFUL}"),
        (true, false) => SCRIPTS.to_owned(),
        (false, true) => SANDBOXES.to_owned(),
        (false, false) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::instructions;

    #[test]
    fn instructions_fit_into_what_clients_show_and_name_no_tool_that_is_not_served() {
        let scripts = ["execute_python", "check_environment", "validate_script"];
        let sandboxes = [
            "create_sandbox",
            "close_sandbox",
            "get_sandbox_status",
            "execute_code",
            "install_package",
            "create_run_close",
            "list_files",
            "read_file",
            "write_file",
            "upload_file",
            "delete_file",
        ];
        for served in [scripts.to_vec(), sandboxes.to_vec(), [&scripts[..], &sandboxes].concat()] {
            let text = instructions(&served);
            let length = text.chars().count();
            assert!((500..=2048).contains(&length), "{length} characters");
            for tool in scripts.iter().chain(&sandboxes) {
                assert!(served.contains(tool) || !text.contains(&format!("`{tool}`")), "{tool}: {text}");
            }
        }
    }
}
