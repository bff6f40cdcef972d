//! Runs Python that an agent wrote, on the user's own machine, in a sandbox that is built for that one run
//! and thrown away.
//!
//! # The path of one call
//!
//! ```text
//! MCP tool call -> ExecutionRequest   what was asked, already checked           (pure)
//!               -> Environment        interpreter and packages, read-only       (uv, only when they are new)
//!               -> SandboxSpec        what is allowed, for any backend          (pure, printable)
//!               -> LaunchPlan         how, in full: ordered data                (pure, printable); its first part,
//!                                     the groundwork, may have been carried out before the call
//!               -> launcher           carries the plan out, executes the interpreter
//!               -> ExecutionReport    exit, signal, output, limits, layers really enforced
//!               -> tool result        words and structured content for the agent
//! ```
//!
//! # The rooms, and what each must never know
//!
//! - [`cli`], [`settings`]: flags become validated values. *Invariant: no string in `settings` means a choice, and
//!   nothing is started here.*
//! - [`commands`]: what a person types. *Invariant: only this room and `main` print and choose exit codes.*
//! - [`install`]: clients' own configuration. *Invariant: what this program did not write stays as it is.*
//! - [`audit`]: a line for every call, for whoever has to know later. *Invariant: no call goes unwritten without a word.*
//! - [`server`]: the MCP face. *Invariant: the protocol library's types stay inside; no backend is named.*
//! - [`session`]: stateful sandboxes and the driver inside them. *Invariant: what comes out of a sandbox is hostile; it
//!   knows neither the protocol nor the backend.*
//! - [`execution`]: one run from request to report. *Invariant: it does not know which backend it has.*
//! - [`script`]: inline metadata. *Invariant: pure; it imports no other room.*
//! - [`environment`]: the only room that knows uv. *Invariant: uv runs in a sandbox; no code of a package runs here.*
//! - [`workspace`]: files of one sandbox. *Invariant: every name goes through its one check; no link is followed.*
//! - [`sandbox`]: the trait and the specification; `linux`, `none` and the choice between them. *Invariant: a
//!   specification is carried out in full or refused; the choice is made once, at start.*
//! - `launcher`: the child side. *Invariant: one thread, no runtime, no decision; a layer that cannot be set up ends
//!   the run.*
//! - [`seccomp`]: policy text to filter. *Invariant: pure, the same on every platform; `build.rs` uses the same source.*
//!
//! Imports go one way: `commands` and `server` -> `session` -> `execution` -> `environment`, `script`, `workspace` ->
//! `sandbox` -> `launcher`
//! (which takes only the plan) -> `seccomp`.

pub mod audit;
pub mod cli;
pub mod commands;
pub mod environment;
pub mod execution;
pub mod install;
#[cfg(native)]
pub mod launcher;
pub mod sandbox;
pub mod script;
pub mod seccomp;
pub mod server;
pub mod session;
pub mod settings;
pub mod workspace;
