//! From policy text to a BPF program: parse, lay the layers over each other, check, emit, simulate.
//!
//! The build script includes this folder by path, and the library uses the same code at run time for a user's own
//! policy. So it must never know a kernel, a file system, `libc` or anything else of this crate: text goes in,
//! instructions come out, for both architectures on any machine.
mod answer;
mod arch;
mod bpf;
mod condition;
mod constants;
mod error;
mod load;
mod page;
mod policy;
mod program;
mod simulate;
mod syscalls;
mod text;

pub use answer::{Answer, Errno};
pub use arch::{Arch, Role, Sockets, Tier};
pub use bpf::Insn;
pub use condition::{Case, Condition, Test, Width};
pub use constants::constant;
pub use error::{PolicyError, Problem, ProblemKind};
pub use load::{layers, load};
pub use policy::{Decision, Place, Policy};
pub use program::{MAX_INSNS, compile};
pub use simulate::{Call, SimulationError, simulate};
pub use syscalls::{Syscall, syscalls};
