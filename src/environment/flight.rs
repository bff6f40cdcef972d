//! Lets many callers wait for one piece of work. The work is aborted when the last of them has gone.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::progress::Reporter;

/// Work in progress, by key.
#[derive(Debug)]
pub struct Flights<T> {
    running: Mutex<HashMap<Arc<str>, Weak<Flight<T>>>>,
}

/// One piece of work; hold it while waiting.
#[derive(Debug)]
pub struct Flight<T> {
    result: watch::Receiver<Option<T>>,
    abort: AbortHandle,
    niceness: u8,
    /// Tells everyone who waits how it goes.
    pub reporter: Reporter,
}

impl<T> Default for Flights<T> {
    fn default() -> Self {
        Self { running: Mutex::default() }
    }
}

impl<T: Clone + Send + Sync + 'static> Flights<T> {
    /// Joins the work under this key, or starts it. Work that gives way to more than the caller does is ended and begun
    /// anew: a running process cannot be made to give way to less.
    pub fn join<F>(&self, key: &Arc<str>, niceness: u8, start: impl FnOnce(Reporter) -> F) -> Arc<Flight<T>>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|_, flight| flight.strong_count() > 0);
        if let Some(flight) = running.get(key).and_then(Weak::upgrade).filter(|flight| !flight.is_over()) {
            if flight.niceness <= niceness {
                return flight;
            }
            flight.abort.abort();
        }
        let reporter = Reporter::default();
        let work = start(reporter.clone());
        let (tell, result) = watch::channel(None);
        let task = tokio::spawn(async move {
            let value = work.await;
            let _ = tell.send(Some(value));
        });
        let flight = Arc::new(Flight { result, abort: task.abort_handle(), niceness, reporter });
        running.insert(key.clone(), Arc::downgrade(&flight));
        flight
    }
}

impl<T: Clone> Flight<T> {
    /// Waits for the result; `None` when the work broke off, or was begun anew for somebody who is in more of a hurry.
    pub async fn wait(&self) -> Option<T> {
        let mut result = self.result.clone();
        result.wait_for(Option::is_some).await.ok().and_then(|value| value.clone())
    }
}

impl<T> Flight<T> {
    fn is_over(&self) -> bool {
        self.abort.is_finished() || self.result.borrow().is_some()
    }
}

impl<T> Drop for Flight<T> {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn many_callers_start_the_work_once() {
        let flights = Flights::default();
        let key: Arc<str> = "key".into();
        let starts = Arc::new(AtomicUsize::new(0));
        let (open, gate) = watch::channel(false);
        let waiting: Vec<_> = (0..20)
            .map(|_| {
                let (starts, mut gate) = (starts.clone(), gate.clone());
                flights.join(&key, 0, |_| async move {
                    starts.fetch_add(1, Ordering::SeqCst);
                    let _ = gate.wait_for(|open| *open).await;
                    7
                })
            })
            .collect();
        open.send(true).expect("somebody waits");
        for flight in waiting {
            assert_eq!(flight.wait().await, Some(7));
        }
        assert_eq!(starts.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn the_work_ends_with_the_last_caller() {
        struct Ended(Option<tokio::sync::oneshot::Sender<()>>);
        impl Drop for Ended {
            fn drop(&mut self) {
                let _ = self.0.take().expect("once").send(());
            }
        }
        let flights: Flights<()> = Flights::default();
        let key: Arc<str> = "key".into();
        let (tell, ended) = tokio::sync::oneshot::channel();
        let guard = Ended(Some(tell));
        let first = flights.join(&key, 0, |_| async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        });
        let second = flights.join(&key, 0, |_| async {});
        drop(first);
        drop(second);
        ended.await.expect("the work was dropped");
    }

    #[tokio::test]
    async fn work_that_gives_way_is_begun_anew_for_who_is_in_a_hurry_and_joined_by_who_is_not() {
        let flights: Flights<u8> = Flights::default();
        let key: Arc<str> = "key".into();
        let gentle = flights.join(&key, 19, |_| std::future::pending());
        let urgent = flights.join(&key, 0, |_| async { 7 });
        let late = flights.join(&key, 19, |_| std::future::pending());
        assert_eq!((gentle.wait().await, urgent.wait().await, late.wait().await), (None, Some(7), Some(7)));
    }
}
