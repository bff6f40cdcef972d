//! What the client sends to the server is not readable by a script, neither from its standard input nor by the
//! server's descriptors in `/proc`.

use crate::harness::{Ground, Property, Stage, case};

pub const PROPERTY: Property = Property::probe(
    "standard_input",
    "A script cannot read what the client sends to the server",
    r#"
def readable():
    return os.read(0, 100).decode() or "empty"

def by_proc():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) == os.getpid():
            continue
        try:
            with open(f"/proc/{pid}/fd/0"):
                if ARGS["folder"] in os.readlink(f"/proc/{pid}/cwd"):
                    return "a process of the caller"
        except OSError:
            pass
    return "none"

attempt("standard input", readable)
attempt("standard input of other processes", by_proc)
attempt("its kind", lambda: "device" if stat.S_ISCHR(os.fstat(0).st_mode) else "pipe")
"#,
    &[
        case("standard input", "request of the client", "empty"),
        case("standard input of other processes", "*", "none").confined("none|EACCES"),
        case("its kind", "pipe", "device"),
    ],
)
.staged(stage);

fn stage(ground: &Ground) -> Result<Stage, String> {
    let mut stage = Stage::with("folder", ground.folder.path().display().to_string());
    stage.options.stdin = Some("request of the client");
    Ok(stage)
}
