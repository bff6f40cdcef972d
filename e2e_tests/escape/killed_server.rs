//! The server is killed by a signal that it cannot handle; what it was running ends all the same.

use std::io::{BufRead, BufReader};

use crate::harness::{Ground, Options, Property, eventually};

pub const PROPERTY: Property =
    Property::steps("killed_server", "Nothing of a run outlives a server that is killed", steps);

fn steps(ground: &Ground) -> Result<(), String> {
    let marker = ground.marker();
    let args = [("marker".to_owned(), marker.clone().into()), ("wait".to_owned(), true.into())];
    let script = ground.script(super::daemons::HIDE, &args.into_iter().collect(), &[]);
    let mut server = ground.start_inside(&script, &[], &Options::default())?;
    let mut lines = server.stdout.take().map(|stdout| BufReader::new(stdout).lines());
    let ready = lines.as_mut().is_some_and(|lines| lines.any(|line| line.is_ok_and(|line| line == "ready")));
    let started = eventually(|| ground.processes_with(&marker).len() == 3);
    server.kill().map_err(|error| error.to_string())?;
    let _ = server.wait();
    if eventually(|| ground.processes_with(&marker).is_empty()) {
        return if ready && started { Ok(()) } else { Err("the script did not get going".to_owned()) };
    }
    let left = ground.processes_with(&marker);
    ground.end_processes_with(&marker);
    Err(format!("left behind: {left:?}"))
}
