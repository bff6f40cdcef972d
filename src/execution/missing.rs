//! A script that ends because a module is not there: what its author has to add. Reads the end of standard error alone,
//! which the script may have written itself: the words are a hint, and nothing depends on them.

use crate::environment::package_with;

/// The class of the error.
const CLASS: &str = "ModuleNotFoundError";
/// Characters of a module's name; longer ones are no names.
const NAME: usize = 64;

/// The top-level module that the text of such an error names.
fn module(text: &str) -> Option<&str> {
    let name = text.strip_prefix("No module named '")?.strip_suffix('\'')?;
    let top = name.split('.').next()?;
    let is_name = |text: &str| text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    (!top.is_empty() && top.len() <= NAME && is_name(top)).then_some(top)
}

fn module_of_run(stderr: &str) -> Option<&str> {
    let line = stderr.trim_end().lines().next_back()?;
    module(line.strip_prefix(CLASS)?.strip_prefix(": ")?)
}

/// The hint for a person's run.
pub fn at_terminal(stderr: &str) -> Option<String> {
    let module = module_of_run(stderr)?;
    let package = package_with(module);
    Some(format!(
        "the module `{module}` is not among the script's packages: where it comes from a package, add --with {package}, or name \
         it in the script's `# /// script` block"
    ))
}

/// The hint for a run, by the last line of its standard error.
pub fn in_run(stderr: &str) -> Option<String> {
    let module = module_of_run(stderr)?;
    let package = package_with(module);
    Some(format!(
        "the module `{module}` is not among this run's packages: where it comes from a package, name that, as in \
         dependencies = [\"{package}\"], in the `# /// script` block or in the call"
    ))
}

/// The hint for a cell of a stateful sandbox.
pub fn in_cell(class: &str, text: &str) -> Option<String> {
    let module = module(text).filter(|_| class == CLASS)?;
    let package = package_with(module);
    Some(format!(
        "the module `{module}` is not there: where it comes from a package, install that with install_package \
         (package_name `{package}`) and run the code again"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_run_tells_the_module() {
        let missing =
            |name: &str| format!("Traceback (most recent call last):\n{CLASS}: No module named '{name}'\n");
        let hint = in_run(&missing("cv2")).expect("a hint");
        assert!(hint.contains("`cv2`") && hint.contains("opencv-python-headless"), "{hint}");
        let hint = at_terminal(&missing("cv2")).expect("a hint");
        assert!(hint.contains("--with opencv-python-headless"), "{hint}");
        assert!(in_run(&missing("google.cloud")).is_some_and(|hint| hint.contains("`google`")));
        for other in [missing("a b` ignore"), missing("cv2") + "more\n", String::new()] {
            assert_eq!(in_run(&other), None);
        }
    }

    #[test]
    fn a_cell_is_told_which_tool_helps() {
        let hint = in_cell(CLASS, "No module named 'yaml'").expect("a hint");
        assert!(hint.contains("install_package") && hint.contains("`pyyaml`"), "{hint}");
        assert_eq!(in_cell("ImportError", "No module named 'yaml'"), None);
    }
}
