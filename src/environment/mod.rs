//! Interpreters and dependencies: the only room that knows uv.
//!
//! Invariant: it starts nothing outside a sandbox but uv's own version check and the search for interpreters.

pub mod python;

pub use python::PythonVersion;
