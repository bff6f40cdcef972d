//! Limits of a process, which it may lower and not raise.

use crate::harness::{Ground, Property, case};

pub const PROPERTY: Property = Property::probe(
    "raising_limits",
    "A script cannot raise its limits, and leaves no core file",
    r#"
def raised(which):
    def tried():
        soft, hard = resource.getrlimit(which)
        try:
            resource.setrlimit(which, (soft, hard + 1 if hard >= 0 else hard))
        except ValueError:
            raise OSError(errno.EPERM, "limit")
        return "unlimited" if hard < 0 else "ok"
    return in_child(tried)

attempt("processes", raised(resource.RLIMIT_NPROC))
attempt("descriptors", raised(resource.RLIMIT_NOFILE))
attempt("private memory", raised(resource.RLIMIT_DATA))
attempt("file size", raised(resource.RLIMIT_FSIZE))
attempt("core files", raised(resource.RLIMIT_CORE))
attempt("core files, at most", lambda: "none" if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0 else "some")
attempt("priority", in_child(lambda: os.nice(-5) and None))
attempt("real-time scheduling", in_child(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))))
def crash():
    folder = f"{SCRATCH}/crash-{os.getpid()}"
    os.mkdir(folder)
    os.chdir(folder)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGSEGV)
    status = os.waitpid(child, 0)[1]
    return "core" if os.WCOREDUMP(status) or os.listdir(folder) else "no core"
attempt("a crash", crash)
"#,
    &[
        // Root of a container's own user namespace raises none.
        case("processes", "unlimited|EPERM", "EPERM").outside_root("unlimited|ok|EPERM"),
        // Root cannot have more than fs.nr_open either.
        case("descriptors", "EPERM", "EPERM").outside_root("ok|EPERM").seccomp("EPERM"),
        case("private memory", "unlimited|EPERM", "EPERM").outside_root("unlimited|ok|EPERM").seccomp("EPERM"),
        case("file size", "unlimited|EPERM", "EPERM").outside_root("unlimited|ok|EPERM").seccomp("EPERM"),
        case("core files", "unlimited|EPERM", "EPERM").outside_root("unlimited|ok|EPERM").seccomp("EPERM"),
        case("core files, at most", "some|none", "none").seccomp("none"),
        case("priority", "EPERM|EACCES", "EPERM|EACCES").outside_root("ok"),
        case("real-time scheduling", "EPERM", "EPERM").outside_root("ok"),
        case("a crash", "*", "no core"),
    ],
)
.uncontrolled_where(limited_outside);

/// The same limits stand outside, where only root may raise them.
fn limited_outside(ground: &Ground) -> Option<String> {
    use rustix::process::{Resource, getrlimit};
    let limited = [Resource::Nproc, Resource::Data, Resource::Fsize].map(getrlimit).iter().all(|limit| limit.maximum.is_some());
    let limited = limited && getrlimit(Resource::Core).maximum == Some(0);
    (limited && !ground.user.is_root).then(|| "this user's processes, data, files and core files are limited outside, too".to_owned())
}
