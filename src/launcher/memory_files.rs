//! Files in memory, sealed against execution where the kernel's own setting is out of reach: only root outside may
//! write it. Plain memory files are then made by the supervisor, with the seal added, and handed to the program.
//!
//! A small filter of its own holds those calls up; the policy's filter, which is installed after it, decides about all
//! others and refuses every further listener.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::stage::{Failed, Restricted, Worker, absent, enforced_with};
use super::sys::notify::{self, Answer};
use super::sys::{self, Instruction};
use super::{Answering, Launch};
use crate::sandbox::linux::plan::{LaunchPlan, PolicyTier, SeccompPlan};

/// Name of the layer in reports.
pub const LAYER: &str = "memory files not executable";

/// The supervisor's end: the listener arrives here.
pub struct Keeper(OwnedFd);

/// Whether this run's memory files are made by its supervisor: where the kernel knows the seal (Linux 6.3), and where
/// the policy does not take the one listener that the kernel allows for itself.
pub fn are_kept(plan: &LaunchPlan) -> bool {
    tier(plan) == Some(PolicyTier::Full) && kernel_knows_the_seal()
}

/// Whether the server makes them: it listens already, and does this too.
pub fn are_kept_by_server(plan: &LaunchPlan) -> bool {
    let asked = plan.seccomp.as_ref().is_some_and(SeccompPlan::asks_about_memory_files);
    tier(plan) == Some(PolicyTier::Brokered) && asked && kernel_knows_the_seal()
}

fn tier(plan: &LaunchPlan) -> Option<PolicyTier> {
    plan.seccomp.as_ref().map(SeccompPlan::tier)
}

/// Since Linux 6.3.
fn kernel_knows_the_seal() -> bool {
    rustix::fs::memfd_create("probe", MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL).is_ok()
}

/// Prepares the hand-over of the listener. Call before the worker is forked.
pub fn arrange(launch: &mut Launch) -> Result<Keeper, Failed> {
    let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|error| Failed::errno(LAYER, "making a socket pair", error))?;
    launch.answering = Answering::Supervisor(pair.0);
    Ok(Keeper(pair.1))
}

impl Worker<Restricted> {
    /// Has plain memory files made by the supervisor from here on, where that was arranged.
    pub fn seal_memory_files(self, answering: &Answering) -> Result<Self, Failed> {
        let Answering::Supervisor(socket) = answering else { return Ok(self) };
        let listener = match sys::install_filter_with_listener(&program()) {
            Ok(listener) => listener,
            // An outer sandbox listens already, and the kernel allows one.
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                return Ok(self.advance("memory files", absent(LAYER, "an outer sandbox listens already")));
            }
            Err(error) => return Err(Failed::io(LAYER, "installing its filter", &error)),
        };
        sys::rights::send(socket, b"1", &[listener.as_fd()])
            .map(drop)
            .map_err(|error| Failed::io(LAYER, "handing over", &error))?;
        Ok(self.advance("memory files", enforced_with(LAYER, "by the supervisor".to_owned())))
    }
}

/// `memfd_create` without the seal is held up, everything else passes. Foreign architectures end at the policy's filter.
fn program() -> [Instruction; 6] {
    const NUMBER: u32 = 0;
    // The low half of the second argument: both architectures are little-endian.
    const FLAGS: u32 = 24;
    let word = |code: u32, k: u32| Instruction { code: code.to_le_bytes()[0].into(), jt: 0, jf: 0, k };
    let load = |offset| word(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset);
    let jump = |test, k, jt, jf| Instruction { jt, jf, ..word(libc::BPF_JMP | test | libc::BPF_K, k) };
    let call = u32::try_from(libc::SYS_memfd_create).unwrap_or_default();
    [
        load(NUMBER),
        jump(libc::BPF_JEQ, call, 0, 2),
        load(FLAGS),
        jump(libc::BPF_JSET, libc::MFD_NOEXEC_SEAL, 0, 1),
        word(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
        word(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_USER_NOTIF),
    ]
}

impl Keeper {
    /// Answers calls on a thread of its own until this process ends. Call when this process has forked for the last
    /// time and has given up what it does not need.
    pub fn serve(self, launch: &mut Launch) -> Result<(), Failed> {
        launch.answering = Answering::Server;
        let thread = std::thread::Builder::new().name("memory files".to_owned()).stack_size(64 << 10);
        let serve = move || {
            // `None` where the worker ended without one.
            if let Some(listener) = sys::rights::receive_one(&self.0) {
                while answer(&listener) {}
            }
        };
        thread.spawn(serve).map(drop).map_err(|error| Failed::io(LAYER, "starting a thread", &error))
    }
}

/// Answers one call. `false` when nobody is left who could ask.
fn answer(listener: &OwnedFd) -> bool {
    let call = match notify::receive(listener) {
        Ok(call) => call,
        // A call that was interrupted before it was read.
        Err(error) => return matches!(error, Errno::INTR | Errno::NOENT),
    };
    if let Err(error) = notify::give_memory_file(listener, &call) {
        // Where nobody asks any more, nobody misses it.
        let _ = notify::answer(listener, call.id, Answer::Fail(error));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program answers to a call.
    fn run(number: libc::c_long, flags: u64) -> u32 {
        let mut data = [0_u8; 64];
        data[..4].copy_from_slice(&i32::try_from(number).expect("a number").to_le_bytes());
        data[24..32].copy_from_slice(&flags.to_le_bytes());
        let (mut accumulator, mut at) = (0, 0);
        let program = program();
        loop {
            let one = program[at];
            at += 1;
            let jump = |taken: bool| usize::from(if taken { one.jt } else { one.jf });
            match u32::from(one.code) {
                0x20 => {
                    let from = usize::try_from(one.k).expect("an offset");
                    accumulator = u32::from_le_bytes(data[from..from + 4].try_into().expect("four bytes"));
                }
                0x15 => at += jump(accumulator == one.k),
                0x45 => at += jump(accumulator & one.k != 0),
                0x06 => return one.k,
                other => panic!("instruction {other:#x}"),
            }
        }
    }

    #[test]
    fn only_memory_files_without_the_seal_are_held_up() {
        let seal = u64::from(libc::MFD_NOEXEC_SEAL);
        for (number, flags, answer) in [
            (libc::SYS_memfd_create, 0, libc::SECCOMP_RET_USER_NOTIF),
            (libc::SYS_memfd_create, 1, libc::SECCOMP_RET_USER_NOTIF),
            (libc::SYS_memfd_create, seal << 32, libc::SECCOMP_RET_USER_NOTIF),
            (libc::SYS_memfd_create, seal, libc::SECCOMP_RET_ALLOW),
            (libc::SYS_memfd_create, seal | 1, libc::SECCOMP_RET_ALLOW),
            (libc::SYS_openat, 0, libc::SECCOMP_RET_ALLOW),
            (libc::SYS_memfd_secret, 0, libc::SECCOMP_RET_ALLOW),
        ] {
            assert_eq!(run(number, flags), answer, "{number} {flags:#x}");
        }
    }
}
