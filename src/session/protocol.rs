//! What the server and the driver inside say to each other on the sandbox's private channel. Frames and their limits
//! are in `channel`.
//!
//! One request is worked on at a time, and its answer carries its number; lines of a cell, with the same number, may come
//! before it. Whatever else comes is a fault of the driver:
//! the sandbox is ended. Code in a sandbox can do everything that the driver can, so nothing in here is believed
//! before it is checked.

use serde::{Deserialize, Serialize};

/// Bytes of a traceback.
pub const TRACEBACK_LIMIT: usize = 8 << 10;
/// Bytes of output of one cell at most, whatever the settings say.
const LARGEST_OUTPUT: usize = 1 << 20;
/// Pictures that one answer carries.
const IMAGES: usize = 8;
/// Longest escape that JSON has for one byte.
const ESCAPE: usize = 6;

/// A request to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Request<'a> {
    /// Run a cell.
    Run {
        /// Number of the request.
        id: u64,
        /// The cell.
        code: &'a str,
    },
    /// Make the packages of an environment importable.
    Install {
        /// Number of the request.
        id: u64,
        /// The environment's folder, as seen from inside.
        root: &'a str,
    },
    /// Do something with files of the work directory.
    Files {
        /// Number of the request.
        id: u64,
        /// What.
        #[serde(flatten)]
        act: Act<'a>,
    },
    /// Tell what is in use.
    Usage {
        /// Number of the request.
        id: u64,
    },
    /// Raise `KeyboardInterrupt` in the cell of this request. Not answered.
    Interrupt {
        /// Number of the request that is interrupted.
        id: u64,
    },
    /// End the interpreter that works on this request. Not answered: the request itself is, then.
    Kill {
        /// Number of the request that is ended.
        id: u64,
    },
}

/// Something that is done with files of the work directory. Paths are lists of checked names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "act", rename_all = "lowercase")]
pub enum Act<'a> {
    /// List a folder.
    List {
        /// The folder.
        path: &'a [String],
        /// Entries at most.
        most: usize,
    },
    /// Read a piece of a file.
    Read {
        /// The file.
        path: &'a [String],
        /// From here.
        offset: u64,
        /// Bytes at most.
        length: usize,
    },
    /// Write a piece of a new file.
    Write {
        /// The file.
        path: &'a [String],
        /// The piece, in base64.
        data: &'a str,
        /// Whether it is the first one.
        first: bool,
        /// Whether it is the last one, after which the file is put in place.
        last: bool,
    },
    /// Remove a file or an empty folder.
    Remove {
        /// Which.
        path: &'a [String],
    },
    /// Find all files.
    Tree {
        /// Files at most.
        most: usize,
    },
}

/// An answer to [`Request::Files`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FilesAnswer {
    /// Number of the request.
    pub id: u64,
    /// The system's error number, where it refused.
    pub errno: Option<i32>,
    /// What stands in the way, where something else than a file or folder does.
    pub what: Option<String>,
    /// A piece, in base64.
    pub data: Option<String>,
    /// Bytes of the file, or of all of them.
    pub size: u64,
    /// Name, kind and size.
    pub entries: Vec<(String, String, u64)>,
    /// How many there are.
    pub count: usize,
    /// Whether there are more than were counted.
    pub more: bool,
}

/// The first frame: the driver's own source and its limits.
#[derive(Clone, Debug, Serialize)]
pub struct Setup {
    /// Source by name.
    pub driver: std::collections::BTreeMap<&'static str, &'static str>,
    /// Largest frame that the driver may send.
    pub frame_limit: usize,
    /// Bytes kept of each stream, and of all values together.
    pub output_limit: usize,
    /// Bytes of one picture.
    pub image_limit: usize,
    /// Bytes of a traceback.
    pub traceback_limit: usize,
    /// Cells that were run before: numbers go on where a sandbox takes the place of a lost one.
    pub cells: u64,
}

impl Setup {
    /// Limits that fit together.
    pub fn new(output_limit: usize, image_limit: usize) -> Self {
        let output_limit = output_limit.min(LARGEST_OUTPUT);
        let text = ESCAPE * (3 * output_limit + 4 * TRACEBACK_LIMIT);
        Self {
            driver: std::collections::BTreeMap::new(),
            frame_limit: text + IMAGES * image_limit / 3 * 4 + (1 << 20),
            output_limit,
            image_limit,
            traceback_limit: TRACEBACK_LIMIT,
            cells: 0,
        }
    }
}

/// The driver's first word.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// Always 0.
    pub id: u64,
    /// Version of the interpreter.
    pub python: String,
}

/// An answer to [`Request::Usage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Number of the request.
    pub id: u64,
    /// Bytes of memory, where they can be seen.
    #[serde(default)]
    pub memory: Option<u64>,
    /// Processes, where they can be seen.
    #[serde(default)]
    pub processes: Option<u64>,
}

/// A line that a cell has printed; some of them come before the answer to [`Request::Run`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Number of the request.
    pub id: u64,
    /// The line.
    pub line: String,
}

/// An answer to [`Request::Run`] and [`Request::Install`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Number of the request.
    pub id: u64,
    /// Printed since the last answer.
    pub stdout: Stream,
    /// Printed to standard error since the last answer.
    pub stderr: Stream,
    /// How an interpreter ended, where one did since the last answer.
    #[serde(default)]
    pub lost: Option<Lost>,
    /// Number of the cell.
    #[serde(default)]
    pub cell: Option<u64>,
    /// Values that are shown.
    #[serde(default)]
    pub results: Vec<Value>,
    /// The exception that ended the cell.
    #[serde(default)]
    pub error: Option<Exception>,
    /// Remarks.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Duration of the cell.
    #[serde(default)]
    pub taken_us: Option<u64>,
    /// Name and version of new packages. Absent where the interpreter could not take them up.
    #[serde(default)]
    pub installed: Option<Vec<(String, String)>>,
    /// Name, loaded and installed version.
    #[serde(default)]
    pub conflicts: Vec<(String, String, String)>,
}

/// One captured stream.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Its first bytes.
    pub text: String,
    /// All of its bytes.
    pub total: u64,
}

/// How an interpreter ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lost {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// A value that is shown.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// As text.
    pub text: String,
    /// In other forms.
    pub forms: Vec<ValueForm>,
}

/// One form of a value: as text, or in a file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueForm {
    /// Media type.
    pub media: String,
    /// The text.
    #[serde(default)]
    pub text: Option<String>,
    /// The file.
    #[serde(default)]
    pub path: Option<String>,
    /// Its bytes.
    #[serde(default)]
    pub size: Option<u64>,
    /// A small picture in base64.
    #[serde(default)]
    pub preview: Option<String>,
    /// Its media type.
    #[serde(default)]
    pub preview_media: Option<String>,
}

/// An exception.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exception {
    /// Name of its class.
    pub name: String,
    /// Its text.
    pub value: String,
    /// The traceback.
    pub traceback: String,
}

/// Something with the number of its request.
pub trait Numbered {
    /// The number.
    fn id(&self) -> u64;
}

impl Numbered for Ready {
    fn id(&self) -> u64 {
        self.id
    }
}

impl Numbered for Line {
    fn id(&self) -> u64 {
        self.id
    }
}

impl Numbered for FilesAnswer {
    fn id(&self) -> u64 {
        self.id
    }
}

impl Numbered for Usage {
    fn id(&self) -> u64 {
        self.id
    }
}

impl Numbered for Answer {
    fn id(&self) -> u64 {
        self.id
    }
}
