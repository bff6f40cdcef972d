//! What the seccomp tests share: argument values that tell a rule from its near misses, and the kernel's side of
//! installing a filter.
#![allow(dead_code, reason = "each test binary uses its part")]
#[cfg(target_os = "linux")]
pub mod witness;

use mcp_python_exec_sandbox::seccomp::compiler::{Decision, Policy, Test};
use mcp_python_exec_sandbox::seccomp::{Arch, Insn, Role, Tier, embedded, embedded_policy};
use std::collections::BTreeSet;

/// Calls `check` with every embedded policy and its program.
pub fn every(mut check: impl FnMut(Arch, Role, Tier, &Policy, &[Insn])) {
    for arch in Arch::ALL {
        for role in Role::ALL {
            for tier in Tier::ALL {
                let policy = embedded_policy(arch, role, tier).expect("the embedded policy is sound");
                check(arch, role, tier, &policy, embedded(arch, role, tier));
            }
        }
    }
}

/// Values that tell a comparison from its near misses: each value that the decision names, with a bit of the mask
/// flipped, with bits outside of the mask, with the upper half dirty, and their neighbours.
fn interesting(decision: &Decision, arg: u8) -> Vec<u64> {
    let mut values = BTreeSet::from([0, 1, u64::MAX, 1 << 32, u64::from(u32::MAX)]);
    let conditions = decision.cases.iter().flat_map(|case| &case.when).filter(|one| one.arg == arg);
    for condition in conditions {
        let (Test::AnyOf(named) | Test::NoneOf(named)) = &condition.test;
        for value in named {
            values.extend([*value, value ^ (1 << 32), value | 0xFFFF_FFFF_0000_0000, value ^ 0x8000_0000]);
            values.extend([value.wrapping_add(1), value.wrapping_sub(1), value | !condition.mask]);
            values.extend((0..64).filter(|bit| condition.mask >> bit & 1 == 1).map(|bit| value ^ (1 << bit)));
        }
    }
    values.into_iter().collect()
}

/// A handful of such values, for where each costs a system call.
fn telling(decision: &Decision, arg: u8) -> Vec<u64> {
    let mut values = BTreeSet::from([0, u64::MAX]);
    let conditions = decision.cases.iter().flat_map(|case| &case.when).filter(|one| one.arg == arg);
    for condition in conditions {
        let (Test::AnyOf(named) | Test::NoneOf(named)) = &condition.test;
        for value in named {
            values.extend([*value, value ^ (1 << 32), value.wrapping_add(1), value | !condition.mask]);
        }
    }
    values.into_iter().collect()
}

/// Telling values of the arguments that the decision looks at, in every combination, and two sets more.
pub fn argument_sets(decision: &Decision) -> Vec<[u64; 6]> {
    let mut sets = combine(&arguments(decision), |arg| telling(decision, arg));
    sets.extend([[u64::MAX; 6], [0x5555_5555_5555_5555; 6]]);
    sets
}

/// As [`argument_sets`], and each argument in turn with every interesting value.
pub fn many_argument_sets(decision: &Decision) -> Vec<[u64; 6]> {
    let mut sets = argument_sets(decision);
    let looked_at = arguments(decision);
    for varied in &looked_at {
        sets.extend(combine(&looked_at, |arg| {
            if arg == *varied { interesting(decision, arg) } else { telling(decision, arg) }
        }));
    }
    sets
}

fn arguments(decision: &Decision) -> BTreeSet<u8> {
    decision.cases.iter().flat_map(|case| &case.when).map(|condition| condition.arg).collect()
}

fn combine(looked_at: &BTreeSet<u8>, values: impl Fn(u8) -> Vec<u64>) -> Vec<[u64; 6]> {
    let mut combined = vec![[0_u64; 6]];
    for arg in looked_at {
        let values = values(*arg);
        combined = combined
            .into_iter()
            .flat_map(|set| {
                values.iter().map(move |value| {
                    let mut set = set;
                    set[usize::from(*arg)] = *value;
                    set
                })
            })
            .collect();
    }
    combined
}

/// Installs a filter on the calling thread, with `no_new_privs`. Makes system calls only, so it may run between
/// fork and exec.
///
/// # Errors
/// The kernel's.
#[cfg(target_os = "linux")]
pub fn install(program: &[Insn]) -> std::io::Result<()> {
    install_with(program, 0).map(|_| ())
}

/// As [`install`], with flags of seccomp(2); gives what the call returns, a descriptor with the listener flag.
///
/// # Errors
/// The kernel's.
#[cfg(target_os = "linux")]
pub fn install_with(program: &[Insn], flags: libc::c_ulong) -> std::io::Result<libc::c_long> {
    let len = u16::try_from(program.len()).map_err(|_| std::io::ErrorKind::InvalidInput)?;
    let description = libc::sock_fprog { len, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: `Insn` has the layout of `sock_filter`; the kernel copies `len` of them and writes nothing.
    let result = unsafe {
        if libc::syscall(libc::SYS_prctl, libc::PR_SET_NO_NEW_PRIVS, 1_u64, 0_u64, 0_u64, 0_u64, 0_u64) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const description,
            0_u64,
            0_u64,
            0_u64,
        )
    };
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
}
