//! The server itself: its start, its memory, large output, and what a thousand runs leave behind.

use std::process::Command;
use std::time::{Duration, Instant};

use super::NO_POOL;
use crate::client::Server;
use crate::contestants::{Call, Contestant, Direct, Times, race};
use crate::jails;
use crate::machine;
use crate::numbers::{mebibytes, milliseconds, percentile};
use crate::report::Report;
use crate::setting::{HELLO, Setting};

/// From the start of the process to its answer to `initialize`.
pub fn startup(setting: &Setting, report: &mut Report) -> Result<(), String> {
    let script = setting.script("hello.py", HELLO)?;
    let mut bare = Direct::python("bare python", &setting.python, &script);
    let mut all = [Times::new("bare python"), Times::new("start to initialize")];
    for _ in 0..setting.flags.rounds {
        let started = Instant::now();
        bare.once()?;
        all[0].total.push(started.elapsed());
        all[1].total.push(Server::start(setting, &NO_POOL)?.start);
    }
    report.race("start", &all);
    if let Some(program) = &setting.flags.python_program {
        let start = Server::greet(Command::new(program))?.start;
        report.figure("the Python program, start to initialize", milliseconds(start), "ms");
    }
    Ok(())
}

/// How long memory may take to settle after the last answer.
const SETTLING: Duration = Duration::from_secs(2);

/// An idle server that has answered one call, without and with waiting sandboxes.
pub fn memory(setting: &Setting, report: &mut Report) -> Result<(), String> {
    let mut server = Server::start(setting, &NO_POOL)?;
    server.run(HELLO, &[])?;
    std::thread::sleep(SETTLING);
    let tree = machine::tree(server.pid());
    report.figure("idle server, pool off", mebibytes(machine::proportional_memory(&tree)?), "MiB");
    let mut before = 0.0;
    for slots in [1_u8, 5] {
        let mut server = Server::start(setting, &["--pool-size", &slots.to_string()])?;
        // A shelf grows with the calls that it gets.
        for _ in 0..2 * slots {
            server.run(HELLO, &[])?;
        }
        std::thread::sleep(SETTLING);
        let tree = machine::tree(server.pid());
        let all = mebibytes(machine::proportional_memory(&tree)?);
        report.figure(&format!("idle server, {slots} waiting at most"), all, "MiB");
        report.figure(&format!("processes, {slots} waiting at most"), f64::from(count(tree.len())), "");
        if slots == 1 {
            before = all;
        } else {
            report.figure("one more waiting sandbox", (all - before) / f64::from(slots - 1), "MiB");
        }
    }
    Ok(())
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Prints 100 MB in blocks.
const FLOOD: &str =
    "import sys\nblock = b'x' * 65535 + b'\\n'\nfor _ in range(1526):\n    sys.stdout.buffer.write(block)\n";

/// 100 MB of output into the usual limit.
pub fn output(setting: &Setting, report: &mut Report) -> Result<(), String> {
    let script = setting.script("flood.py", FLOOD)?;
    let shell = format!(
        "{} {} | {{ head -c 102400 | tail -c 10; cat >/dev/null; }}",
        setting.python.display(),
        script.display()
    );
    let shell =
        Direct::new("bare python into cat", [jails::find("sh")?.into_os_string(), "-c".into(), shell.into()]);
    let ours = Call::ours(setting, "ours, pool off", &NO_POOL, FLOOD, &[])?;
    let mut contestants: Vec<Box<dyn Contestant>> = vec![Box::new(shell), Box::new(ours)];
    report.race("100 MB of output", &race(setting.flags.rounds / 3, &mut contestants)?);

    let mut server = Server::start(setting, &NO_POOL)?;
    server.run(HELLO, &[])?;
    let before = machine::peak_memory(server.pid()).unwrap_or(0);
    server.run(FLOOD, &[])?;
    let after = machine::peak_memory(server.pid()).unwrap_or(0);
    report.figure("more memory for 100 MB of output", mebibytes(after.saturating_sub(before)), "MiB");
    Ok(())
}

/// A thousand runs: what is left of them.
pub fn leaks(setting: &Setting, report: &mut Report) -> Result<(), String> {
    const RUNS: u32 = 1000;
    for (name, flags) in [("pool off", &NO_POOL[..]), ("pool", &[])] {
        let mut server = Server::start(setting, flags)?;
        for _ in 0..30 {
            server.run(HELLO, &[])?;
        }
        std::thread::sleep(SETTLING);
        let state = |server: &Server| -> Result<_, String> {
            let tree = machine::tree(server.pid());
            let memory = mebibytes(machine::proportional_memory(&tree[..1])?);
            let descriptors = machine::descriptors(server.pid());
            Ok((memory, [descriptors, tree.len(), machine::mounts()].map(count).map(f64::from)))
        };
        let before = state(&server)?;
        let mut times = Vec::new();
        for _ in 0..RUNS {
            let started = Instant::now();
            server.run(HELLO, &[])?;
            times.push(started.elapsed());
        }
        std::thread::sleep(SETTLING);
        let after = state(&server)?;
        report.figure(&format!("{name}: memory of the server, growth"), after.0 - before.0, "MiB");
        for (at, what) in ["descriptors", "processes", "mounts of the host"].into_iter().enumerate() {
            report.figure(&format!("{name}: {what}, growth"), after.1[at] - before.1[at], "");
        }
        report.figure(&format!("{name}: p99 of a call"), milliseconds(percentile(&times, 0.99)), "ms");
    }
    Ok(())
}
