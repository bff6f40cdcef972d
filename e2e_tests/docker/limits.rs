//! Limits: each one is reached, named, and leaves the output that was there.

use mcp_python_exec_sandbox::sandbox::spec::Limits;
use mcp_python_exec_sandbox::sandbox::{ExitStatus, LayerState, LimitHit};

use super::{PATIENCE, Room, spec};

#[tokio::test]
async fn memory() {
    let Some(room) = Room::open().await else { return };
    let mut spec = spec("print('before')\nkept = []\nwhile True:\n    kept.append(bytearray(8 << 20))");
    spec.limits = Limits { memory: 128 << 20, ..Limits::default() };
    let done = room.run_spec(&spec, PATIENCE).await;
    assert_eq!(done.stdout.text, "before\n");
    assert_eq!(done.outcome.status, ExitStatus::Signaled(9), "{}", done.stderr.text);
    assert_eq!(done.outcome.limit, Some(LimitHit::Memory(128 << 20)));
}

#[tokio::test]
async fn processes() {
    let Some(room) = Room::open().await else { return };
    let mut spec = spec(
        "import os, time\nmade = 0\ntry:\n    while True:\n        if os.fork() == 0:\n            time.sleep(600)\n        \
         made += 1\nexcept BlockingIOError:\n    print(made)\n    os._exit(3)",
    );
    spec.limits = Limits { processes: 20, ..Limits::default() };
    let done = room.run_spec(&spec, PATIENCE).await;
    assert_eq!(done.stdout.text, "19\n", "the script and 19 others: {}", done.stderr.text);
    assert_eq!(done.outcome.limit, Some(LimitHit::Processes(20)));
    room.until_nothing_is_left().await;
}

#[tokio::test]
async fn a_full_disk_is_named() {
    let Some(room) = Room::open().await else { return };
    let mut spec = spec("print('before')\nopen('/tmp/x', 'wb').write(bytes(64 << 20))");
    spec.limits = Limits { disk: 16 << 20, ..Limits::default() };
    let done = room.run_spec(&spec, PATIENCE).await;
    assert_eq!((done.stdout.text.as_str(), done.outcome.status), ("before\n", ExitStatus::Exited(1)));
    assert!(done.stderr.text.contains("No space left"), "{}", done.stderr.text);
    assert_eq!(done.outcome.limit, Some(LimitHit::Disk(16 << 20)));
}

#[tokio::test]
async fn processor_time_is_shared_out_and_every_limit_stands_in_the_report() {
    let Some(room) = Room::open().await else { return };
    // Two periods of the kernel's at least, so that the share can be seen.
    let script = "import time\nstart, used = time.monotonic(), time.process_time()\n\
                  while time.monotonic() < start + 2: pass\nprint((time.process_time() - used) / 2)";
    let mut spec = spec(script);
    spec.limits = Limits { cpu_percent: Some(25), ..Limits::default() };
    let done = room.run_spec(&spec, PATIENCE).await;
    let share: f64 = done.stdout.text.trim().parse().expect("a number");
    assert!((0.05..0.4).contains(&share), "{share}");
    for name in ["memory limit", "process limit"] {
        let layer = done.layers.iter().find(|layer| layer.name == name).expect("it is reported");
        assert!(matches!(layer.state, LayerState::Enforced(_)), "{layer:?}");
    }
}

#[tokio::test]
async fn disk_and_open_files() {
    let Some(room) = Room::open().await else { return };
    let mut spec = spec(
        "import errno, os\nfor folder in ('/work', '/tmp', '/home/sandbox', '/dev/shm'):\n    written = 0\n    \
         file = open(folder + '/x', 'wb', buffering=0)\n    try:\n        while True:\n            \
         written += file.write(bytes(1 << 20))\n    except OSError as error:\n        \
         print(folder, written >> 20, errno.errorcode[error.errno])\n    os.remove(folder + '/x')\n\
         kept = []\ntry:\n    while True:\n        kept.append(os.open('/dev/null', 0))\n\
         except OSError as error:\n    print(errno.errorcode[error.errno], kept[-1])",
    );
    spec.limits = Limits { disk: 16 << 20, open_files: 64, ..Limits::default() };
    let done = room.run_spec(&spec, PATIENCE).await;
    let lines: Vec<&str> = done.stdout.text.lines().collect();
    assert_eq!(lines.len(), 5, "{}{}", done.stdout.text, done.stderr.text);
    for line in &lines[..4] {
        let words: Vec<&str> = line.split(' ').collect();
        assert!(
            words[2] == "ENOSPC" && (15..=16).contains(&words[1].parse::<u32>().expect("a size")),
            "{line}"
        );
    }
    assert_eq!(lines[4], "EMFILE 63");
}
