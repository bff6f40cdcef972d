//! Timeout, cancel, end of input and a killed server each end every process of a run and leave nothing behind.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::backend::Backend;
use crate::client::{Server, marker, processes, take_name, text, wait_for_processes};

/// A quarter of a second on an idle machine; tests share theirs with a compiler.
const GONE: Duration = Duration::from_secs(3);
const STARTED: Duration = Duration::from_secs(30);

/// A script with a daemon that has left its session and ignores signals.
fn stubborn(marker: &str) -> String {
    let name = take_name(marker);
    format!(
        "{name}import os, signal, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        \
         for s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\n    time.sleep(600)\nprint('begun', flush=True)\n\
         time.sleep(600)\n"
    )
}

/// Mounts of this machine, without those that a container engine has for containers of any test.
fn mounts() -> usize {
    let list = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts are listed");
    let engine_s =
        |line: &&str| ["/docker/", "/overlay2/", "/containers/"].iter().any(|of| line.contains(of));
    list.lines().filter(|line| !engine_s(line)).count()
}

#[test]
fn a_timeout_keeps_the_output_and_ends_every_process() {
    let (marker, before) = (marker("tmo"), mounts());
    let mut server = Server::start(&[]);
    let start = Instant::now();
    let script = format!("print('unflushed text')\n{}", stubborn(&marker));
    let result = server.tool("execute_python", json!({"script": script, "timeout_seconds": 3}));
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
    let structured = &result["structuredContent"];
    assert_eq!((&structured["timed_out"], &structured["exit_code"]), (&json!(true), &json!(-9)), "{result}");
    assert!(text(&result).contains("unflushed text\nbegun\n"), "{result}");
    assert_eq!(result["isError"], true);
    wait_for_processes(&marker, |count| count == 0, GONE);
    assert_eq!(mounts(), before);
}

#[test]
fn a_cancelled_call_is_killed_and_not_answered() {
    let marker = marker("cnc");
    let mut server = Server::start(&[]);
    let id = server.ask_tool("execute_python", json!({"script": stubborn(&marker), "timeout_seconds": 60}));
    wait_for_processes(&marker, |count| count >= 3, STARTED);
    server.notify("notifications/cancelled", json!({"requestId": id}));
    wait_for_processes(&marker, |count| count == 0, GONE);
    assert_eq!(server.request("ping", json!({}))["result"], json!({}));
    assert_eq!(server.reply_within(id, Duration::from_millis(300)), None);
}

#[test]
fn end_of_input_ends_the_server_and_its_runs() {
    let marker = marker("eof");
    let mut server = Server::start(&[]);
    server.ask_tool("execute_python", json!({"script": stubborn(&marker), "timeout_seconds": 60}));
    wait_for_processes(&marker, |count| count >= 3, STARTED);
    server.close_input();
    assert_eq!(server.wait(), 0);
    wait_for_processes(&marker, |count| count == 0, GONE);
}

#[test]
fn a_killed_server_leaves_nothing_running() {
    for backend in [Backend::under_test().name(), "none"] {
        let marker = marker(&format!("sk{}", &backend[..2]));
        let mut server = Server::start(&["--sandbox-backend", backend]);
        server.ask_tool("execute_python", json!({"script": stubborn(&marker), "timeout_seconds": 60}));
        wait_for_processes(&marker, |count| count >= 3, STARTED);
        server.kill();
        wait_for_processes(&marker, |count| count == 0, GONE);
    }
}

/// Folders of runs without a root of their own, whichever server's.
fn run_folders() -> BTreeSet<OsString> {
    let of = |place: PathBuf| {
        let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
        entries.map(|entry| entry.path().into_os_string()).collect::<Vec<_>>()
    };
    let all = ["/dev/shm".into(), std::env::temp_dir()].into_iter().flat_map(of);
    all.filter(|path| path.to_string_lossy().contains("/mcp-python-")).collect()
}

#[test]
fn runs_without_a_root_of_their_own_leave_no_folder() {
    let before = run_folders();
    let mut server = Server::start(&["--sandbox-backend", "none"]);
    let result = server.run("import os\nprint(os.getcwd())");
    let work = text(&result).lines().find(|line| line.contains("/mcp-python-")).map(str::to_owned);
    assert!(work.is_some_and(|work| !Path::new(&work).exists()), "{result}");
    server.close_input();
    assert_eq!(server.wait(), 0);
    // Other tests make such folders too, and theirs go as well.
    let after: Vec<_> = run_folders().difference(&before).cloned().collect();
    let deadline = Instant::now() + Duration::from_secs(90);
    for folder in after {
        while Path::new(&folder).exists() {
            assert!(Instant::now() < deadline, "{folder:?} stays");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn a_daemon_that_holds_the_output_cannot_hold_the_call() {
    for backend in [Backend::under_test().name(), "none"] {
        let marker = marker(&format!("dm{}", &backend[..2]));
        let mut server = Server::start(&["--sandbox-backend", backend]);
        let name = take_name(&marker);
        let script = format!(
            "{name}import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(600)\nprint('over')"
        );
        let start = Instant::now();
        let result = server.run(&script);
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        assert_eq!(result["structuredContent"]["exit_code"], 0, "{result}");
        assert_eq!(processes(&marker), 0);
    }
}

#[test]
fn calls_run_side_by_side_within_the_bound() {
    let mut server = Server::start(&["--max-concurrent", "2"]);
    let script = "import time\nprint(time.time())\ntime.sleep(1.5)\nprint(time.time())";
    server.run("pass");
    let ids: Vec<i64> =
        (0..4).map(|_| server.ask_tool("execute_python", json!({"script": script}))).collect();
    let mut spans: Vec<(f64, f64)> = ids
        .into_iter()
        .map(|id| {
            let reply = server.reply(id);
            let out = reply["result"]["structuredContent"]["stdout"].as_str().expect("output").to_owned();
            let mut times = out.lines().map(|line| line.parse().expect("a time"));
            (times.next().expect("a start"), times.next().expect("an end"))
        })
        .collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at_once = |moment: f64| spans.iter().filter(|(start, end)| *start <= moment && moment < *end).count();
    let most = spans.iter().map(|(start, _)| at_once(*start)).max();
    assert_eq!(most, Some(2), "{spans:?}");
}
