//! A process that leaves its group, its session and its parent still ends with its run.

use crate::harness::{Ground, Options, Property, eventually};

pub const PROPERTY: Property =
    Property::steps("daemons", "No process outlives its run, however it hides", steps);

/// Starts processes whose command lines hold the marker, and prints `ready`.
pub const HIDE: &str = r#"
def sleeper():
    os.execv("/bin/sleep", [ARGS["marker"], "600"])

def daemon(ignore):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            if ignore:
                for number in range(1, 65):
                    try:
                        signal.signal(number, signal.SIG_IGN)
                    except (OSError, ValueError):
                        pass
            null = os.open("/dev/null", os.O_RDWR)
            for number in range(3):
                os.dup2(null, number)
            sleeper()
        os._exit(0)

for ignore in (False, True):
    daemon(ignore)
if os.fork() == 0:
    sleeper()
time.sleep(0.2)
print("ready", flush=True)
if ARGS["wait"]:
    time.sleep(600)
"#;

fn steps(ground: &Ground) -> Result<(), String> {
    let marker = ground.marker();
    let args = [("marker".to_owned(), marker.clone().into()), ("wait".to_owned(), false.into())];
    let script = ground.script(HIDE, &args.into_iter().collect(), &[]);
    let output = ground.inside(&script, &[], &Options::default())?;
    if !String::from_utf8_lossy(&output.stdout).contains("ready") {
        return Err(format!("the script did not run: {}", String::from_utf8_lossy(&output.stderr)));
    }
    // Gone already when the server says that the run has ended.
    let left = ground.processes_with(&marker);
    if !left.is_empty() {
        return Err(format!("left behind: {left:?}"));
    }
    control(ground, &marker)
}

/// The same outside leaves all three.
fn control(ground: &Ground, marker: &str) -> Result<(), String> {
    let args = [("marker".to_owned(), marker.into()), ("wait".to_owned(), false.into())];
    let script = ground.script(HIDE, &args.into_iter().collect(), &[]);
    let mut child = ground.start_outside(&script, &Options::default())?;
    let seen = eventually(|| ground.processes_with(marker).len() == 3);
    ground.end_processes_with(marker);
    let _ = child.wait();
    if seen { Ok(()) } else { Err("the control found no process to leave behind".to_owned()) }
}
