//! What can be wrong with a policy. All of it is collected, so that one check shows every mistake.
use super::answer::Answer;
use super::arch::{Arch, Role, Tier};
use super::policy::Place;
use std::fmt;
use thiserror::Error;

/// A policy that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", lines(.problems))]
pub struct PolicyError {
    /// Everything that is wrong, in the order of the files; at least one.
    pub problems: Vec<Problem>,
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// One mistake and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line it is on.
    pub place: Place,
    /// What it is.
    pub kind: ProblemKind,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.kind)
    }
}

/// The mistakes that a policy can have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProblemKind {
    /// The file is not there.
    #[error("there is no file `{0}` in the policy folder")]
    NoFile(String),
    /// The file is there and cannot be read; why.
    #[error("the file cannot be read: {0}")]
    Unreadable(String),
    /// The name of an included file leaves the policy folder.
    #[error("`{0}` is not a file name relative to the policy folder, without `..`")]
    OutsideFolder(String),
    /// Not TOML, or not the shape of a policy file; the parser's words.
    #[error("{0}")]
    Shape(String),
    /// A name that the architecture's syscall table does not have.
    #[error("`{name}` is not a system call of {arch}")]
    UnknownSyscall {
        /// The name.
        name: String,
        /// The architecture for which the policy is being read.
        arch: Arch,
    },
    /// A second decision on the same system call.
    #[error(
        "`{name}` already has a decision at {first}; to replace it, write [[override]] in a file that includes it"
    )]
    Duplicate {
        /// The system call.
        name: String,
        /// The earlier decision.
        first: Place,
    },
    /// An override of something that no included file decides.
    #[error(
        "`{name}` has no decision to override here; write [[rule]], or include the file that decides it first"
    )]
    NothingToOverride {
        /// The system call.
        name: String,
    },
    /// System calls without a decision.
    #[error("no decision on {} of {arch}: {}", count(.names.len()), .names.join(", "))]
    Missing {
        /// The architecture.
        arch: Arch,
        /// The names, by rising number.
        names: Vec<String>,
    },
    /// Not an answer.
    #[error("`{0}` is not an answer; the answers are {answers}", answers = Answer::spellings())]
    UnknownAnswer(String),
    /// A rule, case or list that says nothing.
    #[error("{0} is empty")]
    Empty(&'static str),
    /// A decision that a filter of the script's own could undo.
    #[error(
        "`notify` needs a decision on `seccomp` that refuses SECCOMP_FILTER_FLAG_NEW_LISTENER: a script's own \
             listener could let the call pass"
    )]
    NotifyCanBeUndone,
    /// A call that somebody is asked about where nobody answers.
    #[error(
        "`{name}` is `notify`, and nothing answers for it in the role {role} and the tier {tier}; choose another answer"
    )]
    NobodyAnswers {
        /// The system call.
        name: String,
        /// The role.
        role: Role,
        /// The tier.
        tier: Tier,
    },
    /// Neither a number nor a known constant.
    #[error("`{0}` is neither a number nor a name that seccomp/constants.toml knows")]
    UnknownConstant(String),
    /// A condition that no call can satisfy or none can miss.
    #[error("{0}")]
    Pointless(String),
    /// More comparisons in one decision than a BPF branch can skip.
    #[error("the cases of `{0}` need too many comparisons; join values with a mask")]
    TooLong(String),
    /// The whole program is longer than the kernel accepts.
    #[error("the program has {0} instructions, and the kernel takes 4096")]
    ProgramTooLong(usize),
}

fn count(calls: usize) -> String {
    if calls == 1 { "1 system call".to_owned() } else { format!("{calls} system calls") }
}
