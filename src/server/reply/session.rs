//! Words and fields for stateful sandboxes.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, Resource};
use serde_json::{Value, json};

use crate::session::{
    CellEnd, CellReport, FormBody, Installed, SessionError, SessionId, SessionStatus, Summary,
};
use crate::workspace::media::media_type;
use crate::workspace::path::WorkPath;

use super::failure::failed;
use super::shown::{Rest, Shown, Streams, streams};
use super::{one_line, result};

/// What addresses of a sandbox's files start with.
pub const SCHEME: &str = "sandbox://";

/// Everything but what stands for itself in a path.
pub(super) const IN_PATH: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// The address of a file.
pub fn uri(id: &SessionId, path: &WorkPath) -> String {
    format!("{SCHEME}{id}/{}", utf8_percent_encode(&path.to_string(), IN_PATH))
}

/// A file as a resource.
pub fn resource(id: &SessionId, path: &WorkPath, size: u64) -> Resource {
    Resource::new(uri(id, path), path.to_string()).with_mime_type(media_type(path.name())).with_size(size)
}

/// A sandbox is ready.
pub fn created(summary: &Summary) -> CallToolResult {
    let Summary { id, interpreter, version } = summary;
    let message =
        format!("sandbox {id} is ready ({interpreter} {version}); pass its session_id to the other tools");
    let fields = json!({
        "status": "created",
        "session_id": id.as_str(),
        "interpreter_type": interpreter,
        "version": version,
        "message": message,
    });
    result(format!("session_id: {id}\n{message}"), fields)
}

/// A sandbox is gone.
pub fn closed(id: &SessionId, was_open: bool) -> CallToolResult {
    let message =
        if was_open { format!("sandbox {id} is closed") } else { format!("sandbox {id} was closed before") };
    let fields = json!({"status": "closed", "session_id": id.as_str(), "message": message});
    result(message, fields)
}

/// Which sandboxes there are.
pub fn session_list(ids: &[SessionId], interpreter: &str) -> CallToolResult {
    let names: Vec<_> = ids.iter().map(SessionId::as_str).collect();
    let text = format!("active sandboxes ({}): {}", names.len(), names.join(", "));
    let fields = json!({"active_sandbox_count": names.len(), "active_sessions": names, "interpreter_type": interpreter});
    result(text.trim_end_matches([' ', ':']).to_owned(), fields)
}

