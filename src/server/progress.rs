//! Progress notifications of one call: only with a token, rising, never after the result, and seldom enough that nobody
//! pays for them.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    JsonRpcMessage, ProgressNotification, ProgressNotificationParam, ProgressToken, ServerNotification,
};
use rmcp::service::{Peer, RoleServer};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::execution::{Progress, ProgressSink};
use crate::sandbox::BoxFuture;

use super::outbox::Outbox;
use super::reply;

/// Silence after which a client hears that the call still runs.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Least time between two notifications that show output; a call that is quicker than this sends none.
const OUTPUT_GAP: Duration = Duration::from_millis(500);
/// Least time between two notifications of phases.
const PHASE_GAP: Duration = Duration::from_millis(100);
/// While more than this waits to be read by the client, progress is left out.
const BACKLOG: usize = 1 << 20;

/// How long a result waits for the last notification before it.
const LAST_WORD: Duration = Duration::from_secs(1);

/// How a client hears of progress.
pub enum Channel {
    /// The one client's lines.
    Lines(Outbox),
    /// One of several clients; it may be slow to take a notification.
    Peer(Peer<RoleServer>),
}

/// Tells one client of one call.
pub struct Reporter {
    token: Option<ProgressToken>,
    channel: Channel,
}

impl Reporter {
    /// A reporter that is silent without a token.
    pub fn new(token: Option<ProgressToken>, channel: Channel) -> Self {
        Self { token, channel }
    }

    /// Does `work`, which gets a place for its progress, and reports meanwhile.
    pub async fn during<T, F: Future<Output = T>>(&self, work: impl FnOnce(ProgressSink) -> F) -> T {
        let Some(token) = &self.token else {
            return work(Arc::new(|_| {})).await;
        };
        let latest = watch::Sender::new(None);
        let place = latest.clone();
        let mut changes = latest.subscribe();
        let mut work = std::pin::pin!(work(Arc::new(move |progress| {
            place.send_replace(Some(progress));
        })));
        let started = Instant::now();
        let (mut told, mut news) = (started, false);
        let mut sending: Option<BoxFuture<'static, ()>> = None;
        loop {
            let gap = if news { gap(changes.borrow().as_ref()) } else { KEEP_ALIVE };
            tokio::select! {
                biased;
                result = &mut work => {
                    if let Some(last) = sending {
                        let _too_slow = tokio::time::timeout(LAST_WORD, last).await;
                    }
                    return result;
                }
                () = sent(&mut sending) => sending = None,
                // `latest` lives on: the channel is never closed here.
                _ = changes.changed(), if !news => news = true,
                () = tokio::time::sleep_until(told + gap), if sending.is_none() => {
                    (told, news) = (Instant::now(), false);
                    let progress = changes.borrow_and_update().clone();
                    sending = self.tell(token, progress.as_ref(), told - started);
                }
            }
        }
    }

    /// Straight into the outbox: the result is put there later, and so comes later. To a peer, the result waits for what
    /// is returned.
    fn tell(
        &self,
        token: &ProgressToken,
        progress: Option<&Progress>,
        elapsed: Duration,
    ) -> Option<BoxFuture<'static, ()>> {
        let param = ProgressNotificationParam::new(token.clone(), millis_as_seconds(elapsed))
            .with_message(reply::progress(progress, elapsed));
        let notification = ServerNotification::ProgressNotification(ProgressNotification::new(param));
        match &self.channel {
            Channel::Lines(outbox) if outbox.backlog() > BACKLOG => None,
            Channel::Lines(outbox) => {
                outbox.send(&JsonRpcMessage::notification(notification));
                None
            }
            Channel::Peer(peer) => {
                let peer = peer.clone();
                Some(Box::pin(async move {
                    if let Err(error) = peer.send_notification(notification).await {
                        tracing::debug!(%error, "progress could not be told");
                    }
                }))
            }
        }
    }
}

/// Completes when what is being sent has gone; never where there is nothing.
async fn sent(sending: &mut Option<BoxFuture<'static, ()>>) {
    match sending {
        Some(sending) => sending.await,
        None => std::future::pending().await,
    }
}

fn gap(progress: Option<&Progress>) -> Duration {
    match progress {
        Some(Progress::Queued | Progress::Preparing { .. }) => PHASE_GAP,
        Some(Progress::Running | Progress::Output(_)) | None => OUTPUT_GAP,
    }
}

/// Seconds to three places. Two notifications are further apart than that, so the number always rises.
fn millis_as_seconds(elapsed: Duration) -> f64 {
    (elapsed.as_secs_f64() * 1000.0).round() / 1000.0
}
