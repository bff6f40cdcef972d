//! Unused users for runs that a server of root starts: another one for each run at the same time, never root, never
//! `nobody`.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::sandbox::spec::Role;

/// First of the user ids that nothing else hands out: above those that systemd and container tools take for
/// containers (up to 1,879,048,191), below what a signed number holds.
const FIRST: u32 = 0x7000_0000;

/// Users of one server: the most of `--max-concurrent`, `--pool-size` and `--max-sandboxes` together are 380, and builds
/// and checks come on top.
const SLOTS: u32 = 1 << 10;

/// Blocks of so many users that there are. The first is left to stages that write the cache.
const BLOCKS: u32 = 1 << 18;

/// Places in one word of the table.
const WORD: u32 = u64::BITS;

/// The users of one server.
#[derive(Clone, Default)]
pub struct Users {
    block: Arc<Mutex<Block>>,
}

/// A user while its run lives.
pub struct User {
    /// Its id outside.
    pub id: u32,
    slot: Option<(u32, Arc<Mutex<Block>>)>,
}

/// A server's own users, from the first that it needs.
#[derive(Default)]
struct Block {
    claim: Option<Claim>,
    taken: [u64; (SLOTS / WORD) as usize],
}

/// A number that no other server has as long as this lives.
struct Claim {
    number: u32,
    _socket: OwnedFd,
}

impl Users {
    /// A user for a run. Stages that write the cache always get the same, so that the cache's files are theirs.
    pub fn take(&self, role: Role) -> Option<User> {
        if role == Role::Prepare {
            return Some(User { id: Self::prepare(), slot: None });
        }
        let mut block = open(&self.block);
        let slot = block.free()?;
        let number = match &block.claim {
            Some(claim) => claim.number,
            None => block.claim.insert(Claim::make()?).number,
        };
        block.set(slot, true);
        let id = FIRST + number * SLOTS + slot;
        Some(User { id, slot: Some((slot, Arc::clone(&self.block))) })
    }

    /// The user that owns the cache: nobody claims the block 0, so no run gets it.
    pub fn prepare() -> u32 {
        FIRST
    }
}

fn open(block: &Mutex<Block>) -> MutexGuard<'_, Block> {
    block.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Block {
    fn free(&self) -> Option<u32> {
        let word = self.taken.iter().position(|&word| word != u64::MAX)?;
        Some(u32::try_from(word).ok()? * WORD + self.taken[word].trailing_ones())
    }

    fn set(&mut self, slot: u32, taken: bool) {
        let (word, bit) = ((slot / WORD) as usize, 1 << (slot % WORD));
        if taken { self.taken[word] |= bit } else { self.taken[word] &= !bit }
    }
}

impl Claim {
    /// The first free block from this process's id on. The name of an abstract socket is the claim: the kernel gives it
    /// to one process and takes it back at that one's end.
    fn make() -> Option<Self> {
        let start = std::process::id();
        let numbers = (0..BLOCKS - 1).map(|step| 1 + start.wrapping_add(step) % (BLOCKS - 1));
        for number in numbers {
            let flags = SocketFlags::CLOEXEC;
            let socket =
                rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None).ok()?;
            let name = format!("mcp-python-exec-sandbox-users-{number}");
            let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()?;
            match rustix::net::bind(&socket, &address) {
                Ok(()) => return Some(Self { number, _socket: socket }),
                Err(rustix::io::Errno::ADDRINUSE) => {}
                Err(_) => return None,
            }
        }
        None
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if let Some((slot, block)) = &self.slot {
            open(block).set(*slot, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn runs_at_the_same_time_have_different_users() {
        let users = Users::default();
        let all: Vec<User> = (0..SLOTS).map_while(|_| users.take(Role::Run)).collect();
        let ids: HashSet<u32> = all.iter().map(|user| user.id).collect();
        // More than all that flags let a server run, keep waiting and keep open at the same time.
        assert!(ids.len() > 256 + 64 + 60, "{}", ids.len());
        assert!(ids.iter().all(|&id| (FIRST + SLOTS..0x8000_0000).contains(&id) && id != Users::prepare()));
        assert!(users.take(Role::Run).is_none());
        assert_eq!(users.take(Role::Prepare).map(|user| user.id), Some(Users::prepare()));
        drop(all);
        assert!(users.take(Role::Run).is_some());
    }

    #[test]
    fn two_servers_share_no_user() {
        let (one, other) = (Users::default(), Users::default());
        let ids = |users: &Users| -> (Vec<User>, HashSet<u32>) {
            let all: Vec<User> = (0..SLOTS).map_while(|_| users.take(Role::Run)).collect();
            let ids = all.iter().map(|user| user.id).collect();
            (all, ids)
        };
        let ((_one, mine), (_other, theirs)) = (ids(&one), ids(&other));
        assert!(mine.is_disjoint(&theirs) && mine.len() == theirs.len());
    }
}
