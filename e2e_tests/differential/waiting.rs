//! The life of sandboxes that wait: they are used once, replaced when they die, and gone with the server.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::server::{Ended, Server};

/// Longest wait for something that has to happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// Parents of all processes that are alive.
fn parents() -> HashMap<u32, u32> {
    let entries = std::fs::read_dir("/proc").expect("processes are shown").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let (state, parent) = (fields.next()?, fields.next()?.parse().ok()?);
        (state != "Z").then_some((pid, parent))
    })
    .collect()
}

/// Everything below a server, by the names of the programs; without the one process that launchers are forked from.
fn below(root: u32) -> Vec<(u32, String)> {
    let parents = parents();
    let is_below = |mut pid: u32| loop {
        match parents.get(&pid) {
            Some(&parent) if parent == root => return true,
            Some(&parent) if parent > 1 => pid = parent,
            _ => return false,
        }
    };
    let name = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let is_nursery = |pid: u32| {
        let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        parents.get(&pid) == Some(&root) && words.contains("__launchers")
    };
    let all = parents.keys().filter(|&&pid| is_below(pid) && !is_nursery(pid));
    all.map(|&pid| (pid, name(pid).trim().to_owned())).collect()
}

fn interpreters(server: &Server) -> HashSet<u32> {
    let all = below(server.pid());
    all.into_iter().filter(|(_, name)| name.starts_with("python")).map(|(pid, _)| pid).collect()
}

/// Looks until it is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not so after {} s", PATIENCE.as_secs());
        std::thread::yield_now();
    }
}

fn alive(pids: &HashSet<u32>) -> bool {
    let parents = parents();
    pids.iter().any(|pid| parents.contains_key(pid))
}

/// The processes that hold the next sandbox's ground: guard and process 1, with control groups a keeper as well.
const OF_THE_GROUND: std::ops::RangeInclusive<usize> = 2..=3;

#[test]
fn without_a_pool_only_the_ground_of_the_next_sandbox_waits() {
    let mut server = Server::start(&["--pool-size", "0"]);
    let mut before = HashSet::new();
    for round in ["first", "second", "third"] {
        // Ground is used once: what waits after a run that went on from it has not waited before. A run that comes while
        // it is still being laid leaves it to the next one.
        until(&format!("only new ground waits after the {round} run"), || {
            server.run("pass");
            let all = below(server.pid());
            let is_ground = OF_THE_GROUND.contains(&all.len())
                && all.iter().all(|(pid, name)| name == "mcp-launcher" && !before.contains(pid));
            if is_ground {
                before = all.into_iter().map(|(pid, _)| pid).collect();
            }
            is_ground
        });
    }
    // Nothing is left of it when the server ends.
    drop(server);
    until("the ground is gone", || !alive(&before));
}

#[test]
fn sandboxes_wait_for_the_first_call() {
    // This server does not fetch packages in advance; that is another matter.
    let mut server = Server::start(&["--pool-size", "2"]);
    until("two wait", || interpreters(&server).len() == 2);
    assert!(server.was_waited_for("print('first')"), "the first call was run without them");
}

#[test]
fn one_that_dies_while_it_waits_is_replaced_and_the_run_is_made_without_it() {
    let mut server = Server::start(&["--pool-size", "2"]);
    server.run("pass");
    until("two wait", || interpreters(&server).len() == 2);
    let waiting = interpreters(&server);
    for &pid in &waiting {
        signal(pid, rustix::process::Signal::KILL);
    }
    until("they are gone", || !alive(&waiting));
    let ended = server.run("print('right all the same')");
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "right all the same\n"));
    until("two wait again", || interpreters(&server).difference(&waiting).count() == 2);
}

#[test]
fn one_that_dies_with_the_script_on_its_way_has_run_nothing_and_the_run_is_made_without_it() {
    let mut server = Server::start(&["--pool-size", "1"]);
    server.run("pass");
    let long = format!("print('right all the same')\n#{}", "x".repeat(300_000));
    for script in ["print('right all the same')", &long] {
        for whole in [false, true] {
            let ended = killed_with_the_script_on_its_way(&mut server, script, whole);
            assert_eq!((ended.code, ended.stdout.as_str()), (0, "right all the same\n"), "{ended:?}");
        }
    }
}

/// How a script ends whose waiting interpreter, or whose whole sandbox, is killed before it takes the script.
fn killed_with_the_script_on_its_way(server: &mut Server, script: &str, whole: bool) -> Ended {
    for _ in 0..50 {
        until("one waits", || interpreters(server).len() == 1);
        let &interpreter = interpreters(server).iter().next().expect("one");
        // It takes the script only when it goes on. One that was not ready yet is not given any.
        signal(interpreter, rustix::process::Signal::STOP);
        until("it has stopped", || is_stopped(interpreter));
        let killed = if whole { parents()[&interpreter] } else { interpreter };
        let kill = || signal(killed, rustix::process::Signal::KILL);
        if let Some(ended) = server.run_and_meanwhile(script, kill) {
            return ended;
        }
        signal(interpreter, rustix::process::Signal::CONT);
    }
    panic!("no waiting sandbox got the script");
}

