//! The ground of the next sandbox, laid before there is a call for it: namespaces, control groups, and the root as far as it
//! is the same for every call. No program and nothing of a script is in it, and it is used once.
//!
//! Only what a new sandbox would start from as well is gone on from: the same user, the same limits, the same files, and
//! mounts of the host that have not changed since.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::PollFlags;

use super::events;
use super::plan::Groundwork;
use super::spawn::Begun;
use super::users::User;
use crate::sandbox::spec::{Limits, Network, Role, SandboxSpec};

/// What of a specification the ground depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    role: Role,
    network: Network,
    limits: Limits,
}

impl Kind {
    /// Of this specification.
    pub fn of(spec: &SandboxSpec) -> Self {
        Self { role: spec.role, network: spec.network, limits: spec.limits }
    }
}

/// Ground that is laid.
pub struct Laid {
    /// What it is for.
    pub kind: Kind,
    /// The launcher that goes on from it.
    pub begun: Begun,
    /// What was done.
    pub groundwork: Groundwork,
    /// Its user, where it has one of its own.
    pub user: Option<User>,
    /// The host's mounts as they were before.
    pub mounts: HostMounts,
}

/// At most one that waits.
#[derive(Default)]
pub struct Ahead(Mutex<Option<Laid>>);

impl Ahead {
    /// Takes what is laid for this kind, where it is still what a new sandbox would start from.
    pub fn take(&self, kind: Kind) -> Option<Laid> {
        let laid = self.laid().take_if(|laid| laid.kind == kind)?;
        laid.is_fit().then_some(laid)
    }

    /// Whether some is laid for this kind and still good. What is not is given up.
    pub fn has(&self, kind: Kind) -> bool {
        let mut laid = self.laid();
        laid.take_if(|laid| laid.kind != kind || !laid.is_fit());
        laid.is_some()
    }

    /// Keeps it in the place of what was there.
    pub fn put(&self, laid: Laid) {
        *self.laid() = Some(laid);
    }

    /// Gives up what is laid.
    pub fn clear(&self) {
        self.laid().take();
    }

    fn laid(&self) -> MutexGuard<'_, Option<Laid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Laid {
    fn is_fit(&self) -> bool {
        self.begun.lives() && self.mounts.are_the_same()
    }
}

/// The mounts of the host at one moment.
pub struct HostMounts(File);

impl HostMounts {
    /// As they are now; `None` where the kernel would not tell of a change.
    pub fn now() -> Option<Self> {
        Self::of("self")
    }

    fn of(process: &str) -> Option<Self> {
        File::open(format!("/proc/{process}/mountinfo")).map(Self).ok()
    }

    /// Whether none has been added, removed or changed since. The kernel tells a change once, which is enough: it is not
    /// used any more.
    fn are_the_same(&self) -> bool {
        events::so_far(self.0.as_fd(), PollFlags::PRI) == Ok(PollFlags::empty())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_change_of_the_mounts_is_seen() {
        let mut other = Command::new("unshare")
            .args([
                "--user",
                "--map-root-user",
                "--mount",
                "sh",
                "-c",
                "read go; mount -t tmpfs x /mnt; echo done; read go",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("util-linux is there");
        let (mut stdin, mut stdout) =
            (other.stdin.take().expect("piped"), other.stdout.take().expect("piped"));
        let process = other.id().to_string();
        let own = std::fs::read_link("/proc/self/ns/mnt").expect("a namespace");
        while std::fs::read_link(format!("/proc/{process}/ns/mnt")).expect("it lives") == own {
            std::thread::yield_now();
        }
        // Also after the change of its mounts' propagation, which is one.
        while !std::fs::read_to_string(format!("/proc/{process}/comm")).expect("it lives").starts_with("sh") {
            std::thread::yield_now();
        }
        let mounts = HostMounts::of(&process).expect("a list");
        assert!(mounts.are_the_same());
        assert!(mounts.are_the_same());
        stdin.write_all(b"\n").expect("it reads");
        stdout.read_exact(&mut [0; 4]).expect("it mounts");
        assert!(!mounts.are_the_same());
        drop(stdin);
        other.wait().expect("it ends");
    }
}
