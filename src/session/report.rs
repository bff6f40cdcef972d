//! What came of one cell, and of installing packages. Pure data: words are made of it in the server.

use std::sync::Arc;
use std::time::Duration;

use crate::execution::Captured;
use crate::workspace::path::WorkPath;

/// A cell that was run, however it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellReport {
    /// What it printed.
    pub stdout: Captured,
    /// What it printed to standard error.
    pub stderr: Captured,
    /// Values that are shown, in order.
    pub results: Vec<Shown>,
    /// The exception that ended it, where one did.
    pub error: Option<CellError>,
    /// How it ended.
    pub end: CellEnd,
    /// Key of the environment that it ran in, packages that were installed included; empty where there is none.
    pub environment: Arc<str>,
    /// Things the caller should know.
    pub notes: Vec<String>,
    /// From the start of the cell to its end.
    pub duration: Duration,
}

/// How a cell ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellEnd {
    /// By itself, with or without an exception.
    Finished,
    /// It was interrupted after this time, and variables are still there.
    Interrupted(Duration),
    /// The interpreter is gone, with all variables; files are still there.
    Lost {
        /// How it ended.
        how: String,
        /// Whether that was because its time was up.
        timed_out: bool,
    },
}

/// An exception.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellError {
    /// Name of its class.
    pub name: String,
    /// Its text.
    pub value: String,
    /// The traceback, with the lines of cells.
    pub traceback: String,
}

/// One value that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// As text.
    pub text: String,
    /// In other forms.
    pub forms: Vec<Form>,
}

/// One form of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// Media type.
    pub media: &'static str,
    /// Where it is.
    pub body: FormBody,
}

/// Where a form of a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormBody {
    /// Here.
    Text(String),
    /// In a file of the workspace.
    File {
        /// Its name.
        path: WorkPath,
        /// Bytes, as the driver told.
        size: u64,
        /// A picture within the budget: media type and base64, both checked.
        preview: Option<(&'static str, String)>,
    },
}

/// Packages that were installed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// Name and version of each that is new or has changed, dependencies included.
    pub packages: Vec<(String, String)>,
    /// Name, loaded version and installed version of each that is loaded in another version.
    pub conflicts: Vec<(String, String, String)>,
    /// Key of the environment that holds them; empty where there is none.
    pub environment: Arc<str>,
    /// Things the caller should know.
    pub notes: Vec<String>,
}
