//! What can be said of a script without running it. Pure data.

/// The answer to a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validation {
    /// Whether a run would be started.
    pub valid: bool,
    /// The script's `requires-python`, as written.
    pub requires_python: Option<String>,
    /// Requirements after merging, as PEP 508 strings, sorted by name.
    pub dependencies: Vec<String>,
    /// Everything that is wrong, first line first.
    pub problems: Vec<Finding>,
    /// Things that do not stop a run but should be known.
    pub warnings: Vec<Finding>,
    /// Whether the syntax was checked, and with which Python; or why it was not.
    pub syntax: String,
}

/// One thing found in a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Line in the script, from 1, where it has one.
    pub line: Option<u32>,
    /// What is wrong and what to do.
    pub message: String,
}
