//! The line transport in front of rmcp: lifecycle, bookkeeping and the end of input.
//!
//! rmcp alone would end at a notification that comes too early, leave unreadable lines without an answer, and hold on
//! for seconds at the end of input. What reaches it from here is well-formed, allowed at its moment and unique.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, GetMeta, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use tokio::io::AsyncRead;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::calls::{Calls, Full};
use super::lines::{Line, Lines};
use super::message::{self, Incoming, Refusal};
use super::outbox::Outbox;
use super::{END_OF_INPUT_GRACE, MAX_LINE, reply};

/// While more than this waits to be read by the client, no further request is read.
const FULL_BACKLOG: usize = 8 << 20;

/// Where the conversation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lifecycle {
    /// Nothing has been agreed on.
    Waiting,
    /// Each request names its protocol version.
    Stateless,
    /// `initialize` was asked.
    Session,
}

/// A fault of the input, for whoever wants to know afterwards.
#[derive(Clone, Default)]
pub struct Fault(Arc<Mutex<Option<io::Error>>>);

impl Fault {
    /// The fault, once.
    pub fn take(&self) -> Option<io::Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set(&self, error: io::Error) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }
}

/// Lines in, lines out.
pub struct LineTransport<R> {
    lines: Lines<R>,
    outbox: Outbox,
    calls: Calls,
    lifecycle: Lifecycle,
    closing: CancellationToken,
    fault: Fault,
    /// Set at the end of input: when calls in flight are dropped.
    deadline: Option<Instant>,
}

impl<R: AsyncRead + Unpin> LineTransport<R> {
    /// A transport that ends with its input, and at once when `closing` is cancelled; it cancels `closing` itself when
    /// calls in flight have to end.
    pub fn new(input: R, outbox: Outbox, closing: CancellationToken) -> Self {
        Self {
            lines: Lines::new(input, MAX_LINE),
            outbox,
            calls: Calls::default(),
            lifecycle: Lifecycle::Waiting,
            closing,
            fault: Fault::default(),
            deadline: None,
        }
    }

    /// Where a fault of the input will be found.
    pub fn fault(&self) -> Fault {
        self.fault.clone()
    }

    /// The next message for rmcp; refusals are answered on the way. `None` at the end.
    async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(deadline) = self.deadline {
                linger(&self.calls, &self.closing, deadline).await;
                return None;
            }
            let read = async {
                self.outbox.below(FULL_BACKLOG).await;
                self.lines.next().await
            };
            let line = tokio::select! {
                biased;
                () = self.closing.cancelled() => return None,
                line = read => line,
            };
            match line {
                Ok(Some(line)) => {
                    if let Some(message) = self.admit(line) {
                        return Some(message);
                    }
                }
                Ok(None) => self.end(),
                Err(error) => {
                    self.fault.set(error);
                    self.end();
                }
            }
        }
    }

    fn end(&mut self) {
        self.deadline = Some(Instant::now() + END_OF_INPUT_GRACE);
    }

    /// Gives a line's message on, or answers it, or drops it.
    fn admit(&mut self, line: Line) -> Option<ClientJsonRpcMessage> {
        let (incoming, length) = match line {
            Line::Whole(line) => {
                let length = line.len();
                (message::read(line), length)
            }
            Line::TooLong { head, tail } => {
                (Incoming::Refused(message::too_long(&head, &tail, MAX_LINE)), MAX_LINE)
            }
        };
        match incoming {
            Incoming::Ignored => None,
            Incoming::Refused(refusal) => self.refuse(&refusal),
            Incoming::Message(message) => match *message {
                JsonRpcMessage::Request(request) => match self.allow(&request.request, &request.id, length) {
                    Ok(()) => Some(JsonRpcMessage::Request(request)),
                    Err(error) => self.refuse(&Refusal { id: Some(request.id), error }),
                },
                JsonRpcMessage::Notification(notification) => {
                    self.hear(&notification.notification);
                    Some(JsonRpcMessage::Notification(notification))
                }
                JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => None,
            },
        }
    }

    fn refuse(&self, refusal: &Refusal) -> Option<ClientJsonRpcMessage> {
        tracing::debug!(id = ?refusal.id, error = %refusal.error.message, "refused a line");
        self.outbox.refuse(refusal);
        None
    }

    /// Whether a request may be carried out at this moment; if so it is in flight from now on.
    fn allow(
        &mut self,
        request: &ClientRequest,
        id: &RequestId,
        length: usize,
    ) -> Result<(), rmcp::ErrorData> {
        let names_version = request.get_meta().protocol_version().is_some();
        let lifecycle = match (request, self.lifecycle) {
            (ClientRequest::InitializeRequest(_), _) => Lifecycle::Session,
            (ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_), now) => now,
            (_, Lifecycle::Waiting) if names_version => Lifecycle::Stateless,
            (_, Lifecycle::Waiting | Lifecycle::Stateless) if !names_version => {
                return Err(reply::not_initialized(request.method()));
            }
            (_, now) => now,
        };
        match self.calls.begin(id.clone(), length) {
            Ok(()) => {}
            Err(Full::Duplicate) => return Err(reply::duplicate_id(id)),
            Err(Full::Busy) => return Err(reply::too_many_calls()),
        }
        self.lifecycle = lifecycle;
        Ok(())
    }

    /// A request that its client has cancelled is not answered any more.
    fn hear(&self, notification: &ClientNotification) {
        if let ClientNotification::CancelledNotification(cancelled) = notification
            && let Some(id) = &cancelled.params.request_id
        {
            self.calls.end(id);
        }
    }
}

/// Lets calls in flight finish until the deadline, then drops them.
async fn linger(calls: &Calls, closing: &CancellationToken, deadline: Instant) {
    tokio::select! {
        () = calls.idle() => {}
        () = tokio::time::sleep_until(deadline) => {}
        () = closing.cancelled() => {}
    }
    closing.cancel();
}

impl<R: AsyncRead + Send + Unpin + 'static> Transport<RoleServer> for LineTransport<R> {
    type Error = Infallible;

    fn send(
        &mut self,
        mut message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        if let JsonRpcMessage::Error(answer) = &mut message
            && answer.error.code == ErrorCode::METHOD_NOT_FOUND
        {
            // rmcp's text is the bare name of the method.
            answer.error.message = reply::unknown_method(&answer.error.message).into();
        }
        self.outbox.send(&message);
        match &message {
            JsonRpcMessage::Response(response) => self.calls.end(&response.id),
            JsonRpcMessage::Error(error) => {
                if let Some(id) = &error.id {
                    self.calls.end(id);
                }
            }
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {}
        }
        std::future::ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.next().await
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        self.outbox.finish().await;
        Ok(())
    }
}
