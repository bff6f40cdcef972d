//! Results of calls that could not be carried out.

use rmcp::model::CallToolResult;
use serde_json::json;

use crate::execution::ExecutionError;
use crate::server::arguments::ArgumentError;

use super::{one_line, result};

/// A run that could not be started.
pub fn failure(error: &ExecutionError) -> CallToolResult {
    let kind = serde_json::to_value(error.kind).unwrap_or_default();
    failed(kind.as_str().unwrap_or_default(), &error.message, &error.detail, &error.notes)
}

/// The kind of failure that arguments are.
pub const WRONG_ARGUMENTS: &str = "invalid_arguments";

/// Arguments that cannot be used.
pub fn wrong_arguments(error: &ArgumentError) -> CallToolResult {
    failed(WRONG_ARGUMENTS, &error.to_string(), "", &[])
}

/// A call that was dropped because the server is ending.
pub fn server_is_ending() -> CallToolResult {
    failed(
        "cancelled",
        "the call was ended because the server's input was closed or it was told to stop",
        "",
        &[],
    )
}

pub(super) fn failed(kind: &str, message: &str, detail: &str, notes: &[String]) -> CallToolResult {
    let mut text = format!("Error ({kind}): {message}");
    let mut fields = json!({"error": kind, "message": message});
    let detail = detail.trim();
    if !detail.is_empty() {
        text = format!("{text}\n{detail}");
        fields["detail"] = json!(detail);
    }
    if !notes.is_empty() {
        let notes: Vec<_> = notes.iter().map(|note| one_line(note)).collect();
        for note in &notes {
            text = format!("{text}\n--- note: {note} ---");
        }
        fields["notes"] = json!(notes);
    }
    let mut result = result(text, fields);
    result.is_error = Some(true);
    result
}
