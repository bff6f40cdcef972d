//! Unused users for runs that a server of root starts: another one for each run at the same time, never root, never
//! `nobody`.

use std::sync::{Arc, Mutex};

use crate::sandbox::spec::Role;

/// First of the user ids that nothing else hands out: above those that systemd and container tools take for
/// containers (up to 1,879,048,191), below what a signed number holds.
const FIRST: u32 = 0x7000_0000;

/// Runs of one server at the same time.
const SLOTS: u32 = 64;

/// Process ids have at most 22 bits on Linux.
const PROCESS_IDS: u32 = 1 << 22;

/// The users of one server.
#[derive(Clone, Default)]
pub struct Users {
    taken: Arc<Mutex<u64>>,
}

/// A user while its run lives.
pub struct User {
    /// Its id outside.
    pub id: u32,
    slot: Option<(u32, Arc<Mutex<u64>>)>,
}

impl Users {
    /// A user for a run: the server's own by process id and slot, so that two servers never share one. Stages that
    /// write the cache always get the same, so that the cache's files are theirs.
    pub fn take(&self, role: Role) -> Option<User> {
        if role == Role::Prepare {
            return Some(User { id: Self::prepare(), slot: None });
        }
        let mut taken = self.taken.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let slot = (!*taken).trailing_zeros();
        if slot >= SLOTS {
            return None;
        }
        *taken |= 1 << slot;
        let process = std::process::id() % PROCESS_IDS;
        let id = FIRST + process * SLOTS + slot;
        Some(User { id, slot: Some((slot, Arc::clone(&self.taken))) })
    }

    /// The user that owns the cache: no process has the id 0, so no run gets it.
    pub fn prepare() -> u32 {
        FIRST
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if let Some((slot, taken)) = &self.slot {
            *taken.lock().unwrap_or_else(std::sync::PoisonError::into_inner) &= !(1 << slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_at_the_same_time_have_different_users() {
        let users = Users::default();
        let all: Vec<User> = (0..SLOTS).map_while(|_| users.take(Role::Run)).collect();
        let ids: std::collections::HashSet<u32> = all.iter().map(|user| user.id).collect();
        assert_eq!(ids.len(), 64);
        assert!(ids.iter().all(|&id| (FIRST..0x8000_0000).contains(&id) && id != Users::prepare()));
        assert!(users.take(Role::Run).is_none());
        drop(all);
        assert!(users.take(Role::Run).is_some());
    }
}
