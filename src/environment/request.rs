//! What an environment is asked to be, and the keys under which it is kept. Pure.

use std::sync::Arc;

use pep440_rs::VersionSpecifiers;
use sha2::{Digest, Sha256};

use super::failure::EnvironmentError;
use super::index::{RESERVED_PREFIX, hex};
use super::interpreters::{Interpreter, Wanted};
use super::python::PythonVersion;

/// Changes when the layout of what is stored changes, so that an older store is not read.
const LAYOUT: &str = "1";

/// An environment that is asked for. Everything in it may come from a hostile script and has been checked by the
/// room for scripts; what would matter most is checked once more before it reaches uv.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EnvironmentRequest {
    /// The Python that the caller asked for, where one was.
    pub python: Option<PythonVersion>,
    /// The script's `requires-python`.
    pub requires_python: Option<VersionSpecifiers>,
    /// PEP 508 requirements in canonical form, merged.
    pub requirements: Vec<String>,
    /// The script's options for uv, as tables of a `uv.toml`.
    pub options: toml::Table,
}

impl EnvironmentRequest {
    /// What is wanted of the interpreter; `configured` is the user's choice where the caller made none.
    pub(super) fn wanted(&self, configured: Option<PythonVersion>) -> Wanted {
        Wanted { version: self.python.or(configured), requires: self.requires_python.clone() }
    }

    /// The requirements, sorted and each once.
    pub(super) fn normalised(&self) -> Vec<String> {
        let mut requirements: Vec<String> =
            self.requirements.iter().map(|text| text.trim().to_owned()).collect();
        requirements.sort();
        requirements.dedup();
        requirements
    }

    /// Refuses what would be more than a requirement in a requirements file: options, further lines, and variables,
    /// which uv would fill from its own environment, credentials included.
    pub(super) fn check(&self) -> Result<(), EnvironmentError> {
        let refuse =
            |text: &str, why: &str| Err(EnvironmentError::Refused(format!("{text:?} is refused: {why}")));
        for text in self.requirements.iter().map(|text| text.trim()) {
            if text.is_empty() || text.starts_with(['-', '.', '/', '#']) {
                return refuse(text, "it is not a requirement");
            }
            if text.chars().any(char::is_control) || text.ends_with('\\') {
                return refuse(text, "it has a line break or control character");
            }
            if text.contains('$') {
                return refuse(text, "environment variables are not filled in");
            }
        }
        let options = self.options.to_string();
        if options.contains('$') {
            return refuse("[tool.uv]", "environment variables are not filled in");
        }
        if options.contains(RESERVED_PREFIX) {
            return refuse("[tool.uv]", "index names that start with `configured-` are reserved");
        }
        Ok(())
    }
}

/// Key of what was asked: everything that decides what uv will resolve to, apart from the day.
pub(super) fn request_key(
    interpreter: &Interpreter,
    requirements: &[String],
    options: &toml::Table,
    index_identity: &str,
) -> Arc<str> {
    let mut parts = interpreter_parts(interpreter);
    parts.extend([options.to_string(), index_identity.to_owned()]);
    parts.extend(requirements.iter().cloned());
    key(&parts)
}

/// Key of what is built: the interpreter and the exact files.
pub(super) fn environment_key(interpreter: &Interpreter, lock_file: &str) -> Arc<str> {
    let mut parts = interpreter_parts(interpreter);
    parts.push(lock_file.to_owned());
    key(&parts)
}

fn interpreter_parts(interpreter: &Interpreter) -> Vec<String> {
    vec![
        LAYOUT.to_owned(),
        std::env::consts::ARCH.to_owned(),
        interpreter.version.clone(),
        interpreter.executable.to_string_lossy().into_owned(),
        interpreter.fingerprint.clone(),
    ]
}

fn key(parts: &[String]) -> Arc<str> {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())[..32].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(requirements: &[&str]) -> EnvironmentRequest {
        EnvironmentRequest {
            requirements: requirements.iter().map(|text| (*text).to_owned()).collect(),
            ..EnvironmentRequest::default()
        }
    }

    #[test]
    fn nothing_but_requirements_reaches_uv() {
        for text in
            ["", "-r x", "--index-url=x", "six\n-r x", "./local", "a @ https://h/${UV_TOKEN}/a.whl", "six \\"]
        {
            assert!(request(&[text]).check().is_err(), "{text:?} was taken");
        }
        assert_eq!(request(&["six>=1", "a[b] @ https://h/a.whl ; python_version < '4'"]).check(), Ok(()));
    }

    #[test]
    fn a_script_s_index_cannot_take_the_name_of_a_configured_one() {
        let mut request = request(&["six"]);
        request.options =
            toml::from_str("[[index]]\nname = \"configured-1\"\nurl = \"https://h\"").expect("TOML");
        assert!(request.check().is_err());
    }

    #[test]
    fn order_and_repetition_do_not_matter() {
        assert_eq!(request(&["b", "a", "b "]).normalised(), request(&["a", "b"]).normalised());
    }
}