/// The state of one sandbox.
pub fn status(status: &SessionStatus) -> CallToolResult {
    let packages: serde_json::Map<String, Value> =
        status.packages.iter().map(|(name, version)| (name.clone(), json!(version))).collect();
    let mut fields = json!({
        "status": if status.busy { "busy" } else { "active" },
        "session_id": status.id.as_str(),
        "interpreter_type": status.interpreter,
        "age_seconds": status.age.as_secs(),
        "idle_seconds": status.idle.as_secs(),
        "closes_after_idle_seconds": status.idle_limit.as_secs(),
        "executions": status.cells,
        "packages": packages,
    });
    if let Some(usage) = status.usage {
        fields["memory_bytes"] = json!(usage.memory);
        fields["processes"] = json!(usage.processes);
    }
    if let Some(files) = &status.files {
        fields["files"] = json!(files.count);
        fields["file_bytes"] = json!(files.bytes);
        if files.more {
            fields["files_note"] = json!("there are more files than were counted");
        }
    }
    let lines = fields.as_object().into_iter().flatten().map(|(name, value)| match value {
        Value::String(text) => format!("{name}: {text}"),
        other => format!("{name}: {other}"),
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    result(text, fields)
}

/// What came of a cell. `id` is none where the sandbox is closed already. At most about `limit` bytes of output are
/// shown.
pub fn cell(id: Option<&SessionId>, report: &CellReport, limit: usize) -> CallToolResult {
    let Streams { stdout, stderr } = streams(&report.stdout, &report.stderr, limit);
    let mut notes: Vec<String> = report.notes.iter().map(|note| one_line(note)).collect();
    notes.extend(stdout.notes("stdout", Rest::Lost).chain(stderr.notes("stderr", Rest::Lost)));
    let problem = problem(report);
    let files: Vec<(&'static str, &WorkPath, u64)> = kept_files(report).collect();

    let mut parts = Vec::new();
    for (name, text) in [("stdout", &stdout.text), ("stderr", &stderr.text)] {
        if !text.is_empty() {
            parts.push(format!("--- {name} ---\n{text}"));
        }
    }
    for shown in &report.results {
        parts.push(format!("--- result ---\n{}", shown.text));
        parts.extend(shown.forms.iter().filter_map(|form| match &form.body {
            FormBody::Text(text) => Some(format!("--- result ({}) ---\n{text}", form.media)),
            FormBody::File { .. } => None,
        }));
    }
    parts.extend(files.iter().map(|(media, path, size)| {
        let address = id.map_or_else(String::new, |id| format!(", {}", uri(id, path)));
        format!("--- file: {path} ({media}, {size} bytes{address}) ---")
    }));
    if let Some(error) = &report.error {
        parts.push(format!("--- error ---\n{}", error.traceback.trim_end()));
    }
    parts.extend(problem.iter().map(|(_, message)| format!("--- stopped: {message} ---")));
    parts.extend(notes.iter().map(|note| format!("--- note: {note} ---")));
    parts.push(format!("--- duration_ms: {} ---", report.duration.as_millis()));
    if id.is_none() {
        parts.push("--- sandbox: created and closed ---".to_owned());
    }

    let fields = cell_fields(id, report, (&stdout, &stderr), &notes);
    let mut answer = result(parts.join("\n"), fields);
    answer.is_error = Some(problem.is_some());
    add_pictures(&mut answer, id, report);
    answer
}

/// What ended a cell from outside: a word for programs and one for people.
fn problem(report: &CellReport) -> Option<(&'static str, String)> {
    match &report.end {
        CellEnd::Finished => None,
        CellEnd::Interrupted(after) => {
            Some(("interrupted", format!("interrupted after {} s; variables are kept", after.as_secs())))
        }
        CellEnd::Lost { how, timed_out } => {
            let late = if *timed_out {
                "the time was up and the code did not react to an interrupt, so "
            } else {
                ""
            };
            Some(("state_lost", format!("{late}{how}")))
        }
    }
}

fn kept_files(report: &CellReport) -> impl Iterator<Item = (&'static str, &WorkPath, u64)> {
    let forms = report.results.iter().flat_map(|shown| &shown.forms);
    forms.filter_map(|form| match &form.body {
        FormBody::File { path, size, .. } => Some((form.media, path, *size)),
        FormBody::Text(_) => None,
    })
}

fn cell_fields(
    id: Option<&SessionId>,
    report: &CellReport,
    (stdout, stderr): (&Shown, &Shown),
    notes: &[String],
) -> Value {
    let results = report.results.iter().map(|shown| {
        let mut value = json!({"text": shown.text});
        for form in &shown.forms {
            value[form.media] = match &form.body {
                FormBody::Text(text) => json!(text),
                FormBody::File { path, size, .. } => {
                    json!({"path": path.to_string(), "uri": id.map(|id| uri(id, path)), "bytes": size})
                }
            };
        }
        value
    });
    let problem = problem(report);
    let error = match (&report.error, &problem) {
        (Some(error), _) => {
            json!({"name": error.name, "value": error.value, "traceback": error.traceback})
        }
        (None, Some((name, message))) => json!({"name": name, "value": message, "traceback": ""}),
        (None, None) => Value::Null,
    };
    let mut fields = json!({
        "logs": {"stdout": stdout.text, "stderr": stderr.text},
        "results": results.collect::<Vec<_>>(),
        "error": error,
        "duration_ms": u64::try_from(report.duration.as_millis()).unwrap_or(u64::MAX),
        "notes": notes,
    });
    if let Some((word, message)) = problem {
        fields["stopped"] = json!({"how": word, "message": message});
    }
    if id.is_none() {
        fields["sandbox_status"] = json!("created and closed");
        fields["sandbox_closed"] = json!(true);
        fields["sandbox_removed"] = json!(true);
    }
    fields
}

/// Pictures, and links to the files behind them. With pictures there are no fields: some clients show nothing else
/// where there are fields.
fn add_pictures(answer: &mut CallToolResult, id: Option<&SessionId>, report: &CellReport) {
    let forms = report.results.iter().flat_map(|shown| &shown.forms);
    for form in forms {
        let FormBody::File { path, size, preview } = &form.body else { continue };
        if let Some((media, base64)) = preview {
            answer.content.push(ContentBlock::image(base64.clone(), *media));
            answer.structured_content = None;
        }
        if let Some(id) = id {
            answer.content.push(ContentBlock::resource_link(resource(id, path, *size)));
        }
    }
}

/// Packages are there.
pub fn installed(package: &str, installed: &Installed) -> CallToolResult {
    let list =
        installed.packages.iter().map(|(name, version)| format!("{name} {version}")).collect::<Vec<_>>();
    let mut output = if list.is_empty() {
        "already installed".to_owned()
    } else {
        format!("installed {}", list.join(", "))
    };
    let mut notes: Vec<String> = installed.notes.iter().map(|note| one_line(note)).collect();
    notes.extend(installed.conflicts.iter().map(|(name, loaded, now)| {
        format!(
            "{name} {loaded} is loaded and stays in use; {now} is used in a new sandbox, or once the interpreter was \
             restarted"
        )
    }));
    for note in &notes {
        output = format!("{output}\n--- note: {note} ---");
    }
    let packages: serde_json::Map<String, Value> =
        installed.packages.iter().map(|(name, version)| (name.clone(), json!(version))).collect();
    let fields =
        json!({"package": package, "output": output, "error": null, "installed": packages, "notes": notes});
    result(output, fields)
}

/// A call that could not be carried out.
pub fn session_failure(error: &SessionError) -> CallToolResult {
    match error {
        SessionError::Execution(error) => super::failure(error),
        other => failed(other.kind(), &other.to_string(), "", &[]),
    }
}

/// A resource that cannot be read.
pub fn resource_error(uri: &str, error: &SessionError) -> ErrorData {
    let uri: String = uri.chars().take(200).collect();
    ErrorData::resource_not_found(error.to_string(), Some(json!({"uri": uri})))
}

/// An address of nothing that is here.
pub fn unknown_resource(uri: &str) -> ErrorData {
    let uri: String = uri.chars().take(200).collect();
    let message = format!("there is no resource {uri:?}; addresses are like {SCHEME}SESSION_ID/PATH");
    ErrorData::resource_not_found(message, Some(json!({"uri": uri})))
}
