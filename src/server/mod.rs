//! The MCP face: reads requests from one client, asks [`Execute`] for the work, and words the answers.
//!
//! A line travels `lines` (bytes to lines, with a limit) -> `message` (a line to a message, or to a refusal) ->
//! `transport` (lifecycle and bookkeeping, in front of rmcp) -> `handler` (rmcp's callbacks) -> `tools` (a file for
//! each family) -> `reply` (all wording) -> `outbox` (bounded, ordered, written by one task).
//!
//! Invariants: rmcp's types stay in this room; nothing in here knows how a sandbox is built; whatever a client
//! sends, the server answers or ignores it and lives on.

mod arguments;
mod calls;
mod gate;
mod handler;
mod lines;
mod message;
mod outbox;
mod progress;
mod reply;
mod stdio;
mod tools;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::service::serve_directly;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::audit::AuditLog;
use crate::execution::Execute;
use crate::session::Sessions;
use crate::settings::Settings;

pub use stdio::{stdin, stdout, terminated};

/// Longest line that is read, in bytes: a script of several megabytes fits, and a runaway client is stopped.
pub const MAX_LINE: usize = 16 << 20;

/// How long calls in flight may go on after the end of input, so that a shell pipe gets its answers. Together with the
/// kill this stays within a quarter of a second.
pub const END_OF_INPUT_GRACE: Duration = Duration::from_millis(200);

/// Why serving ended in another way than by the client's wish.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Standard input could not be read.
    #[error("standard input cannot be read: {0}")]
    Input(#[source] std::io::Error),
    /// Standard output could not be written; a reader that went away is no error.
    #[error("standard output cannot be written: {0}")]
    Output(#[source] std::io::Error),
    /// The protocol loop ended by a fault of this program.
    #[error("the protocol loop ended unexpectedly: {0}")]
    Loop(String),
}

/// Who does the work that clients ask for.
#[derive(Clone)]
pub struct Services {
    /// Single runs.
    pub executor: Arc<dyn Execute>,
    /// Stateful sandboxes, where they are served. They are closed when the client goes.
    pub sessions: Option<Sessions>,
    /// Where calls are written down.
    pub audit: Option<Arc<AuditLog>>,
}

/// Serves one client with single runs only; see [`serve_all`].
pub async fn serve<R, W>(
    executor: Arc<dyn Execute>,
    settings: &Settings,
    stdin: R,
    stdout: W,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    serve_all(Services { executor, sessions: None, audit: None }, settings, stdin, stdout, shutdown).await
}

/// Serves one client until its input ends, its output breaks, or `shutdown` completes.
///
/// At the end of input, calls in flight get [`END_OF_INPUT_GRACE`]; whatever still runs is then dropped (which kills
/// it) and answered with an error, as long as somebody reads. A broken output or `shutdown` drops it at once.
///
/// Must be called within a tokio runtime. When it returns, no call is running and every stateful sandbox is closed.
pub async fn serve_all<R, W>(
    services: Services,
    settings: &Settings,
    stdin: R,
    stdout: W,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let sessions = services.sessions.clone();
    let served = serve_calls(services, settings, stdin, stdout, shutdown).await;
    if let Some(sessions) = sessions {
        sessions.close_all().await;
    }
    served
}

async fn serve_calls<R, W>(
    services: Services,
    settings: &Settings,
    stdin: R,
    stdout: W,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let closing = CancellationToken::new();
    let (outbox, writer) = outbox::open(stdout, closing.clone());
    let writer = tokio::spawn(writer);
    let transport = transport::LineTransport::new(stdin, outbox.clone(), closing.clone());
    let input_fault = transport.fault();
    let gate = gate::Gate::new(settings.max_concurrent, outbox.clone());
    let audit = services.audit.clone();
    let families = tools::families(services, settings);
    let handler = handler::Handler::new(families, gate, outbox, closing.clone()).with_audit(audit);

    let service = serve_directly::<RoleServer, _, _, _, _>(handler, transport, None);
    let mut waiting = std::pin::pin!(service.waiting());
    let ended = tokio::select! {
        ended = &mut waiting => ended,
        () = shutdown => {
            closing.cancel();
            waiting.await
        }
    };
    ended.map_err(|error| ServeError::Loop(error.to_string()))?;
    writer.await.map_err(|error| ServeError::Loop(error.to_string()))?.map_err(ServeError::Output)?;
    input_fault.take().map_or(Ok(()), |error| Err(ServeError::Input(error)))
}
