//! Forbidden acts, tried by a throw-away worker behind every layer: a tier that lets one through is not used.
//!
//! Each act is harmless where it succeeds, and undone.

use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::MountFlags;
use rustix::net::{AddressFamily, Protocol, SocketType};
use rustix::process::Pid;
use rustix::thread::UnshareFlags;

use super::sys;
use crate::sandbox::linux::plan::{LaunchPlan, Outside, PolicyTier, PortRule, SeccompPlan, SocketPolicy};

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

/// What is wrong with connections that the server makes: one that has to be made, to a server that greets with a byte,
/// and one that has to be refused.
pub fn connections(allowed: u16, refused: u16) -> Vec<String> {
    let mut found = Vec::new();
    let mut byte = [0];
    let greeted =
        TcpStream::connect((Ipv4Addr::LOCALHOST, allowed)).and_then(|mut to| to.read_exact(&mut byte));
    if let Err(error) = greeted {
        found.push(format!("no connection through the server: {error}"));
    }
    if TcpStream::connect((Ipv4Addr::LOCALHOST, refused)).is_ok() {
        found.push("a connection to this machine was made".to_owned());
    }
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

/// What was not refused where no namespace hides the host, beside [`breaches`].
pub fn confined(outside: &Outside, plan: &LaunchPlan) -> Vec<String> {
    let sockets = match plan.seccomp.as_ref().map(SeccompPlan::tier) {
        Some(PolicyTier::Confined(sockets)) => sockets,
        _ => SocketPolicy::All,
    };
    let local = matches!(sockets, SocketPolicy::All | SocketPolicy::Local);
    let network = plan.landlock.as_ref().is_some_and(|rules| rules.ports == PortRule::Untouched);
    let of_process = |name: &str| PathBuf::from(format!("/proc/{}/{name}", outside.process));
    let acts = [
        ("listing a folder that no rule names", readable(&outside.folder)),
        ("making a file in a folder that no rule names", makes_file(&outside.folder)),
        ("changing permissions outside", changes_permissions(&outside.folder)),
        ("a signal to a process outside", may_signal(outside.process)),
        ("limits of a process outside", sys::may_read_limits_of(outside.process)),
        ("the environment of a process outside", readable(&of_process("environ"))),
        ("the memory of a process outside", readable(&of_process("mem"))),
        ("a local socket", !local && opens_socket(AddressFamily::UNIX, None)),
        ("an internet socket", !network && opens_socket(AddressFamily::INET, None)),
        ("a multipath socket", opens_socket(AddressFamily::INET, Some(rustix::net::ipproto::MPTCP))),
        ("watching a folder", rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::CLOEXEC).is_ok()),
    ];
    acts.into_iter().filter(|(_, succeeded)| *succeeded).map(|(act, _)| act.to_owned()).collect()
}

fn makes_file(folder: &Path) -> bool {
    writable(&folder.join(".self-test").to_string_lossy())
}

/// The filter may say yes and do nothing: what counts is what stands afterwards.
fn changes_permissions(folder: &Path) -> bool {
    let mode = || rustix::fs::stat(folder).map(|found| Mode::from_raw_mode(found.st_mode));
    let Ok(before) = mode() else { return false };
    let _ = rustix::fs::chmod(folder, Mode::RUSR);
    let changed = mode().is_ok_and(|after| after != before);
    if changed {
        let _ = rustix::fs::chmod(folder, before);
    }
    changed
}

fn may_signal(process: i32) -> bool {
    Pid::from_raw(process).is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}

fn opens_socket(family: AddressFamily, protocol: Option<Protocol>) -> bool {
    rustix::net::socket(family, SocketType::STREAM, protocol).is_ok()
}
