//! Counts the runs of this process that use an environment, so that work which can wait does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// Runs by environment.
#[derive(Clone, Debug, Default)]
pub struct Uses(Arc<Mutex<HashMap<Arc<str>, watch::Sender<usize>>>>);

/// One run; counted as long as it lives.
#[derive(Debug)]
pub struct Use {
    uses: Uses,
    key: Arc<str>,
}

impl Uses {
    /// Counts one more.
    pub fn enter(&self, key: &Arc<str>) -> Use {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.entry(key.clone()).or_default().send_modify(|count| *count += 1);
        Use { uses: self.clone(), key: key.clone() }
    }

    /// Waits until there is none.
    pub async fn none(&self, key: &str) {
        let counter =
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).map(watch::Sender::subscribe);
        if let Some(mut counter) = counter {
            // An error says that the counter is gone, and with it the last run.
            let _ = counter.wait_for(|count| *count == 0).await;
        }
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        let mut running = self.uses.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(counter) = running.get(&self.key) else { return };
        counter.send_modify(|count| *count -= 1);
        if *counter.borrow() == 0 {
            running.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiting_ends_with_the_last_run() {
        let (uses, key): (Uses, Arc<str>) = (Uses::default(), "k".into());
        uses.none("k").await;
        let (first, second) = (uses.enter(&key), uses.enter(&key));
        let waiting = {
            let uses = uses.clone();
            tokio::spawn(async move { uses.none("k").await })
        };
        drop(first);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(second);
        waiting.await.expect("no panic");
        assert!(uses.0.lock().expect("not poisoned").is_empty());
    }
}
