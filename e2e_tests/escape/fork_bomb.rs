//! Processes without end: bounded while the run lives, gone with it.

use crate::harness::{Ground, Options, Property};

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
    // Without a namespace the run is watched, and ended where it goes too far.
    let ended = ground.confined && made.is_none() && output.status.code() == Some(137);
    // There the kernel's own bound is 512 beside what the user has already, and up to as many again as that.
    let most = if ground.confined { 1024 } else { 520 };
    match (made, left.is_empty()) {
        (None, true) if ended => Ok(()),
        (Some(made), true) if made <= most => Ok(()),
        (Some(made), true) => Err(format!("{made} processes were made")),
        (None, true) => {
            Err(format!("no bound was reached: {stdout} {}", String::from_utf8_lossy(&output.stderr)))
        }
        (_, false) => Err(format!("{} left behind", left.len())),
    }
}
