//! The child side: carries a launch plan out, layer by layer, and executes the program.
//!
//! It is a process of its own, forked from the nursery, which is the same binary re-executed, with one thread as long as
//! it forks, so that it may allocate freely. Three processes at most: the guard (outside), the init (process 1 of the run's
//! process namespace) and the worker, which becomes the program. Without namespaces, a monitor takes the place of the
//! first two. Where a run has control groups, a keeper stays outside of them.
//!
//! Invariants: it decides nothing, it knows only the plan; a layer that cannot be set up ends the run; what was
//! enforced is reported, not assumed. It never knows scripts, packages, MCP, tokio or tracing.

mod caps;
pub mod cleanup;
mod deputy;
mod exec;
mod family;
mod guard;
mod init;
mod keeper;
mod landlock;
mod limits;
mod memory_files;
mod monitor;
mod mounts;
mod namespaces;
pub mod nursery;
mod receive;
mod scope;
mod seccomp;
mod selftest;
mod stage;
pub mod status;
mod supervise;
pub mod sys;
mod watch;

use std::os::fd::{AsFd, OwnedFd};

use crate::sandbox::linux::plan::{Groundwork, LaunchPlan, Supervision};
use keeper::EndedForMemory;
use receive::Reporter;
use stage::{Clock, Failed};

/// Length in bytes of the longest Unix path; also a bound for small reads.
const COPY_BUFFER: usize = 64 << 10;

/// A launch whose plan is not known yet.
struct Early {
    groundwork: Groundwork,
    reporter: Reporter,
    clock: Clock,
    /// Of the run's control groups.
    ended_for_memory: Vec<EndedForMemory>,
}

/// Everything that the processes of one launch share.
struct Launch {
    plan: LaunchPlan,
    reporter: Reporter,
    /// Steps of the root that were carried out before the plan came.
    steps_done: usize,
    /// The far end of the program's private channel.
    channel: Option<OwnedFd>,
    clock: Clock,
    /// In the worker.
    answering: Answering,
    /// Of the run's control groups.
    ended_for_memory: Vec<EndedForMemory>,
}

/// Who answers calls that the worker's filters hold up: the kernel takes one listener for each process. It is handed over
/// through a socket.
enum Answering {
    /// The server, where the policy asks anybody.
    Server,
    /// The run's deputy.
    Deputy(OwnedFd),
    /// The supervisor, for files in memory.
    Supervisor(OwnedFd),
}

/// The hidden argument that makes this program the nursery of launchers.
pub const NURSERY: &str = "__launchers";

/// Takes this process over where its first argument says so.
pub fn enter_if_asked() {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == NURSERY) {
        nursery::main();
    }
}

/// Reads a plan from the socket, carries it out and never returns.
fn launch(socket: OwnedFd) -> ! {
    let clock = Clock::start();
    // A session of its own from the start: the scheduler weighs sessions against each other.
    let _ = rustix::process::setsid();
    let reporter = Reporter::new(socket);
    let groundwork = match reporter.receive_groundwork() {
        Ok(received) => received,
        Err(error) => reporter.fail(&Failed::io("plan", "reading what comes first", &error)),
    };
    let mut early = Early { groundwork, reporter, clock, ended_for_memory: Vec::new() };
    early.clock.mark("start");
    let layer = match keeper::start(&mut early) {
        Ok(layer) => layer,
        Err(failed) => early.reporter.fail(&failed),
    };
    let layers = layer.into_iter().collect();
    match early.groundwork.supervision {
        Supervision::ProcessNamespace => guard::run(early, layers),
        Supervision::ScopeMonitor | Supervision::Subreaper => monitor::run(early.receive_plan(), layers),
    }
}

impl Early {
    /// Goes on with the plan.
    fn receive_plan(self) -> Launch {
        let Self { groundwork, reporter, mut clock, ended_for_memory } = self;
        let (rest, channel) = match reporter.receive_plan() {
            Ok(received) => received,
            Err(error) => reporter.fail(&Failed::io("plan", "reading the plan", &error)),
        };
        if groundwork.ahead {
            // What counts is what the call waits for.
            clock = Clock::start();
        }
        let steps_done = groundwork.steps().len();
        let Some(plan) = groundwork.and(rest) else {
            reporter.fail(&Failed::plain("plan", "it goes on from other ground"));
        };
        clock.mark("plan");
        Launch { plan, steps_done, reporter, channel, clock, answering: Answering::Server, ended_for_memory }
    }
}

/// Exit code of a launcher that was not started by the server.
const EXIT_UNUSABLE: i32 = 125;

/// Opens `/dev/null` as descriptors that the launcher itself no longer needs.
fn silence(descriptors: &[i32]) -> Result<(), Failed> {
    use rustix::fs::{Mode, OFlags};
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| Failed::errno("descriptors", "opening /dev/null", error))?;
    for &number in descriptors {
        sys::place(null.as_fd(), number)
            .map_err(|error| Failed::io("descriptors", "closing a descriptor", &error))?;
    }
    Ok(())
}
