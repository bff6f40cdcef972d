//! The instruction of the kernel's classic BPF, and the few operations that a seccomp filter uses.

/// One instruction, laid out as `struct sock_filter` of `linux/filter.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Insn {
    /// Operation.
    pub code: u16,
    /// Instructions to skip when the condition holds.
    pub jt: u8,
    /// Instructions to skip when it does not hold.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

/// Load a 32-bit word of `struct seccomp_data` into the accumulator.
pub const LOAD: u16 = 0x20;
/// Keep the bits of the accumulator that the operand has.
pub const AND: u16 = 0x54;
/// Skip operand instructions.
pub const JUMP: u16 = 0x05;
/// Compare for equality.
pub const JUMP_EQUAL: u16 = 0x15;
/// Compare, unsigned: greater.
pub const JUMP_GREATER: u16 = 0x25;
/// Compare, unsigned: greater or equal.
pub const JUMP_AT_LEAST: u16 = 0x35;
/// Test whether any bit of the operand is set.
pub const JUMP_SET: u16 = 0x45;
/// End with the operand as the answer.
pub const RETURN: u16 = 0x06;

/// Where `seccomp_data` holds the syscall number, and how wide the structure is, in bytes.
pub const OFFSET_NUMBER: u32 = 0;
/// Where `seccomp_data` holds the architecture, in bytes.
pub const OFFSET_ARCH: u32 = 4;
/// Where `seccomp_data` holds the first argument, in bytes. Both architectures are little-endian.
pub const OFFSET_ARGS: u32 = 16;

/// An instruction that does not branch.
#[must_use]
pub const fn statement(code: u16, k: u32) -> Insn {
    Insn { code, jt: 0, jf: 0, k }
}

/// A conditional branch.
#[must_use]
pub const fn branch(code: u16, k: u32, jt: u8, jf: u8) -> Insn {
    Insn { code, jt, jf, k }
}
