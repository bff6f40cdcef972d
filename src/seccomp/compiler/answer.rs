//! What the filter answers to a system call.
use std::fmt;

/// An error number that a policy may answer with. The list is short on purpose: each value is one that the kernel
/// itself gives for "not here" or "not you", so programs know how to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Errno {
    /// Known and refused.
    Eperm,
    /// Refused as a file permission would be.
    Eacces,
    /// An option that this kernel does not know.
    Einval,
    /// A device request that this descriptor does not know.
    Enotty,
    /// A call that this kernel does not have.
    Enosys,
    /// A socket option that this kernel does not know.
    Enoprotoopt,
    /// A protocol that this kernel does not have.
    Eprotonosupport,
    /// An operation that this file or socket does not offer.
    Eopnotsupp,
    /// An address family that this kernel does not have.
    Eafnosupport,
}

impl Errno {
    const ALL: [Self; 9] = [
        Self::Eperm,
        Self::Eacces,
        Self::Einval,
        Self::Enotty,
        Self::Enosys,
        Self::Enoprotoopt,
        Self::Eprotonosupport,
        Self::Eopnotsupp,
        Self::Eafnosupport,
    ];

    /// The name as `errno.h` spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eperm => "EPERM",
            Self::Eacces => "EACCES",
            Self::Einval => "EINVAL",
            Self::Enotty => "ENOTTY",
            Self::Enosys => "ENOSYS",
            Self::Enoprotoopt => "ENOPROTOOPT",
            Self::Eprotonosupport => "EPROTONOSUPPORT",
            Self::Eopnotsupp => "EOPNOTSUPP",
            Self::Eafnosupport => "EAFNOSUPPORT",
        }
    }

    /// The number, the same on x86-64 and arm64 (`asm-generic/errno.h`).
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::Eperm => 1,
            Self::Eacces => 13,
            Self::Einval => 22,
            Self::Enotty => 25,
            Self::Enosys => 38,
            Self::Enoprotoopt => 92,
            Self::Eprotonosupport => 93,
            Self::Eopnotsupp => 95,
            Self::Eafnosupport => 97,
        }
    }
}

/// What the filter answers to a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// The kernel carries the call out.
    Allow,
    /// The call returns 0 and nothing is done.
    Pretend,
    /// The call fails with this error.
    Refuse(Errno),
    /// The call waits for whoever listens on the filter's notification descriptor; where nobody has asked for that
    /// descriptor it fails with ENOSYS.
    Notify,
    /// The whole process dies with SIGSYS.
    Kill,
}

impl Answer {
    /// What numbers get that no decision names: as a kernel answers which does not have the call.
    pub const UNKNOWN: Self = Self::Refuse(Errno::Enosys);

    /// Reads an answer as policy files spell it: `allow`, `pretend`, `notify`, `kill`, or the name of an error.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "allow" => Some(Self::Allow),
            "pretend" => Some(Self::Pretend),
            "kill" => Some(Self::Kill),
            "notify" => Some(Self::Notify),
            name => Errno::ALL.into_iter().find(|errno| errno.name() == name).map(Self::Refuse),
        }
    }

    /// Every spelling that [`Answer::parse`] takes, for error messages.
    #[must_use]
    pub fn spellings() -> String {
        let errors: Vec<_> = Errno::ALL.iter().map(|errno| errno.name()).collect();
        format!("allow, pretend, notify, kill, {}", errors.join(", "))
    }

    /// The value that the program returns for it (`SECCOMP_RET_*` of `linux/seccomp.h`). An error of 0 makes the
    /// call return 0 without being carried out.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::Allow => 0x7FFF_0000,
            Self::Pretend => 0x0005_0000,
            Self::Refuse(errno) => 0x0005_0000 | errno.number() as u32,
            Self::Notify => 0x7FC0_0000,
            Self::Kill => 0x8000_0000,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Allow => "allow",
            Self::Pretend => "pretend",
            Self::Notify => "notify",
            Self::Kill => "kill",
            Self::Refuse(errno) => errno.name(),
        })
    }
}
