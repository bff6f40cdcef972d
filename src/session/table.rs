//! Which sessions there are, and which there were. Bookkeeping only: nothing in here waits.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::actor::{Job, SharedInfo};
use super::error::{Ended, SessionError};
use super::name::SessionId;

/// Ended sessions that are remembered, for a better answer than "unknown".
const REMEMBERED: usize = 256;

#[derive(Clone, Default)]
pub struct Table(Arc<Mutex<Rows>>);

#[derive(Default)]
pub struct Rows {
    pub open: BTreeMap<SessionId, Row>,
    pub ended: VecDeque<(SessionId, Ended)>,
    pub numbered: u64,
    /// Sets rows of the same name apart.
    pub made: u64,
}

pub struct Row {
    pub made: u64,
    pub jobs: mpsc::Sender<Job>,
    pub info: SharedInfo,
    pub closing: CancellationToken,
    pub task: Option<JoinHandle<()>>,
}

impl Table {
    pub fn rows(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a session out, where it is the one that was made then.
    pub fn take(&self, id: &SessionId, made: Option<u64>) -> Option<Row> {
        let mut rows = self.rows();
        let found = rows.open.get(id).is_some_and(|row| made.is_none_or(|made| row.made == made));
        let row = if found { rows.open.remove(id) } else { None }?;
        row.closing.cancel();
        Some(row)
    }

    /// As [`Table::take`], and remembers how it ended.
    pub fn end(&self, id: &SessionId, made: Option<u64>, how: Ended) -> Option<Row> {
        let row = self.take(id, made)?;
        let mut rows = self.rows();
        rows.ended.retain(|(other, _)| other != id);
        rows.ended.push_back((id.clone(), how));
        if rows.ended.len() > REMEMBERED {
            rows.ended.pop_front();
        }
        Some(row)
    }
}

impl Rows {
    pub fn missing(&self, id: &SessionId) -> SessionError {
        let id_text = id.to_string();
        match self.ended.iter().find(|(ended, _)| ended == id) {
            Some((_, how)) => SessionError::Ended { id: id_text, how: *how },
            None => SessionError::Unknown(id_text),
        }
    }

    pub fn free_name(&mut self) -> SessionId {
        loop {
            self.numbered += 1;
            let id = SessionId::numbered(self.numbered);
            if !self.open.contains_key(&id) {
                return id;
            }
        }
    }
}

/// Closes a session whose maker has gone before it was ready.
pub struct Unfinished<'a> {
    pub table: &'a Table,
    pub id: &'a SessionId,
    pub made: u64,
    pub ready: bool,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.ready {
            self.table.take(self.id, Some(self.made));
        }
    }
}
