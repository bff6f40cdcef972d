//! Runs Python that an agent wrote, on the user's own machine, in a sandbox that is built for that one run
//! and thrown away.

pub mod cli;
pub mod commands;
pub mod environment;
pub mod execution;
#[cfg(native)]
pub mod launcher;
pub mod sandbox;
pub mod script;
pub mod seccomp;
pub mod server;
pub mod session;
pub mod settings;
