//! What is left to touch in a container, over the same list of attempts as on the native backend, beside what plain
//! `docker run` leaves with and without the usual hardening flags. The list is `e2e_tests/escape/surfaces.py`.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use mcp_python_exec_sandbox::sandbox::{LayerState, Sandbox};

use super::{Room, docker, image};

const LIST: &str = include_str!("../escape/surfaces.py");

/// What a container of ours leaves, each with its reason.
const LEFT: [&str; 19] = [
    // The run's own: ProcessPoolExecutor needs it.
    "file: /dev/shm",
    // Of the image, made for the sandbox.
    "file: /etc/passwd",
    "file: /etc/mtab",
    "file: /var/lib",
    // The engine has put /dev/null over them.
    "file: /proc/keys",
    "file: /proc/timer_list",
    // Names only: whoever may list the root may list what is below, and no file of it opens.
    "file: /sys",
    "file: /sys/class/net",
    "file: /sys/fs/cgroup",
    "file: /sys/kernel",
    // Names of the engine's volumes and layers.
    "file: paths of the host in mountinfo",
    // cffi's older callbacks; a file that is written and run does as much, and programs do that.
    "memory: writable and executable memory",
    "memory: running a file from a writable folder",
    "memory: running a file in memory",
    // The container's control group and the sizes of its folders bound these.
    "privilege: memory without limit",
    "privilege: files without limit",
    "privilege: processes without limit",
    // Marks that nothing honours without new privileges.
    "privilege: set-user-ID files honoured",
    // An engine's profile cannot tell the options of one level apart.
    "socket: TCP layer",
];

/// The flags that guides to hardening name.
const HARDENED: [&str; 14] = [
    "--read-only",
    "--tmpfs",
    "/tmp",
    "--cap-drop",
    "ALL",
    "--security-opt",
    "no-new-privileges",
    "--user",
    "1000:1000",
    "--network",
    "none",
    "--pids-limit",
    "256",
    "--memory=1g",
];

/// The surfaces that a run of the list named.
fn reached(stdout: &str) -> BTreeSet<String> {
    let mut lines: Vec<&str> = stdout.lines().collect();
    let count = lines.pop().unwrap_or_default();
    assert!(count.starts_with(&format!("reachable: {} of ", lines.len())), "no end of the list: {stdout}");
    lines.into_iter().map(str::to_owned).collect()
}

/// The same list in a container of the same image by hand.
fn by_hand(flags: &[&str]) -> BTreeSet<String> {
    let mut child = Command::new("docker")
        .args(["run", "--rm", "--interactive"])
        .args(flags)
        .args([image().as_str(), "/usr/local/bin/python3", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the client starts");
    child.stdin.take().expect("piped").write_all(LIST.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    reached(&String::from_utf8_lossy(&output.stdout))
}

#[tokio::test]
async fn a_container_leaves_what_is_named_here_and_no_more() {
    let Some(room) = Room::open().await else { return };
    let plain = by_hand(&[]);
    let hardened = by_hand(&HARDENED);
    let done = room.run(LIST).await;
    let ours = reached(&done.stdout.text);
    println!("reachable: docker run {}, hardened {}, ours {}", plain.len(), hardened.len(), ours.len());
    println!("{ours:#?}");
    let named: BTreeSet<String> = LEFT.iter().map(|&name| name.to_owned()).collect();
    let more: Vec<_> = ours.difference(&named).collect();
    assert!(more.is_empty(), "reached and not named: {more:#?}");
    assert!(plain.len() > hardened.len() && hardened.len() > ours.len(), "the controls reach more");
}

/// The filter on the program is ours and no other: one that the engine's own profile allows is refused by it.
#[tokio::test]
async fn the_filter_is_the_one_of_the_policy() {
    let Some(room) = Room::open().await else { return };
    // memfd_create with MFD_EXEC, and an unknown call: the engine's own profile says yes, and EPERM on older engines.
    let probe = "import ctypes, platform\nlibc = ctypes.CDLL(None, use_errno=True)\n\
                 number = {'x86_64': 319, 'aarch64': 279}[platform.machine()]\n\
                 print(libc.syscall(number, b'x', 0x10) >= 0, ctypes.get_errno())\n\
                 print(libc.syscall(1 << 20) >= 0, ctypes.get_errno())";
    let done = room.run(probe).await;
    assert_eq!(done.stdout.text, "False 1\nFalse 38\n", "{}", done.stderr.text);
    let control = docker(&["run", "--rm", &image(), "/usr/local/bin/python3", "-c", probe]);
    assert!(control.starts_with("True 0"), "the control makes one: {control}");
    let seccomp = room.sandbox.facts().layers.iter().find(|layer| layer.name == "seccomp");
    assert!(seccomp.is_some_and(|layer| layer.state == LayerState::Enforced(None)));
}
