//! Process 1 of the run: puts the root together, starts the worker, collects orphans, tells how the worker ended.
//! Its own end is the end of every process of the run.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{DumpableBehavior, Signal};

use super::memory_files::{self, Keeper};
use super::stage::{Failed, Worker, enforced, partial};
use super::status::Message;
use super::sys::{self, Ended, Forked};
use super::{Launch, caps, mounts, namespaces};
use crate::sandbox::facts::{LayerState, LayerStatus};
use crate::sandbox::linux::plan::RootStep;

const STAGE: &str = "init";

/// In a process namespace of its own.
pub fn in_namespace(launch: &mut Launch, layers: Vec<LayerStatus>) -> ! {
    let Err(failed) = run(launch, layers);
    launch.reporter.fail(&failed)
}

fn run(launch: &mut Launch, mut layers: Vec<LayerStatus>) -> Result<std::convert::Infallible, Failed> {
    die_with_guard()?;
    let Some(isolation) = launch.plan.isolation.clone() else {
        return Err(Failed::plain(STAGE, "no root is planned"));
    };
    let root = mounts::build(&isolation, &launch.plan.contents, &launch.reporter)?;
    // Files of the run are readable for others and writable for its user, as everywhere.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    launch.clock.mark("mounts");
    launch
        .reporter
        .send(&Message::Root, Some(root.work_dir.as_fd()))
        .map_err(|error| Failed::io(STAGE, "reporting the root", &error))?;
    let sealed = mounts::seal_memory_files(root.proc.as_ref());
    layers.insert(0, namespaces::become_unused(isolation.identity, root.proc.as_ref())?);
    drop(root);
    layers.push(enforced("root of its own"));
    if isolation.root.contains(&RootStep::OwnProc) {
        layers.push(partial(
            "/proc",
            "an outer container covers parts of its own: only the main program is shown",
        ));
    }
    // A change of user has cleared it.
    die_with_guard()?;
    launch.clock.mark("identity");
    // The kernel's setting is root's; what it refuses the supervisor does itself.
    let by_supervisor = matches!(sealed.state, LayerState::Absent(_)) && memory_files::are_kept(&launch.plan);
    let keeper = by_supervisor.then(|| memory_files::arrange(launch)).transpose()?;
    layers.extend((!by_supervisor).then_some(sealed));
    start_worker(launch, layers, keeper)
}

fn die_with_guard() -> Result<(), Failed> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Failed::errno(STAGE, "asking for the guard's death signal", error))
}

/// Starts the worker; this process goes on as the init.
fn start_worker(
    launch: &mut Launch,
    layers: Vec<LayerStatus>,
    keeper: Option<Keeper>,
) -> Result<std::convert::Infallible, Failed> {
    let signals = sys::child_signal_fd().map_err(|error| Failed::io(STAGE, "watching children", &error))?;
    // SAFETY: the launcher has a single thread.
    match unsafe { sys::fork() }.map_err(|error| Failed::io(STAGE, "fork", &error))? {
        Forked::Child => {
            let steps = launch.plan.isolation.as_ref().map_or(&[][..], |isolation| &isolation.root);
            match mounts::show_own_process(steps) {
                Ok(()) => launch.reporter.fail(&work(launch, layers)),
                Err(failed) => launch.reporter.fail(&failed),
            }
        }
        Forked::Parent(worker) => {
            launch.channel = None;
            super::silence(&[1, 2])?;
            become_unreachable()?;
            keeper.map(|keeper| keeper.serve(launch)).transpose()?;
            watch(launch, &signals, worker)
        }
    }
}

/// The worker: every layer in order, then the program.
pub fn work(launch: &Launch, layers: Vec<LayerStatus>) -> Failed {
    let plan = &launch.plan;
    let filtered = Worker::new(layers, launch.clock.clone())
        .limit(&plan.limits)
        .and_then(Worker::drop_privileges)
        .and_then(|worker| worker.restrict(plan.landlock.as_ref()))
        .and_then(|worker| worker.seal_memory_files(launch.sealing.as_ref()))
        .and_then(|worker| worker.filter(plan.seccomp.as_ref(), &launch.reporter));
    match filtered {
        Ok(worker) => worker.run(launch),
        Err(failed) => failed,
    }
}

/// Nothing of the run can trace this process, read its memory or use what it was allowed.
fn become_unreachable() -> Result<(), Failed> {
    caps::drop_all()?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| Failed::errno(STAGE, "becoming undumpable", error))?;
    rustix::thread::set_no_new_privs(true)
        .map_err(|error| Failed::errno(STAGE, "setting no_new_privs", error))
}

/// Collects children until the worker has ended, tells how, and ends. Ends at once when the server is gone.
fn watch(launch: &Launch, signals: &OwnedFd, worker: i32) -> ! {
    loop {
        while let Some(ended) = sys::reap() {
            if ended.pid == worker {
                let _ = launch.reporter.send(&exited(&ended), None);
                sys::exit_now(0);
            }
        }
        let mut watched =
            [PollFd::new(&launch.reporter, PollFlags::RDHUP), PollFd::new(signals, PollFlags::IN)];
        let _ = rustix::event::poll(&mut watched, None);
        if watched[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR) {
            sys::exit_now(0);
        }
        let mut drained = [0_u8; 1024];
        let _ = rustix::io::read(signals, &mut drained);
    }
}

pub fn exited(ended: &Ended) -> Message {
    let code = libc::WIFEXITED(ended.status).then(|| libc::WEXITSTATUS(ended.status));
    let signal = libc::WIFSIGNALED(ended.status).then(|| libc::WTERMSIG(ended.status));
    Message::Exited { code, signal, cpu_us: ended.cpu_us, peak_memory: ended.peak_memory }
}
