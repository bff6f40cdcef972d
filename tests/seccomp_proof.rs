//! The compiled programs answer every call as the policy's text says: shown by running them in a simulator.
mod seccomp_support;

use mcp_python_exec_sandbox::seccomp::compiler::{Call, MAX_INSNS, Width, simulate};
use mcp_python_exec_sandbox::seccomp::{Answer, Arch, Insn};
use seccomp_support::{every, many_argument_sets};

fn run(program: &[Insn], arch: u32, number: u32, args: [u64; 6]) -> u32 {
    simulate(program, &Call { arch, number, args }).expect("the program is sound")
}

#[test]
fn every_number_is_answered_as_the_policy_says() {
    let mut compared = 0_u64;
    every(|arch, role, tier, policy, program| {
        for number in 0..1024 {
            let sets = match policy.decisions.get(&number) {
                Some(decision) => many_argument_sets(decision),
                None => vec![[0; 6], [u64::MAX; 6]],
            };
            for args in sets {
                let expected = policy.answer_to(number, &args).code();
                let answered = run(program, arch.audit(), number, args);
                assert_eq!(answered, expected, "{arch} {role} {tier}: call {number} with {args:x?}");
                compared += 1;
            }
        }
    });
    assert!(compared > 100_000, "only {compared} calls were compared");
}

#[test]
fn numbers_beyond_the_table_are_unknown_or_kill() {
    every(|arch, role, tier, _, program| {
        let huge =
            [1024, 0x3FFF_FFFF, 0x4000_0000, 0x4000_0027, 0x4000_0209, 0x7FFF_FFFF, 0x8000_0000, u32::MAX];
        for number in huge.into_iter().chain(0x4000_0000..0x4000_0400) {
            let x32 = arch == Arch::X86_64 && (0x4000_0000..u32::MAX).contains(&number);
            let expected = if x32 { Answer::Kill } else { Answer::UNKNOWN };
            let answered = run(program, arch.audit(), number, [0; 6]);
            assert_eq!(answered, expected.code(), "{arch} {role} {tier}: number {number:#x}");
        }
    });
}

#[test]
fn a_foreign_architecture_kills_whatever_the_number() {
    const I386: u32 = 0x4000_0003;
    const ARM: u32 = 0x4000_0028;
    const RISCV64: u32 = 0xC000_00F3;
    every(|arch, role, tier, _, program| {
        let other = if arch == Arch::X86_64 { Arch::Aarch64 } else { Arch::X86_64 };
        for foreign in [I386, ARM, RISCV64, other.audit(), 0, u32::MAX] {
            for number in (0..1024).chain([0x4000_0000, u32::MAX]) {
                let answered = run(program, foreign, number, [0; 6]);
                assert_eq!(answered, Answer::Kill.code(), "{arch} {role} {tier}: {foreign:#x}, {number}");
            }
        }
    });
}

#[test]
fn programs_are_short_and_every_jump_stays_inside() {
    every(|arch, role, tier, _, program| {
        assert!(program.len() < 1000, "{arch} {role} {tier}: {} of {MAX_INSNS} instructions", program.len());
        assert_eq!(program.last().expect("not empty").code, 0x06, "the last instruction returns");
        for (at, insn) in program.iter().enumerate() {
            let reach = match insn.code {
                0x05 => insn.k as usize,
                _ => usize::from(insn.jt.max(insn.jf)),
            };
            assert!(at + reach < program.len(), "{arch} {role} {tier}: instruction {at}");
        }
    });
}

#[test]
fn widths_are_those_of_the_kernel() {
    every(|arch, _, _, policy, _| {
        for decision in policy.decisions.values() {
            for condition in decision.cases.iter().flat_map(|case| &case.when) {
                let wide = matches!(decision.name, "mmap" | "mprotect" | "pkey_mprotect");
                let width = if wide { Width::Full64 } else { Width::Low32 };
                assert_eq!(condition.width, width, "{arch}: {}", decision.name);
            }
        }
    });
}
