//! Forbidden acts, tried by a throw-away worker behind every layer: a tier that lets one through is not used.
//!
//! Each act is harmless where it succeeds, and undone.

use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::MountFlags;
use rustix::thread::UnshareFlags;

/// What was not refused, in a few words each.
pub fn breaches(hidden: &[PathBuf]) -> Vec<String> {
    let mut found: Vec<String> = hidden
        .iter()
        .filter(|path| readable(path))
        .map(|path| format!("reading {}", path.display()))
        .collect();
    let acts: [(&str, Act); 9] = [
        ("reading /etc/shadow", || readable(Path::new("/etc/shadow"))),
        ("writing below /usr", || writable("/usr/.self-test")),
        ("writing below /etc", || writable("/etc/.self-test")),
        ("a user namespace", || unshared(UnshareFlags::NEWUSER)),
        ("a mount namespace", || unshared(UnshareFlags::NEWNS)),
        ("mounting", mounted),
        ("becoming root", became_root),
        ("a capability", has_capability),
        ("gaining privileges", may_gain_privileges),
    ];
    found.extend(acts.into_iter().filter(|(_, succeeds)| succeeds()).map(|(act, _)| act.to_owned()));
    found
}

/// Something forbidden; tells whether it succeeded.
type Act = fn() -> bool;

fn readable(path: &Path) -> bool {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).is_ok()
}

fn writable(path: &str) -> bool {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let made = rustix::fs::open(path, flags, Mode::RUSR).is_ok();
    if made {
        let _ = rustix::fs::unlink(path);
    }
    made
}

fn unshared(flags: UnshareFlags) -> bool {
    // SAFETY: neither flag used here touches the descriptor table, and this process has a single thread.
    unsafe { rustix::thread::unshare_unsafe(flags) }.is_ok()
}

fn mounted() -> bool {
    let made = rustix::mount::mount("tmpfs", "/tmp", "tmpfs", MountFlags::empty(), None).is_ok();
    if made {
        let _ = rustix::mount::unmount("/tmp", rustix::mount::UnmountFlags::DETACH);
    }
    made
}

fn became_root() -> bool {
    rustix::thread::set_thread_uid(rustix::thread::Uid::ROOT).is_ok()
}

fn has_capability() -> bool {
    caps::read(None, caps::CapSet::Permitted).map_or(true, |left| !left.is_empty())
}

fn may_gain_privileges() -> bool {
    !rustix::thread::no_new_privs().unwrap_or(false)
}
