//! What was measured, as a table for people and as JSON for programs.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::contestants::Times;
use crate::numbers::{milliseconds, percentile, ratio};
use crate::table;

/// Everything that was measured so far.
pub struct Report {
    machine: Value,
    suite: String,
    results: Vec<Value>,
}

fn say(text: &str) {
    // A closed output is no reason to stop: the figures still go into the file.
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// One figure of a contestant against the base of its suite.
fn against(times: &[Duration], base: &[Duration]) -> Value {
    let (middle, low, high) = ratio(times, base);
    let share = |part| {
        let base = percentile(base, part).as_secs_f64().max(1e-9);
        percentile(times, part).as_secs_f64() / base
    };
    json!({
        "p50_ms": milliseconds(percentile(times, 0.5)),
        "p95_ms": milliseconds(percentile(times, 0.95)),
        "p99_ms": milliseconds(percentile(times, 0.99)),
        "p50_ratio": share(0.5),
        "p99_ratio": share(0.99),
        "p99_to_p50_of_base": percentile(times, 0.99).as_secs_f64() / percentile(base, 0.5).as_secs_f64().max(1e-9),
        "ratio_of_rounds": {"p50": middle, "p25": low, "p75": high},
    })
}

impl Report {
    pub fn new(machine: Value) -> Self {
        Self { machine, suite: String::new(), results: Vec::new() }
    }

    pub fn print_machine(&self) {
        for (name, value) in self.machine.as_object().into_iter().flatten() {
            say(&format!("{name:12} {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
        }
    }

    pub fn begin(&mut self, suite: &str) {
        suite.clone_into(&mut self.suite);
        say(&format!("\n== {suite}"));
    }

    pub fn skip(&mut self, what: &str, reason: &str) {
        say(&format!("SKIPPED {what}: {reason}"));
        self.results.push(json!({"suite": self.suite, "name": what, "skipped": reason}));
    }

    /// A race: the first contestant is what the others are compared with.
    pub fn race(&mut self, job: &str, times: &[Times]) {
        let Some(base) = times.first() else { return };
        say(&format!(
            "{job:26} {:>9} {:>9} {:>9}  {:>21}  {:>7} {:>7}  {:>8}",
            "p50 ms", "p95 ms", "p99 ms", "x base (half between)", "p99/p99", "p99/p50", "cpu ms"
        ));
        for one in times {
            let mut entry = against(&one.total, &base.total);
            let number = |pointer: &str| entry.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN);
            let spread = format!(
                "{:.2} ({:.2} to {:.2})",
                number("/ratio_of_rounds/p50"),
                number("/ratio_of_rounds/p25"),
                number("/ratio_of_rounds/p75")
            );
            say(&format!(
                "  {:24} {:9.2} {:9.2} {:9.2}  {spread:>21}  {:7.2} {:7.2}  {:8.1}",
                one.name,
                number("/p50_ms"),
                number("/p95_ms"),
                number("/p99_ms"),
                number("/p99_ratio"),
                number("/p99_to_p50_of_base"),
                milliseconds(one.cpu)
            ));
            if !one.first.is_empty() {
                let first = against(&one.first, &base.total);
                let middle = first["p50_ratio"].as_f64().unwrap_or(f64::NAN);
                let time = first["p50_ms"].as_f64().unwrap_or(f64::NAN);
                say(&format!("    first line after {time:.2} ms, {middle:.2} x the base's whole run"));
                entry["first_line"] = first;
            }
            entry["suite"] = json!(self.suite);
            entry["job"] = json!(job);
            entry["name"] = json!(one.name);
            entry["rounds"] = json!(one.total.len());
            entry["cpu_ms"] = json!(milliseconds(one.cpu));
            self.results.push(entry);
        }
    }

    /// A single figure.
    pub fn figure(&mut self, name: &str, value: f64, unit: &str) {
        say(&format!("  {name:52} {value:10.2} {unit}"));
        self.results.push(json!({"suite": self.suite, "name": name, "value": value, "unit": unit}));
    }

    /// The aims and what was measured for them.
    pub fn print_table(&self) {
        say("");
        say(&table::markdown(&self.machine, &self.results));
    }

    /// Puts the same into a document, between its marks.
    pub fn write_into(&self, document: Option<&Path>) -> Result<(), String> {
        let Some(path) = document else { return Ok(()) };
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let [begin, end] = ["<!-- bench:begin -->\n", "<!-- bench:end -->"];
        let parts = text.split_once(begin).and_then(|(head, rest)| Some((head, rest.split_once(end)?.1)));
        let (head, tail) = parts.ok_or_else(|| format!("{} has no place for it", path.display()))?;
        let table = table::markdown(&self.machine, &self.results);
        std::fs::write(path, format!("{head}{begin}{table}{end}{tail}")).map_err(failed)
    }

    /// Writes everything as JSON.
    pub fn write(&self, file: Option<&Path>) -> Result<(), String> {
        let Some(file) = file else { return Ok(()) };
        let all = json!({"machine": self.machine, "results": self.results});
        let text = serde_json::to_string_pretty(&all).map_err(|error| error.to_string())?;
        std::fs::write(file, text + "\n").map_err(|error| format!("{}: {error}", file.display()))
    }
}
