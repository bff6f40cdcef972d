//! Acts on processes by their number: signals, limits, priorities, affinity. A canary of the same user runs outside.

use std::process::{Command, Stdio};

use crate::harness::{Ground, Property, Stage, case};

pub const PROPERTY: Property = Property::probe(
    "other_processes",
    "A script cannot signal, limit, schedule or look at a process outside",
    r#"
pid = ARGS["canary"]
limits = ctypes.create_string_buffer(16)
attempt("signal 0", lambda: os.kill(pid, 0))
attempt("pidfd", lambda: os.close(syscall("pidfd_open", pid, 0)))
attempt("limits, read", lambda: syscall("prlimit64", pid, 7, None, limits))
attempt("limits, set", lambda: syscall("prlimit64", pid, 4, ctypes.create_string_buffer(struct.pack("QQ", 0, 0)), None))
# The lowest, which nobody needs a privilege for.
attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
attempt("io priority", lambda: syscall("ioprio_set", 1, pid, 3 << 13))
attempt("affinity", lambda: os.sched_setaffinity(pid, {0}))
attempt("scheduler", lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0)))
attempt("session", lambda: os.getsid(pid) and None)
attempt("pages", lambda: syscall("move_pages", pid, 0, None, None, None, 0))
attempt("/proc", lambda: open(f"/proc/{pid}/cmdline").read() and None)
attempt("owner of a pipe", lambda: fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, pid))
"#,
    &[
        case("signal 0", "ok", "ESRCH").namespaces("ESRCH").landlock("EPERM|ok"),
        case("pidfd", "ok", "ESRCH").confined("ok").namespaces("ESRCH"),
        case("limits, read", "ok", "ESRCH").namespaces("ESRCH"),
        case("limits, set", "ok", "ESRCH").namespaces("ESRCH"),
        case("priority", "ok", "ESRCH").namespaces("ESRCH"),
        case("io priority", "ok", "ESRCH").namespaces("ESRCH"),
        case("affinity", "ok", "ESRCH").namespaces("ESRCH"),
        case("scheduler", "ok", "ESRCH").namespaces("ESRCH"),
        case("session", "ok", "ESRCH").confined("ok").namespaces("ESRCH"),
        case("pages", "ok", "EPERM").namespaces("ESRCH"),
        case("/proc", "ok", "ENOENT").namespaces("ENOENT"),
        case("owner of a pipe", "ok", "ESRCH").confined("EINVAL").namespaces("ESRCH"),
    ],
)
.staged(stage);

fn stage(ground: &Ground) -> Result<Stage, String> {
    let mut command: Command = ground.command("/bin/sleep", &crate::harness::Options::default());
    command.arg("600").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let canary = Canary(command.spawn().map_err(|error| error.to_string())?);
    Ok(Stage::with("canary", canary.0.id()).hold(canary))
}

struct Canary(std::process::Child);

impl Drop for Canary {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
