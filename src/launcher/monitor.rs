//! Supervision without a process namespace: the monitor starts the worker, collects every orphan of the run, and
//! ends all of it when the main program has ended or the server goes away.
//!
//! How it ends them is its plan's choice: by a Landlock domain of its own (`scope`), or by the family tree
//! (`family`) where the kernel has no signal scope or the run is root's.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::process::{DumpableBehavior, Signal};

use super::deputy::Deputy;
use super::stage::{Failed, absent, enforced, enforced_with};
use super::supervise::{self, Supervised};
use super::sys::{self, Forked};
use super::watch::{View, Watcher};
use super::{Answering, Launch, caps, cleanup, family, init, namespaces, scope};
use crate::sandbox::facts::LayerStatus;
use crate::sandbox::linux::plan::Supervision;

const STAGE: &str = "monitor";

/// Starts the worker below this process and watches over it.
pub fn run(mut launch: Launch, layers: Vec<LayerStatus>) -> ! {
    let Err(failed) = try_run(&mut launch, layers);
    launch.reporter.fail(&failed)
}

fn try_run(launch: &mut Launch, mut layers: Vec<LayerStatus>) -> Result<std::convert::Infallible, Failed> {
    if let Some(id) = launch.plan.drop_to {
        layers.push(become_unused(id)?);
    }
    layers.push(prepare_to_end(launch.plan.supervision)?);
    let itself = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(itself))
        .map_err(|error| Failed::errno(STAGE, "collecting orphans", error))?;
    layers.extend(
        launch.plan.watch.as_ref().map(|_| enforced_with("limits of the whole run", "watched".to_owned())),
    );
    let signals = supervise::child_signals()?;
    let (mine, workers) = deputy_sockets(launch)?;
    launch.clock.mark("monitor");
    // SAFETY: the launcher has a single thread.
    match unsafe { sys::fork() }.map_err(|error| Failed::io(STAGE, "fork", &error))? {
        Forked::Child => {
            // Should the kernel end the monitor for want of memory, the main program goes too.
            let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
            offer_for_ending();
            if let Some(workers) = workers {
                launch.answering = Answering::Deputy(workers);
            }
            launch.reporter.fail(&init::work(launch, layers))
        }
        Forked::Parent(worker) => {
            launch.channel = None;
            super::silence(&[1, 2])?;
            let _pinned = pin(launch, worker);
            become_unreachable()?;
            let view = View::descendants()
                .map_err(|error| Failed::errno(STAGE, "opening the process file system", error))?;
            let watcher = launch.plan.watch.clone().map(|plan| Watcher::new(plan, view, None));
            drop(workers);
            let deputy = deputy(launch, mine)?;
            let phase = supervise::Phase::Running;
            Supervised { worker, signals, watcher, scratch: None, phase, deputy, finish }.wait(launch)
        }
    }
}

/// Where the server is root: an unused user for everything from here on.
fn become_unused(id: u32) -> Result<LayerStatus, Failed> {
    caps::drop_bounding()?;
    namespaces::drop_to(id).map_err(|error| Failed::io("identity", format!("becoming user {id}"), &error))?;
    Ok(enforced_with("unused user", id.to_string()))
}

fn prepare_to_end(supervision: Supervision) -> Result<LayerStatus, Failed> {
    let name = "signal scope";
    match supervision {
        Supervision::ScopeMonitor => scope::enter().map(|()| enforced(name)),
        _ => Ok(absent(name, "the run is ended by its family tree")),
    }
}

type Pair = (Option<OwnedFd>, Option<OwnedFd>);

/// The way of the deputy's descriptor from the worker to this process, where the plan has a deputy.
fn deputy_sockets(launch: &Launch) -> Result<Pair, Failed> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    if launch.plan.deputy.is_none() {
        return Ok((None, None));
    }
    let (mine, workers) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(|error| Failed::errno(STAGE, "making a socket pair", error))?;
    Ok((Some(mine), Some(workers)))
}

/// Waits until the worker has its filter. A worker that fails before sends nothing, and is collected as any other.
fn deputy(launch: &Launch, socket: Option<OwnedFd>) -> Result<Option<Deputy>, Failed> {
    let listener = socket.and_then(|socket| sys::rights::receive_one(&socket));
    let both = listener.zip(launch.plan.deputy.as_ref());
    both.map(|(listener, plan)| Deputy::new(listener, plan)).transpose()
}

/// Rules for files of the process file system hold as long as the kernel remembers their names: held open here, it
/// does so until the end of the run, however short of memory it is.
fn pin(launch: &Launch, worker: i32) -> Vec<OwnedFd> {
    let files = launch.plan.landlock.as_ref().and_then(|plan| plan.files.as_ref());
    let names = files.into_iter().flat_map(|files| files.list.iter().chain(&files.read));
    names
        .filter_map(|name| name.strip_prefix("/proc").ok())
        .filter_map(|name| {
            let name = match name.strip_prefix("self") {
                Ok(own) => std::path::Path::new("/proc").join(worker.to_string()).join(own),
                Err(_) => std::path::Path::new("/proc").join(name),
            };
            // One that is gone needs no holding.
            rustix::fs::open(&name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()
        })
        .collect()
}

/// Nothing of the run can trace this process or read its memory. Root's own run could anyhow, and its folder is
/// removed with root's rights.
fn become_unreachable() -> Result<(), Failed> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    caps::drop_all()?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| Failed::errno(STAGE, "becoming undumpable", error))
}

/// Best effort: without it the kernel chooses by size alone.
fn offer_for_ending() {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(own) = rustix::fs::open("/proc/self", flags, Mode::empty()) {
        let _ = sys::offer_for_ending(own.as_fd());
    }
}

/// Ends what is left of the run and removes its folders.
fn finish(launch: &Launch) {
    match launch.plan.supervision {
        Supervision::ScopeMonitor => scope::end_all(),
        _ => family::end_all(),
    }
    for folder in &launch.plan.remove_after {
        cleanup::remove_folder(folder);
    }
}
