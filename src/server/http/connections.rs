//! Connections: how many there are, how long they may be silent, and how they end.
//!
//! A connection on which no token has been shown is a stranger's. Where there are too many connections, the oldest
//! stranger goes: a thousand of them cannot keep out a client that has the token.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::address::{Listener, Stream};
use super::service::Service;

/// Bytes of a request's head, and of what is buffered of a body.
const HEAD: usize = 64 << 10;
/// Pause after the system refused a connection, so that running out of descriptors is no busy loop.
const PAUSE: Duration = Duration::from_millis(50);

/// What one client may take.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections at the same time.
    pub connections: usize,
    /// Time for the head of a request, counted from the end of the last one.
    pub head: Duration,
    /// Time for the body of a request.
    pub body: Duration,
    /// Bytes of the body of a request.
    pub body_bytes: usize,
    /// Protocol sessions at the same time.
    pub sessions: usize,
    /// Time after which a session's client has vanished whose last connection was lost.
    pub absence: Duration,
}

impl Default for Bounds {
    /// For a machine's own clients; a script of several megabytes fits.
    fn default() -> Self {
        Self {
            connections: 256,
            head: Duration::from_secs(30),
            body: Duration::from_mins(1),
            body_bytes: crate::server::MAX_LINE,
            sessions: 512,
            absence: Duration::from_secs(15),
        }
    }
}

/// Connections on which no token has been shown yet, oldest first.
#[derive(Clone, Default)]
struct Strangers(Arc<Mutex<BTreeMap<u64, CancellationToken>>>);

impl Strangers {
    fn arrive(&self, number: u64) -> CancellationToken {
        let gone = CancellationToken::new();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(number, gone.clone());
        gone
    }

    fn leave(&self, number: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }

    /// Sends the oldest away; false where there is none.
    fn send_away(&self) -> bool {
        let oldest = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_first();
        oldest.map(|(_, gone)| gone.cancel()).is_some()
    }
}

/// All connections of a server. Dropping this ends them at once.
pub struct Connections {
    service: Arc<Service>,
    bounds: Bounds,
    strangers: Strangers,
    ending: CancellationToken,
    tasks: JoinSet<()>,
    number: u64,
}

impl Connections {
    /// None yet.
    pub fn new(service: Arc<Service>, bounds: Bounds) -> Self {
        let (strangers, ending) = (Strangers::default(), CancellationToken::new());
        Self { service, bounds, strangers, ending, tasks: JoinSet::new(), number: 0 }
    }

    /// Takes connections until `shutdown` completes.
    pub async fn accept(&mut self, listener: Listener, shutdown: impl Future<Output = ()> + Send) {
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            let full = self.tasks.len() >= self.bounds.connections && !self.strangers.send_away();
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                Some(_) = self.tasks.join_next() => {}
                accepted = listener.accept(), if !full => match accepted {
                    Ok(stream) => self.serve(stream),
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be taken");
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        }
    }

    /// Lets every connection finish the answer that it is about to give; whether all did within `time`.
    pub async fn end(&mut self, time: Duration) -> bool {
        self.ending.cancel();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        tokio::time::timeout(time, all).await.is_ok()
    }

    fn serve(&mut self, stream: Box<dyn Stream>) {
        self.number += 1;
        let number = self.number;
        let gone = self.strangers.arrive(number);
        let (service, strangers, ending) =
            (Arc::clone(&self.service), self.strangers.clone(), self.ending.clone());
        let mut protocol = http1::Builder::new();
        protocol.timer(TokioTimer::new()).header_read_timeout(self.bounds.head).max_buf_size(HEAD);
        self.tasks.spawn(async move {
            let friends = strangers.clone();
            let answer = service_fn(move |request| {
                let (service, friends) = (Arc::clone(&service), friends.clone());
                async move { service.answer(request, || friends.leave(number)).await }
            });
            let mut connection = std::pin::pin!(protocol.serve_connection(TokioIo::new(stream), answer));
            let ended = tokio::select! {
                ended = &mut connection => ended,
                () = gone.cancelled() => Ok(()),
                () = ending.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            }
            strangers.leave(number);
        });
    }
}
