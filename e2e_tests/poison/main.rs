//! Nothing that a script or a package does reaches what a later run, another server or the user's own uv sees.
//!
//! From outside: the built program, real uv, an index of packages that were made for it. Each route of poisoning is
//! tried, a control shows that the attempt works where nothing stands in its way, and what is kept is compared byte for
//! byte.
#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, reason = "tests speak to whoever runs them")]

mod builds;
mod credentials;
mod failures;
mod networks;
mod pythons;
mod routes;
mod server;
mod settings;
mod sharing;
#[path = "../common/skipped.rs"]
mod skipped;
mod stage;
mod storage;
