//! A private network out of which the server connects: scripts in a sandbox, on a machine made of namespaces with a
//! world behind it that answers at every address (`lab.py`).
//!
//! Every test runs as the user that the tests run as, and those of the guards as an ordinary user as well. A test that
//! cannot run here prints `SKIPPED` and the reason. Environment: `E2E_PYTHON` has uv beside it, `TEST_USER` is an ordinary
//! user, `E2E_URL` is an address of the real network that answers with at least 100 bytes.
#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, reason = "tests speak to whoever runs them")]

#[path = "../main/backend.rs"]
#[allow(dead_code, reason = "each test binary uses its part")]
mod backend;
mod choosing;
#[path = "../main/client.rs"]
#[allow(dead_code, clippy::needless_pass_by_value, reason = "each test binary uses its part")]
mod client;
mod clients;
mod guards;
mod lab;
mod load;
mod names;
mod refusals;
#[path = "../common/skipped.rs"]
mod skipped;
