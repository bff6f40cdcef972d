//! What Landlock and an ordinary filter leave open without namespaces: each hole is tried by the same program with
//! and without the sandbox, so that a refusal inside is the sandbox's work.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::Stdio;

use crate::host::{Caller, Place};

const PROBE: &str = include_str!("probe.py");

/// What a run of the probe reached, by the names of its acts. Without flags it runs without a sandbox.
fn acts(place: &Place, flags: Option<&[&str]>, port: u16) -> BTreeMap<String, bool> {
    let outside = place.path().join("outside");
    if !outside.exists() {
        std::fs::create_dir(&outside).expect("made");
    }
    place.give(&outside);
    for (name, text) in [("file", "text"), ("empty", ""), ("link-me", ""), ("program", "#!/bin/sh\nexit 0\n")]
    {
        let path = place.write(&format!("outside/{name}"), text);
        let mode = if name == "program" { 0o755 } else { 0o600 };
        let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("set");
    }
    let local = outside.join("local");
    let _ = std::fs::remove_file(&local);
    let _listener = UnixListener::bind(&local).expect("a local socket");
    place.give(&local);
    // A process of the same user, as another program of the user would be.
    let sleeper = sleeper(place);
    let shared = tempfile::Builder::new().prefix("probe-").tempfile_in("/dev/shm").expect("shared memory");
    std::fs::write(shared.path(), [0; 4096]).expect("written");
    place.give(shared.path());
    let shared_name = shared.path().file_name().expect("a name").to_string_lossy();
    let abstract_name = format!("confined-{}", place.path().display());
    let address = SocketAddr::from_abstract_name(&abstract_name).expect("a name");
    let _abstract_listener = UnixListener::bind_addr(&address).expect("an abstract socket");
    let (_leader, terminal) = terminal(place);
    let argv = format!(
        "import sys\nsys.argv = ['probe', {:?}, '{}', '{port}', '{shared_name}', {abstract_name:?}, {terminal:?}]\n",
        outside.display().to_string(),
        sleeper.0.id()
    );
    let script = format!("{argv}{PROBE}");
    let output = flags.map_or_else(|| place.run_plain(&script), |flags| place.run(flags, &script));
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.ends_with("done\n"), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    let lines = stdout.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(name, answer)| (name.to_owned(), answer == "reached")).collect()
}

/// A pseudo-terminal of the caller's: the end that keeps it, and its path.
fn terminal(place: &Place) -> (OwnedFd, String) {
    // SAFETY: the calls take a descriptor that they have just given, and a buffer with its length.
    unsafe {
        let leader = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY);
        assert!(leader >= 0, "{}", std::io::Error::last_os_error());
        let leader = OwnedFd::from_raw_fd(leader);
        assert_eq!(libc::grantpt(leader.as_raw_fd()) | libc::unlockpt(leader.as_raw_fd()), 0);
        let mut name = [0; 64];
        assert_eq!(libc::ptsname_r(leader.as_raw_fd(), name.as_mut_ptr(), name.len()), 0);
        let path = std::ffi::CStr::from_ptr(name.as_ptr()).to_str().expect("UTF-8").to_owned();
        place.give(Path::new(&path));
        (leader, path)
    }
}

/// A process that waits until it is dropped.
struct Sleeper(std::process::Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The server itself, waiting for its client.
fn sleeper(place: &Place) -> Sleeper {
    let mut command = place.command(&[]);
    Sleeper(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("a process"))
}

/// Acts that need the network; they are refused where it is off.
const NETWORK: [&str; 6] = ["tcp", "fast-open", "multipath-tcp", "listen-without-bind", "udp", "ping"];

/// Acts that the machine itself may refuse, so that nothing can be learned from a refusal without the sandbox.
const UNCERTAIN: [&str; 6] =
    ["user-namespace", "ping", "multipath-tcp", "setxattr", "fast-open", "io-priority-of-others"];

#[test]
fn every_hole_is_closed_for_an_ordinary_user() {
    let place = Place::of(Caller::User).expect("everybody can be this one");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let control = acts(&place, None, port);
    let open: Vec<_> =
        control.iter().filter(|(name, reached)| !**reached && !UNCERTAIN.contains(&name.as_str())).collect();
    assert!(open.is_empty(), "not reached without a sandbox, so nothing is proved: {open:?}");

    let off = acts(&place, Some(&["--network", "none"]), port);
    let reached: Vec<_> = off.iter().filter(|(_, reached)| **reached).map(|(name, _)| name).collect();
    assert!(reached.is_empty(), "{reached:?}");
    assert_eq!(off.len(), control.len());

    let on = acts(&place, Some(&["--network", "host"]), port);
    let reached: Vec<_> = on.iter().filter(|(_, reached)| **reached).map(|(name, _)| name.as_str()).collect();
    assert!(reached.contains(&"tcp") && reached.contains(&"udp"), "{reached:?}");
    assert!(reached.iter().all(|name| NETWORK.contains(name)), "{reached:?}");
    assert!(!reached.contains(&"multipath-tcp") && !reached.contains(&"ping"), "{reached:?}");
}

#[test]
fn every_hole_is_closed_for_a_container_s_root() {
    let Some(place) = Place::of(Caller::ContainerRoot) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let control = acts(&place, None, port);
    // Some of root's processes have a priority that only CAP_SYS_NICE may set.
    let uncertain = |name: &str| name == "priority-of-user" || UNCERTAIN.contains(&name);
    let open: Vec<_> = control.iter().filter(|(name, reached)| !**reached && !uncertain(name)).collect();
    assert!(open.is_empty(), "not reached without a sandbox, so nothing is proved: {open:?}");
    let off = acts(&place, Some(&["--network", "none"]), port);
    let reached: Vec<_> = off.iter().filter(|(_, reached)| **reached).map(|(name, _)| name).collect();
    assert!(reached.is_empty(), "{reached:?}");
    assert_eq!(off.len(), control.len());
}
