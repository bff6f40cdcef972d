//! The generator on rules that the embedded policy does not have: many random ones, compared with their own text and
//! with what `seccompiler` makes of them.
#![cfg(target_os = "linux")]
mod seccomp_support;

use mcp_python_exec_sandbox::seccomp::compiler::{Call, compile, load, simulate};
use mcp_python_exec_sandbox::seccomp::{Arch, Policy, embedded_text};
use seccomp_support::witness::Witness;
use seccomp_support::{argument_sets, many_argument_sets};
use std::fmt::Write as _;

/// A generator of numbers that are the same in every run (the constants of Knuth's MMIX).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 20
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Few different bits, in both halves, so that values often share some.
    fn value(&mut self) -> u64 {
        (0..3).fold(0, |sum, _| {
            sum | 1 << [0, 1, 2, 31, 32, 33, 62][usize::try_from(self.below(7)).expect("small")]
        })
    }
}

/// A condition that the policy language accepts. The witness has no masked "is not", so there is none here.
fn condition(numbers: &mut Numbers) -> String {
    let bits = if numbers.below(2) == 0 { 32 } else { 64 };
    let all = if bits == 32 { 0xFFFF_FFFF } else { u64::MAX };
    let is_not = numbers.below(3) == 0;
    let mask = match numbers.below(2) {
        0 if !is_not => (numbers.value() | 1) & all,
        _ => all,
    };
    let values: Vec<_> =
        (0..=numbers.below(3)).map(|_| format!("\"{:#x}\"", numbers.value() & mask)).collect();
    let masked = if mask == all { String::new() } else { format!(", mask = \"{mask:#x}\"") };
    let verb = if is_not { "is_not" } else { "is" };
    let arg = numbers.below(6);
    format!("{{ arg = {arg}, name = \"a\", bits = {bits}{masked}, {verb} = [{}] }}", values.join(", "))
}

fn random_policy(numbers: &mut Numbers) -> Policy {
    const ANSWERS: [&str; 5] = ["allow", "EPERM", "ENOSYS", "kill", "pretend"];
    let answer = |numbers: &mut Numbers| ANSWERS[usize::try_from(numbers.below(5)).expect("small")];
    let mut text = "about = \"random\"\n".to_owned();
    for name in ["read", "socket", "ioctl", "kcmp", "openat2", "fchroot"] {
        let otherwise = answer(numbers);
        writeln!(text, "[[override]]\ncalls = [\"{name}\"]\nanswer = \"{otherwise}\"\nreason = \"random\"")
            .expect("fits");
        for _ in 0..numbers.below(4) {
            let conditions: Vec<_> = (0..=numbers.below(2)).map(|_| condition(numbers)).collect();
            let then = answer(numbers);
            writeln!(text, "[[override.case]]\nanswer = \"{then}\"\nwhen = [{}]", conditions.join(", "))
                .expect("fits");
        }
    }
    let read = |name: &str| if name == "random.toml" { Ok(text.clone()) } else { embedded_text(name) };
    let arch = if numbers.below(2) == 0 { Arch::X86_64 } else { Arch::Aarch64 };
    let files = [format!("{arch}/run.toml"), "random.toml".to_owned()];
    load(arch, &files, read).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn random_rules_are_answered_as_they_say() {
    let mut numbers = Numbers(7);
    let mut compared = 0_u64;
    for _ in 0..60 {
        let policy = random_policy(&mut numbers);
        let program = compile(&policy).expect("short enough");
        for (number, decision) in &policy.decisions {
            if decision.reason != "random" {
                continue;
            }
            for args in many_argument_sets(decision).into_iter().take(2000) {
                let call = Call { arch: policy.arch.audit(), number: *number, args };
                let answered = simulate(&program, &call).expect("sound");
                assert_eq!(answered, decision.answer_to(&args).code(), "{decision:#?} {args:x?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 100_000, "only {compared} calls were compared");
}

#[test]
fn seccompiler_agrees_on_random_rules() {
    let mut numbers = Numbers(11);
    for _ in 0..40 {
        let policy = random_policy(&mut numbers);
        let program = compile(&policy).expect("short enough");
        let witness = Witness::new(&policy);
        for (number, decision) in &policy.decisions {
            if decision.reason != "random" {
                continue;
            }
            for args in argument_sets(decision).into_iter().take(1000) {
                let call = Call { arch: policy.arch.audit(), number: *number, args };
                let ours = simulate(&program, &call).expect("sound");
                assert_eq!(ours, witness.answer_to(*number, args).code(), "{decision:#?} {args:x?}");
            }
        }
    }
}
