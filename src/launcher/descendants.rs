//! Ending a run by its family tree, where no Landlock scope bounds the reach of a signal: everything that descends
//! from the monitor, which collects orphans, is found in the process file system.

use std::collections::{HashMap, HashSet};

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

/// The parent's id: the second field after the name, which stands in parentheses and may hold anything.
fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
