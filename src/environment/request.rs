//! What an environment is asked to be, and the keys under which it is kept. Pure.

use std::sync::Arc;

use pep440_rs::VersionSpecifiers;
use sha2::{Digest, Sha256};

use super::failure::EnvironmentError;
use super::index::{RESERVED_PREFIX, hex};
use super::interpreters::{Interpreter, Wanted};
use super::python::PythonVersion;
use super::source::SourceBuilds;
use crate::script::Requirement;
use crate::script::tool_uv::{Location, ToolUv};

/// Changes when the layout of what is stored changes, so that an older store is not read.
const LAYOUT: &str = "2";

/// No package of this name can be asked for by accident: uv drops a project's requirement of itself.
pub(super) const PROJECT_NAME: &str = "environment-of-one-script-0";

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
    /// How far everything else goes first while it is built (`nice(2)`): 0 where a call waits for it.
    pub niceness: u8,
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

    /// The project that uv resolves: nothing but metadata, written anew from what was checked. (A script's block
    /// would be nearer, but uv does not look at the sources in one when it compiles.)
    pub(super) fn project(&self) -> String {
        project(self.normalised(), &self.tool_uv)
    }

    /// Refuses what uv would fill from its own environment, credentials included, and names that are ours.
    pub(super) fn check(&self) -> Result<(), EnvironmentError> {
        if self.requirements.is_empty() && self.tool_uv == ToolUv::default() {
            return Ok(());
        }
        let text = format!("{}{}", self.project(), self.tool_uv.to_uv_toml());
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

/// A project with these requirements and the index sources of these settings. The other settings reach uv by its
/// configuration file, and sources that are addresses stand in the requirements already.
pub(super) fn project(requirements: Vec<String>, tool_uv: &ToolUv) -> String {
    let mut about = toml::Table::new();
    about.insert("name".to_owned(), PROJECT_NAME.into());
    about.insert("version".to_owned(), "0".into());
    about.insert("dependencies".to_owned(), requirements.into());
    let mut table = toml::Table::from_iter([("project".to_owned(), about.into())]);
    let mut kept =
        ToolUv { sources: tool_uv.sources.clone(), indexes: tool_uv.indexes.clone(), ..ToolUv::default() };
    kept.sources
        .values_mut()
        .for_each(|list| list.retain(|source| matches!(source.location, Location::Index(_))));
    kept.sources.retain(|_, list| !list.is_empty());
    let metadata: toml::Table = toml::from_str(&kept.to_metadata()).unwrap_or_default();
    let settings = metadata.get("tool").and_then(|tool| tool.get("uv"));
    let kept = ["sources", "index"].map(|key| Some((key.to_owned(), settings?.get(key)?.clone())));
    let uv: toml::Table = kept.into_iter().flatten().collect();
    if uv.contains_key("sources") {
        let tool = toml::Table::from_iter([("uv".to_owned(), uv.into())]);
        table.insert("tool".to_owned(), tool.into());
    }
    table.to_string()
}

fn is_reserved(name: &str) -> bool {
    name.to_ascii_lowercase().replace('_', "-").starts_with(RESERVED_PREFIX)
}

/// Key of what was asked: everything that decides what uv will resolve to, apart from the day.
pub(super) fn request_key(
    interpreter: &Interpreter,
    request: &EnvironmentRequest,
    index_identity: &str,
    source_builds: SourceBuilds,
) -> Arc<str> {
    let mut parts = interpreter_parts(interpreter);
    parts.extend(request.normalised());
    parts.extend([request.tool_uv.to_metadata(), index_identity.to_owned(), format!("{source_builds:?}")]);
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
        // It lies in the environments: another text makes others.
        super::figures::SOURCE.to_owned(),
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
    use crate::script::tool_uv::{Format, Index, Source};

    fn index(name: &str) -> Index {
        let (name, url) = (Some(name.to_owned()), "https://h/".to_owned());
        Index { name, url, default: false, explicit: false, format: Format::default() }
    }

    fn request(requirements: &[&str]) -> EnvironmentRequest {
        let requirements =
            requirements.iter().map(|text| Requirement::parse(text).expect("a requirement")).collect();
        EnvironmentRequest { requirements, ..EnvironmentRequest::default() }
    }

    #[test]
    fn order_and_repetition_do_not_matter() {
        assert_eq!(request(&["b", "a", "B "]).project(), request(&["a", "b"]).project());
    }

    #[test]
    fn the_project_for_uv_holds_requirements_and_index_sources_and_nothing_else() {
        let mut request = request(&["six>=1", "a[b] @ https://h/a.whl ; python_version < '4'"]);
        request.tool_uv.find_links = vec!["https://h/wheels/".to_owned()];
        let plain: toml::Table = toml::from_str(&request.project()).expect("TOML");
        assert!(!plain.contains_key("tool") && plain["project"]["dependencies"].as_array().is_some());
        let source = Source { location: Location::Index("mine".to_owned()), marker: None };
        request.tool_uv.sources = [("six".to_owned(), vec![source])].into();
        request.tool_uv.indexes = vec![index("mine")];
        let project: toml::Table = toml::from_str(&request.project()).expect("TOML");
        assert_eq!(project["tool"]["uv"]["sources"]["six"][0]["index"].as_str(), Some("script-mine"));
        assert_eq!(project["tool"]["uv"]["index"][0]["name"].as_str(), Some("script-mine"));
        assert_eq!(request.check(), Ok(()));
    }

    #[test]
    fn variables_and_names_of_ours_are_refused() {
        let mut variable = request(&["six"]);
        variable.tool_uv.index_url = Some("https://h/${UV_TOKEN}/".to_owned());
        assert!(variable.check().is_err());
        let mut named = request(&["six"]);
        named.tool_uv.indexes = vec![index("Configured_1")];
        assert!(named.check().is_err());
    }
}
