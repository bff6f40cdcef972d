//! Policies from a folder of the user's, laid out as `seccomp/` in the repository.
use super::compiler::{self, Arch, Insn, Policy, PolicyError, Problem, ProblemKind, Role, Tier};
use super::embedded_policy;
use std::fs;
use std::path::{Path, PathBuf};

/// A policy of the user's own for this machine, every role and tier of it compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPolicy {
    folder: PathBuf,
    compiled: Vec<Compiled>,
}

/// What a folder says for one role and tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// The role.
    pub role: Role,
    /// The tier.
    pub tier: Tier,
    /// The decisions.
    pub policy: Policy,
    /// The program that they make.
    pub program: Vec<Insn>,
}

impl OwnPolicy {
    /// Reads and compiles the whole folder for this machine's architecture.
    ///
    /// # Errors
    /// As [`read_all`].
    pub fn read(folder: &Path) -> Result<Self, PolicyError> {
        Ok(Self { folder: folder.to_owned(), compiled: read_all(folder, Arch::native())? })
    }

    /// Where it was read.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it says for one role and tier.
    ///
    /// # Panics
    /// Never: every role and tier was compiled.
    #[must_use]
    pub fn compiled(&self, role: Role, tier: Tier) -> &Compiled {
        let found = self.compiled.iter().find(|one| (one.role, one.tier) == (role, tier));
        found.expect("every role and tier was compiled")
    }
}

/// Every role and tier of a folder, compiled.
///
/// # Errors
/// Everything that is wrong with any of them, each mistake once.
pub fn read_all(folder: &Path, arch: Arch) -> Result<Vec<Compiled>, PolicyError> {
    let (mut compiled, mut problems) = (Vec::new(), Vec::<Problem>::new());
    for (role, tier) in Role::ALL.into_iter().flat_map(|role| Tier::ALL.map(|tier| (role, tier))) {
        let made = read(folder, arch, role, tier)
            .and_then(|policy| Ok(Compiled { role, tier, program: compiler::compile(&policy)?, policy }));
        match made {
            Ok(one) => compiled.push(one),
            Err(error) => {
                let new: Vec<_> =
                    error.problems.into_iter().filter(|problem| !problems.contains(problem)).collect();
                problems.extend(new);
            }
        }
    }
    if problems.is_empty() { Ok(compiled) } else { Err(PolicyError { problems }) }
}

/// The policy for one role and tier.
///
/// # Errors
/// Everything that is wrong with the files that it needs, each with its line; `notify` on a call that the embedded
/// policy answers otherwise in that role and tier is wrong too, as nobody would answer. There is no falling back to the
/// embedded policy.
pub fn read(folder: &Path, arch: Arch, role: Role, tier: Tier) -> Result<Policy, PolicyError> {
    let policy = read_layers(folder, arch, &compiler::layers(arch, role, tier))?;
    let answered = embedded_policy(arch, role, tier)?;
    let is_answered = |number: &u32| answered.decisions.get(number).is_some_and(compiler::Decision::asks);
    let problems: Vec<_> = policy
        .decisions
        .iter()
        .filter(|(number, decision)| decision.asks() && !is_answered(number))
        .map(|(_, decision)| Problem {
            place: decision.place.clone(),
            kind: ProblemKind::NobodyAnswers { name: decision.name.to_owned(), role, tier },
        })
        .collect();
    if problems.is_empty() { Ok(policy) } else { Err(PolicyError { problems }) }
}

/// The policy that the named files make, the first at the bottom.
///
/// # Errors
/// Everything that is wrong with the files, each with its line.
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
