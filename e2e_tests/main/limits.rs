//! Bombs of every kind: the run is told which limit it reached, the server answers throughout, the next run works,
//! and nothing is left.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Server, marker, take_name, text, wait_for_processes};

/// Longest time that a ping may take while a bomb goes off.
const PROMPT: Duration = Duration::from_secs(1);

/// Time between two pings.
const BETWEEN: Duration = Duration::from_millis(50);

const FLAGS: [&str; 12] = [
    "--pool-size",
    "0",
    "--memory-limit",
    "400M",
    "--max-processes",
    "64",
    "--disk-limit",
    "64M",
    "--max-open-files",
    "64",
    "--network",
    "none",
];

/// Sets a bomb off and pings until it has ended. Every bomb ends by itself after a while, should nothing end it.
fn set_off(server: &mut Server, bomb: &str) -> Value {
    let script = format!(
        "import os, sys, time\nend = time.monotonic() + 20\ndef on(): return time.monotonic() < end\n{bomb}"
    );
    let id = server.ask_tool("execute_python", json!({"script": script, "timeout_seconds": 30}));
    let reply = loop {
        if let Some(reply) = server.reply_within(id, BETWEEN) {
            break reply;
        }
        let asked = Instant::now();
        server.request("ping", json!({}));
        assert!(asked.elapsed() < PROMPT, "a ping took {:?}", asked.elapsed());
    };
    let next = server.tool("execute_python", json!({"script": "print('next')", "timeout_seconds": 30}));
    assert_eq!(next["structuredContent"]["stdout"], "next\n", "{next}");
    // The next sandbox's ground has groups as well.
    wait_for_groups(server.pid(), 1);
    reply["result"].clone()
}

/// Names of the control groups of this server's runs: one run has the same in every hierarchy.
fn server_groups(pid: u32) -> BTreeSet<OsString> {
    fn find(folder: &std::path::Path, prefix: &str, depth: u8, found: &mut BTreeSet<OsString>) {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                found.insert(entry.file_name());
            }
            if depth > 0 {
                find(&entry.path(), prefix, depth - 1, found);
            }
        }
    }
    let mut found = BTreeSet::new();
    find(std::path::Path::new("/sys/fs/cgroup"), &format!("mcp-python-{pid}-"), 6, &mut found);
    found
}

