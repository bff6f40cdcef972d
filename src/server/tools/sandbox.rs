//! Stateful sandboxes: made, used from call to call, and closed.

use std::sync::Arc;
use std::time::Duration;

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, Engine as _};
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ReadResourceResult, Resource, ResourceTemplate, Tool};
use serde_json::{Value, json};

use crate::audit::Entry;
use crate::execution::ProgressSink;
use crate::sandbox::BoxFuture;
use crate::script::Requirement;
use crate::server::arguments::{ArgumentError, Arguments, Seconds};
use crate::server::reply::{self, describe};
use crate::session::{CellReport, SessionError, SessionId, Sessions};
use crate::settings::Settings;
use crate::workspace::path::WorkPath;
use crate::workspace::{FileError, LARGEST_PIECE, Piece};

use super::resources;
use super::runs::Runs;
use super::{Call, Family, Reach, annotations, reach_of_scripts, tool};

const CREATE: &str = "create_sandbox";
const CLOSE: &str = "close_sandbox";
const STATUS: &str = "get_sandbox_status";
const RUN: &str = "execute_code";
const INSTALL: &str = "install_package";
const ONCE: &str = "create_run_close";
const LIST: &str = "list_files";
const READ: &str = "read_file";
const WRITE: &str = "write_file";
const UPLOAD: &str = "upload_file";
const DELETE: &str = "delete_file";

/// The family.
pub struct SandboxTools {
    sessions: Sessions,
    runs: Arc<Runs>,
    timeouts: Seconds,
    /// What code can touch that leaves no sandbox behind.
    reach: Reach,
    /// Bytes of text in one result.
    max_text: usize,
    max_image_bytes: usize,
}

/// Why a call failed.
enum Failure {
    Arguments(ArgumentError),
    Session(SessionError),
}

impl From<ArgumentError> for Failure {
    fn from(error: ArgumentError) -> Self {
        Self::Arguments(error)
    }
}

impl<E: Into<SessionError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Session(error.into())
    }
}

type Answer = Result<CallToolResult, Failure>;

/// A path that names a file.
fn file(text: &str) -> Result<WorkPath, FileError> {
    WorkPath::file(text).map_err(FileError::from)
}

impl SandboxTools {
    /// Tools for these sessions; output that a result does not show whole goes to `runs`.
    pub fn new(sessions: Sessions, runs: Arc<Runs>, settings: &Settings) -> Self {
        Self {
            sessions,
            runs,
            reach: reach_of_scripts(settings),
            timeouts: Seconds { default: settings.default_timeout, max: settings.max_timeout },
            max_text: settings.max_output_bytes,
            max_image_bytes: settings.sessions.max_image_bytes,
        }
    }

    async fn create(&self, mut given: Arguments<'_>, audit: &Entry) -> Answer {
        let id = given.optional_text("session_id")?.map(|id| id.parse()).transpose()?;
        let made = self.sessions.create(id).await?;
        audit.session(made.id.as_str());
        Ok(reply::created(&made))
    }

    async fn close(&self, mut given: Arguments<'_>) -> Answer {
        let id = session_id(&mut given)?;
        let was_open = self.sessions.close(&id).await?;
        Ok(reply::closed(&id, was_open))
    }

    async fn status(&self, mut given: Arguments<'_>) -> Answer {
        match given.optional_text("session_id")? {
            Some(id) => Ok(reply::status(&self.sessions.status(&id.parse()?).await?)),
            None => Ok(reply::session_list(&self.sessions.all(), self.sessions.interpreter())),
        }
    }

    async fn run(&self, mut given: Arguments<'_>, progress: ProgressSink, audit: &Entry) -> Answer {
        let id = session_id(&mut given)?;
        let (code, (seconds, lowered)) =
            (given.text("code")?, given.seconds("timeout_seconds", self.timeouts)?);
        let mut report = self.sessions.run(&id, code, Duration::from_secs(seconds), progress).await?;
        report.notes.extend(lowered);
        write_down(audit, &report);
        let fitted = reply::Fitted::new(report, self.max_text);
        Ok(reply::cell(Some(&id), &fitted, self.runs.keep(&fitted.files)))
    }

