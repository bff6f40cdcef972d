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

use crate::sandbox::facts::LayerStatus;
use crate::sandbox::linux::plan::{LaunchPlan, Supervision};
use keeper::EndedForMemory;
use receive::Reporter;
use stage::{Clock, Failed};

/// Length in bytes of the longest Unix path; also a bound for small reads.
const COPY_BUFFER: usize = 64 << 10;

/// Everything that the processes of one launch share.
struct Launch {
    plan: LaunchPlan,
    reporter: Reporter,
    /// The far end of the program's private channel.
    channel: Option<OwnedFd>,
    clock: Clock,
    /// In the worker.
    answering: Answering,
    /// Layers that stood before the supervisor started.
    layers: Vec<LayerStatus>,
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
    let mut reporter = Reporter::new(socket);
    let (plan, channel) = match reporter.receive_plan() {
        Ok(received) => received,
        Err(error) => reporter.fail(&Failed::io("plan", "reading the plan", &error)),
    };
    let mut launch = Launch {
        plan,
        reporter,
        channel,
        clock,
        answering: Answering::Server,
        layers: Vec::new(),
        ended_for_memory: Vec::new(),
    };
    launch.clock.mark("plan");
    match keeper::start(&mut launch) {
        Ok(layer) => launch.layers.extend(layer),
        Err(failed) => launch.reporter.fail(&failed),
    }
    let failed = match launch.plan.supervision {
        Supervision::ProcessNamespace => guard::run(&mut launch),
        Supervision::ScopeMonitor | Supervision::Subreaper => monitor::run(&mut launch),
    };
    launch.reporter.fail(&failed)
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
