//! A script that ignores every signal and multiplies still ends at its deadline.

use crate::harness::{Ground, Options, Property};

pub const PROPERTY: Property =
    Property::steps("deadline", "Nothing of a run outlives its deadline", steps);

fn steps(ground: &Ground) -> Result<(), String> {
    let marker = ground.marker();
    let args = [("marker".to_owned(), marker.clone().into()), ("wait".to_owned(), true.into())];
    let script = ground.script(super::daemons::HIDE, &args.into_iter().collect(), &[]);
    // The last of two --timeout flags would be refused: the limit for all calls does the same.
    let flags = ["--max-timeout", "8", "--default-timeout", "8"];
    let output = ground.inside(&script, &flags, &Options::default())?;
    let left = ground.processes_with(&marker);
    ground.end_processes_with(&marker);
    if !String::from_utf8_lossy(&output.stdout).contains("ready") {
        return Err(format!("the script did not get going: {}", String::from_utf8_lossy(&output.stderr)));
    }
    match (output.status.code(), left.is_empty()) {
        (Some(124), true) => Ok(()),
        (code, true) => Err(format!("exit code {code:?}, not 124")),
        (_, false) => Err(format!("left behind: {left:?}")),
    }
}
