//! Memory, semaphores and queues with names or keys, which programs of the user share.

use crate::harness::{Ground, Options, Property, Stage, case, eventually};

pub const PROPERTY: Property = Property::probe(
    "shared_memory",
    "A script sees none of the shared memory and queues outside",
    r#"
attempt("System V memory", lambda: syscall("shmget", ARGS["key"], 0, 0))
attempt("System V semaphores", lambda: syscall("semget", ARGS["key"], 0, 0))
attempt("System V queue", lambda: syscall("msgget", ARGS["key"], 0))
attempt("POSIX memory", opened(f"/dev/shm/escape-{ARGS['key']}"))
attempt("own", lambda: "usable" if syscall("shmget", 0, 4096, 0o1600) >= 0 else "")
attempt("/dev/shm", lambda: "empty" if os.listdir("/dev/shm") == [] else "not empty")
"#,
    &[
        case("System V memory", "ok", "ENOENT").namespaces("ENOENT"),
        case("System V semaphores", "ok", "ENOENT").namespaces("ENOENT"),
        case("System V queue", "ok", "ENOENT").namespaces("ENOENT"),
        // One folder for all of the user's programs, and ProcessPoolExecutor needs it.
        case("POSIX memory", "ok", "ENOENT").confined("ok|EACCES").namespaces("ENOENT").landlock("EACCES"),
        case("own", "*", "usable").confined("ENOSYS"),
        case("/dev/shm", "not empty", "empty").confined("EACCES").namespaces("empty"),
    ],
)
.staged(stage);

/// A process of the user that owns one of each until its standard input ends.
fn stage(ground: &Ground) -> Result<Stage, String> {
    let key = 0x0e5c_0000 + u32::from(std::process::id().to_le_bytes()[0]) * 256 + u32::from(ground.user.is_root);
    let owner = r#"
made = [syscall("shmget", ARGS["key"], 4096, 0o1600), syscall("semget", ARGS["key"], 1, 0o1600), syscall("msgget", ARGS["key"], 0o1600)]
path = f"/dev/shm/escape-{ARGS['key']}"
os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
open("made", "w").close()
sys.stdin.read()
syscall("shmctl", made[0], 0, None); syscall("semctl", made[1], 0, 0); syscall("msgctl", made[2], 0, None)
os.unlink(path)
"#;
    let stage = Stage::with("key", key);
    let script = ground.script(owner, &stage.args, &[]);
    let file = ground.file("owner.py", &script)?;
    let mut command = ground.command(crate::harness::python(), &Options::default());
    command.arg(file).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
    let owner = command.spawn().map_err(|error| error.to_string())?;
    let made = ground.folder.path().join("made");
    if !eventually(|| made.exists()) {
        return Err("the owner of shared memory did not start".to_owned());
    }
    Ok(stage.hold(Owner(owner)))
}

struct Owner(std::process::Child);

impl Drop for Owner {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
