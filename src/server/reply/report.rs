//! The result of a run that was started.

use rmcp::model::CallToolResult;
use serde_json::{Value, json};

use crate::execution::ExecutionReport;

use super::shown::{Shown, Streams};
use super::{notes_for, output, result};

/// Words and fields for one run. Where there are files, `run` is the number under which they can be read; pictures among
/// them are shown up to `largest_image` bytes.
pub fn report(
    report: &ExecutionReport,
    streams: &Streams,
    run: Option<u64>,
    largest_image: usize,
) -> CallToolResult {
    let Streams { stdout, stderr } = streams;
    let signal = report.status.signal().filter(|_| !report.timed_out).map(signal_name);
    let mut notes = notes_for(Some(report.tier), &report.notes);
    notes.extend(report.limit.map(|limit| format!("the server's flag {} allows more", limit.flag())));
    notes.extend(signal.iter().map(|signal| format!("ended by signal {signal}")));
    notes.extend(streams.notes());
    notes.extend(output::unseen(&report.output, largest_image));
    let mut text = text(report, stdout, stderr, &notes);
    let mut fields = fields(report, stdout, stderr, &notes);
    if let Some(run) = run {
        text = format!("{text}\n{}", output::lines(run, &report.output).join("\n"));
        output::add_fields(&mut fields, run, &report.output);
    }
    let mut result = result(text, fields);
    if let Some(run) = run {
        output::add(&mut result, run, &report.output, largest_image);
    }
    // A script that fails is an answer; one that was ended is not.
    if report.timed_out {
        result.is_error = Some(true);
    }
    result
}

fn text(report: &ExecutionReport, stdout: &Shown, stderr: &Shown, notes: &[String]) -> String {
    let mut parts = Vec::new();
    for (name, stream) in [("stdout", stdout), ("stderr", stderr)] {
        if !stream.text.is_empty() {
            parts.push(format!("--- {name} ---\n{}", stream.text));
        }
    }
    parts.push(format!("--- exit_code: {} ---", exit_code(report)));
    parts.push(format!("--- duration_ms: {} ---", report.duration.as_millis()));
    if report.timed_out {
        parts.push("--- timed_out: true ---".to_owned());
    }
    parts.extend(report.limit.map(|limit| format!("--- limit: {limit} ---")));
    parts.extend(notes.iter().map(|note| format!("--- note: {note} ---")));
    parts.join("\n")
}

fn fields(report: &ExecutionReport, stdout: &Shown, stderr: &Shown, notes: &[String]) -> Value {
    let mut truncated = json!({"stdout": stdout.lacks(), "stderr": stderr.lacks()});
    for (key, stream) in [("stdout_bytes", stdout), ("stderr_bytes", stderr)] {
        if stream.lacks() {
            truncated[key] = json!(stream.total);
        }
    }
    json!({
        "stdout": stdout.text,
        "stderr": stderr.text,
        "exit_code": exit_code(report),
        "signal": report.status.signal().map(signal_name),
        "timed_out": report.timed_out,
        "duration_ms": u64::try_from(report.duration.as_millis()).unwrap_or(u64::MAX),
        "truncated": truncated,
        "python": report.python,
        "backend": report.backend,
        "tier": report.tier,
        "layers": report.layers.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "limit": report.limit.map(|limit| limit.to_string()),
        "notes": notes,
    })
}

/// The exit code, 128 and the signal, or -9 after a timeout.
fn exit_code(report: &ExecutionReport) -> i32 {
    if report.timed_out { -9 } else { report.status.code() }
}

/// Names of signals by their numbers inside a sandbox, which are the same whatever runs the server.
fn signal_name(signal: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
        "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
        "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let index = usize::try_from(signal - 1).unwrap_or(usize::MAX);
    NAMES.get(index).map_or_else(|| format!("signal {signal}"), |name| format!("SIG{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names() {
        assert_eq!(
            [1, 9, 11, 31, 34].map(signal_name),
            ["SIGHUP", "SIGKILL", "SIGSEGV", "SIGSYS", "signal 34"]
        );
    }
}