#[test]
fn one_that_is_killed_in_the_middle_of_its_script_is_not_run_again() {
    let mut server = Server::start(&["--pool-size", "1"]);
    server.run("pass");
    for signal in ["SIGKILL", "SIGSEGV"] {
        let script = format!("import os, signal\nprint('once')\nos.kill(os.getpid(), signal.{signal})");
        let ended = server.run_waiting(&script).expect("a waiting sandbox takes it");
        assert!(ended.code > 128 && ended.stdout == "once\n", "{ended:?}");
    }
}

fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).expect("a process id")).expect("not 0");
    rustix::process::kill_process(pid, signal).expect("it was alive");
}

#[test]
fn what_waits_ends_with_the_server_however_that_ends() {
    let mut server = Server::start(&["--pool-size", "2"]);
    server.run("pass");
    until("two wait", || interpreters(&server).len() == 2);
    let all: HashSet<u32> = below(server.pid()).into_iter().map(|(pid, _)| pid).collect();
    assert!(all.len() >= 4, "{all:?}");
    // Killed, without a chance to do anything.
    drop(server);
    until("all are gone", || !alive(&all));
}

#[test]
fn each_run_has_secrets_of_its_own() {
    let mut server = Server::start(&["--pool-size", "4"]);
    server.run("pass");
    let script = "import random, uuid\nprint(hash('x'), random.random(), uuid.uuid4(), id(object()))";
    let mut seen: [HashSet<String>; 4] = Default::default();
    for _ in 0..4 {
        let ended = server.run_waiting(script).expect("a waiting sandbox takes it");
        for (values, value) in seen.iter_mut().zip(ended.stdout.split_whitespace()) {
            values.insert(value.to_owned());
        }
    }
    assert!(seen.iter().all(|values| values.len() == 4), "{seen:?}");
}

#[test]
fn a_run_leaves_nothing_for_the_next() {
    let mut server = Server::start(&["--pool-size", "2"]);
    server.run("pass");
    // The server's data folder, which holds the environment, is shown where it lies.
    let script = "import os\nplaces = ('/work', '/tmp', '/home/sandbox', '/dev/shm')\n\
                  print([sorted(n for n in os.listdir(p) if not n.startswith('mcp-')) for p in places])\n\
                  [open(p + '/left', 'w').close() for p in places]";
    for _ in 0..3 {
        let ended = server.run_waiting(script).expect("a waiting sandbox takes it");
        assert_eq!(ended.stdout, "[['script.py'], [], [], []]\n");
    }
}

#[test]
fn the_deadline_counts_for_a_waiting_sandbox_as_for_any() {
    let mut server = Server::start(&["--pool-size", "2"]);
    server.run("pass");
    let started = Instant::now();
    let ended = server.run_with_timeout("print('before')\nwhile True: pass", 1);
    assert_eq!((ended.code, ended.stdout.as_str()), (-9, "before\n"));
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_eq!(server.run("print('after')").stdout, "after\n");
}

#[test]
fn a_burst_gets_its_own_answers() {
    let mut server = Server::start(&["--pool-size", "4", "--max-concurrent", "4"]);
    server.run("pass");
    for _ in 0..3 {
        let scripts: Vec<String> = (0..12).map(|number| format!("print({number})")).collect();
        let mut printed = server.run_together(&scripts);
        printed.sort();
        let expected: Vec<_> = (0..12).map(|number| (number, format!("{number}\n"))).collect();
        assert_eq!(printed, expected);
    }
}

#[test]
fn a_run_that_wants_all_memory_ends_and_those_that_wait_live_on() {
    let mut server = Server::start(&["--pool-size", "2", "--memory-limit", "256M"]);
    server.run("pass");
    let script = "kept = []\nwhile True:\n    kept.append(bytearray(1 << 24))";
    for _ in 0..3 {
        let ended = server.run_waiting(script).expect("a waiting sandbox takes it");
        // It is refused memory, or ended for what it took.
        let killed = 128 + 9;
        assert!(ended.code == 1 && ended.stderr.contains("MemoryError") || ended.code == killed, "{ended:?}");
        let after = server.run_waiting("print('as before')").expect("another one waited");
        assert_eq!((after.code, after.stdout.as_str()), (0, "as before\n"));
    }
}

/// The machine's clock cannot be moved for a test. What counts time for a run, or for a sandbox that waits, reads a clock
/// that cannot be set at all.
#[test]
fn a_clock_that_jumps_moves_no_deadline() {
    let sources = [
        include_str!("../../src/execution/engine.rs"),
        include_str!("../../src/execution/run.rs"),
        include_str!("../../src/execution/capture.rs"),
        include_str!("../../src/execution/pool/mod.rs"),
        include_str!("../../src/execution/pool/runs.rs"),
        include_str!("../../src/execution/pool/shelves.rs"),
        include_str!("../../src/launcher/supervise.rs"),
        include_str!("../../src/launcher/watch.rs"),
        include_str!("../../src/sandbox/linux/spawn.rs"),
        include_str!("../../src/sandbox/linux/waiting.rs"),
    ];
    for source in sources {
        let settable = ["SystemTime", "ClockId::Realtime", "CLOCK_REALTIME"];
        assert!(settable.iter().all(|clock| !source.contains(clock)));
    }
    assert!(sources.iter().filter(|source| source.contains("Instant")).count() >= 5, "something counts");
}
