//! The whole program from outside: the built binary, real uv, real packages, real kernel.
//!
//! A test that cannot run here prints `SKIPPED` and the reason; where `CI` is set, what CI provides has to be there.
#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, reason = "tests speak to whoever runs them")]
#![allow(clippy::needless_pass_by_value, reason = "calls read better with the JSON in place")]

mod artifacts;
mod audit;
mod backend;
mod bad_input;
mod client;
mod command_line;
mod good_programs;
mod lifetimes;
mod limits;
mod output;
mod own_policy;
mod python_client;
mod sessions;
#[path = "../common/skipped.rs"]
mod skipped;
