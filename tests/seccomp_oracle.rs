//! The `seccompiler` crate compiles the same tables, and its filters have to agree with ours.
#![cfg(target_os = "linux")]
mod seccomp_support;

use mcp_python_exec_sandbox::seccomp::compiler::{Call, simulate};
use seccomp_support::witness::Witness;
use seccomp_support::{argument_sets, every};

#[test]
fn seccompiler_agrees_on_every_call() {
    let mut compared = 0_u64;
    every(|arch, role, tier, policy, program| {
        let witness = Witness::new(policy);
        for number in 0..512 {
            let sets = match policy.decisions.get(&number) {
                Some(decision) => argument_sets(decision),
                None => vec![[0; 6]],
            };
            for args in sets {
                let ours = simulate(program, &Call { arch: arch.audit(), number, args }).expect("sound");
                let theirs = witness.answer_to(number, args).code();
                assert_eq!(ours, theirs, "{arch} {role} {tier}: call {number} with {args:x?}");
                compared += 1;
            }
        }
    });
    assert!(compared > 100_000, "only {compared} calls were compared");
}
