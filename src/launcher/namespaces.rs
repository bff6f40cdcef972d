//! Namespaces: a user, mounts, processes, IPC, names, control groups, time and (where asked) a network of the
//! run's own.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::thread::UnshareFlags;

use super::receive::Reporter;
use super::stage::{Failed, absent, enforced, enforced_with, partial};
use super::status::Message;
use super::sys;
use crate::sandbox::facts::LayerStatus;
use crate::sandbox::linux::broker::names;
use crate::sandbox::linux::plan::{Identity, Isolation};
use crate::sandbox::spec::USER_ID;

const STAGE: &str = "namespaces";

/// Leaves the caller's namespaces. Process and time namespaces hold from the next fork on.
pub fn enter(isolation: &Isolation) -> Result<Vec<LayerStatus>, Failed> {
    let keyring = match sys::new_session_keyring() {
        Ok(()) => enforced("session keyring"),
        Err(error) => absent("session keyring", error.to_string()),
    };
    let caller = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut flags = UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWCGROUP;
    flags.set(UnshareFlags::NEWNET, isolation.private_network);
    flags.set(UnshareFlags::NEWUSER, isolation.identity.owns_namespaces());
    let time = unshare_with_time(flags)?;
    if isolation.identity.owns_namespaces() {
        let proc = rustix::fs::open("/proc", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| Failed::errno(STAGE, "opening /proc", error))?;
        map_user(proc.as_fd(), caller.0, caller.1)?;
    }
    sys::set_host_name(&isolation.host_name)
        .map_err(|error| Failed::io(STAGE, "setting the host name", &error))?;
    if isolation.private_network {
        sys::loopback_up().map_err(|error| Failed::io(STAGE, "bringing loopback up", &error))?;
    }
    let mut layers = vec![keyring, time];
    layers.extend(
        ["mount", "process", "ipc", "uts", "cgroup"].map(|name| enforced(&format!("{name} namespace"))),
    );
    layers.push(match (isolation.private_network, isolation.name_servers) {
        (true, None) => enforced("network namespace"),
        (true, Some(_)) => {
            enforced_with("network namespace", "connections leave through the server".to_owned())
        }
        (false, _) => absent("network namespace", "the network is the host's"),
    });
    Ok(layers)
}

/// Binds a socket for each of the host's name servers, in the private network, and hands it to the server.
pub fn offer_name_servers(isolation: &Isolation, reporter: &Reporter) -> Result<(), Failed> {
    let Some(count) = isolation.name_servers else { return Ok(()) };
    let failed = |error: io::Error| Failed::io(STAGE, "offering name servers", &error);
    sys::add_loopback_address(names::inside(0)).map_err(failed)?;
    for place in 0..count {
        let socket = std::net::UdpSocket::bind((names::inside(place), names::PORT)).map_err(failed)?;
        reporter.send(&Message::NameServer { place }, Some(socket.as_fd())).map_err(failed)?;
    }
    Ok(())
}

/// The time namespace came with Linux 5.6 and may be configured out; it hides only the boot time.
fn unshare_with_time(flags: UnshareFlags) -> Result<LayerStatus, Failed> {
    let name = "time namespace";
    match unshare(flags | UnshareFlags::NEWTIME) {
        Ok(()) => Ok(enforced(name)),
        Err(error) if error == rustix::io::Errno::INVAL => {
            unshare(flags).map_err(|error| Failed::errno(STAGE, "unshare", error))?;
            Ok(absent(name, "the kernel has none"))
        }
        Err(error) => Err(Failed::errno(STAGE, "unshare", error)),
    }
}

fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    // SAFETY: none of the flags used here splits the descriptor table or the file-system attributes from other
    // threads, and this process has a single thread.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// Maps the sandbox user to the user outside, in this process's new user namespace. Groups cannot be set any more.
pub fn map_user(proc: BorrowedFd<'_>, outside_user: u32, outside_group: u32) -> Result<(), Failed> {
    let write = |file: &str, text: String| {
        let path = format!("self/{file}");
        rustix::fs::openat(proc, &path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
            .and_then(|opened| rustix::io::write(&opened, text.as_bytes()))
            .map_err(|error| Failed::errno(STAGE, format!("writing {file}"), error))
    };
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{USER_ID} {outside_user} 1"))?;
    write("gid_map", format!("{USER_ID} {outside_group} 1"))?;
    Ok(())
}

/// Started by root, with the root already in place: becomes the unused user, in a user namespace that owns nothing.
pub fn become_unused(identity: Identity, proc: Option<&OwnedFd>) -> Result<LayerStatus, Failed> {
    let name = "user namespace";
    let id = match identity {
        Identity::OwnUser => return Ok(enforced(name)),
        Identity::ContainerRoot => {
            let missing =
                "the container around it has no unused user, so the run is the container's root outside";
            return Ok(partial(name, missing));
        }
        Identity::Unused(id) | Identity::UnusedUnmapped(id) => id,
    };
    drop_to(id).map_err(|error| Failed::io(STAGE, format!("becoming user {id}"), &error))?;
    if let Identity::UnusedUnmapped(_) = identity {
        return Ok(absent(name, "refused on this machine; an unused user takes its place"));
    }
    let Some(proc) = proc else { return Err(Failed::plain(STAGE, "no process file system of its own")) };
    unshare(UnshareFlags::NEWUSER)
        .map_err(|error| Failed::errno(STAGE, "unshare of a user namespace", error))?;
    map_user(proc.as_fd(), id, id)?;
    Ok(enforced(name))
}

/// Becomes the user and group of this id, without any other group.
pub fn drop_to(id: u32) -> io::Result<()> {
    use rustix::process::DumpableBehavior;
    use rustix::thread::{Gid, Uid};
    rustix::thread::set_thread_groups(&[])?;
    let (user, group) = (Uid::from_raw(id), Gid::from_raw(id));
    rustix::thread::set_thread_res_gid(Some(group), Some(group), Some(group))?;
    rustix::thread::set_thread_res_uid(Some(user), Some(user), Some(user))?;
    // A change of user makes /proc/self root's, and the maps could not be written.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    Ok(())
}
