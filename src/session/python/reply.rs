//! From the driver's words to a report: everything checked once more, since code in the sandbox can say the same.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::execution::Captured;
use crate::session::channel::ChannelError;
use crate::session::protocol::{Answer, Lost, Setup, Stream, TRACEBACK_LIMIT, Value, ValueForm};
use crate::session::report::{CellEnd, CellError, CellReport, Form, FormBody, Shown};
use crate::workspace::media;
use crate::workspace::path::WorkPath;

/// Values of one cell.
const MOST_RESULTS: usize = 100;
/// Forms of one value.
const MOST_FORMS: usize = 16;
/// Remarks of one cell, and bytes of each.
const NOTES: (usize, usize) = (32, 600);

/// Forms that a value can have.
const MEDIA: [&str; 7] = [
    "image/png",
    "image/jpeg",
    "image/svg+xml",
    "text/html",
    "text/markdown",
    "text/latex",
    "application/json",
];

/// What the driver told of a cell.
pub fn cell(answer: Answer, setup: &Setup, duration: Duration) -> Result<CellReport, ChannelError> {
    let results = answer.results.into_iter().take(MOST_RESULTS);
    Ok(CellReport {
        stdout: captured(answer.stdout, setup.output_limit),
        stderr: captured(answer.stderr, setup.output_limit),
        results: results.map(|value| shown(value, setup)).collect::<Result<_, _>>()?,
        error: answer.error.map(|error| CellError {
            name: cut(error.name, 200),
            value: cut(error.value, TRACEBACK_LIMIT),
            traceback: cut(error.traceback, 4 * TRACEBACK_LIMIT),
        }),
        end: CellEnd::Finished,
        environment: Arc::default(),
        notes: answer.notes.into_iter().take(NOTES.0).map(|note| cut(note, NOTES.1)).collect(),
        duration: answer.taken_us.map_or(duration, |taken| duration.min(Duration::from_micros(taken))),
    })
}

/// How an interpreter ended, in words.
pub fn lost(lost: Lost) -> String {
    match lost {
        Lost::Code(code) => format!("the interpreter ended with exit code {code}"),
        Lost::Signal(9) => "the interpreter was killed".to_owned(),
        Lost::Signal(signal) => format!("the interpreter crashed (signal {signal})"),
    }
}

fn captured(stream: Stream, limit: usize) -> Captured {
    let truncated = stream.total > limit as u64 || stream.text.len() > limit;
    Captured { text: cut(stream.text, limit), total_bytes: stream.total, truncated }
}

fn shown(value: Value, setup: &Setup) -> Result<Shown, ChannelError> {
    let forms = value.forms.into_iter().take(MOST_FORMS);
    let forms = forms.map(|given| form(given, setup)).collect::<Result<_, _>>()?;
    Ok(Shown { text: cut(value.text, setup.output_limit + 64), forms })
}

fn form(form: ValueForm, setup: &Setup) -> Result<Form, ChannelError> {
    let unexpected = |what: &str| ChannelError::Unexpected(what.to_owned());
    let known = MEDIA.into_iter().find(|known| *known == form.media);
    let media = known.ok_or_else(|| unexpected("a value of an unknown kind"))?;
    if let Some(text) = form.text {
        return Ok(Form { media, body: FormBody::Text(cut(text, setup.output_limit)) });
    }
    let path = form.path.ok_or_else(|| unexpected("a value without content"))?;
    let path = WorkPath::file(&path).map_err(|error| ChannelError::Unexpected(error.to_string()))?;
    let preview = form.preview.and_then(|preview| picture(preview, setup.image_limit));
    Ok(Form { media, body: FormBody::File { path, size: form.size.unwrap_or(0), preview } })
}

/// A picture within the budget that really is one; nothing otherwise. The driver's word for its kind does not count.
fn picture(base64: String, limit: usize) -> Option<(&'static str, String)> {
    let bytes = STANDARD.decode(&base64).ok().filter(|bytes| bytes.len() <= limit)?;
    media::picture(&bytes).map(|kind| (kind, base64))
}

/// At most this many bytes, cut between characters.
fn cut(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(results: &serde_json::Value) -> Result<CellReport, ChannelError> {
        let stream = json!({"text": "", "total": 0});
        let whole = json!({"id": 1, "stdout": stream, "stderr": stream, "results": results});
        let answer =
            serde_json::from_value(whole).map_err(|error| ChannelError::Unexpected(error.to_string()))?;
        cell(answer, &Setup::new(1024, 64), Duration::ZERO)
    }

    #[test]
    fn a_result_cannot_point_out_of_the_workspace_or_be_of_another_kind() {
        for (media, path) in [
            ("image/png", "../../etc/passwd"),
            ("image/png", "/etc/passwd"),
            ("image/png", "a\nb"),
            ("application/x-evil", "a.bin"),
        ] {
            let results = json!([{"text": "x", "forms": [{"media": media, "path": path, "size": 1}]}]);
            assert!(answer(&results).is_err(), "{media} {path} was believed");
        }
    }

    #[test]
    fn a_picture_is_shown_only_where_it_is_one_and_small_enough() {
        let png = STANDARD.encode(b"\x89PNG\r\n\x1a\n...");
        let large = STANDARD.encode([b"\x89PNG\r\n\x1a\n".as_slice(), &[0; 100]].concat());
        let shown = |preview: &str| {
            let form = json!({"media": "image/png", "path": "a.png", "size": 9, "preview": preview,
                "preview_media": "image/png"});
            let report = answer(&json!([{"text": "", "forms": [form]}])).expect("a report");
            let FormBody::File { preview, .. } = &report.results[0].forms[0].body else { panic!("a file") };
            preview.is_some()
        };
        assert!(shown(&png));
        for preview in [large.as_str(), "bm90IGEgcGljdHVyZQ==", "%%%", ""] {
            assert!(!shown(preview), "{preview}");
        }
    }

    #[test]
    fn text_is_cut_to_the_limit_whatever_the_driver_says() {
        let report = answer(&json!([{"text": "\u{e4}".repeat(5000), "forms": []}])).expect("a report");
        assert!(report.results[0].text.len() <= 1024 + 64);
    }
}
