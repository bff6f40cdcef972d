//! The system-call filter, the last layer: built into this program for each role, or a reviewed replacement.

use std::fmt::Write as _;
use std::io;
use std::os::fd::AsFd;

use super::stage::{Failed, Filtered, Restricted, Worker, absent, enforced_with};
use super::status::Message;
use super::sys::{self, Instruction};
use super::{Answering, Launch};
use crate::sandbox::linux::plan::SeccompPlan;
use crate::seccomp::{self, Insn};

const STAGE: &str = "seccomp";

/// The instruction that ends a program with an answer (`BPF_RET | BPF_K`).
const RETURN: u16 = 0x06;

impl Worker<Restricted> {
    /// Filters this process and all that it starts. Where the filter asks about calls, the run's deputy answers, where it
    /// has one, else the server.
    pub fn filter(self, plan: Option<&SeccompPlan>, launch: &Launch) -> Result<Worker<Filtered>, Failed> {
        let Some(plan) = plan else { return Ok(self.advance("seccomp", absent(STAGE, "not asked for"))) };
        let word = |insn: &Insn| Instruction { code: insn.code, jt: insn.jt, jf: insn.jf, k: insn.k };
        let program: Vec<_> = plan.program().iter().map(word).collect();
        install(&program, launch).map_err(|error| Failed::io(STAGE, "installing the filter", &error))?;
        let mut detail = format!("{} instructions", program.len());
        if let SeccompPlan::Custom(policy) = plan {
            let _ = write!(detail, ", policy of {}", policy.folder.display());
        }
        Ok(self.advance("seccomp", enforced_with(STAGE, detail)))
    }
}

fn install(program: &[Instruction], launch: &Launch) -> io::Result<()> {
    let notify = seccomp::Answer::Notify.code();
    if !program.iter().any(|insn| (insn.code, insn.k) == (RETURN, notify)) {
        return sys::install_filter(program);
    }
    let listener = sys::install_filter_with_listener(program)?;
    match &launch.answering {
        Answering::Deputy(deputy) => sys::rights::send(deputy, b"1", &[listener.as_fd()]).map(drop),
        Answering::Server | Answering::Supervisor(_) => {
            launch.reporter.send(&Message::Listener, Some(listener.as_fd()))
        }
    }
}
