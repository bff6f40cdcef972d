//! What an environment is asked to be, and the keys under which it is kept. Pure.

use std::sync::Arc;

use pep440_rs::VersionSpecifiers;
use sha2::{Digest, Sha256};

use super::failure::EnvironmentError;
use super::index::{RESERVED_PREFIX, hex};
use super::interpreters::{Interpreter, Wanted};
use super::python::PythonVersion;
use crate::script::Requirement;
use crate::script::tool_uv::ToolUv;

/// Changes when the layout of what is stored changes, so that an older store is not read.
const LAYOUT: &str = "1";

/// An environment that is asked for. What comes from a script has been checked by the room for scripts; what would
/// matter most is checked once more before it reaches uv.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvironmentRequest {
    /// The Python that the caller asked for, where one was.
    pub python: Option<PythonVersion>,
    /// The script's `requires-python`.
    pub requires_python: Option<VersionSpecifiers>,
    /// Requirements of script and caller, merged.
    pub requirements: Vec<Requirement>,
    /// The script's settings for uv.
    pub tool_uv: ToolUv,
}

impl EnvironmentRequest {
    /// What is wanted of the interpreter; `configured` is the user's choice where the caller made none.
    pub(super) fn wanted(&self, configured: Option<PythonVersion>) -> Wanted {
        Wanted { version: self.python.or(configured), requires: self.requires_python.clone() }
    }

    /// The requirements as canonical texts, sorted and each once.
    pub(super) fn normalised(&self) -> Vec<String> {
        let mut requirements: Vec<String> = self.requirements.iter().map(ToString::to_string).collect();
        requirements.sort();
        requirements.dedup();
        requirements
    }

    /// The script that uv resolves: nothing but metadata, written anew from what was checked.
    pub(super) fn metadata_script(&self) -> String {
        let dependencies = self.normalised().into_iter().map(toml::Value::String).collect();
        let list = toml::Table::from_iter([("dependencies".to_owned(), toml::Value::Array(dependencies))]);
        let text = format!("{list}{}", self.tool_uv.to_metadata());
        let lines =
            text.lines().map(|line| if line.is_empty() { "#".to_owned() } else { format!("# {line}") });
        let block: Vec<String> = ["# /// script".to_owned()].into_iter().chain(lines).collect();
        block.join("\n") + "\n# ///\n"
    }

    /// Refuses what uv would fill from its own environment, credentials included, and names that are ours.
    pub(super) fn check(&self) -> Result<(), EnvironmentError> {
        let text = self.metadata_script();
        if text.contains("${") {
            return Err(EnvironmentError::Refused(
                "environment variables (`${NAME}`) are not filled in; write the value out".to_owned(),
            ));
        }
        if self.tool_uv.indexes.iter().any(|index| index.name.as_deref().is_some_and(is_reserved)) {
            return Err(EnvironmentError::Refused(format!(
                "index names that start with {RESERVED_PREFIX} are reserved"
            )));
        }
        Ok(())
    }
}

fn is_reserved(name: &str) -> bool {
    name.to_ascii_lowercase().replace('_', "-").starts_with(RESERVED_PREFIX)
}

/// Key of what was asked: everything that decides what uv will resolve to, apart from the day.
pub(super) fn request_key(
    interpreter: &Interpreter,
    request: &EnvironmentRequest,
    index_identity: &str,
) -> Arc<str> {
    let mut parts = interpreter_parts(interpreter);
    parts.extend([request.metadata_script(), index_identity.to_owned()]);
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
    use crate::script::tool_uv::{Format, Index};

    fn request(requirements: &[&str]) -> EnvironmentRequest {
        let requirements =
            requirements.iter().map(|text| Requirement::parse(text).expect("a requirement")).collect();
        EnvironmentRequest { requirements, ..EnvironmentRequest::default() }
    }

    #[test]
    fn order_and_repetition_do_not_matter() {
        assert_eq!(request(&["b", "a", "B "]).metadata_script(), request(&["a", "b"]).metadata_script());
    }

    #[test]
    fn the_script_for_uv_is_a_block_of_comments_and_nothing_else() {
        let mut request = request(&["six>=1", "a[b] @ https://h/a.whl ; python_version < '4'"]);
        request.tool_uv.find_links = vec!["https://h/wheels/".to_owned()];
        let script = request.metadata_script();
        assert!(script.lines().all(|line| line.starts_with('#')), "{script}");
        assert!(script.contains("six>=1") && script.contains("https://h/wheels/"));
        assert_eq!(request.check(), Ok(()));
    }

    #[test]
    fn variables_and_names_of_ours_are_refused() {
        let mut variable = request(&["six"]);
        variable.tool_uv.index_url = Some("https://h/${UV_TOKEN}/".to_owned());
        assert!(variable.check().is_err());
        let mut named = request(&["six"]);
        named.tool_uv.indexes = vec![Index {
            name: Some("Configured_1".to_owned()),
            url: "https://h/".to_owned(),
            default: false,
            explicit: false,
            format: Format::default(),
        }];
        assert!(named.check().is_err());
    }
}