    async fn run_once(&self, mut given: Arguments<'_>, progress: ProgressSink, audit: &Entry) -> Answer {
        let (code, (seconds, lowered)) =
            (given.text("code")?, given.seconds("timeout_seconds", self.timeouts)?);
        let (mut report, left) = self.sessions.run_once(code, Duration::from_secs(seconds), progress).await?;
        report.notes.extend(lowered);
        write_down(audit, &report);
        let mut fitted = reply::Fitted::new(report, self.max_text);
        fitted.files.extend(left);
        Ok(reply::cell(None, &fitted, self.runs.keep(&fitted.files)))
    }

    async fn install(&self, mut given: Arguments<'_>, progress: ProgressSink, audit: &Entry) -> Answer {
        let id = session_id(&mut given)?;
        let names = given.one_or_more("package_name")?;
        let (seconds, lowered) = given.seconds("timeout_seconds", self.timeouts)?;
        let packages = requirements(&names)?;
        let timeout = Duration::from_secs(seconds);
        let mut installed = self.sessions.install(&id, packages, timeout, progress).await?;
        audit.environment(&installed.environment);
        installed.notes.extend(lowered);
        Ok(reply::installed(&names.join(" "), &installed))
    }

    async fn list(&self, mut given: Arguments<'_>) -> Answer {
        let id = session_id(&mut given)?;
        let path = given.optional_text("path")?.unwrap_or_default();
        let folder = WorkPath::parse(&path).map_err(FileError::from)?;
        let shown = folder.clone();
        let list = move |files: Arc<dyn crate::workspace::Workspace>| -> BoxFuture<'static, _> {
            Box::pin(async move { files.list(&folder).await })
        };
        let listing = self.sessions.files(&id, list).await?;
        Ok(reply::files(&shown, &listing))
    }

    async fn read(&self, mut given: Arguments<'_>) -> Answer {
        let id = session_id(&mut given)?;
        let path = file(&given.text("file_path")?)?;
        let offset = given.number("offset")?.unwrap_or(0);
        let length = given
            .number("length")?
            .map_or(self.max_text, |length| usize::try_from(length).unwrap_or(usize::MAX).min(self.max_text));
        // A picture is shown whole or not at all.
        let piece = Piece { offset, length: length.max(self.max_image_bytes) };
        let wanted = path.clone();
        let read = self
            .sessions
            .files(&id, move |files| Box::pin(async move { files.read(&wanted, piece).await }))
            .await?;
        Ok(reply::file_read(&id, &path, offset, length, self.max_image_bytes, read))
    }

    async fn write(&self, mut given: Arguments<'_>) -> Answer {
        let id = session_id(&mut given)?;
        let path = file(&given.text("file_path")?)?;
        let content = given.text("content")?.into_bytes();
        self.store(&id, path, content).await
    }

    async fn upload(&self, mut given: Arguments<'_>) -> Answer {
        let id = session_id(&mut given)?;
        let folder = given.optional_text("destination_path")?.unwrap_or_default();
        let folder = WorkPath::parse(&folder).map_err(FileError::from)?;
        let path = folder.join(&given.text("file_name")?).map_err(FileError::from)?;
        let content = given.text("file_content")?;
        let content = match given.optional_text("encoding")?.as_deref() {
            None | Some("text" | "utf-8") => content.into_bytes(),
            Some("base64") => decoded(&content)?,
            Some(other) => {
                let got = format!("{other:?}");
                return Err(
                    ArgumentError::Type { name: "encoding", wanted: "`text` or `base64`", got }.into()
                );
            }
        };
        self.store(&id, path, content).await
    }

    async fn store(&self, id: &SessionId, path: WorkPath, content: Vec<u8>) -> Answer {
        let size = content.len();
        if size > LARGEST_PIECE {
            let (path, size) = (path.to_string(), size as u64);
            return Err(FileError::Large { path, size, limit: LARGEST_PIECE }.into());
        }
        let target = path.clone();
        self.sessions
            .files(id, move |files| Box::pin(async move { files.write(&target, content).await }))
            .await?;
        Ok(reply::stored(&path, &format!("{path} is written ({size} bytes)")))
    }

    async fn delete(&self, mut given: Arguments<'_>) -> Answer {
        let id = session_id(&mut given)?;
        let path = file(&given.text("file_path")?)?;
        let target = path.clone();
        self.sessions.files(&id, move |files| Box::pin(async move { files.remove(&target).await })).await?;
        Ok(reply::stored(&path, &format!("{path} is deleted")))
    }

    async fn dispatch(&self, call: Call<'_>) -> Answer {
        call.gate.client_reads().await;
        let Call { tool, arguments, progress, audit, .. } = call;
        let given = |tool, known| Arguments::new(tool, arguments, known);
        match tool {
            CREATE => self.create(given(CREATE, &["session_id"])?, audit).await,
            CLOSE => self.close(given(CLOSE, &["session_id"])?).await,
            STATUS => self.status(given(STATUS, &["session_id"])?).await,
            RUN => {
                let given = given(RUN, &["session_id", "code", "timeout_seconds"])?;
                self.run(given, progress, audit).await
            }
            ONCE => self.run_once(given(ONCE, &["code", "timeout_seconds"])?, progress, audit).await,
            INSTALL => {
                let given = given(INSTALL, &["session_id", "package_name", "timeout_seconds"])?;
                self.install(given, progress, audit).await
            }
            LIST => self.list(given(LIST, &["session_id", "path"])?).await,
            READ => self.read(given(READ, &["session_id", "file_path", "offset", "length"])?).await,
            WRITE => self.write(given(WRITE, &["session_id", "file_path", "content"])?).await,
            UPLOAD => {
                let known = &["session_id", "file_name", "file_content", "destination_path", "encoding"];
                self.upload(given(UPLOAD, known)?).await
            }
            _ => self.delete(given(DELETE, &["session_id", "file_path"])?).await,
        }
    }
}

