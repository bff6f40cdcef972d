//! Limits: each one is reached, named, and leaves the output that was there.

use mcp_python_exec_sandbox::sandbox::spec::Limits;
use mcp_python_exec_sandbox::sandbox::{ExitStatus, LimitHit};

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
