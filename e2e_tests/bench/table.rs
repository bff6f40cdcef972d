//! The table for the README: each aim, what was measured for it, and whether it was reached, as Markdown.

use std::fmt::Write as _;

use serde_json::Value;

/// What is aimed at.
#[derive(Clone, Copy)]
enum Aim {
    AtMost(f64),
    AtLeast(f64),
}

impl Aim {
    fn words(self, unit: &str) -> String {
        match self {
            Self::AtMost(bound) => format!("at most {bound}{unit}"),
            Self::AtLeast(bound) => format!("at least {bound}{unit}"),
        }
    }

    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(bound) => value <= bound,
            Self::AtLeast(bound) => value >= bound,
        }
    }
}

/// Where a figure is found: an entry of a suite, and a place in it.
struct Row {
    what: &'static str,
    suite: &'static str,
    /// Empty for single figures.
    job: &'static str,
    name: &'static str,
    pointer: &'static str,
    unit: &'static str,
    aim: Aim,
}

const fn race(
    what: &'static str,
    [suite, job, name]: [&'static str; 3],
    pointer: &'static str,
    aim: Aim,
) -> Row {
    Row { what, suite, job, name, pointer, unit: " x", aim }
}

const fn figure(what: &'static str, place: [&'static str; 2], unit: &'static str, aim: Aim) -> Row {
    Row { what, suite: place[0], job: "", name: place[1], pointer: "/value", unit, aim }
}

/// Middle of the ratios of all rounds.
const MIDDLE: &str = "/ratio_of_rounds/p50";
const POOL: [&str; 3] = ["hello", "hello", "ours, pool"];
const COLD: [&str; 3] = ["hello", "hello", "ours, pool off"];

use Aim::{AtLeast, AtMost};

