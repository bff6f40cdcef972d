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

/// Runs after which something that is left of each cannot be missed.
const RUNS: u32 = 1000;

/// A shelf of the pool grows with the bursts that it sees, up to its bound: so many times a thousand runs are made until as
/// many sandboxes wait after them as did before.
const TURNS: usize = 4;

/// A thousand runs: what is left of them.
pub fn leaks(setting: &Setting, report: &mut Report) -> Result<(), String> {
    for (name, flags) in [("pool off", &NO_POOL[..]), ("pool", &[])] {
        let mut server = Server::start(setting, flags)?;
        for _ in 0..30 {
            server.run(HELLO, &[])?;
        }
        let mut after = Look::settled(&server)?;
        let mut before = Look::default();
        let mut times = Vec::new();
        for _ in 0..TURNS {
            before = after;
            times.clear();
            for _ in 0..RUNS {
                let started = Instant::now();
                server.run(HELLO, &[])?;
                times.push(started.elapsed());
            }
            after = Look::settled(&server)?;
            if after.waiting == before.waiting {
                break;
            }
        }
        for (look, when) in [(&before, "before"), (&after, "after")] {
            report.figure(
                &format!("{name}: sandboxes that waited {when}"),
                f64::from(count(look.waiting)),
                "",
            );
        }
        report.figure(&format!("{name}: memory of the server, growth"), after.memory - before.memory, "MiB");
        for (at, what) in ["descriptors", "processes", "mounts of the host"].into_iter().enumerate() {
            let [before, after] = [&before, &after].map(|look| f64::from(count(look.counts[at])));
            report.figure(&format!("{name}: {what}, growth"), after - before, "");
        }
        report.figure(&format!("{name}: p99 of a call"), milliseconds(percentile(&times, 0.99)), "ms");
    }
    Ok(())
}

/// What a server holds at one moment.
#[derive(Default)]
struct Look {
    /// Interpreters that wait.
    waiting: usize,
    /// Of the server itself, in MiB.
    memory: f64,
    /// Descriptors, processes of the tree, and mounts.
    counts: [usize; 3],
}

impl Look {
    /// Once the processes below the server have been the same for a while.
    fn settled(server: &Server) -> Result<Self, String> {
        let deadline = Instant::now() + 10 * SETTLING;
        let mut tree = machine::tree(server.pid());
        loop {
            std::thread::sleep(SETTLING);
            let now = machine::tree(server.pid());
            if now == tree {
                break;
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "the processes below the server change on and on: {tree:?}, then {now:?}"
                ));
            }
            tree = now;
        }
        Ok(Self {
            waiting: tree.iter().filter(|&&pid| machine::is_interpreter(pid)).count(),
            memory: mebibytes(machine::proportional_memory(&tree[..1])?),
            counts: [machine::descriptors(server.pid()), tree.len(), machine::mounts()],
        })
    }
}
