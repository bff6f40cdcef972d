//! Policies from a folder of the user's, laid out as `seccomp/` in the repository.
use super::compiler::{self, Arch, Insn, Policy, PolicyError, Role, Tier};
use std::fs;
use std::path::Path;

/// The policy for one role and tier.
///
/// # Errors
/// Everything that is wrong with the files that it needs, each with its line. There is no falling back to the
/// embedded policy.
pub fn read(folder: &Path, arch: Arch, role: Role, tier: Tier) -> Result<Policy, PolicyError> {
    read_layers(folder, arch, &compiler::layers(arch, role, tier))
}

/// The policy that the named files make, the first at the bottom.
///
/// # Errors
/// As [`read`].
pub fn read_layers(folder: &Path, arch: Arch, files: &[String]) -> Result<Policy, PolicyError> {
    compiler::load(arch, files, |name| fs::read_to_string(folder.join(name)))
}

/// The program for one role and tier, as [`super::embedded`] gives it for the embedded policy.
///
/// # Errors
/// As [`read`], and a policy that makes a program which the kernel would not take.
pub fn program(folder: &Path, arch: Arch, role: Role, tier: Tier) -> Result<Vec<Insn>, PolicyError> {
    compiler::compile(&read(folder, arch, role, tier)?)
}
