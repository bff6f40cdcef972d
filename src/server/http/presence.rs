//! Whether a client is still there. Losing a connection takes no call back: clients may come again and go on. Where nobody
//! has come again for a while and no other connection of the session is open, the client has vanished, and what it called
//! is ended. Without a session there is nothing to come again to, and rmcp ends a call with its connection.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio_util::sync::CancellationToken;

/// Completes when the client of a request has vanished. Travels with the head of the request.
#[derive(Clone, Debug, Default)]
pub struct Vanished(Arc<CancellationToken>);

impl Vanished {
    /// Waits for it.
    pub async fn wait(&self) {
        self.0.cancelled().await;
    }
}

/// Every session that somebody is waiting in.
#[derive(Clone)]
pub struct Presence {
    sessions: Arc<Mutex<BTreeMap<String, Session>>>,
    grace: Duration,
}

#[derive(Default)]
struct Session {
    /// Answers that are being given.
    open: usize,
    /// Requests that have come.
    seen: u64,
    /// Lost connections whose client may come again.
    missed: usize,
    /// Calls whose connection was lost, as far as they still run.
    lost: Vec<Weak<CancellationToken>>,
}

impl Presence {
    /// Clients may come again for `grace`.
    pub fn new(grace: Duration) -> Self {
        Self { sessions: Arc::default(), grace }
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<String, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody asks in a session and waits for the answer, as long as what is returned lives.
    pub fn enter(&self, session: &str) -> Waiting {
        let mut sessions = self.sessions();
        let known = sessions.entry(session.to_owned()).or_default();
        known.open += 1;
        known.seen += 1;
        let (presence, session) = (self.clone(), session.to_owned());
        Waiting { presence, session, vanished: Vanished::default(), answered: false }
    }

    /// Changes what is known of a session, and forgets it when nobody is there.
    fn change<T>(&self, name: &str, change: impl FnOnce(&mut Session) -> T) -> Option<T> {
        let mut sessions = self.sessions();
        let session = sessions.get_mut(name)?;
        let told = change(session);
        if session.open == 0 && session.missed == 0 {
            sessions.remove(name);
        }
        Some(told)
    }
}

/// Somebody who waits for an answer.
pub struct Waiting {
    presence: Presence,
    session: String,
    vanished: Vanished,
    answered: bool,
}

impl Waiting {
    /// What tells the call that its client has vanished.
    pub fn vanished(&self) -> Vanished {
        self.vanished.clone()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let lost = (!self.answered).then(|| Arc::downgrade(&self.vanished.0));
        let seen = self.presence.change(&self.session, |session| {
            session.open -= 1;
            session.lost.retain(|call| call.strong_count() > 0);
            session.missed += usize::from(lost.is_some());
            session.lost.extend(lost);
            session.seen
        });
        if self.answered {
            return;
        }
        let (presence, session) = (self.presence.clone(), std::mem::take(&mut self.session));
        // Without a runtime the server itself is going, and ends every call.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            tokio::time::sleep(presence.grace).await;
            presence.change(&session, |session| {
                session.missed -= 1;
                if session.open == 0 && Some(session.seen) == seen {
                    tracing::info!("a client has vanished: its calls are ended");
                    session.lost.drain(..).filter_map(|call| call.upgrade()).for_each(|call| call.cancel());
                }
            });
        });
    }
}

/// An answer that somebody waits for.
pub struct Awaited {
    body: BoxBody<Bytes, Infallible>,
    waiting: Waiting,
}

impl Awaited {
    /// Watches whether it is taken to its end.
    pub fn new(body: BoxBody<Bytes, Infallible>, waiting: Waiting) -> Self {
        Self { body, waiting }
    }
}

impl Body for Awaited {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.waiting.answered |= frame.is_none() || self.body.is_end_stream();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(10);

    async fn is_gone(vanished: &Vanished) -> bool {
        tokio::time::timeout(Duration::from_millis(1), vanished.wait()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_come_again_has_vanished() {
        let presence = Presence::new(GRACE);
        let waiting = presence.enter("a");
        let vanished = waiting.vanished();
        drop(waiting);
        tokio::time::sleep(GRACE / 2).await;
        assert!(!is_gone(&vanished).await);
        drop(presence.enter("b"));
        tokio::time::sleep(GRACE).await;
        assert!(is_gone(&vanished).await, "another session is somebody else");
        tokio::time::sleep(GRACE).await;
        assert!(presence.sessions().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_again_or_waits_elsewhere_has_not() {
        let presence = Presence::new(GRACE);
        let stream = presence.enter("a");
        let lost = presence.enter("a");
        let vanished = lost.vanished();
        drop(lost);
        tokio::time::sleep(GRACE * 2).await;
        assert!(!is_gone(&vanished).await, "another stream of it is open");
        let mut again = presence.enter("a");
        let vanished = stream.vanished();
        drop(stream);
        again.answered = true;
        drop(again);
        let mut later = presence.enter("a");
        tokio::time::sleep(GRACE / 2).await;
        later.answered = true;
        drop(later);
        tokio::time::sleep(GRACE).await;
        assert!(!is_gone(&vanished).await, "it has asked since");
        assert!(presence.sessions().is_empty());
    }
}
