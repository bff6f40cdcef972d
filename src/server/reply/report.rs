//! The result of a run that was started.

use rmcp::model::CallToolResult;
use serde_json::{Value, json};

use crate::execution::ExecutionReport;
use crate::execution::report::Captured;
use crate::sandbox::LimitHit;

use super::{Bytes, notes_for, output, result};

/// Words and fields for one run. Both streams together are cut to about `limit` bytes. Where it left files, `run` is the
/// number under which they can be read; pictures among them are shown up to `largest_image` bytes.
pub fn report(
    report: &ExecutionReport,
    limit: usize,
    run: Option<u64>,
    largest_image: usize,
) -> CallToolResult {
    let (out_share, err_share) = shares(limit, report.stdout.text.len(), report.stderr.text.len());
    let stdout = Shown::new(&report.stdout, out_share);
    let stderr = Shown::new(&report.stderr, err_share);
    let signal = report.status.signal().filter(|_| !report.timed_out).map(signal_name);
    let mut notes = notes_for(Some(report.tier), &report.notes);
    notes.extend(signal.iter().map(|signal| format!("ended by signal {signal}")));
    notes.extend(stdout.note("stdout"));
    notes.extend(stderr.note("stderr"));
    let mut text = text(report, &stdout, &stderr, &notes);
    let mut fields = fields(report, &stdout, &stderr, &notes);
    if let Some(run) = run {
        text = format!("{text}\n{}", output::lines(run, &report.output).join("\n"));
        fields["files"] = output::fields(run, &report.output);
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
    parts.extend(report.limit.map(|limit| format!("--- limit: {} ---", limit_in_words(limit))));
    parts.extend(notes.iter().map(|note| format!("--- note: {note} ---")));
    parts.join("\n")
}

fn fields(report: &ExecutionReport, stdout: &Shown, stderr: &Shown, notes: &[String]) -> Value {
    let mut truncated = json!({"stdout": stdout.cut, "stderr": stderr.cut});
    for (key, stream) in [("stdout_bytes", stdout), ("stderr_bytes", stderr)] {
        if stream.cut {
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
        "limit": report.limit.map(limit_in_words),
        "notes": notes,
    })
}

/// The exit code, 128 and the signal, or -9 after a timeout.
fn exit_code(report: &ExecutionReport) -> i32 {
    if report.timed_out { -9 } else { report.status.code() }
}

fn limit_in_words(limit: LimitHit) -> String {
    match limit {
        LimitHit::Memory(bytes) => format!("memory {}", Bytes(bytes)),
        LimitHit::Processes(number) => format!("processes {number}"),
        LimitHit::Disk(bytes) => format!("disk {}", Bytes(bytes)),
    }
}

/// How much each of two streams may show so that both fit into `limit`: each has a right to half of it, and what one
/// leaves the other may take.
pub(super) fn shares(limit: usize, out: usize, err: usize) -> (usize, usize) {
    let half = limit / 2;
    if out + err <= limit {
        (limit, limit)
    } else if err <= half {
        (limit - err, limit)
    } else if out <= half {
        (limit, limit - out)
    } else {
        (half, half)
    }
}

/// A stream as it is shown.
pub(super) struct Shown {
    pub text: String,
    /// Whether something is missing, and how many bytes there were.
    cut: bool,
    total: u64,
    /// Bytes that are left of them.
    kept: usize,
}

impl Shown {
    pub fn new(stream: &Captured, share: usize) -> Self {
        let cut = stream.truncated || stream.text.len() > share;
        if !cut {
            return Self {
                text: stream.text.clone(),
                cut,
                total: stream.total_bytes,
                kept: stream.text.len(),
            };
        }
        let marker = marker(share);
        let mut end = stream.text.len().min(share.saturating_sub(marker.len()));
        while !stream.text.is_char_boundary(end) {
            end -= 1;
        }
        Self { text: format!("{}{marker}", &stream.text[..end]), cut, total: stream.total_bytes, kept: end }
    }

    pub fn note(&self, name: &str) -> Option<String> {
        self.cut.then(|| format!("{name}: the first {} of {} bytes are shown", self.kept, self.total))
    }
}

/// What a cut stream ends with. It counts towards the limit.
fn marker(share: usize) -> String {
    match share / 1024 {
        0 => format!("\n... [truncated at {share} bytes]"),
        kilobytes => format!("\n... [truncated at {kilobytes}KB]"),
    }
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
    fn streams_share_the_limit_and_a_small_one_is_left_whole() {
        assert_eq!(shares(100, 40, 60), (100, 100));
        assert_eq!(shares(100, 100, 10), (90, 100));
        assert_eq!(shares(100, 10, 100), (100, 90));
        assert_eq!(shares(100, 100, 100), (50, 50));
        assert_eq!(shares(100, 100, 0), (100, 100));
    }

    #[test]
    fn a_cut_stream_fills_its_share_to_a_character() {
        let stream = Captured { text: "\u{e4}".repeat(1024), total_bytes: 9000, truncated: true };
        let shown = Shown::new(&stream, 2048);
        assert!(shown.text.ends_with("\u{e4}\n... [truncated at 2KB]"));
        assert!((2046..=2048).contains(&shown.text.len()), "{}", shown.text.len());
        assert_eq!(shown.note("stdout").as_deref(), Some("stdout: the first 2024 of 9000 bytes are shown"));
    }

    #[test]
    fn signals_have_names() {
        assert_eq!(
            [1, 9, 11, 31, 34].map(signal_name),
            ["SIGHUP", "SIGKILL", "SIGSEGV", "SIGSYS", "signal 34"]
        );
    }
}
