//! What came of a cell: its texts within what clients take, its values, its pictures, and links to the rest.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

use crate::execution::output::OutputFile;
use crate::session::{CellEnd, CellReport, FormBody, SessionId, Shown};
use crate::workspace::path::WorkPath;

use super::session::{resource, uri};
use super::shown::{WIDTH, file, narrowed, streams_within, width};
use super::{one_line, output, result};

/// What a traceback takes at most.
const ERROR: usize = 8_000;
/// What the text of an exception takes at most; the traceback ends with it.
const ERROR_VALUE: usize = 1_000;
/// What values may always take, however much was printed.
const VALUES: usize = 16_000;
/// What all notes take at most.
const NOTES: usize = 3_000;
/// What stands around a value, or the name of a file.
const AROUND: usize = 120;

/// A report whose texts a client can take, and what they were before where something is left out.
pub struct Fitted {
    report: CellReport,
    /// Files that are to be kept.
    pub files: Vec<OutputFile>,
}

impl Fitted {
    /// Makes a report fit. At most about `limit` bytes of output are shown.
    pub fn new(mut report: CellReport, limit: usize) -> Self {
        let mut files = Vec::new();
        let mut said: Vec<String> = report.notes.iter().map(|note| one_line(note)).collect();
        let mut room = WIDTH;
        if let Some(error) = &mut report.error {
            error.value =
                narrowed(&error.value, ERROR_VALUE).map_or_else(|| error.value.clone(), |(text, _)| text);
            if let Some((text, out)) = narrowed(&error.traceback, ERROR) {
                said.push(left_out("traceback", out));
                files.extend(file("traceback", &error.traceback));
                error.traceback = text;
            }
            room -= width(&error.traceback) + width(&error.value);
        }
        let printed = width(&report.stdout.text) + width(&report.stderr.text);
        let values = VALUES.max(room.saturating_sub(printed)).min(room);
        let (used, note) = fit_values(&mut report.results, values, &mut files);
        said.extend(note);
        room -= used;
        let streams = streams_within(&report.stdout, &report.stderr, limit, room);
        said.extend(streams.notes());
        files.extend(streams.files());
        (report.stdout.text, report.stderr.text) = (streams.stdout.text, streams.stderr.text);
        report.notes = fit_notes(said);
        Self { report, files }
    }
}

fn left_out(name: &str, bytes: usize) -> String {
    format!("{name}: {bytes} bytes of its middle are left out; {name}.txt has them")
}

/// Cuts values so that they take no more than `room`; tells what they take then.
fn fit_values(values: &mut Vec<Shown>, room: usize, files: &mut Vec<OutputFile>) -> (usize, Option<String>) {
    let whole = values.clone();
    let (mut left, mut cut, mut kept) = (room, false, 0);
    for value in values.iter_mut() {
        let around = AROUND + value.forms.iter().map(|form| AROUND + named(&form.body)).sum::<usize>();
        let Some(for_text) = left.checked_sub(around) else { break };
        left = for_text;
        let forms = value.forms.iter_mut().filter_map(|form| match &mut form.body {
            FormBody::Text(text) => Some(text),
            FormBody::File { .. } => None,
        });
        for text in std::iter::once(&mut value.text).chain(forms) {
            if let Some((shorter, _)) = narrowed(text, left) {
                cut = true;
                *text = shorter;
            }
            left = left.saturating_sub(width(text));
        }
        kept += 1;
    }
    values.truncate(kept);
    let note = (cut || kept < whole.len()).then(|| {
        files.extend(file("results", &all_texts(&whole)));
        let number = whole.len();
        format!("{kept} of {number} values are shown, not all of them whole; results.txt has their texts")
    });
    (room - left, note)
}

fn named(body: &FormBody) -> usize {
    match body {
        // In the line of the file and in its address, where each byte may take three.
        FormBody::File { path, .. } => 4 * width(&path.to_string()),
        FormBody::Text(_) => 0,
    }
}

