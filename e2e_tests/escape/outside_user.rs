//! Who a script is outside, should it ever get there: with a server of root neither root nor a user that anything
//! else runs as.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;

use crate::harness::{Ground, Need, Options, Property};

pub const PROPERTY: Property = Property::steps(
    "outside_user",
    "With a server of root, every run is an unused user outside, another one than any run at the same time",
    steps,
)
.needs(&[Need::Root]);

fn steps(ground: &Ground) -> Result<(), String> {
    let (first, second) = (one(ground)?, one(ground)?);
    let ids = [first.1.clone(), second.1.clone()];
    for mut run in [first.0, second.0] {
        let _ = run.kill();
        let _ = run.wait();
    }
    let [first, second] = ids;
    let known = [0, 65534];
    if first.is_empty() || second.is_empty() || first.iter().chain(&second).any(|id| known.contains(id)) {
        return Err(format!("users outside: {first:?} and {second:?}"));
    }
    if first == second { Err(format!("both runs are {first:?}")) } else { Ok(()) }
}

/// Starts a run that waits; it and the users of its processes as the host sees them.
fn one(ground: &Ground) -> Result<(std::process::Child, Vec<u32>), String> {
    let marker = ground.marker();
    let args = [("marker".to_owned(), marker.clone().into()), ("wait".to_owned(), true.into())];
    let script = ground.script(super::daemons::HIDE, &args.into_iter().collect(), &[]);
    let mut run = ground.start_inside(&script, &[], &Options::default())?;
    let lines = run.stdout.take().map(|stdout| BufReader::new(stdout).lines());
    if !lines.is_some_and(|mut lines| lines.any(|line| line.is_ok_and(|line| line == "ready"))) {
        let _ = run.kill();
        return Err("the script did not start".to_owned());
    }
    let owner = |pid: &u32| std::fs::metadata(format!("/proc/{pid}")).map(|about| about.uid()).ok();
    let mut users: Vec<u32> = ground.processes_with(&marker).iter().filter_map(owner).collect();
    users.sort_unstable();
    users.dedup();
    Ok((run, users))
}
