//! Counts containers from their start until the engine has removed them, and tells all of them when the server ends.

use std::sync::Arc;

use tokio::sync::watch;

/// The containers of one server.
#[derive(Clone, Debug)]
pub struct Containers {
    count: Arc<watch::Sender<usize>>,
    closing: Arc<watch::Sender<bool>>,
}

/// One container, until it is dropped.
#[derive(Debug)]
pub struct Alive(Arc<watch::Sender<usize>>);

impl Containers {
    /// None yet.
    pub fn new() -> Self {
        Self { count: Arc::new(watch::Sender::new(0)), closing: Arc::new(watch::Sender::new(false)) }
    }

    /// One more.
    pub fn begin(&self) -> Alive {
        self.count.send_modify(|count| *count += 1);
        Alive(Arc::clone(&self.count))
    }

    /// Waits until the server ends.
    pub async fn closing(&self) {
        // The sender lives as long as this does.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    /// Whether the server ends.
    pub fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Ends all containers and waits until none is left.
    pub async fn close(&self) {
        self.closing.send_replace(true);
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn closing_reaches_everyone_and_waits_for_the_last() {
        let containers = Containers::new();
        let (one, two) = (containers.begin(), containers.begin());
        let closing = tokio::spawn({
            let containers = containers.clone();
            async move { containers.close().await }
        });
        containers.closing().await;
        drop(one);
        tokio::task::yield_now().await;
        assert!(!closing.is_finished());
        drop(two);
        closing.await.expect("no panic");
    }
}
