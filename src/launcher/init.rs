//! Process 1 of the run: puts the root together, starts the worker, collects orphans, tells how the worker ended.
//! Its own end is the end of every process of the run.

use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{DumpableBehavior, Signal};

use super::memory_files::{self, Keeper};
use super::mounts::{Leaving, Root};
use super::stage::{Failed, Worker, absent, enforced, enforced_with, partial};
use super::status::Message;
use super::supervise::{self, Supervised};
use super::sys::{self, Forked};
use super::watch::{Scratch, View, Watcher};
use super::{Early, Launch, caps, mounts, namespaces};
use crate::sandbox::facts::{LayerState, LayerStatus};
use crate::sandbox::linux::plan::RootStep;

const STAGE: &str = "init";

/// In a process namespace of its own.
pub fn in_namespace(mut early: Early, layers: Vec<LayerStatus>) -> ! {
    let builder = match lay_ground(&mut early) {
        Ok(builder) => builder,
        Err(failed) => early.reporter.fail(&failed),
    };
    let mut launch = early.receive_plan();
    let Err(failed) = run(&mut launch, builder, layers);
    launch.reporter.fail(&failed)
}

/// All that can be done before the plan is here.
fn lay_ground(early: &mut Early) -> Result<mounts::Builder, Failed> {
    die_with_guard()?;
    let Some(isolation) = &early.groundwork.isolation else {
        return Err(Failed::plain(STAGE, "no root is planned"));
    };
    let mut builder = mounts::Builder::begin(isolation)?;
    builder.carry_out(&isolation.root, mounts::Contents::none(&early.reporter))?;
    if early.groundwork.ahead {
        let told = early.reporter.send(&Message::Grounded, None);
        told.map_err(|error| Failed::io(STAGE, "reporting the ground", &error))?;
    }
    early.clock.mark("ground");
    Ok(builder)
}

fn run(
    launch: &mut Launch,
    mut builder: mounts::Builder,
    mut layers: Vec<LayerStatus>,
) -> Result<std::convert::Infallible, Failed> {
    let Some(isolation) = launch.plan.isolation.clone() else {
        return Err(Failed::plain(STAGE, "no root is planned"));
    };
    let left = &isolation.root[launch.steps_done..];
    builder.carry_out(left, mounts::Contents::of(&launch.plan.contents, &launch.reporter))?;
    let root = builder.enter(&isolation)?;
    // Files of the run are readable for others and writable for its user, as everywhere.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    launch.clock.mark("mounts");
    launch
        .reporter
        .send(&Message::Root, Some(root.work_dir.as_fd()))
        .map_err(|error| Failed::io(STAGE, "reporting the root", &error))?;
    let sealed = mounts::seal_memory_files(root.proc.as_ref());
    layers.insert(0, namespaces::become_unused(isolation.identity, root.proc.as_ref())?);
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
    let left = matches!(sealed.state, LayerState::Absent(_));
    let by_supervisor = left && memory_files::are_kept(&launch.plan);
    let sealed = if left && memory_files::are_kept_by_server(&launch.plan) {
        enforced_with(memory_files::LAYER, "by the server".to_owned())
    } else {
        sealed
    };
    let keeper = by_supervisor.then(|| memory_files::arrange(launch)).transpose()?;
    layers.extend((!by_supervisor).then_some(sealed));
    layers.extend(watched(launch, root.proc.is_some()));
    start_worker(launch, layers, root, keeper)
}

/// The layer of limits that are watched, where they are.
fn watched(launch: &Launch, processes_are_seen: bool) -> Option<LayerStatus> {
    let name = "limits of the whole run";
    launch.plan.watch.as_ref()?;
    Some(if processes_are_seen {
        enforced_with(name, "watched".to_owned())
    } else {
        absent(name, "the processes of the run are not seen")
    })
}

fn die_with_guard() -> Result<(), Failed> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Failed::errno(STAGE, "asking for the guard's death signal", error))
}

/// Starts the worker; this process goes on as the init.
fn start_worker(
    launch: &mut Launch,
    layers: Vec<LayerStatus>,
    root: Root,
    keeper: Option<Keeper>,
) -> Result<std::convert::Infallible, Failed> {
    let signals = supervise::child_signals()?;
    // SAFETY: the launcher has a single thread.
    match unsafe { sys::fork() }.map_err(|error| Failed::io(STAGE, "fork", &error))? {
        Forked::Child => {
            if let Err(failed) = mounts::show_own_process(launch.plan.steps()) {
                launch.reporter.fail(&failed);
            }
            offer_for_ending(root.proc.as_ref());
            launch.reporter.fail(&work(launch, layers))
        }
        Forked::Parent(worker) => {
            launch.channel = None;
            super::silence(&[1, 2])?;
            become_unreachable(root.leaving)?;
            let scratch = root.work_dir.try_clone().ok().map(Scratch::new);
            let watcher = launch.plan.watch.clone().zip(root.proc).map(|(plan, proc)| {
                Watcher::new(plan, View::Namespace(proc), root.work_dir.try_clone().ok())
            });
            keeper.map(|keeper| keeper.serve(launch)).transpose()?;
            let phase = supervise::Phase::first(&launch.plan);
            Supervised { worker, signals, watcher, scratch, phase, deputy: None, finish: end_all }
                .wait(launch)
        }
    }
}

/// Ends what is left of the run and collects it. The end of this process would do that as well, but the kernel takes the
/// mounts apart first, for which nobody has to wait who only wants to know that no process is left.
fn end_all(_: &Launch) {
    // Process 1 reaches nothing but its own namespace; whoever is not process 1 would reach much more.
    while rustix::process::getpid().is_init() && sys::has_children() {
        let _ = sys::kill_all_in_reach(Signal::KILL.as_raw());
        sys::wait_for_child();
        // Each signal to all walks all processes of the machine.
        while sys::reap().is_some() {}
    }
}

/// Best effort: without it the kernel chooses by size alone.
fn offer_for_ending(proc: Option<&OwnedFd>) {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let own = proc.and_then(|proc| rustix::fs::openat(proc, "self", flags, Mode::empty()).ok());
    if let Some(own) = own {
        let _ = sys::offer_for_ending(own.as_fd());
    }
}

/// The worker: every layer in order, then the program.
pub fn work(launch: &Launch, layers: Vec<LayerStatus>) -> Failed {
    let plan = &launch.plan;
    let filtered = Worker::new(layers, launch.clock.clone())
        .limit(&plan.limits)
        .and_then(Worker::drop_privileges)
        .and_then(|worker| worker.restrict(plan.landlock.as_ref()))
        .and_then(|worker| worker.seal_memory_files(&launch.answering))
        .and_then(|worker| worker.see_host_left(plan.isolation.is_some()))
        .and_then(|worker| worker.filter(plan.seccomp.as_ref(), launch));
    match filtered {
        Ok(worker) => worker.run(launch),
        Err(failed) => failed,
    }
}

/// Nothing of the run can trace this process, read its memory or use what it was allowed. Its last right, to take the
/// host's root away, it uses first: the worker waits until that has been done.
fn become_unreachable(leaving: Leaving) -> Result<(), Failed> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| Failed::errno(STAGE, "becoming undumpable", error))?;
    rustix::thread::set_no_new_privs(true)
        .map_err(|error| Failed::errno(STAGE, "setting no_new_privs", error))?;
    if leaving == Leaving::Meanwhile {
        mounts::leave_host()?;
    }
    caps::drop_all().map(drop)
}