const ROWS: [Row; 32] = [
    race("hello, a sandbox waits, to bare python", POOL, MIDDLE, AtMost(0.30)),
    race("... its slowest in a hundred, to bare python's", POOL, "/p99_ratio", AtMost(0.6)),
    race("... its first line, to bare python's whole run", POOL, "/first_line/p50_ratio", AtMost(0.1)),
    race("hello, pool off, to bare python", COLD, MIDDLE, AtMost(1.25)),
    race(
        "six, pool off, to the environment's python",
        ["packages", "six", "ours, pool off"],
        MIDDLE,
        AtMost(1.3),
    ),
    race("six, a sandbox waits", ["packages", "six", "ours, pool"], MIDDLE, AtMost(1.0)),
    race("requests, pool off", ["packages", "requests", "ours, pool off"], MIDDLE, AtMost(1.3)),
    race("requests, a sandbox waits", ["packages", "requests", "ours, pool"], MIDDLE, AtMost(1.0)),
    race("numpy, pool off", ["packages", "numpy", "ours, pool off"], MIDDLE, AtMost(1.3)),
    race("numpy, a sandbox waits", ["packages", "numpy", "ours, pool"], MIDDLE, AtMost(1.0)),
    race("numpy with pandas, pool off", ["packages", "numpy+pandas", "ours, pool off"], MIDDLE, AtMost(1.3)),
    race(
        "numpy with pandas, a sandbox waits",
        ["packages", "numpy+pandas", "ours, pool"],
        MIDDLE,
        AtMost(1.0),
    ),
    Row {
        unit: " ms",
        ..race(
            "numpy with pandas, imported before (`--preload`)",
            ["preload", "numpy+pandas", "ours, preload"],
            "/p50_ms",
            AtMost(15.0),
        )
    },
    race(
        "sandboxed `true` after a first one, to bwrap",
        ["true", "true, ground laid before", "ours, every layer"],
        MIDDLE,
        AtMost(0.75),
    ),
    race("... with nothing made before", ["true", "true", "ours, every layer"], MIDDLE, AtMost(0.75)),
    figure(
        "8 calls open, throughput to bare python's",
        ["concurrency", "8 open, pool: throughput"],
        " x",
        AtLeast(0.8),
    ),
    figure("... with the pool off", ["concurrency", "8 open, pool off: throughput"], " x", AtLeast(0.8)),
    figure(
        "... processor time of a run",
        ["concurrency", "8 open, pool: processor time of a run"],
        " x",
        AtMost(1.35),
    ),
    race(
        "8 calls after a pause, the last answer, to one bare start",
        ["bursts", "8 at once, the last answer", "ours, pool"],
        MIDDLE,
        AtMost(1.5),
    ),
    figure("create_sandbox", ["sessions", "create_sandbox, p50"], " ms", AtMost(5.0)),
    figure("execute_code of `1+1`", ["sessions", "execute_code of 1+1, p50"], " ms", AtMost(1.0)),
    figure(
        "a figure in a result, to drawing it",
        ["sessions", "a figure in a result, to drawing it"],
        " x",
        AtMost(1.2),
    ),
    figure("idle server, pool off", ["memory", "idle server, pool off"], " MiB", AtMost(10.0)),
    figure("each waiting sandbox", ["memory", "one more waiting sandbox"], " MiB", AtMost(5.0)),
    Row {
        unit: " ms",
        ..race(
            "start to the answer to `initialize`",
            ["startup", "start", "start to initialize"],
            "/p50_ms",
            AtMost(20.0),
        )
    },
    race("100 MB of output, to `cat`", ["output", "100 MB of output", "ours, pool off"], MIDDLE, AtMost(1.3)),
    figure("... more memory for it", ["output", "more memory for 100 MB of output"], " MiB", AtMost(8.0)),
    figure(
        "1,000 runs: growth of the server's memory",
        ["leaks", "pool: memory of the server, growth"],
        " MiB",
        AtMost(1.0),
    ),
    figure("... of its descriptors", ["leaks", "pool: descriptors, growth"], "", AtMost(0.0)),
    figure("... of its processes", ["leaks", "pool: processes, growth"], "", AtMost(0.0)),
    Row {
        unit: " ms",
        ..race("Docker: hello, a container waits", ["engine", "hello", "ours, pool"], "/p50_ms", AtMost(25.0))
    },
    race(
        "Docker: hello, pool off, to `docker run`",
        ["engine", "hello", "ours, pool off"],
        MIDDLE,
        AtMost(1.15),
    ),
];

/// The whole table, with what it was measured on.
pub fn markdown(machine: &Value, results: &[Value]) -> String {
    let of = |name: &str| match &machine[name] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut text = format!(
        "Measured on {} UTC: {} processors ({}), Linux {}, CPython {}, load {} at the start, as {}, {} rounds.\n\n\
         | what | measured | half of the rounds between | aim | reached |\n|---|---|---|---|---|\n",
        of("date"),
        of("processors"),
        of("processor"),
        of("kernel"),
        of("python"),
        of("load"),
        of("user"),
        of("rounds"),
    );
    for row in &ROWS {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", line(row, results));
    }
    text
}

fn line(row: &Row, results: &[Value]) -> String {
    let is_it = |entry: &&Value| {
        let job = entry["job"].as_str().unwrap_or_default();
        entry["suite"] == row.suite && entry["name"] == row.name && job == row.job
    };
    let entry = results.iter().find(is_it);
    let Some(value) = entry.and_then(|entry| entry.pointer(row.pointer)).and_then(Value::as_f64) else {
        return format!("| {} | not measured here | | {} | |", row.what, row.aim.words(row.unit));
    };
    let quarter = |name: &str| entry.and_then(|entry| entry["ratio_of_rounds"][name].as_f64());
    let spread = match (quarter("p25"), quarter("p75")) {
        (Some(low), Some(high)) if row.pointer == MIDDLE => format!("{low:.2} to {high:.2}"),
        _ => String::new(),
    };
    let reached = if row.aim.is_met(value) { "yes" } else { "no" };
    format!("| {} | {value:.2}{} | {spread} | {} | {reached} |", row.what, row.unit, row.aim.words(row.unit))
}
