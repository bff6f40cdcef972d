//! A file that several runs see can be locked by one of them: no lock of the server may depend on such a file.

use std::io::{BufRead, BufReader};

use crate::harness::{Ground, Options, Property};

pub const PROPERTY: Property = Property::steps(
    "file_locks",
    "A script that locks every file it can open holds up no other run",
    steps,
);

const LOCK: &str = r#"
held = []
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
for top in (sys.prefix, os.path.dirname(sys.prefix), os.path.dirname(os.path.dirname(sys.prefix)), os.path.dirname(os.path.realpath(sys.executable))):
    for folder, _, names in os.walk(top):
        for name in [".", *names][:20]:
            try:
                file = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NONBLOCK)
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                held.append(file)
            except OSError:
                pass
            if len(held) > 400:
                break
print("locked", len(held) > 3, flush=True)
time.sleep(600)
"#;

fn steps(ground: &Ground) -> Result<(), String> {
    let none = serde_json::Map::new();
    let mut holder = ground.start_inside(&ground.script(LOCK, &none, &[]), &[], &Options::default())?;
    let lines = holder.stdout.take().map(|stdout| BufReader::new(stdout).lines());
    let locked = lines.is_some_and(|mut lines| lines.any(|line| line.is_ok_and(|line| line == "locked True")));
    let second = ground.inside(&ground.script("", &none, &[]), &["--max-timeout", "30"], &Options::default());
    let _ = holder.kill();
    let _ = holder.wait();
    let second = second?;
    if !locked {
        return Err("the first script locked nothing".to_owned());
    }
    if String::from_utf8_lossy(&second.stdout).contains("@end") { return Ok(()) }
    Err(format!("the second run was held up: {}", String::from_utf8_lossy(&second.stderr)))
}
