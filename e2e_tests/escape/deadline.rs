//! A script that ignores every signal and multiplies still ends at its deadline.

use crate::harness::{Ground, Options, Property};

pub const PROPERTY: Property =
    Property::steps("deadline", "Nothing of a run outlives its deadline", steps);

fn steps(ground: &Ground) -> Result<(), String> {
    // An emulated machine may need most of the first for the start.
    match ends_after(ground, "8")? {
        Ending::BeforeItBegan(_) => match ends_after(ground, "60")? {
            Ending::BeforeItBegan(stderr) => Err(format!("the script did not get going: {stderr}")),
            Ending::Clean => Ok(()),
        },
        Ending::Clean => Ok(()),
    }
}

/// How a run came to its end, if it left nothing behind.
enum Ending {
    Clean,
    BeforeItBegan(String),
}

fn ends_after(ground: &Ground, seconds: &str) -> Result<Ending, String> {
    let marker = ground.marker();
    let args = [("marker".to_owned(), marker.clone().into()), ("wait".to_owned(), true.into())];
    let script = ground.script(super::daemons::HIDE, &args.into_iter().collect(), &[]);
    // The last of two --timeout flags would be refused: the limit for all calls does the same.
    let flags = ["--max-timeout", seconds, "--default-timeout", seconds];
    let output = ground.inside(&script, &flags, &Options::default())?;
    let left = ground.processes_with(&marker);
    ground.end_processes_with(&marker);
    let ready = String::from_utf8_lossy(&output.stdout).contains("ready");
    match (output.status.code(), left.is_empty()) {
        (Some(124), true) if ready => Ok(Ending::Clean),
        (Some(124), true) => Ok(Ending::BeforeItBegan(String::from_utf8_lossy(&output.stderr).into_owned())),
        (code, true) => Err(format!("exit code {code:?}, not 124")),
        (_, false) => Err(format!("left behind: {left:?}")),
    }
}
