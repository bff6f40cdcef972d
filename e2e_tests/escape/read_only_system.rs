//! What lies outside the few writable folders cannot be changed: no new names, no writes, no attributes.

use crate::harness::{Ground, Property, Stage, case};

pub const PROPERTY: Property = Property::probe(
    "read_only_system",
    "A script can write in its scratch folders and nowhere else",
    r#"
def created(folder):
    path = os.path.join(folder, f".escape-{os.getpid()}")
    def tried():
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        os.unlink(path)
    return tried

for folder in ("/", "/usr", "/usr/bin", "/usr/lib", "/etc", "/etc/ssl/certs", "/dev", "/proc", "/var", "/home"):
    attempt(folder, created(folder))

attempt("a folder of the user's", created(ARGS["own"]))

def elsewhere():
    scratch = ("/work", "/tmp", "/var/tmp", "/home/sandbox", "/dev/shm")
    for folder, names, _ in os.walk("/"):
        if folder.startswith(scratch) or folder.startswith("/proc/"):
            continue
        if outcome_of(created(folder)) == "ok":
            return folder
    return "nowhere"

attempt("anywhere else", elsewhere)
mode = stat.S_IMODE(os.stat("/usr/bin/env").st_mode)
attempt("permissions", lambda: os.chmod("/usr/bin/env", mode))
attempt("times", lambda: os.utime("/usr/bin/env", ns=(os.stat("/usr/bin/env").st_atime_ns, os.stat("/usr/bin/env").st_mtime_ns)))
attempt("attributes", lambda: os.removexattr("/usr/bin/env", "user.none"))
attempt("by a hard link", lambda: (os.link("/usr/bin/env", f"{SCRATCH}/linked"), os.unlink(f"{SCRATCH}/linked")) and None)
attempt("removal", lambda: os.rename("/usr/bin/env", "/usr/bin/env2"))
"#,
    &[
        case("/", "EACCES", "EROFS|EACCES").outside_root("ok").namespaces("EROFS").landlock("EACCES"),
        case("/usr", "EACCES", "EROFS|EACCES").outside_root("ok").namespaces("EROFS|EACCES").landlock("EACCES"),
        case("/usr/bin", "EACCES", "EROFS|EACCES").outside_root("ok").namespaces("EROFS|EACCES").landlock("EACCES"),
        case("/usr/lib", "EACCES", "EROFS|EACCES").outside_root("ok").namespaces("EROFS|EACCES").landlock("EACCES"),
        case("/etc", "EACCES", "EROFS|EACCES").outside_root("ok").namespaces("EROFS|EACCES").landlock("EACCES"),
        case("/etc/ssl/certs", "EACCES|ENOENT", "EROFS|EACCES|ENOENT").outside_root("ok|ENOENT").namespaces("EROFS|EACCES|ENOENT"),
        case("/dev", "EACCES", "EROFS|EACCES").outside_root("ok").namespaces("EROFS"),
        case("/proc", "*", "EROFS|EACCES|ENOENT").namespaces("EROFS|EACCES|ENOENT"),
        case("/var", "EACCES", "EROFS|EACCES").outside_root("ok").namespaces("EROFS"),
        case("/home", "EACCES", "EROFS|EACCES").outside_root("ok").namespaces("EROFS"),
        case("a folder of the user's", "ok", "ENOENT").namespaces("ENOENT"),
        case("anywhere else", "*", "nowhere").confined("nowhere|EACCES"),
        // In the confined tier done without effect, and said to be done: shutil and pip ask for it.
        case("permissions", "EPERM", "EROFS|EPERM").confined("ok").outside_root("ok").namespaces("EROFS"),
        case("times", "EPERM|EACCES", "EROFS|EACCES|EPERM").confined("ok").outside_root("ok").namespaces("EROFS"),
        case("attributes", "*", "EROFS|EACCES|EPERM").confined("ok").namespaces("EROFS|EACCES|EPERM"),
        case("by a hard link", "*", "EXDEV|EPERM|EACCES").namespaces("EXDEV|EPERM|EACCES"),
        case("removal", "*", "EROFS|EACCES|EXDEV"),
    ],
)
.staged(|ground: &Ground| Ok(Stage::with("own", ground.folder.path().display().to_string())));
