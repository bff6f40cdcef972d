//! The system call policy: which calls a sandboxed process may make, and why.
//!
//! The policy itself is text, in the folder `seccomp/` of the repository. The build script compiles it, so that a
//! sandbox starts with a finished program; the text is embedded as well, for whoever asks why. This room must never
//! know a kernel: installing a program is the launcher's work.
pub mod compiler;
pub mod docker;
pub mod folder;

pub use compiler::{Answer, Arch, Decision, Insn, Policy, PolicyError, Role, Sockets, Tier, compile};
use std::io;

#[expect(clippy::unreadable_literal, reason = "generated")]
mod built {
    use super::Insn;
    include!(concat!(env!("OUT_DIR"), "/seccomp.rs"));
}

/// The filter that was compiled into this program.
///
/// # Panics
/// Never: the build script makes a program for every combination, which a test walks through.
#[must_use]
pub fn embedded(arch: Arch, role: Role, tier: Tier) -> &'static [Insn] {
    let wanted = (arch.name(), role.name(), tier.name());
    let found = built::PROGRAMS.iter().find(|(arch, role, tier, _)| (*arch, *role, *tier) == wanted);
    found.expect("the build script makes every combination").3
}

/// The decisions behind [`embedded`], with reasons and places, read anew from the embedded text.
///
/// # Errors
/// None in a program that was built: the build script has read the same text.
pub fn embedded_policy(arch: Arch, role: Role, tier: Tier) -> Result<Policy, PolicyError> {
    compiler::load(arch, &compiler::layers(arch, role, tier), embedded_text)
}

/// The embedded text of a policy file, by its name inside `seccomp/`.
///
/// # Errors
/// `NotFound` where there is no such file.
pub fn embedded_text(file: &str) -> io::Result<String> {
    let found = built::TEXTS.iter().find(|(name, _)| *name == file);
    found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The names of all embedded policy files.
pub fn embedded_files() -> impl Iterator<Item = &'static str> {
    built::TEXTS.iter().map(|(name, _)| *name)
}
