//! Runs Python that an agent wrote, on the user's own machine, in a sandbox that is built for that one run
//! and thrown away.
#![cfg_attr(not(test), warn(missing_docs))]

pub mod commands;
pub mod seccomp;
