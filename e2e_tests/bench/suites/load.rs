//! Many calls: at the same time without a pause, and in bursts after one.

use std::time::{Duration, Instant};

use super::NO_POOL;
use crate::client::{Server, printed};
use crate::contestants::{Contestant, Direct, Times};
use crate::machine;
use crate::numbers::{milliseconds, percentile};
use crate::report::Report;
use crate::setting::{HELLO, Setting};

/// Calls of one burst.
const BURST: usize = 8;

/// Between bursts: an agent that thinks.
const PAUSE: Duration = Duration::from_millis(700);

/// Calls that are sent at once, after a pause: all of them answered.
pub fn bursts(setting: &Setting, report: &mut Report) -> Result<(), String> {
    let script = setting.script("hello.py", HELLO)?;
    let mut bare = Direct::python("bare python, one start", &setting.python, &script);
    let mut servers = [
        ("ours, pool", Server::start(setting, &["--max-concurrent", "16"])?),
        ("ours, pool off", Server::start(setting, &["--max-concurrent", "16", "--pool-size", "0"])?),
    ];
    let mut all = vec![Times::new(bare.name()), Times::new("ours, pool"), Times::new("ours, pool off")];
    for (_, server) in &mut servers {
        burst(server, BURST)?;
    }
    for _ in 0..setting.flags.rounds / 2 {
        std::thread::sleep(PAUSE);
        let started = Instant::now();
        bare.once()?;
        all[0].total.push(started.elapsed());
        for (which, (_, server)) in servers.iter_mut().enumerate() {
            let latest = burst(server, BURST)?.into_iter().max().unwrap_or_default();
            all[which + 1].total.push(latest);
        }
    }
    report.race("8 at once, the last answer", &all);
    Ok(())
}

/// Sends calls at once and gives the time of each answer.
fn burst(server: &mut Server, calls: usize) -> Result<Vec<Duration>, String> {
    let started = Instant::now();
    for _ in 0..calls {
        server.call(HELLO, &[])?;
    }
    let mut times = Vec::with_capacity(calls);
    for _ in 0..calls {
        let (_, result) = server.reply()?;
        printed(&result)?;
        times.push(started.elapsed());
    }
    Ok(times)
}

/// A stream of calls with so many open at a time.
pub fn concurrency(setting: &Setting, report: &mut Report) -> Result<(), String> {
    let script = setting.script("hello.py", HELLO)?;
    for open in [1_usize, 2, 4, 8, 16, 64] {
        let calls = (setting.flags.rounds * 2).max(open * 3);
        for (name, flags) in [("pool off", &NO_POOL[..]), ("pool", &[])] {
            let bare_before = bare_stream(setting, &script, open, calls / 2)?;
            let mut server = Server::start(setting, flags)?;
            burst(&mut server, 1)?;
            let ours = stream(&mut server, open, calls)?;
            let bare_after = bare_stream(setting, &script, open, calls / 2)?;
            let bare_throughput = f64::midpoint(bare_before.throughput, bare_after.throughput);
            let bare_cpu = (bare_before.cpu + bare_after.cpu) / 2;
            let label = |what: &str| format!("{open} open, {name}: {what}");
            report.figure(&label("throughput"), ours.throughput / bare_throughput, "x bare");
            report.figure(&label("runs in a second"), ours.throughput, "/s");
            report.figure(
                &label("processor time of a run"),
                ours.cpu.as_secs_f64() / bare_cpu.as_secs_f64().max(1e-9),
                "x bare",
            );
            for (share, part) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
                report.figure(&label(share), milliseconds(percentile(&ours.times, part)), "ms");
            }
        }
    }
    Ok(())
}

struct Stream {
    throughput: f64,
    cpu: Duration,
    times: Vec<Duration>,
}

impl Stream {
    fn new(started: Instant, cpu: Duration, times: Vec<Duration>) -> Self {
        let calls = u32::try_from(times.len()).unwrap_or(u32::MAX).max(1);
        Self { throughput: f64::from(calls) / started.elapsed().as_secs_f64(), cpu: cpu / calls, times }
    }
}

fn stream(server: &mut Server, open: usize, calls: usize) -> Result<Stream, String> {
    let before = machine::cpu_of_tree(server.pid());
    let started = Instant::now();
    let mut sent = std::collections::HashMap::new();
    let mut times = Vec::with_capacity(calls);
    let mut left = calls;
    while times.len() < calls {
        while left > 0 && sent.len() < open {
            sent.insert(server.call(HELLO, &[])?, Instant::now());
            left -= 1;
        }
        let (id, result) = server.reply()?;
        printed(&result)?;
        times.extend(sent.remove(&id).map(|at| at.elapsed()));
    }
    let cpu = machine::cpu_of_tree(server.pid()).saturating_sub(before);
    Ok(Stream::new(started, cpu, times))
}

/// The same number of direct starts from so many threads.
fn bare_stream(
    setting: &Setting,
    script: &std::path::Path,
    open: usize,
    calls: usize,
) -> Result<Stream, String> {
    let before = machine::cpu_of_children();
    let started = Instant::now();
    let each = calls.div_ceil(open).max(1);
    let work = || {
        let mut direct = Direct::python("bare", &setting.python, script);
        let once = |_| {
            let started = Instant::now();
            direct.once().map(|_| started.elapsed())
        };
        (0..each).map(once).collect::<Result<Vec<_>, _>>()
    };
    let threads = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..open).map(|_| scope.spawn(work)).collect();
        let joined =
            threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread failed".to_owned()));
        joined.collect::<Result<Vec<_>, _>>()
    })?;
    let times = threads.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    Ok(Stream::new(started, machine::cpu_of_children().saturating_sub(before), times))
}
