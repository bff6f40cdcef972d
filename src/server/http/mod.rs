//! The same tools over HTTP, for several clients on one machine and for containers.
//!
//! `address` (where to listen) -> `connections` (how many, how long) -> `guard` (who may speak, decided on the head of
//! the request alone) -> `service` (one request) -> rmcp's streamable transport -> the handler that standard input has, too.
//!
//! Invariants: nothing of a request's body is read before its token was right; whoever has no token can neither keep a
//! connection long nor keep others out; all clients that have the token share one server and its sandboxes.

mod address;
mod connections;
mod guard;
mod presence;
mod service;
mod token;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Services, gate, handler, tools};
use crate::settings::Settings;

pub use address::{Address, AddressError, Listener};
pub use connections::Bounds;
pub use guard::Guard;
pub use presence::Vanished;
pub use token::{Token, TokenError};

/// Path of the protocol.
pub const PATH: &str = "/mcp";
/// Path that tells whether the server lives. It needs no token and tells nothing else.
pub const HEALTH: &str = "/health";

/// How long answers may still be on their way after the server was told to end.
const LAST_ANSWERS: Duration = Duration::from_millis(300);
/// How long connections get to close after that.
const CLOSING: Duration = Duration::from_secs(1);

/// Serves every client that comes to `listener` and passes `guard`, until `shutdown` completes. Calls that run then are
/// dropped, which kills what they had started, and answered with an error.
///
/// Must be called within a tokio runtime. When it returns, no call is running and every stateful sandbox is closed.
pub async fn serve(
    services: Services,
    settings: &Settings,
    listener: Listener,
    guard: Guard,
    bounds: Bounds,
    shutdown: impl Future<Output = ()> + Send,
) {
    let sessions = services.sessions.clone();
    let closing = CancellationToken::new();
    let streams = CancellationToken::new();
    let gate = gate::Gate::new(settings.max_concurrent, None);
    let audit = services.audit.clone();
    let families = tools::families(services, settings);
    let handler = handler::Handler::new(families, gate, None, closing.clone()).with_audit(audit);
    let service = Arc::new(service::Service::new(handler, guard, bounds, streams.clone()));
    let mut connections = connections::Connections::new(service, bounds);
    connections.accept(listener, shutdown).await;
    closing.cancel();
    if !connections.end(LAST_ANSWERS).await {
        // Streams that only wait for news go on until they are told.
        streams.cancel();
        connections.end(CLOSING).await;
    }
    drop(connections);
    if let Some(sessions) = sessions {
        sessions.close_all().await;
    }
}
