//! What stands in one line. Pure.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{Outcome, Scripts};
use crate::sandbox::{Tier, spec::Limits};

/// Longest text that a client can put into a line by a name or its trace, in characters.
pub(super) const LONGEST_NAME: usize = 200;

/// Who asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The client's name and version, as it gives them.
    pub client: Option<(String, String)>,
    /// The trace to which the request belongs, as W3C Trace Context writes it.
    pub traceparent: Option<String>,
}

/// The line. Every key is in every line; what does not apply is null.
#[derive(Debug, Serialize)]
pub(super) struct Record {
    time: String,
    client: Option<Client>,
    tool: String,
    traceparent: Option<String>,
    pub session: Option<String>,
    script_sha256: Option<String>,
    pub dependencies: Vec<String>,
    pub environment: Option<String>,
    pub tier: Option<Tier>,
    pub limits: Option<Bounds>,
    pub outcome: Option<Outcome>,
    pub failure: Option<serde_json::Value>,
    pub exit: Option<i32>,
    pub duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    script: Option<String>,
}

#[derive(Debug, Serialize)]
struct Client {
    name: String,
    version: String,
}

/// Limits of one run: bytes, numbers, and hundredths of a processor.
#[derive(Debug, Serialize)]
pub(super) struct Bounds {
    memory: u64,
    processes: u64,
    open_files: u64,
    disk: u64,
    cpu_percent: Option<u32>,
}

impl From<&Limits> for Bounds {
    fn from(limits: &Limits) -> Self {
        let &Limits { memory, processes, open_files, disk, cpu_percent, niceness: _ } = limits;
        Self { memory, processes, open_files, disk, cpu_percent }
    }
}

impl Record {
    /// A line of which only the beginning is known.
    pub fn new(tool: &str, caller: Caller, now: SystemTime) -> Self {
        let cut = |text: String| text.chars().take(LONGEST_NAME).collect::<String>();
        Self {
            time: utc(now),
            client: caller.client.map(|(name, version)| Client { name: cut(name), version: cut(version) }),
            tool: tool.to_owned(),
            traceparent: caller.traceparent.map(cut),
            session: None,
            script_sha256: None,
            dependencies: Vec::new(),
            environment: None,
            tier: None,
            limits: None,
            outcome: None,
            failure: None,
            exit: None,
            duration_ms: 0,
            script: None,
        }
    }

    /// Puts a script in, by its hash or as a whole.
    pub fn script(&mut self, text: &str, scripts: Scripts) {
        self.script_sha256 = Some(format!("{:x}", Sha256::digest(text)));
        self.script = (scripts == Scripts::Text).then(|| text.to_owned());
    }
}

/// A moment as RFC 3339 writes it, in UTC, with milliseconds.
fn utc(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

/// Year, month and day of a number of days after 1 January 1970, in the Gregorian calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut left) = (1970, days);
    while left >= 365 + u64::from(leap(year)) {
        left -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    (year, month, left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn moments_are_written_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.500Z"),
            (951_782_399, "2000-02-28T23:59:59.500Z"),
            (951_782_400, "2000-02-29T00:00:00.500Z"),
            (1_735_689_599, "2024-12-31T23:59:59.500Z"),
            (1_796_050_800, "2026-11-30T15:00:00.500Z"),
            (4_107_542_400, "2100-03-01T00:00:00.500Z"),
        ] {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_millis(seconds * 1000 + 500)), text);
        }
    }
}
