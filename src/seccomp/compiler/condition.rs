//! Conditions on the arguments of a system call.
use super::answer::Answer;
use std::fmt;

/// How much of an argument the kernel looks at. A filter that compares more lets a call slip through with bits set
/// that the kernel then ignores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// The low 32 bits: `int`, `unsigned int`, `pid_t` and the like.
    Low32,
    /// All 64: `long`, `size_t`, pointers.
    Full64,
}

/// What the masked argument is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// It is one of these.
    AnyOf(Vec<u64>),
    /// It is none of these.
    NoneOf(Vec<u64>),
}

/// One condition on one argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Which argument, counted from 0.
    pub arg: u8,
    /// How much of it counts.
    pub width: Width,
    /// The bits that count, all of them within the width; the whole width where the policy names no mask.
    pub mask: u64,
    /// The comparison.
    pub test: Test,
    /// The condition in the words of the policy file, such as `domain is AF_INET, AF_INET6`.
    pub words: String,
}

impl Condition {
    /// Whether a call with these arguments satisfies the condition.
    #[must_use]
    pub fn holds(&self, args: &[u64; 6]) -> bool {
        let seen = match self.width {
            Width::Low32 => args[usize::from(self.arg)] & 0xFFFF_FFFF,
            Width::Full64 => args[usize::from(self.arg)],
        };
        match &self.test {
            Test::AnyOf(values) => values.contains(&(seen & self.mask)),
            Test::NoneOf(values) => !values.contains(&(seen & self.mask)),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

/// An answer that holds when all conditions do. The first case that applies decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The conditions, all of which have to hold; at least one.
    pub when: Vec<Condition>,
    /// The answer then.
    pub answer: Answer,
    /// Why, in words; empty where the rule's own reason says it.
    pub reason: String,
}

impl Case {
    /// Whether a call with these arguments is this case.
    #[must_use]
    pub fn applies(&self, args: &[u64; 6]) -> bool {
        self.when.iter().all(|condition| condition.holds(args))
    }
}
