//! The suites: a name and what it measures.

mod load;
mod sandbox;
mod scripts;
mod server;
mod sessions;

use crate::report::Report;
use crate::setting::Setting;

/// Measures something, or tells why it cannot.
pub type Suite = fn(&Setting, &mut Report) -> Result<(), String>;

/// All suites in the order in which they run.
pub const ALL: [(&str, Suite); 12] = [
    ("true", sandbox::true_program),
    ("hello", scripts::hello),
    ("packages", scripts::packages),
    ("preload", scripts::preload),
    ("bursts", load::bursts),
    ("concurrency", load::concurrency),
    ("sessions", sessions::sessions),
    ("output", server::output),
    ("startup", server::startup),
    ("memory", server::memory),
    ("leaks", server::leaks),
    ("engine", scripts::container),
];

/// No sandbox is kept waiting.
const NO_POOL: [&str; 2] = ["--pool-size", "0"];
