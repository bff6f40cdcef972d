//! A sandbox whose ground was laid before its call is the same as one that is built from nothing: everything that a script
//! can see of its own place is compared, line by line.

use std::collections::BTreeSet;

use crate::harness::mcp::Server;
use crate::harness::{Ground, Need, Property};

pub const PROPERTY: Property = Property::steps(
    "laid_ground",
    "A sandbox that goes on from ground laid ahead of the call shows a script nothing else than one that is built for it",
    steps,
)
.needs(&[Need::Namespaces]);

/// Prints a line for everything: mounts, files, descriptors, identity, limits, and what can be reached.
const VIEW: &str = r#"
import os, re, resource, signal, socket, stat, sys

def say(what, value):
    print(f"VIEW {what}: {value}")

for line in open("/proc/self/mountinfo"):
    words = line.split()
    end = words.index("-")
    # Numbers of mounts and of file systems in memory are given in turn.
    device = words[2] if not words[2].startswith("0:") else "0"
    say("mount", [device, *words[3:end], *words[end + 1:]])
kept = ("Uid", "Gid", "Groups", "NoNewPrivs", "Seccomp", "Cap", "Sig", "Shd", "Umask", "Threads", "NStgid", "TracerPid")
for line in open("/proc/self/status"):
    if line.startswith(kept):
        say("status", line.strip())
for name in ("limits", "cgroup", "environ", "oom_score_adj", "timens_offsets", "setgroups", "sessionid", "loginuid"):
    try:
        say(name, open(f"/proc/self/{name}").read())
    except OSError as error:
        say(name, error.errno)
for number in range(64):
    try:
        say("descriptor", (number, re.sub(r"\d+", "n", os.readlink(f"/proc/self/fd/{number}")), os.get_inheritable(number)))
    except OSError:
        pass
say("processes", [name for name in os.listdir("/proc") if name.isdigit()])
say("first process", open("/proc/1/stat").read().split()[1])
say("names", (os.uname().nodename, socket.gethostname(), os.getcwd(), os.getlogin.__name__, os.nice(0)))
say("session", (os.getsid(0) == 0, os.getpgid(0) == 0, os.getppid()))
say("interfaces", socket.if_nameindex())
say("namespaces", sorted(os.listdir("/proc/self/ns")))
for folder in ("/", "/dev", "/etc", "/home", "/proc", "/tmp", "/var", "/work"):
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if path.startswith("/proc/") and not stat.S_ISREG(os.lstat(path).st_mode):
            continue
        found = os.lstat(path)
        size = found.st_size if stat.S_ISREG(found.st_mode) and not path.startswith("/proc") else 0
        say("file", (path, oct(found.st_mode), found.st_uid, found.st_gid, size))
for path in ("/", "/work", "/tmp", "/usr", "/etc", "/dev", "/proc"):
    try:
        os.mkdir(os.path.join(path, "made"))
        say("made in", path)
    except OSError as error:
        say("refused in", (path, error.errno))
"#;

fn steps(ground: &Ground) -> Result<(), String> {
    let flags = ["--pool-size", "0", "--no-warm-cache", "--network", "none"];
    let mut server = Server::start_with(ground, &flags, &[("RUST_LOG", "mcp_python_exec_sandbox=debug")])?;
    let script = serde_json::json!({ "script": format!("{VIEW}\n{}", include_str!("surfaces.py")) });
    let from_nothing = seen(&server.call("execute_python", &script)?)?;
    let mut on_ground = Vec::new();
    for _ in 0..3 {
        // The ground is laid once the answer is out.
        std::thread::sleep(std::time::Duration::from_millis(300));
        on_ground.push(seen(&server.call("execute_python", &script)?)?);
    }
    if from_nothing.len() < 100 {
        return Err(format!("control: {} things are seen", from_nothing.len()));
    }
    for seen in &on_ground {
        let more: Vec<_> = seen.symmetric_difference(&from_nothing).collect();
        if !more.is_empty() {
            return Err(format!("different: {more:?}"));
        }
    }
    let log = server.log();
    let starts: Vec<&str> = log.lines().filter(|line| line.contains("timeline")).collect();
    let went_on = starts.iter().filter(|start| !start.contains("namespaces")).count();
    if starts.len() < 4 || went_on == 0 {
        return Err(format!("control: {went_on} of {} starts went on from laid ground", starts.len()));
    }
    Ok(())
}

/// The lines of one run.
fn seen(answers: &[serde_json::Value]) -> Result<BTreeSet<String>, String> {
    let [answer] = answers else { return Err(format!("{} answers came for one call", answers.len())) };
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    if !text.contains("reachable: ") || answer["result"]["isError"] == true {
        return Err(format!("the script did not reach its end: {answer}"));
    }
    // The server's own lines tell times.
    Ok(text.lines().filter(|line| !line.starts_with("--- ")).map(str::to_owned).collect())
}
