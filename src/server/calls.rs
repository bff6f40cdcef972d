//! Requests that were taken and not yet answered. Pure bookkeeping.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::RequestId;
use tokio::sync::watch;

/// Requests at the same time. More than an agent asks for, and few enough that their results fit into memory.
pub const MAX_CALLS: usize = 256;
/// Bytes of request lines at the same time.
pub const MAX_BYTES: usize = 64 << 20;

/// Why a request is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// One with this id is still being worked on.
    Duplicate,
    /// There are too many of them.
    Busy,
}

/// The requests in flight, by id.
#[derive(Clone, Default)]
pub struct Calls(Arc<Inner>);

#[derive(Default)]
struct Inner {
    sizes: Mutex<HashMap<RequestId, usize>>,
    count: watch::Sender<usize>,
}

impl Calls {
    /// Takes a request of `bytes` in, or says why not.
    pub fn begin(&self, id: RequestId, bytes: usize) -> Result<(), Full> {
        let mut sizes = self.0.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        if sizes.contains_key(&id) {
            return Err(Full::Duplicate);
        }
        let held = sizes.values().sum::<usize>();
        if sizes.len() >= MAX_CALLS || (held > 0 && held + bytes > MAX_BYTES) {
            return Err(Full::Busy);
        }
        sizes.insert(id, bytes);
        self.0.count.send_replace(sizes.len());
        Ok(())
    }

    /// The request has been answered, or cancelled by its client.
    pub fn end(&self, id: &RequestId) {
        let mut sizes = self.0.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        sizes.remove(id);
        self.0.count.send_replace(sizes.len());
    }

    /// Waits until none is left.
    pub async fn idle(&self) {
        let mut count = self.0.count.subscribe();
        // The sender lives as long as `self`: waiting cannot fail.
        let _none = count.wait_for(|count| *count == 0).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_free_again_after_its_answer() {
        let calls = Calls::default();
        let id = RequestId::Number(1);
        assert_eq!(calls.begin(id.clone(), 10), Ok(()));
        assert_eq!(calls.begin(id.clone(), 10), Err(Full::Duplicate));
        assert_eq!(calls.begin(RequestId::String("1".into()), 10), Ok(()));
        calls.end(&id);
        assert_eq!(calls.begin(id, 10), Ok(()));
    }

    #[test]
    fn number_and_bytes_are_bounded_and_one_large_request_passes() {
        let calls = Calls::default();
        for number in 0..MAX_CALLS {
            assert_eq!(calls.begin(RequestId::Number(i64::try_from(number).unwrap_or(0)), 1), Ok(()));
        }
        assert_eq!(calls.begin(RequestId::Number(-1), 1), Err(Full::Busy));
        let calls = Calls::default();
        assert_eq!(calls.begin(RequestId::Number(1), MAX_BYTES + 1), Ok(()));
        assert_eq!(calls.begin(RequestId::Number(2), 1), Err(Full::Busy));
    }

    #[tokio::test]
    async fn idle_waits_for_the_last() {
        let calls = Calls::default();
        calls.idle().await;
        assert!(calls.begin(RequestId::Number(1), 1).is_ok());
        let other = calls.clone();
        let waiting = tokio::spawn(async move { other.idle().await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        calls.end(&RequestId::Number(1));
        assert!(waiting.await.is_ok());
    }
}
