//! A signal to every process: those of the same user outside must not be among them.

use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::harness::{Ground, Property, Stage, case};

pub const PROPERTY: Property = Property::probe(
    "killing_everybody",
    "A signal to all processes ends nobody outside",
    r#"
attempt("before", lambda: "here")
canary = ARGS["canary"]
if PRIVATE:
    # Out of reach of this namespace: another one stands in its place.
    canary = os.fork()
    if canary == 0:
        signal.pause()

def everybody():
    child = os.fork()
    if child == 0:
        signal.pause()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.kill(-1, signal.SIGTERM)
    return "child ended" if os.waitpid(child, 0)[1] == signal.SIGTERM else "something else"

attempt("everybody", everybody)

def the_canary():
    os.kill(canary, 0)
    return "ended" if os.waitpid(canary, 0)[1] == signal.SIGTERM else "something else"

attempt("the canary", the_canary)
attempt("process 1", lambda: os.kill(1, signal.SIGKILL))
"#,
    &[
        case("before", "here", "here"),
        case("everybody", "child ended", "child ended").namespaces("child ended"),
        // Afterwards the real one is looked at from outside.
        case("the canary", "ended", "ESRCH").namespaces("ESRCH"),
        case("process 1", "ok", "ok|EPERM").namespaces("ok"),
    ],
)
.privately()
.staged(stage);

fn stage(ground: &Ground) -> Result<Stage, String> {
    let mut command: Command = ground.command("/bin/sleep", &crate::harness::Options::default());
    command.arg("600").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let canary = command.spawn().map_err(|error| error.to_string())?;
    let pid = canary.id();
    let canary = Arc::new(Mutex::new(Canary(canary)));
    let mut stage = Stage::with("canary", pid).hold(Arc::clone(&canary));
    stage.afterwards = Some(Box::new(move || {
        let mut canary = canary.lock().map_err(|error| error.to_string())?;
        match canary.0.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("the canary outside has ended: {status}")),
            Err(error) => Err(error.to_string()),
        }
    }));
    Ok(stage)
}

struct Canary(Child);

impl Drop for Canary {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
