//! What selects a policy: architecture, role and tier.
use std::fmt;

/// A processor architecture that has a syscall table and a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arch {
    /// 64-bit x86.
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

impl Arch {
    /// Every architecture, in the order in which they are shown.
    pub const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// The architecture that this program was built for.
    #[must_use]
    pub const fn native() -> Self {
        #[cfg(target_arch = "x86_64")]
        return Self::X86_64;
        #[cfg(target_arch = "aarch64")]
        return Self::Aarch64;
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        compile_error!("there is a system call policy for x86_64 and aarch64 only");
    }

    /// The name as the kernel and the policy folders spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// The value that the kernel puts into `seccomp_data.arch` (`AUDIT_ARCH_*` of `linux/audit.h`).
    #[must_use]
    pub const fn audit(self) -> u32 {
        match self {
            Self::X86_64 => 0xC000_003E,
            Self::Aarch64 => 0xC000_00B7,
        }
    }
}

/// What the confined process is there to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// uv resolves and unpacks; no code of a package runs.
    Prepare,
    /// The build code of a source distribution runs.
    Build,
    /// The script runs.
    Run,
}

impl Role {
    /// Every role, in the order of a run.
    pub const ALL: [Self; 3] = [Self::Prepare, Self::Build, Self::Run];

    /// The name as the policy files spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Build => "build",
            Self::Run => "run",
        }
    }
}

/// Which sockets a process of the confined tier may create. Socket pairs are always allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sockets {
    /// Internet and local ones: the network is on, and Landlock guards path sockets.
    All,
    /// Local ones only: the network is off, and Landlock guards path sockets.
    Local,
    /// Internet ones only: the network is on, and nothing but this filter guards the host's path sockets.
    Internet,
    /// None: the network is off, and nothing but this filter guards the host's path sockets.
    PairsOnly,
}

impl Sockets {
    /// Every choice, widest first.
    pub const ALL: [Self; 4] = [Self::All, Self::Local, Self::Internet, Self::PairsOnly];

    /// The policy file under `shared/sockets` that narrows the sockets, without folder and ending.
    #[must_use]
    pub const fn overlay(self) -> Option<&'static str> {
        match self {
            Self::All => None,
            Self::Local => Some("local"),
            Self::Internet => Some("internet"),
            Self::PairsOnly => Some("pairs-only"),
        }
    }
}

/// How much of the isolation other layers provide, and so how much this filter has to make up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Namespaces, private mounts and Landlock stand beside the filter.
    Full,
    /// As [`Tier::Full`], with a private network namespace out of which the server connects for the script.
    Brokered,
    /// No user namespace: Landlock and the filter stand alone.
    Confined(Sockets),
}

impl Tier {
    /// Every tier with every choice of sockets.
    pub const ALL: [Self; 6] = [
        Self::Full,
        Self::Brokered,
        Self::Confined(Sockets::All),
        Self::Confined(Sockets::Local),
        Self::Confined(Sockets::Internet),
        Self::Confined(Sockets::PairsOnly),
    ];

    /// The name as the command line spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Brokered => "full-brokered",
            Self::Confined(Sockets::All) => "confined",
            Self::Confined(Sockets::Local) => "confined-local",
            Self::Confined(Sockets::Internet) => "confined-internet",
            Self::Confined(Sockets::PairsOnly) => "confined-pairs-only",
        }
    }
}

macro_rules! named {
    ($type:ty) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.into_iter().find(|one| one.name() == text).ok_or_else(|| {
                    let names: Vec<_> = Self::ALL.iter().map(|one| one.name()).collect();
                    format!("`{text}` is not one of {}", names.join(", "))
                })
            }
        }
    };
}
named!(Arch);
named!(Role);
named!(Tier);
