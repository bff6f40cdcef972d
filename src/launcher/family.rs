//! A run as a family tree, where no Landlock scope bounds the reach of a signal: whatever descends from the monitor,
//! which collects orphans, is the run's. The process file system tells.

use std::collections::{HashMap, HashSet};

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::sys;

/// Ends every process below this one. Each is stopped first, so that none can make another while the rest is found;
/// only when a whole pass finds nobody new are they killed.
pub fn end_all() {
    let itself = rustix::process::getpid().as_raw_nonzero().get();
    loop {
        let mut stopped = HashSet::new();
        loop {
            let found = below(itself);
            let new: Vec<i32> = found.into_iter().filter(|pid| !stopped.contains(pid)).collect();
            if new.is_empty() {
                break;
            }
            for pid in new {
                send(pid, Signal::STOP);
                stopped.insert(pid);
            }
        }
        for &pid in &stopped {
            send(pid, Signal::KILL);
        }
        while sys::reap().is_some() {}
        if below(itself).is_empty() {
            return;
        }
    }
}

fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // One that has ended meanwhile is what is wanted.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Whether a process of the run may send a signal there, by the numbers of kill(2).
pub fn judge(target: i32) -> Result<(), Errno> {
    let itself = rustix::process::getpid().as_raw_nonzero().get();
    match target {
        // The caller's own group: groups do not reach beyond a session, and the run has its own.
        0 => Ok(()),
        1.. if parent_of(target).is_none() => Err(Errno::SRCH),
        1.. if descends(target, itself) => Ok(()),
        // A group is the run's when anybody in it is.
        group if group < -1 && below(itself).into_iter().any(|pid| group_of(pid) == Some(-group)) => Ok(()),
        _ => Err(Errno::PERM),
    }
}

fn descends(pid: i32, from: i32) -> bool {
    let mut at = pid;
    while let Some(parent) = parent_of(at).filter(|parent| *parent > 0) {
        if parent == from {
            return true;
        }
        at = parent;
    }
    false
}

/// Processes below this one, as the process file system tells; zombies count until they are collected.
fn below(root: i32) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let (mut found, mut open) = (Vec::new(), vec![root]);
    while let Some(pid) = open.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        found.extend(&below);
        open.extend(below);
    }
    found
}

fn parent_of(pid: i32) -> Option<i32> {
    field(pid, 1)
}

fn group_of(pid: i32) -> Option<i32> {
    field(pid, 2)
}

/// A number of a process's state, counted after the name, which stands in parentheses and may hold anything.
fn field(pid: i32, number: usize) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_for_the_family() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("started");
        let pid = i32::try_from(child.id()).expect("an id");
        assert_eq!(judge(pid), Ok(()));
        assert_eq!(judge(0), Ok(()));
        // Not this process itself, whoever started it, or everybody.
        let itself = i32::try_from(std::process::id()).expect("an id");
        assert_eq!([judge(itself), judge(1), judge(-1)], [Err(Errno::PERM); 3]);
        child.kill().and_then(|()| child.wait()).expect("ended");
        assert_eq!(judge(pid), Err(Errno::SRCH));
    }
}
