//! All wording: what clients, agents and people read. Pure.
//!
//! Clients differ in what they show to the model: some only the text, some only the structured part. Each therefore
//! stands alone, and what a script prints can change its own fields only.

mod cell;
pub mod describe;
mod environment;
mod failure;
mod files;
mod output;
mod protocol;
mod report;
mod session;
mod shown;

use std::time::Duration;

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::Value;

use crate::audit::AuditError;
use crate::execution::Progress;
use crate::sandbox::{Tier, limit::Bytes, spec::Limits};

pub use cell::{Fitted, cell, stopped};
pub use environment::{overview, validation};
pub use failure::{WRONG_ARGUMENTS, failure, server_is_ending, wrong_arguments};
pub use files::{file_read, files, stored};
pub use output::{RUN_SCHEME, run_file};
pub use protocol::{
    cancelled, duplicate_id, line_too_long, no_batches, no_method, no_version, not_an_object,
    not_initialized, not_unicode, request_and_answer, too_many_calls, unknown_method, unknown_tool,
    unreadable, unusable_id, wrong_params,
};
pub use report::report;
pub use session::{
    SCHEME, closed, created, installed, resource, resource_error, session_failure, session_list, status,
    unknown_resource,
};
pub use shown::streams;

/// What stands in every result of the lowest tier.
const UNCONFINED: &str = "unconfined: no sandbox protects this machine from the script";

/// A result in words and in fields.
fn result(text: String, fields: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(fields);
    result
}

/// A result whose call could not be written down says so.
pub fn written(mut result: CallToolResult, written: Result<(), AuditError>) -> CallToolResult {
    if let Err(error) = written {
        tracing::error!("{error}");
        let note = format!("{error}; this call is not in it");
        result.content.push(ContentBlock::text(format!("--- note: {} ---", one_line(&note))));
        if let Some(Value::Array(notes)) =
            result.structured_content.as_mut().and_then(|fields| fields.get_mut("notes"))
        {
            notes.push(note.into());
        }
    }
    result
}

/// Notes of a result: the run's own, and what its tier makes necessary.
fn notes_for(tier: Option<Tier>, notes: &[String]) -> Vec<String> {
    let unconfined = (tier == Some(Tier::None)).then(|| UNCONFINED.to_owned());
    unconfined.into_iter().chain(notes.iter().map(|note| one_line(note))).collect()
}

/// A text that cannot pass for several lines.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a progress notification says.
pub fn progress(progress: Option<&Progress>, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    match progress {
        None | Some(Progress::Running) => format!("running, {seconds} s"),
        Some(Progress::Queued) => format!("waiting for a free place, {seconds} s"),
        Some(Progress::Preparing { what, done, total: 0 }) if *done == 0 => format!("{what}, {seconds} s"),
        Some(Progress::Preparing { what, done, total: 0 }) => format!("{what} ({done}), {seconds} s"),
        Some(Progress::Preparing { what, done, total }) => format!("{what} ({done} of {total}), {seconds} s"),
        Some(Progress::Output(line)) => format!("running, {seconds} s: {line}"),
    }
}

/// The limits of one run in one line.
fn limits_in_words(limits: &Limits) -> String {
    let processors = limits.cpu_percent.map_or_else(
        || "all processors".to_owned(),
        |percent| format!("{}.{:02} processors", percent / 100, percent % 100),
    );
    format!(
        "memory {}, {} processes, {} open files, disk {}, {processors}",
        Bytes(limits.memory),
        limits.processes,
        limits.open_files,
        Bytes(limits.disk)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_says_what_and_how_long() {
        let say = |step| progress(Some(&step), Duration::from_millis(2900));
        assert_eq!(say(Progress::Queued), "waiting for a free place, 2 s");
        assert_eq!(say(Progress::Output("row 5".into())), "running, 2 s: row 5");
        let preparing = |done, total| Progress::Preparing { what: "downloading".into(), done, total };
        assert_eq!(say(preparing(0, 0)), "downloading, 2 s");
        assert_eq!(say(preparing(1, 3)), "downloading (1 of 3), 2 s");
        assert_eq!(progress(None, Duration::from_secs(5)), "running, 5 s");
    }
}
