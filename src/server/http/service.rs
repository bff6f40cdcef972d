//! One request over HTTP: its path, its guard, its body, and then rmcp's streamable transport.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, header};
use rmcp::model::ErrorCode;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::connections::Bounds;
use super::guard::{Guard, Refused};
use super::presence::{Awaited, Presence};
use super::{HEALTH, PATH};
use crate::server::handler::Handler;
use crate::server::message::{self, Refusal};

/// A session that nobody has used for this long is forgotten. Agents pause while a person thinks.
const SESSION_IDLE: Duration = Duration::from_hours(12);
/// Header that names a session.
const SESSION: &str = "mcp-session-id";
/// The first version of the protocol that has no handshake.
const WITHOUT_SESSIONS: &str = "2026-07-28";

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// What every connection answers with.
pub struct Service {
    protocol: StreamableHttpService<Handler, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    presence: Presence,
    guard: Guard,
    bounds: Bounds,
}

impl Service {
    /// Answers with `handler` whoever passes `guard`; streams that wait for news end when `streams` is cancelled.
    pub fn new(handler: Handler, guard: Guard, bounds: Bounds, streams: CancellationToken) -> Self {
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(SESSION_IDLE);
        let sessions = Arc::new(sessions);
        // Host and Origin have been checked before, and so has the size.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_max_request_body_bytes(bounds.body_bytes)
            .with_cancellation_token(streams);
        let protocol = StreamableHttpService::new(move || Ok(handler.clone()), Arc::clone(&sessions), config);
        Self { protocol, sessions, presence: Presence::new(bounds.absence), guard, bounds }
    }

    /// Answers one request; `known` is called as soon as it has shown the token.
    pub async fn answer(
        &self,
        request: Request<Incoming>,
        known: impl FnOnce(),
    ) -> Result<Answer, Infallible> {
        let (head, body) = request.into_parts();
        Ok(self.answer_parts(head, body, known).await.unwrap_or_else(|refused| refused))
    }

    async fn answer_parts(
        &self,
        mut head: Parts,
        body: Incoming,
        known: impl FnOnce(),
    ) -> Result<Answer, Answer> {
        self.guard.comes_rightly(&head).map_err(refuse)?;
        match head.uri.path() {
            HEALTH if matches!(head.method, Method::GET | Method::HEAD) => {
                return Ok(plain(StatusCode::OK, "ok\n"));
            }
            PATH => {}
            _ => return Err(plain(StatusCode::NOT_FOUND, &format!("this server's path is {PATH}\n"))),
        }
        self.guard.shows_token(&head.headers).map_err(refuse)?;
        known();
        let body = self.read(&head, body).await?;
        if head.method == Method::POST {
            let new = !head.headers.contains_key(SESSION);
            if new && self.sessions.sessions.read().await.len() >= self.bounds.sessions {
                return Err(plain(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "too many sessions are open; end one by DELETE\n",
                ));
            }
            if let message::Incoming::Refused(refusal) = message::read(body.to_vec())
                && !is_gone(&head.headers)
            {
                return Err(refuse_message(&refusal));
            }
        }
        let session = head.headers.get(SESSION).and_then(|session| session.to_str().ok());
        let waiting = session.map(|session| self.presence.enter(session));
        if let Some(waiting) = &waiting {
            head.extensions.insert(waiting.vanished());
        }
        let answer = self.protocol.handle(Request::from_parts(head, Full::new(body))).await;
        Ok(match waiting {
            Some(waiting) => answer.map(|body| Awaited::new(body, waiting).boxed()),
            None => answer,
        })
    }

    async fn read(&self, head: &Parts, body: Incoming) -> Result<Bytes, Answer> {
        let limit = self.bounds.body_bytes;
        let too_large = || {
            let limit = limit / 1024;
            plain(StatusCode::PAYLOAD_TOO_LARGE, &format!("a message may have at most {limit} KiB\n"))
        };
        let length =
            head.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if length.is_some_and(|length: u64| length > limit as u64) {
            return Err(last(too_large()));
        }
        match tokio::time::timeout(self.bounds.body, Limited::new(body, limit).collect()).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(last(too_large())),
            Ok(Err(error)) => {
                Err(last(plain(StatusCode::BAD_REQUEST, &format!("the body cannot be read: {error}\n"))))
            }
            Err(_) => Err(last(plain(StatusCode::REQUEST_TIMEOUT, "the body took too long\n"))),
        }
    }
}

/// Whether the method is one that the request's version of the protocol does not have any more, whatever its parameters:
/// rmcp knows the answer.
fn is_gone(headers: &HeaderMap) -> bool {
    let value = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value("mcp-protocol-version") >= WITHOUT_SESSIONS && value("mcp-method") == "initialize"
}

fn plain(status: StatusCode, text: &str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::copy_from_slice(text.as_bytes())).boxed());
    *answer.status_mut() = status;
    let text = header::HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, text);
    answer
}

/// The last answer on its connection: what is left of the request is not read.
fn last(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
    answer
}

fn refuse(why: Refused) -> Answer {
    tracing::warn!("a request was turned away: {why}");
    let mut answer = last(plain(why.status(), &format!("{why}\n")));
    if answer.status() == StatusCode::UNAUTHORIZED {
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
    }
    answer
}

/// A message that cannot be carried out. Where it is known whose answer this is, the client hears it as one.
fn refuse_message(refusal: &Refusal) -> Answer {
    let known = refusal.id.is_some() && refusal.error.code == ErrorCode::INVALID_PARAMS;
    let status = if known { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    let id = refusal.id.as_ref();
    let error = serde_json::json!({"jsonrpc": "2.0", "id": id, "error": refusal.error});
    let mut answer = plain(status, &error.to_string());
    answer.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    answer
}
