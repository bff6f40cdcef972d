//! Words and fields for stateful sandboxes.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, Resource};
use serde_json::{Value, json};

use crate::session::{Installed, SessionError, SessionId, SessionStatus, Summary};
use crate::workspace::media::media_type;
use crate::workspace::path::WorkPath;

use super::failure::failed;
use super::output::RUN_SCHEME;
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

/// A call that could not be carried out. What the execution room says of itself is [`super::failure`]'s.
pub fn session_failure(error: &SessionError) -> CallToolResult {
    failed(error.kind(), &error.to_string(), "", &[])
}

/// A resource that cannot be read.
pub fn resource_error(uri: &str, error: &SessionError) -> ErrorData {
    let uri: String = uri.chars().take(200).collect();
    ErrorData::resource_not_found(error.to_string(), Some(json!({"uri": uri})))
}

/// An address of nothing that is here.
pub fn unknown_resource(uri: &str) -> ErrorData {
    let uri: String = uri.chars().take(200).collect();
    let message = format!(
        "there is no resource {uri:?}; addresses are like {SCHEME}SESSION_ID/PATH, or {RUN_SCHEME}NUMBER/PATH as a result \
         told it, which is kept until later results need the room"
    );
    ErrorData::resource_not_found(message, Some(json!({"uri": uri})))
}