/// What the audit log says of a cell beside what it was.
fn write_down(audit: &Entry, report: &CellReport) {
    if !report.environment.is_empty() {
        audit.environment(&report.environment);
    }
    if let Some((how, _)) = reply::stopped(report) {
        audit.failure(how);
    } else if report.error.is_some() {
        audit.failure("exception");
    }
}

fn session_id(given: &mut Arguments<'_>) -> Result<SessionId, Failure> {
    Ok(given.text("session_id")?.parse::<SessionId>()?)
}

/// Base64 with or without the signs at its end.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Base64, with or without line breaks.
fn decoded(text: &str) -> Result<Vec<u8>, ArgumentError> {
    let plain: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    BASE64.decode(&plain).map_err(|error| ArgumentError::Type {
        name: "file_content",
        wanted: "base64, as `encoding` says",
        got: match error {
            DecodeError::InvalidByte(at, byte) => {
                format!("text with {:?} as its character {}", char::from(byte), at + 1)
            }
            _ => "text of this length and end".to_owned(),
        },
    })
}

/// Each string is one requirement, or several separated by blanks or commas.
fn requirements(names: &[String]) -> Result<Vec<Requirement>, SessionError> {
    let mut all = Vec::new();
    for text in names {
        match Requirement::parse(text) {
            Ok(requirement) => all.push(requirement),
            Err(error) => {
                let parts: Vec<&str> = text.split_whitespace().collect();
                let parsed: Result<Vec<_>, _> = parts.iter().map(|part| Requirement::parse(part)).collect();
                match parsed {
                    Ok(several) if several.len() > 1 => all.extend(several),
                    _ => return Err(SessionError::Package(error.to_string())),
                }
            }
        }
    }
    if all.is_empty() {
        return Err(SessionError::Package(
            "package_name names no package; write one such as \"pandas>=2\"".to_owned(),
        ));
    }
    Ok(all)
}

