//! What a script cannot reach. Each refusal has its error number, and a control that the probe works at all.

use mcp_python_exec_sandbox::sandbox::spec::Network;
use mcp_python_exec_sandbox::sandbox::{LayerState, LayerStatus, Sandbox};

use tokio::io::AsyncBufReadExt;

use super::{PATIENCE, Room, spec};

/// Tries acts and prints each with `done` or the error's name.
const TRY: &str = "
import errno, os, socket, ctypes
def act(name, what):
    try:
        what()
        print(name, 'done')
    except OSError as error:
        print(name, errno.errorcode.get(error.errno, error))
def write(path):
    os.close(os.open(path, os.O_WRONLY | (0 if os.path.exists(path) else os.O_CREAT)))
";

#[tokio::test]
async fn only_its_own_folders_can_be_written() {
    let Some(room) = Room::open().await else { return };
    let script = format!(
        "{TRY}\nfor folder in ('/work', '/tmp', '/var/tmp', '/home/sandbox', '/dev/shm'):\n    \
         act(folder, lambda: write(folder + '/x'))\n\
         for path in ('/etc/passwd', '/usr/x', '/x', '/environment/x', '/proc/self/oom_score_adj', \
         '/proc/1/oom_score_adj', '/proc/1/mem', '/proc/sys/kernel/core_pattern', '/sys/kernel/x'):\n    \
         act(path, lambda: write(path))"
    );
    let done = room.run(&script).await;
    let lines: Vec<(&str, &str)> = done.stdout.text.lines().filter_map(|line| line.split_once(' ')).collect();
    assert_eq!(lines.len(), 14, "{}{}", done.stdout.text, done.stderr.text);
    for (path, said) in lines {
        let own = ["/work", "/tmp", "/var/tmp", "/home/sandbox", "/dev/shm"].contains(&path);
        let refused = ["EACCES", "EROFS", "EPERM"].contains(&said);
        assert!(if own { said == "done" } else { refused }, "{path}: {said}");
    }
}

#[tokio::test]
async fn the_first_process_is_closed() {
    let Some(room) = Room::open().await else { return };
    let script = format!(
        "{TRY}\nact('own', lambda: open('/proc/self/environ').close())\n\
         for name in ('environ', 'fd/0', 'fd/1', 'mem', 'maps'):\n    act(name, lambda: open('/proc/1/' + name, 'rb').close())\n\
         act('kill', lambda: os.kill(1, 9))\nprint('alive')"
    );
    let done = room.run(&script).await;
    let lines: Vec<&str> = done.stdout.text.lines().collect();
    assert_eq!(lines.first(), Some(&"own done"), "{}", done.stderr.text);
    assert_eq!(lines.last(), Some(&"alive"));
    for line in &lines[1..6] {
        assert!(line.ends_with("EACCES") || line.ends_with("EPERM"), "{line}");
    }
}

#[tokio::test]
async fn no_network_means_none() {
    let Some(room) = Room::open().await else { return };
    let script = format!(
        "{TRY}\nprint('others', [n for _, n in socket.if_nameindex() if n.startswith('eth')])\n\
         act('out', lambda: socket.create_connection(('192.0.2.1', 9), 2))\n\
         server = socket.create_server(('127.0.0.1', 0))\n\
         act('loopback', lambda: socket.create_connection(server.getsockname(), 2))"
    );
    let done = room.run(&script).await;
    assert_eq!(done.stdout.text, "others []\nout ENETUNREACH\nloopback done\n", "{}", done.stderr.text);
    let mut with = spec("import socket\nprint([n for _, n in socket.if_nameindex() if n.startswith('eth')])");
    with.network = Network::Host;
    assert_eq!(room.run_spec(&with, PATIENCE).await.stdout.text, "['eth0']\n", "the control sees a network");
}

#[tokio::test]
async fn what_is_forbidden_by_the_kernel_is_forbidden() {
    let Some(room) = Room::open().await else { return };
    let script = format!(
        "{TRY}\nlibc = ctypes.CDLL(None, use_errno=True)\n\
         def call(*args):\n    if libc.syscall(*args) < 0: raise OSError(ctypes.get_errno(), '')\n\
         act('getpid', lambda: call(39))\n\
         act('mount', lambda: call(165, b'none', b'/tmp', b'tmpfs', 0, None))\n\
         act('unshare', lambda: os.unshare(os.CLONE_NEWUSER))\n\
         act('ptrace', lambda: call(101, 16, os.getppid(), 0, 0))\n\
         act('setuid', lambda: os.setuid(0))\n\
         act('keyctl', lambda: call(250, 0, -3, 0))\n\
         act('unknown', lambda: call(999))"
    );
    if !cfg!(target_arch = "x86_64") {
        crate::skipped::skipped("the numbers are those of x86_64");
        return;
    }
    let done = room.run(&script).await;
    let said: Vec<&str> = done.stdout.text.lines().collect();
    assert_eq!(said.first(), Some(&"getpid done"), "{}", done.stderr.text);
    assert_eq!(said.last(), Some(&"unknown ENOSYS"));
    for line in &said[1..said.len() - 1] {
        assert!(line.ends_with("EPERM") || line.ends_with("ENOSYS"), "{line}");
    }
}

#[tokio::test]
async fn every_layer_is_reported_as_it_was_seen() {
    let Some(room) = Room::open().await else { return };
    let done = room.run("pass").await;
    let state = |name: &str| {
        let found = done.layers.iter().find(|layer: &&LayerStatus| layer.name == name);
        found.unwrap_or_else(|| panic!("{name} is not reported")).state.clone()
    };
    for name in ["read-only root", "user without rights", "no capabilities", "no new privileges", "seccomp"] {
        assert_eq!(state(name), LayerState::Enforced(None), "{name}");
    }
    assert_eq!(state("network"), LayerState::Enforced(Some("none".to_owned())));
}

#[tokio::test]
async fn link_local_addresses_and_other_containers_are_out_of_reach() {
    let Some(room) = Room::open().await else { return };
    let mut other = spec(
        "import socket, time\nserver = socket.create_server(('0.0.0.0', 8000))\n\
         own = [line.split()[0] for line in open('/etc/hosts') if line.split()[-1] == 'sandbox'][0]\n\
         socket.create_connection((own, 8000), 2)\nprint(own, flush=True)\ntime.sleep(600)",
    );
    other.network = Network::Host;
    let mut other = room.sandbox.start(&other).await.expect("it starts");
    let mut line = String::new();
    let mut stdout = tokio::io::BufReader::new(&mut other.stdout);
    stdout.read_line(&mut line).await.expect("it prints");
    let address = line.trim();
    assert!(address.starts_with(char::is_numeric), "the control reaches its own port: {line:?}");
    let mut probe = spec(&format!(
        "{TRY}\nfor address in ('169.254.169.254', '::ffff:169.254.169.254', '169.254.170.2', '169.254.1.1', '{address}'):\n    \
         act(address, lambda: socket.create_connection((address, 8000), 4))"
    ));
    probe.network = Network::Host;
    let done = room.run_spec(&probe, PATIENCE).await;
    let said: Vec<&str> = done.stdout.text.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(said.len(), 5, "{}{}", done.stdout.text, done.stderr.text);
    assert!(said[..3].iter().all(|said| *said == "ECONNREFUSED"), "{said:?}");
    assert!(said[3..].iter().all(|said| *said != "done" && *said != "ECONNREFUSED"), "{said:?}");
    let network = done.layers.iter().find(|layer| layer.name == "network").expect("it is reported");
    assert!(matches!(network.state, LayerState::Enforced(_)), "{:?}", network.state);
}
