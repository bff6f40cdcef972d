//! Runs Python that an agent wrote, on the user's own machine, in a sandbox that is built for that one run
//! and thrown away.

pub mod environment;
pub mod execution;
pub mod sandbox;
pub mod seccomp;
pub mod settings;
