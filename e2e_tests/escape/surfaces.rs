//! What is left to touch, counted over a list of attempts that do no harm. The list is the same outside, where most of
//! them succeed.

use std::collections::BTreeSet;

use crate::harness::{Ground, Options, Property};
use crate::situation::Machine;

pub const PROPERTY: Property = Property::steps(
    "surfaces",
    "Of the list of surfaces a script reaches those that are named here and no others",
    steps,
);

/// What the full tier leaves, each on purpose.
const FULL: [&str; 6] = [
    // Paths that were bound, and nothing else of the host's mounts.
    "file: paths of the host in mountinfo",
    // Written for the sandbox: programs ask for their own name.
    "file: /etc/passwd",
    // The run's own: ProcessPoolExecutor needs it.
    "file: /dev/shm",
    // Limits are watched where no group can be had.
    "privilege: no control group of its own",
    // cffi's older callbacks; a file that is written and run does as much.
    "memory: writable and executable memory",
    // Programs that build and run a helper are ordinary.
    "memory: running a file from a writable folder",
];

/// What the confined tier leaves.
const CONFINED: [&str; 6] = [
    // The host's own: no other can be put in its place.
    "file: /etc/passwd",
    "privilege: host name",
    // Marks of files that nothing honours without new privileges, and devices that nobody can make.
    "privilege: set-user-ID files honoured",
    "privilege: device files honoured",
    // As in the full tier.
    "memory: writable and executable memory",
    "memory: running a file from a writable folder",
];

/// What older kernels leave beside it: they do not know the seal of files in memory.
const BEFORE_6_3: [&str; 1] = ["memory: running a file in memory"];

fn steps(ground: &Ground) -> Result<(), String> {
    let list = include_str!("surfaces.py");
    let outside = ground.start_outside(list, &Options::default())?;
    let outside = reached(&crate::harness::ground::finish(outside, &Options::default())?)?;
    if outside.len() < 60 {
        return Err(format!("control: {} surfaces are reached outside", outside.len()));
    }
    let inside = reached(&ground.inside(list, &["--network", "none"], &Options::default())?)?;
    let more: &[&str] = if Machine::look().kernel < (6, 3) { &BEFORE_6_3 } else { &[] };
    let usual = if ground.confined { &CONFINED } else { &FULL };
    let allowed: BTreeSet<String> = usual.iter().chain(more).map(|&name| name.to_owned()).collect();
    let more: Vec<&String> = inside.difference(&allowed).collect();
    if more.is_empty() { Ok(()) } else { Err(format!("{} are reached, among them {more:?}", inside.len())) }
}

/// The surfaces that a run of the list named.
fn reached(output: &std::process::Output) -> Result<BTreeSet<String>, String> {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let mut lines: BTreeSet<String> = stdout.lines().map(str::to_owned).collect();
    let count = stdout.lines().last().unwrap_or_default().to_owned();
    lines.remove(&count);
    if count.starts_with(&format!("reachable: {} of ", lines.len())) {
        return Ok(lines);
    }
    Err(format!("the list did not reach its end: {}", String::from_utf8_lossy(&output.stderr)))
}
