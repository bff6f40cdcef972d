//! The terminal that the server was started from.

use crate::harness::{Ground, Property, Stage, case};

pub const PROPERTY: Property = Property::probe(
    "callers_terminal",
    "A script has no controlling terminal and no descriptor of one",
    r#"
attempt("/dev/tty", opened("/dev/tty", os.O_RDWR))
attempt("session", lambda: "own" if os.getsid(0) == os.getpid() else "another")
attempt("streams", lambda: "terminal" if any(os.isatty(number) for number in range(16)) else "none")
def consoles():
    for name in os.listdir("/dev"):
        if name.startswith(("tty", "console", "vcs", "pts")) and name != "pts" or (name == "pts" and set(os.listdir("/dev/pts")) - {"ptmx"}):
            return "some"
    return "none"
attempt("consoles", consoles)
"#,
    &[
        case("/dev/tty", "ok", "ENOENT"),
        case("session", "*", "own"),
        case("streams", "terminal", "none"),
        case("consoles", "some", "none").confined("EACCES"),
    ],
)
.staged(stage)
.known_as(&["CVE-2017-5226", "CVE-2016-7545"]);

fn stage(_: &Ground) -> Result<Stage, String> {
    let mut stage = Stage::default();
    stage.options.by = Some(
        "import fcntl, termios\nchild = os.fork()\nif child:\n    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n\
         os.setsid()\nleader, follower = os.openpty()\nfcntl.ioctl(follower, termios.TIOCSCTTY, 0)\n\
         os.set_inheritable(leader, True)\nos.set_inheritable(follower, True)",
    );
    Ok(stage)
}