fn all_texts(values: &[Shown]) -> String {
    let parts = values.iter().flat_map(|value| {
        let forms = value.forms.iter().filter_map(|form| match &form.body {
            FormBody::Text(text) => Some(format!("--- result ({}) ---\n{text}\n", form.media)),
            FormBody::File { .. } => None,
        });
        std::iter::once(format!("--- result ---\n{}\n", value.text)).chain(forms)
    });
    parts.collect()
}

/// The last ones go where there are too many: what this server says itself comes after what code inside can say.
fn fit_notes(notes: Vec<String>) -> Vec<String> {
    let mut room = NOTES;
    let mut fitting: Vec<String> = Vec::new();
    for note in notes.into_iter().rev() {
        let Some(left) = room.checked_sub(width(&note)) else { break };
        room = left;
        fitting.push(note);
    }
    fitting.reverse();
    fitting
}

/// Words and fields for a cell. `id` is none where the sandbox is closed already; `run` is the number under which files that
/// were kept can be read.
pub fn cell(id: Option<&SessionId>, fitted: &Fitted, run: Option<u64>) -> CallToolResult {
    let Fitted { report, files } = fitted;
    let problem = stopped(report);
    let mut parts = Vec::new();
    for (name, text) in [("stdout", &report.stdout.text), ("stderr", &report.stderr.text)] {
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
    // Those of a sandbox that is closed stand among the files that were kept.
    parts.extend(id.into_iter().flat_map(|id| figures(report).map(move |figure| figure_line(id, figure))));
    if let Some(error) = &report.error {
        parts.push(format!("--- error ---\n{}", error.traceback.trim_end()));
    }
    parts.extend(problem.iter().map(|(_, message)| format!("--- stopped: {message} ---")));
    parts.extend(report.notes.iter().map(|note| format!("--- note: {note} ---")));
    parts.push(format!("--- duration_ms: {} ---", report.duration.as_millis()));
    parts.extend(run.map(|run| output::lines(run, files).join("\n")));
    if id.is_none() {
        parts.push("--- sandbox: created and closed ---".to_owned());
    }

    let mut fields = cell_fields(id, report, problem.as_ref());
    if let Some(run) = run {
        output::add_fields(&mut fields, run, files);
    }
    let mut answer = result(parts.join("\n"), fields);
    answer.is_error = Some(problem.is_some());
    add_pictures(&mut answer, id, report);
    if let Some(run) = run {
        output::add(&mut answer, run, files, 0);
    }
    answer
}

/// What ended a cell from outside: a word for programs and one for people.
pub fn stopped(report: &CellReport) -> Option<(&'static str, String)> {
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

fn figure_line(id: &SessionId, (media, path, size): (&str, &WorkPath, u64)) -> String {
    format!("--- file: {path} ({media}, {size} bytes, {}) ---", uri(id, path))
}

fn figures(report: &CellReport) -> impl Iterator<Item = (&'static str, &WorkPath, u64)> {
    let forms = report.results.iter().flat_map(|shown| &shown.forms);
    forms.filter_map(|form| match &form.body {
        FormBody::File { path, size, .. } => Some((form.media, path, *size)),
        FormBody::Text(_) => None,
    })
}

fn cell_fields(
    id: Option<&SessionId>,
    report: &CellReport,
    problem: Option<&(&'static str, String)>,
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
    let error = match (&report.error, problem) {
        (Some(error), _) => {
            json!({"name": error.name, "value": error.value, "traceback": error.traceback})
        }
        (None, Some((name, message))) => json!({"name": name, "value": message, "traceback": ""}),
        (None, None) => Value::Null,
    };
    let mut fields = json!({
        "logs": {"stdout": report.stdout.text, "stderr": report.stderr.text},
        "results": results.collect::<Vec<_>>(),
        "error": error,
        "duration_ms": u64::try_from(report.duration.as_millis()).unwrap_or(u64::MAX),
        "notes": report.notes,
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
