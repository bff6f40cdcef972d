//! The ways of building a sandbox on Linux. One is chosen at start, by trying them from the tightest on.

use super::plan::{Identity, ProcSource, Supervision};

/// How sandboxes are built here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Namespaces and a root of its own.
    Full(Way, ProcSource),
    /// Landlock, at this ABI, and the system-call filter alone.
    Confined {
        /// Landlock's ABI.
        abi: u8,
    },
    /// No isolation: only supervision.
    Unconfined(Supervision),
}

/// Who runs this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// An ordinary user.
    User,
    /// The machine's root.
    Root,
    /// Root of a container's own user namespace: an ordinary user outside.
    ContainerRoot,
}

/// How a run with namespaces gets a user of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// An ordinary user: a user namespace that owns the rest.
    OwnUser,
    /// Root: an unused user for each run, in a user namespace of its own.
    Unused,
    /// Root, where user namespaces are refused.
    UnusedUnmapped,
    /// Root of a container's own user namespace that has no unused user: as [`Way::OwnUser`].
    ContainerRoot,
}

impl Way {
    /// The identity of a run that was given this unused user.
    pub fn identity(self, unused: u32) -> Identity {
        match self {
            Self::OwnUser => Identity::OwnUser,
            Self::Unused => Identity::Unused(unused),
            Self::UnusedUnmapped => Identity::UnusedUnmapped(unused),
            Self::ContainerRoot => Identity::ContainerRoot,
        }
    }
}

/// Ways with namespaces, tightest first. None maps the machine's root, so that no script is root outside.
pub fn full(caller: Caller) -> &'static [Way] {
    match caller {
        Caller::User => &[Way::OwnUser],
        Caller::Root => &[Way::Unused, Way::UnusedUnmapped],
        Caller::ContainerRoot => &[Way::Unused, Way::UnusedUnmapped, Way::ContainerRoot],
    }
}

impl Mode {
    /// Whether each run of a server of root needs an unused user.
    pub fn takes_user(self, is_root: bool) -> bool {
        match self {
            Self::Full(way, _) => matches!(way, Way::Unused | Way::UnusedUnmapped),
            Self::Confined { .. } => is_root,
            Self::Unconfined(_) => false,
        }
    }
}
