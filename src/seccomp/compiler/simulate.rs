//! Runs a filter as the kernel would, on a call that is never made. The tests prove every program with it, and a
//! user's own policy is checked with it before it is used.
use super::bpf::{
    AND, Insn, JUMP, JUMP_AT_LEAST, JUMP_EQUAL, JUMP_GREATER, JUMP_SET, LOAD, OFFSET_ARCH, OFFSET_ARGS,
    OFFSET_NUMBER, RETURN,
};
use thiserror::Error;

/// A system call as a filter sees it (`struct seccomp_data` of `linux/seccomp.h`, without the instruction pointer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The architecture value, see [`super::Arch::audit`].
    pub arch: u32,
    /// The syscall number.
    pub number: u32,
    /// The six argument registers.
    pub args: [u64; 6],
}

/// A program that the kernel would not have accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SimulationError {
    /// A jump leads out of the program.
    #[error("the program runs past its end")]
    PastEnd,
    /// An operation that a seccomp filter does not have, or that this simulator does not need.
    #[error("operation {0:#x} is not one of a filter")]
    UnknownOperation(u16),
    /// A load from outside the call's data.
    #[error("offset {0} is not a word of the call's data")]
    BadOffset(u32),
}

/// The value that the program returns for the call.
///
/// # Errors
/// A program that the kernel would not have accepted.
pub fn simulate(program: &[Insn], call: &Call) -> Result<u32, SimulationError> {
    let (mut at, mut accumulator) = (0_usize, 0_u32);
    loop {
        let insn = program.get(at).ok_or(SimulationError::PastEnd)?;
        at += 1;
        let condition = match insn.code {
            LOAD => {
                accumulator = word(call, insn.k)?;
                continue;
            }
            AND => {
                accumulator &= insn.k;
                continue;
            }
            JUMP => {
                at += insn.k as usize;
                continue;
            }
            RETURN => return Ok(insn.k),
            JUMP_EQUAL => accumulator == insn.k,
            JUMP_GREATER => accumulator > insn.k,
            JUMP_AT_LEAST => accumulator >= insn.k,
            JUMP_SET => accumulator & insn.k != 0,
            code => return Err(SimulationError::UnknownOperation(code)),
        };
        at += usize::from(if condition { insn.jt } else { insn.jf });
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a word is half of an argument")]
fn word(call: &Call, offset: u32) -> Result<u32, SimulationError> {
    match offset {
        OFFSET_NUMBER => Ok(call.number),
        OFFSET_ARCH => Ok(call.arch),
        _ if offset.is_multiple_of(4) && (OFFSET_ARGS..OFFSET_ARGS + 48).contains(&offset) => {
            let arg = call.args[(offset - OFFSET_ARGS) as usize / 8];
            Ok(if offset.is_multiple_of(8) { arg as u32 } else { (arg >> 32) as u32 })
        }
        _ => Err(SimulationError::BadOffset(offset)),
    }
}