fn object(properties: &Value, required: &[&str]) -> Value {
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

impl Family for SandboxTools {
    fn tools(&self) -> Vec<Tool> {
        let text = || json!({"type": "string"});
        let seconds =
            json!({"type": "integer", "default": self.timeouts.default, "maximum": self.timeouts.max});
        let id = json!({"session_id": text()});
        let file = json!({"session_id": text(), "file_path": text()});
        let code = json!({"session_id": text(), "code": text(), "timeout_seconds": seconds});
        let once = json!({"code": text(), "timeout_seconds": seconds});
        let install = json!({"session_id": text(), "package_name": text(), "timeout_seconds": seconds});
        let list = json!({"session_id": text(), "path": {"type": "string", "default": "/"}});
        let number = json!({"type": "integer", "minimum": 0});
        let read = json!({"session_id": text(), "file_path": text(), "offset": number, "length": number});
        let write = json!({"session_id": text(), "file_path": text(), "content": text()});
        let upload = json!({
            "session_id": text(), "file_name": text(), "file_content": text(),
            "destination_path": {"type": "string", "default": "/"},
            "encoding": {"enum": ["text", "base64"], "default": "text"},
        });
        let in_file = &["session_id", "file_path"];
        let tools = [
            (CREATE, "Create sandbox", describe::CREATE, object(&id, &[]), Reach::Adding),
            (CLOSE, "Close sandbox", describe::CLOSE, object(&id, &["session_id"]), Reach::Replacing),
            (STATUS, "Sandbox status", describe::STATUS, object(&id, &[]), Reach::Reading),
            (RUN, "Execute code", describe::RUN, object(&code, &["session_id", "code"]), Reach::Changing),
            (
                INSTALL,
                "Install package",
                describe::INSTALL,
                object(&install, &["session_id", "package_name"]),
                Reach::Fetching,
            ),
            (ONCE, "Run once", describe::ONCE, object(&once, &["code"]), self.reach),
            (LIST, "List files", describe::LIST, object(&list, &["session_id"]), Reach::Reading),
            (READ, "Read file", describe::READ, object(&read, in_file), Reach::Reading),
            (
                WRITE,
                "Write file",
                describe::WRITE,
                object(&write, &["session_id", "file_path", "content"]),
                Reach::Replacing,
            ),
            (
                UPLOAD,
                "Upload file",
                describe::UPLOAD,
                object(&upload, &["session_id", "file_name", "file_content"]),
                Reach::Replacing,
            ),
            (DELETE, "Delete file", describe::DELETE, object(&file, in_file), Reach::Replacing),
        ];
        let made = |(name, title, about, schema, reach)| {
            tool(name, title, about, schema).with_annotations(annotations(reach))
        };
        tools.into_iter().map(made).collect()
    }

    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, CallToolResult> {
        Box::pin(async move {
            let audit = call.audit;
            self.dispatch(call).await.unwrap_or_else(|failure| match failure {
                Failure::Arguments(error) => {
                    audit.failure(reply::WRONG_ARGUMENTS);
                    reply::wrong_arguments(&error)
                }
                Failure::Session(SessionError::Execution(error)) => {
                    audit.failure(error.kind);
                    reply::failure(&error)
                }
                Failure::Session(error) => {
                    audit.failure(error.kind());
                    reply::session_failure(&error)
                }
            })
        })
    }

    fn resources(&self) -> BoxFuture<'_, Vec<Resource>> {
        Box::pin(resources::list(&self.sessions))
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        resources::templates()
    }

    fn read<'a>(&'a self, uri: &'a str) -> Option<BoxFuture<'a, Result<ReadResourceResult, ErrorData>>> {
        uri.starts_with(reply::SCHEME)
            .then(|| Box::pin(resources::read(&self.sessions, uri)) as BoxFuture<'a, _>)
    }
}
