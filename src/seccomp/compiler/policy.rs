//! A policy: one decision for each system call of an architecture.
use super::answer::Answer;
use super::arch::Arch;
use super::condition::Case;
use std::collections::BTreeMap;
use std::fmt;

/// A line of a policy file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file's name inside the policy folder.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// What is decided about one system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Its name.
    pub name: &'static str,
    /// What holds on certain arguments; the first that applies decides.
    pub cases: Vec<Case>,
    /// What holds otherwise.
    pub answer: Answer,
    /// Why, in words.
    pub reason: String,
    /// Where the policy says so.
    pub place: Place,
    /// The decisions that an overriding file replaced, oldest first.
    pub replaced: Vec<Place>,
}

impl Decision {
    /// The answer to a call with these arguments.
    #[must_use]
    pub fn answer_to(&self, args: &[u64; 6]) -> Answer {
        self.cases.iter().find(|case| case.applies(args)).map_or(self.answer, |case| case.answer)
    }

    /// Whether somebody is asked about the call, on some arguments at least.
    #[must_use]
    pub fn asks(&self) -> bool {
        self.answer == Answer::Notify || self.cases.iter().any(|case| case.answer == Answer::Notify)
    }
}

/// One decision for each system call of an architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The architecture whose numbers these are.
    pub arch: Arch,
    /// The decisions by syscall number.
    pub decisions: BTreeMap<u32, Decision>,
}

impl Policy {
    /// The decision on the system call with this name.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<(u32, &Decision)> {
        self.decisions.iter().find(|(_, decision)| decision.name == name).map(|(number, one)| (*number, one))
    }

    /// The answer to a call of this policy's architecture, as the policy's text says it.
    #[must_use]
    pub fn answer_to(&self, number: u32, args: &[u64; 6]) -> Answer {
        if self.arch == Arch::X86_64 && (0x4000_0000..u32::MAX).contains(&number) {
            return Answer::Kill;
        }
        self.decisions.get(&number).map_or(Answer::UNKNOWN, |decision| decision.answer_to(args))
    }
}
