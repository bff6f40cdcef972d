//! What is asked of one run, already checked. Pure.

use std::sync::Arc;
use std::time::Duration;

use crate::environment::PythonVersion;

/// Characters of a line that progress messages show.
const SHOWN: usize = 200;

/// One run that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionRequest {
    /// The script's text, byte for byte.
    pub script: String,
    /// Requirements from outside the script, as PEP 508 strings, not yet checked.
    pub dependencies: Vec<String>,
    /// The Python that was asked for, where one was.
    pub python: Option<PythonVersion>,
    /// One deadline for preparing and running, already within the server's maximum.
    pub timeout: Duration,
}

/// Something that happened during a run, for whoever waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Waiting for a free place.
    Queued,
    /// Resolving or downloading; how many packages of how many where that is known.
    Preparing {
        /// What is being done, in a few words.
        what: String,
        /// Packages finished.
        done: u64,
        /// Packages in all, 0 where not yet known.
        total: u64,
    },
    /// The script has been started.
    Running,
    /// The last complete line that the script printed, cut to 200 characters.
    Output(String),
}

impl Progress {
    /// A line as people are shown it: nothing that moves a cursor, and not too long.
    pub fn line(text: &str) -> Self {
        Self::Output(text.trim().chars().filter(|c| !c.is_control()).take(SHOWN).collect())
    }
}

/// Where progress goes. Called often; must be quick.
pub type ProgressSink = Arc<dyn Fn(Progress) + Send + Sync>;
