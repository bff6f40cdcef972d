//! The machine: what it is, what processes use on it.

use std::collections::HashMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::setting::Setting;

/// What figures were taken on.
pub fn describe(setting: &Setting) -> Value {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let date = crate::setting::output(Command::new("date").args(["-u", "+%F %R"])).unwrap_or_default();
    json!({
        "date": date.trim(),
        "kernel": read("/proc/sys/kernel/osrelease"),
        "processors": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        "processor": processor(&read("/proc/cpuinfo")),
        "load": read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "),
        "user": if rustix::process::geteuid().is_root() { "root" } else { "an ordinary user" },
        "rounds": setting.flags.rounds,
        "interpreter": setting.python.display().to_string(),
        "python": setting.version,
        "server": setting.server.display().to_string(),
    })
}

fn processor(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split(": ").nth(1)).unwrap_or("unknown").to_owned()
}

/// The monotonic clock, which scripts read too.
pub fn monotonic() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Starts the program in a session of its own, as every sandbox does: the scheduler treats sessions as groups, so that
/// anything else would compare unlike things.
pub fn in_its_own_session(command: &mut Command) {
    let hook = || rustix::process::setsid().map(drop).map_err(std::io::Error::from);
    // SAFETY: the hook makes one system call; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(hook) };
}

/// Processor time of all children of this process that have been waited for.
pub fn cpu_of_children() -> Duration {
    stat("self").map_or(Duration::ZERO, |stat| ticks(stat.children))
}

/// Processor time of a process, of all that live below it, and of what these have waited for.
pub fn cpu_of_tree(root: u32) -> Duration {
    let stats = tree(root).into_iter().filter_map(|pid| stat(&pid.to_string()));
    stats.map(|stat| ticks(stat.own + stat.children)).sum()
}

struct Stat {
    parent: u32,
    own: u64,
    children: u64,
}

fn stat(pid: &str) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    let parent = u32::try_from(number(1)?).ok()?;
    Some(Stat { parent, own: number(11)? + number(12)?, children: number(13)? + number(14)? })
}

fn ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second().max(1))
}

/// All processes below one, itself first.
pub fn tree(root: u32) -> Vec<u32> {
    let mut below: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(stat) = stat(&format!("{pid}")) {
            below.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        found.extend(below.remove(&found[at]).unwrap_or_default());
        at += 1;
    }
    found
}

/// Bytes of memory that processes take together: of a page that several map, each has its share (PSS). A sum with one
/// that does not tell would be something else, so then there is none.
pub fn proportional_memory(pids: &[u32]) -> Result<u64, String> {
    pids.iter().map(|&pid| share(pid)).sum()
}

fn share(pid: u32) -> Result<u64, String> {
    let path = format!("/proc/{pid}/smaps_rollup");
    match fs::read_to_string(&path) {
        Ok(text) => kilobytes(&text, "Pss:").ok_or_else(|| format!("{path} names no share")),
        // It has ended meanwhile.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => Ok(0),
        Err(error) => Err(format!("{path}: {error}; the benchmark's head says which right that takes")),
    }
}

/// Keeps the rights that this process was started with from every program that it starts.
pub fn pass_no_rights_on() -> Result<(), String> {
    let drop = |set| caps::clear(None, set).map_err(|error| format!("rights cannot be kept back: {error}"));
    drop(caps::CapSet::Ambient)?;
    drop(caps::CapSet::Inheritable)
}

/// The most memory that a process has had resident, in bytes.
pub fn peak_memory(pid: u32) -> Option<u64> {
    kilobytes(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmHWM:")
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|number| number << 10)
}

/// Open descriptors of a process.
pub fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Whether a process runs Python.
pub fn is_interpreter(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("python"))
}

/// Mounts that this process sees.
pub fn mounts() -> usize {
    fs::read_to_string("/proc/self/mountinfo").map_or(0, |text| text.lines().count())
}
