//! Processes without end: bounded while the run lives, gone with it.

use std::os::unix::fs::MetadataExt;

use crate::harness::{Ground, Options, Property};
use crate::situation::Machine;

pub const PROPERTY: Property = Property::steps(
    "fork_bomb",
    "A script that only forks reaches a bound, and leaves nobody behind",
    steps,
);

const BOMB: &str = r#"
# Children that cannot fork any more wait; the parent counts what it got.
made = 0
while made < 1500:
    try:
        if os.fork() == 0:
            try:
                os.execv("/bin/sleep", [ARGS["marker"], "600"])
            except OSError:
                signal.pause()
        made += 1
    except OSError as error:
        print("refused", errno.errorcode[error.errno], made, flush=True)
        break
"#;

/// How much the kernel's bound may be above the run's own number where it counts the user's other processes: it is set with a
/// guess of those, which is at least 64 and less than twice as many as there are. An unused user has none.
fn beside(ground: &Ground) -> u32 {
    let user = ground.user.ids.map_or_else(|| rustix::process::getuid().as_raw(), |(uid, _)| uid);
    if user == 0 {
        return 0;
    }
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let theirs = entries.filter(|entry| entry.metadata().is_ok_and(|meta| meta.uid() == user));
    let tasks = theirs.map(|entry| std::fs::read_dir(entry.path().join("task")).map_or(0, Iterator::count)).sum::<usize>();
    u32::try_from(tasks).unwrap_or(u32::MAX).max(64)
}

fn steps(ground: &Ground) -> Result<(), String> {
    let marker = ground.marker();
    let args = [("marker".to_owned(), marker.clone().into())];
    let script = ground.script(BOMB, &args.into_iter().collect(), &[]);
    let output = ground.inside(&script, &[], &Options::default())?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let left = ground.processes_with(&marker);
    ground.end_processes_with(&marker);
    let refused = stdout.lines().find_map(|line| line.strip_prefix("refused EAGAIN "));
    let made = refused.and_then(|count| count.parse::<u32>().ok());
    // Where the kernel counts all of a user's processes together, without namespaces and before Linux 5.14, the run is watched as
    // well, and ended where it goes too far.
    let together = ground.confined || Machine::look().kernel < (5, 14);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let named = stderr.contains("the script reached a limit: processes");
    let ended = together && made.is_none() && named && output.status.code() == Some(137);
    let most = 520 + if together { beside(ground) } else { 0 };
    match (made, left.is_empty()) {
        (None, true) if ended => Ok(()),
        (Some(made), true) if made <= most => Ok(()),
        (Some(made), true) => Err(format!("{made} processes were made")),
        (None, true) => {
            Err(format!("no bound was reached: {}, {stdout} {stderr}", output.status))
        }
        (_, false) => Err(format!("{} left behind", left.len())),
    }
}
