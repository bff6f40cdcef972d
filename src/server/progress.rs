//! Progress notifications of one call: only with a token, rising, never after the result, and seldom enough that nobody
//! pays for them.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    JsonRpcMessage, ProgressNotification, ProgressNotificationParam, ProgressToken, ServerNotification,
};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::execution::{Progress, ProgressSink};

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

/// Tells one client of one call.
pub struct Reporter {
    token: Option<ProgressToken>,
    outbox: Outbox,
}

impl Reporter {
    /// A reporter that is silent without a token.
    pub fn new(token: Option<ProgressToken>, outbox: Outbox) -> Self {
        Self { token, outbox }
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
        loop {
            let gap = if news { gap(changes.borrow().as_ref()) } else { KEEP_ALIVE };
            tokio::select! {
                biased;
                result = &mut work => return result,
                // `latest` lives on: the channel is never closed here.
                _ = changes.changed(), if !news => news = true,
                () = tokio::time::sleep_until(told + gap) => {
                    (told, news) = (Instant::now(), false);
                    let progress = changes.borrow_and_update().clone();
                    self.tell(token, progress.as_ref(), told - started);
                }
            }
        }
    }

    /// Straight into the outbox: the result is put there later, and so comes later.
    fn tell(&self, token: &ProgressToken, progress: Option<&Progress>, elapsed: Duration) {
        if self.outbox.backlog() > BACKLOG {
            return;
        }
        let param = ProgressNotificationParam::new(token.clone(), millis_as_seconds(elapsed))
            .with_message(reply::progress(progress, elapsed));
        let notification = ServerNotification::ProgressNotification(ProgressNotification::new(param));
        self.outbox.send(&JsonRpcMessage::notification(notification));
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