/// Waits until the groups of ended runs are gone, which may be a moment after the reply.
fn wait_for_groups(pid: u32, most: usize) {
    let end = Instant::now() + Duration::from_secs(3);
    while server_groups(pid).len() > most {
        assert!(Instant::now() < end, "control groups are left: {:?}", server_groups(pid));
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn limit(result: &Value) -> &str {
    result["structuredContent"]["limit"].as_str().unwrap_or_default()
}

#[test]
fn one_process_that_takes_memory() {
    let mut server = Server::start(&FLAGS);
    let result = set_off(&mut server, "kept = []\nwhile on(): kept.append(bytearray(1 << 20))");
    assert_eq!(limit(&result), "memory 400 MiB", "{result}");
    assert!(text(&result).contains("--- limit: memory 400 MiB ---"), "{result}");
}

#[test]
fn several_processes_that_take_memory_together() {
    let mut server = Server::start(&FLAGS);
    let bomb = "print('begun', flush=True)\nfor _ in range(7):\n    if os.fork() == 0: break\nkept = []\n\
                for _ in range(100): kept.append(bytearray(1 << 20))\nwhile on(): time.sleep(0.01)";
    let result = set_off(&mut server, bomb);
    assert_eq!(limit(&result), "memory 400 MiB", "{result}");
    assert_eq!(result["structuredContent"]["stdout"], "begun\n");
}

#[test]
fn children_that_take_memory_end_the_run() {
    // The main program takes none, and would go on whichever of them the kernel chose.
    let mut server = Server::start(&FLAGS);
    let bomb = "print('begun', flush=True)\nfor _ in range(2):\n    if os.fork() == 0:\n        \
                kept = [bytearray(1 << 20) for _ in range(300)]\n        while on(): time.sleep(0.01)\n        \
                os._exit(0)\nwhile on(): time.sleep(0.01)\nprint('went on')";
    let result = set_off(&mut server, bomb);
    assert_eq!(limit(&result), "memory 400 MiB", "{result}");
    assert_eq!(result["structuredContent"]["stdout"], "begun\n");
}

#[test]
fn memory_that_no_process_maps() {
    let mut server = Server::start(&FLAGS);
    let bomb = "files = [os.memfd_create('x') for _ in range(40)]\n\
                for file in files:\n    for _ in range(30): os.write(file, bytes(1 << 20))\nwhile on(): time.sleep(0.01)";
    let result = set_off(&mut server, bomb);
    assert_eq!(limit(&result), "memory 400 MiB", "{result}");
}

#[test]
fn pages_that_processes_share_count_once() {
    let mut server = Server::start(&FLAGS);
    let script = "import os\nkept = bytearray(150 << 20)\nchildren = []\nfor _ in range(6):\n    \
                  pid = os.fork()\n    if pid == 0:\n        import time\n        time.sleep(1)\n        os._exit(0)\n    \
                  children.append(pid)\nprint([os.waitpid(pid, 0)[1] for pid in children])";
    let result = server.tool("execute_python", json!({"script": script}));
    assert_eq!(result["structuredContent"]["stdout"], "[0, 0, 0, 0, 0, 0]\n", "{result}");
    assert_eq!(result["structuredContent"]["limit"], Value::Null);
}

#[test]
fn a_fork_bomb() {
    let mut server = Server::start(&FLAGS);
    // They stay for a moment, as bombs do.
    let bomb =
        "while on():\n    try: os.fork()\n    except OSError:\n        time.sleep(0.1)\n        sys.exit(3)";
    let result = set_off(&mut server, bomb);
    assert_eq!(limit(&result), "processes 64", "{result}");
}

#[test]
fn a_storm_of_threads() {
    // Each thread reserves 8 MiB for its stack: all of them together twice the memory of the run.
    let mut server = Server::start(&["--pool-size", "0"]);
    let bomb = "import threading\nnumber = 1\nwhile on():\n    \
                try: threading.Thread(target=time.sleep, args=(15,), daemon=True).start()\n    \
                except RuntimeError:\n        print(number, flush=True)\n        time.sleep(0.1)\n        sys.exit(1)\n    \
                number += 1";
    let result = set_off(&mut server, bomb);
    assert_eq!(limit(&result), "processes 512", "{result}");
    let number: u32 =
        result["structuredContent"]["stdout"].as_str().unwrap_or_default().trim().parse().expect("told");
    assert!((500..=515).contains(&number), "{number} threads");
    assert!(
        text(&result).contains("--- note: the server's flag --max-processes allows more ---"),
        "{result}"
    );
}

#[test]
fn a_storm_of_zombies() {
    let mut server = Server::start(&FLAGS);
    let bomb = "while on():\n    if os.fork() == 0: os._exit(0)";
    let result = set_off(&mut server, bomb);
    assert_eq!(limit(&result), "processes 64", "{result}");
}

#[test]
fn a_full_disk() {
    let mut server = Server::start(&FLAGS);
    for bomb in [
        "number = 0\nwhile on():\n    number += 1\n    with open(f'file{number}', 'wb') as file: file.write(bytes(1 << 20))",
        "kept = []\nimport tempfile\nwhile on():\n    kept.append(tempfile.TemporaryFile())\n    kept[-1].write(bytes(2 << 20))\n    kept[-1].flush()\n    time.sleep(0.005)",
    ] {
        let result = set_off(&mut server, bomb);
        assert_eq!(limit(&result), "disk 64 MiB", "{result}");
    }
}

#[test]
fn a_flood_of_descriptors_and_of_output() {
    let mut server = Server::start(&FLAGS);
    let result = set_off(&mut server, "kept = []\nwhile on(): kept.append(os.pipe())");
    assert!(text(&result).contains("Too many open files"), "{result}");
    assert_eq!(limit(&result), "open files 64", "{result}");
    assert!(text(&result).contains("--max-open-files allows more"), "{result}");
    let result = set_off(&mut server, "for _ in range(100): sys.stdout.write('x' * (1 << 20))");
    assert_eq!(result["structuredContent"]["exit_code"], 0, "{result}");
}

/// Processor time of four spinning processes for each second that they had, in hundredths.
fn spin(flags: &[&str]) -> std::process::Output {
    let script = "import os, time\nstart = time.monotonic()\nfor _ in range(4):\n    \
                  if os.fork() == 0:\n        while time.monotonic() < start + 3: pass\n        os._exit(0)\n\
                  for _ in range(4): os.wait()\nspent = os.times()\n\
                  print(round(100 * (spent.children_user + spent.children_system) / (time.monotonic() - start)))";
    let mut command = std::process::Command::new(crate::client::binary());
    command.args(["run", "-"]).args(flags).args(crate::client::common_flags(flags));
    let piped = std::process::Stdio::piped;
    let mut child = command.stdin(piped()).stdout(piped()).stderr(piped()).spawn().expect("it starts");
    std::io::Write::write_all(&mut child.stdin.take().expect("piped"), script.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

#[test]
fn processor_time_is_kept_within_its_limit_or_refused_at_start() {
    let limited = spin(&["--cpu-limit", "0.1"]);
    let said = String::from_utf8_lossy(&limited.stderr).into_owned();
    if limited.status.code() == Some(125) && !rustix::process::getuid().is_root() {
        assert!(said.contains("--cpu-limit needs a control group"), "{said}");
        assert!(said.contains("systemd-run --user --scope"), "{said}");
        return;
    }
    let hundredths = |output: &std::process::Output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.trim().parse::<u32>().unwrap_or_else(|_| panic!("{output:?}"))
    };
    let limited = hundredths(&limited);
    assert!(limited <= 15, "{limited} hundredths of a processor");
    // Others may use the processors, too: the most of a few runs counts.
    let free = (0..5).map(|_| hundredths(&spin(&[]))).find(|free| *free > 20);
    assert!(free.is_some(), "no more without a limit, so nothing is proved");
}

#[test]
fn a_killed_server_leaves_no_control_group() {
    let mut server = Server::start(&FLAGS);
    let name = marker("grp");
    let script = format!("{}import time\nwhile True: time.sleep(1)", take_name(&name));
    server.ask_tool("execute_python", json!({"script": script, "timeout_seconds": 60}));
    wait_for_processes(&name, |count| count > 0, Duration::from_secs(30));
    let made = server_groups(server.pid());
    println!("control groups while it runs: {made:?}");
    server.kill();
    wait_for_processes(&name, |count| count == 0, Duration::from_secs(3));
    wait_for_groups(server.pid(), 0);
}
