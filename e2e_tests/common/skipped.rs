//! How a test says that it could not run here: past the test harness, which keeps what a test prints to itself as long
//! as the test passes.

use std::fmt;
use std::io::Write;

/// Prints `SKIPPED`, what, and why.
pub fn skipped(reason: impl fmt::Display) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {reason}");
}
