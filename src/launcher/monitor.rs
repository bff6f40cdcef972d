//! Supervision without a process namespace: the monitor collects every orphan of the run and ends what descends
//! from it, when the main program has ended or the server goes away.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal};

use super::stage::Failed;
use super::sys::{self, Forked};
use super::{Launch, init};

const STAGE: &str = "monitor";

/// Starts the worker below this process and watches over it.
pub fn run(launch: &mut Launch) -> Failed {
    let Err(failed) = try_run(launch);
    failed
}

fn try_run(launch: &mut Launch) -> Result<std::convert::Infallible, Failed> {
    let itself = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(itself))
        .map_err(|error| Failed::errno(STAGE, "collecting orphans", error))?;
    let signals = sys::child_signal_fd().map_err(|error| Failed::io(STAGE, "watching children", &error))?;
    // SAFETY: the launcher has a single thread.
    match unsafe { sys::fork() }.map_err(|error| Failed::io(STAGE, "fork", &error))? {
        Forked::Child => launch.reporter.fail(&init::work(launch, Vec::new())),
        Forked::Parent(worker) => {
            launch.channel = None;
            super::silence(&[1, 2])?;
            watch(launch, &signals, worker)
        }
    }
}

fn watch(launch: &Launch, signals: &OwnedFd, worker: i32) -> ! {
    loop {
        while let Some(ended) = sys::reap() {
            if ended.pid == worker {
                finish(launch);
                let _ = launch.reporter.send(&init::exited(&ended), None);
                sys::exit_now(0);
            }
        }
        let mut watched =
            [PollFd::new(&launch.reporter, PollFlags::RDHUP), PollFd::new(signals, PollFlags::IN)];
        let _ = rustix::event::poll(&mut watched, None);
        if watched[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR) {
            finish(launch);
            sys::exit_now(0);
        }
        let mut drained = [0_u8; 1024];
        let _ = rustix::io::read(signals, &mut drained);
    }
}

/// Ends what is left of the run and removes its folder.
fn finish(launch: &Launch) {
    end_all();
    if let Some(folder) = &launch.plan.remove_after {
        // The script may have taken permissions away from its own folders; what cannot be removed stays.
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// Ends every process below this one. Each is stopped first, so that none can make another while the rest is found;
/// only when a whole pass finds nobody new are they killed.
fn end_all() {
    let itself = rustix::process::getpid().as_raw_nonzero().get();
    loop {
        let mut stopped = HashSet::new();
        loop {
            let found = descendants(itself);
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
        if descendants(itself).is_empty() {
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
fn descendants(root: i32) -> Vec<i32> {
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
