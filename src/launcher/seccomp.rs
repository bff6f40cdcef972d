//! The system-call filter, the last layer: built into this program for each role, or a reviewed replacement.

use std::io;
use std::os::fd::AsFd;

use super::receive::Reporter;
use super::stage::{Failed, Filtered, Restricted, Worker, absent, enforced_with};
use super::status::Message;
use super::sys::{self, Instruction};
use crate::sandbox::linux::plan::{PolicyTier, SeccompPlan, SocketPolicy};
use crate::sandbox::spec::Role;
use crate::seccomp;

const STAGE: &str = "seccomp";

/// The instruction that ends a program with an answer (`BPF_RET | BPF_K`).
const RETURN: u16 = 0x06;

impl Worker<Restricted> {
    /// Filters this process and all that it starts. Where the filter asks about calls, the server gets to answer.
    pub fn filter(self, plan: Option<&SeccompPlan>, reporter: &Reporter) -> Result<Worker<Filtered>, Failed> {
        let Some(plan) = plan else { return Ok(self.advance("seccomp", absent(STAGE, "not asked for"))) };
        let program = match plan {
            SeccompPlan::Embedded(role, tier) => embedded(*role, *tier),
            SeccompPlan::Custom(words) => words.iter().copied().map(unpack).collect(),
        };
        install(&program, reporter).map_err(|error| Failed::io(STAGE, "installing the filter", &error))?;
        let detail = format!("{} instructions", program.len());
        Ok(self.advance("seccomp", enforced_with(STAGE, detail)))
    }
}

fn install(program: &[Instruction], reporter: &Reporter) -> io::Result<()> {
    let notify = seccomp::Answer::Notify.code();
    if !program.iter().any(|insn| (insn.code, insn.k) == (RETURN, notify)) {
        return sys::install_filter(program);
    }
    let listener = sys::install_filter_with_listener(program)?;
    reporter.send(&Message::Listener, Some(listener.as_fd()))
}

fn embedded(role: Role, tier: PolicyTier) -> Vec<Instruction> {
    let role = match role {
        Role::Prepare => seccomp::Role::Prepare,
        Role::Build => seccomp::Role::Build,
        Role::Run => seccomp::Role::Run,
    };
    let tier = match tier {
        PolicyTier::Full => seccomp::Tier::Full,
        PolicyTier::Brokered => seccomp::Tier::Brokered,
        PolicyTier::Confined(sockets) => seccomp::Tier::Confined(match sockets {
            SocketPolicy::All => seccomp::Sockets::All,
            SocketPolicy::Local => seccomp::Sockets::Local,
            SocketPolicy::Internet => seccomp::Sockets::Internet,
            SocketPolicy::PairsOnly => seccomp::Sockets::PairsOnly,
        }),
    };
    let program = seccomp::embedded(seccomp::Arch::native(), role, tier);
    program.iter().map(|insn| Instruction { code: insn.code, jt: insn.jt, jf: insn.jf, k: insn.k }).collect()
}

/// One instruction from the form in which the plan carries it.
fn unpack(word: u64) -> Instruction {
    let [c0, c1, jt, jf, k0, k1, k2, k3] = word.to_le_bytes();
    Instruction { code: u16::from_le_bytes([c0, c1]), jt, jf, k: u32::from_le_bytes([k0, k1, k2, k3]) }
}
