//! Every rule of every policy of this machine's architecture, asked of the kernel.
//!
//! A first filter sends each call that carries a mark in its sixth argument to a listener, which answers with an
//! error that nothing else gives. The policy's filter comes on top. The kernel takes the stricter of two answers, and
//! only "allow" is less strict than the listener: so a call that the policy allows comes back with the mark's error
//! and is never carried out, and every other call comes back with what the policy says.
#![cfg(target_os = "linux")]
mod seccomp_support;

use mcp_python_exec_sandbox::seccomp::compiler::Policy;
use mcp_python_exec_sandbox::seccomp::{Answer, Arch, Insn, Role, Tier, embedded, embedded_policy};
use seccomp_support::{argument_sets, install, install_with};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::mpsc;
use std::{io, thread};

/// Marks a call that is to be answered and not carried out.
const MARK: u64 = 0x5EC0_0A9E_1357_9BDF;
/// The listener's answer: an error number that Linux does not use.
const PASSED: i32 = 3999;
const NOTIF_RECV: libc::c_ulong = 0xC050_2100;
const NOTIF_SEND: libc::c_ulong = 0xC018_2101;

/// Calls of the kernel's own tracing, which newer kernels carry out without asking a filter.
const PAST_EVERY_FILTER: [&str; 2] = ["uretprobe", "uprobe"];

/// `seccomp_data` holds the sixth argument at byte 56, low half first.
const MARK_FILTER: [Insn; 6] = [
    Insn { code: 0x20, jt: 0, jf: 0, k: 56 },
    Insn { code: 0x15, jt: 0, jf: 3, k: 0x1357_9BDF },
    Insn { code: 0x20, jt: 0, jf: 0, k: 60 },
    Insn { code: 0x15, jt: 0, jf: 1, k: 0x5EC0_0A9E },
    Insn { code: 0x06, jt: 0, jf: 0, k: 0x7FC0_0000 },
    Insn { code: 0x06, jt: 0, jf: 0, k: 0x7FFF_0000 },
];

/// What a call gave: 0, or the error number.
fn call(number: u32, args: &[u64; 6]) -> i32 {
    // SAFETY: the filters answer every marked call; none is carried out, so no argument is looked at.
    let result = unsafe {
        libc::syscall(libc::c_long::from(number), args[0], args[1], args[2], args[3], args[4], MARK)
    };
    let error = if result == -1 { io::Error::last_os_error().raw_os_error() } else { None };
    // The mark must not stay in its register, where the C library's shorter calls would find it.
    // SAFETY: getpid takes no argument.
    unsafe { libc::syscall(libc::SYS_getpid, 0_u64, 0_u64, 0_u64, 0_u64, 0_u64, 0_u64) };
    error.unwrap_or_else(|| i32::try_from(result).unwrap_or(-1))
}

fn expected(answer: Answer) -> Option<i32> {
    match answer {
        Answer::Allow => Some(PASSED),
        Answer::Pretend => Some(0),
        Answer::Refuse(errno) => Some(i32::from(errno.number())),
        Answer::Notify => Some(libc::ENOSYS),
        Answer::Kill => None,
    }
}

/// Answers marked calls until the thread that makes them is gone.
fn answer_marked_calls(listener: &OwnedFd) {
    let fd = listener.as_raw_fd();
    loop {
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd.
        let ready = unsafe { libc::poll(&raw mut poll, 1, -1) };
        if ready < 0 {
            continue;
        }
        if poll.revents & libc::POLLIN == 0 {
            return;
        }
        // SAFETY: all-zero is what the kernel wants for both structures.
        let (mut asked, mut reply): (libc::seccomp_notif, libc::seccomp_notif_resp) =
            unsafe { std::mem::zeroed() };
        // SAFETY: the structure has the size that the request names.
        if unsafe { libc::ioctl(fd, NOTIF_RECV, &raw mut asked) } == 0 {
            reply.id = asked.id;
            reply.error = -PASSED;
            // SAFETY: as above.
            assert_eq!(unsafe { libc::ioctl(fd, NOTIF_SEND, &raw mut reply) }, 0, "the listener can answer");
        }
    }
}

/// Makes every telling call under the policy. Runs on a thread of its own, as a filter cannot be taken off.
fn probe(policy: &Policy, program: &[Insn], listener: &mpsc::Sender<RawFd>) -> Result<usize, String> {
    let fd = install_with(&MARK_FILTER, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER).map_err(|e| e.to_string())?;
    listener.send(RawFd::try_from(fd).expect("a descriptor")).expect("the listener waits");
    if call(u32::try_from(libc::SYS_getpid).expect("small"), &[0; 6]) != PASSED {
        return Err("before the policy, a marked call passes".to_owned());
    }
    install(program).map_err(|error| error.to_string())?;
    let mut probed = 0;
    for (number, decision) in
        policy.decisions.iter().filter(|(_, one)| !PAST_EVERY_FILTER.contains(&one.name))
    {
        for args in argument_sets(decision) {
            let Some(wanted) = expected(decision.answer_to(&args)) else { continue };
            let got = call(*number, &args);
            if got != wanted {
                return Err(format!("{} with {args:x?}: {got} instead of {wanted}", decision.name));
            }
            probed += 1;
        }
    }
    for number in (0..1024).filter(|number| !policy.decisions.contains_key(number)) {
        let got = call(number, &[0; 6]);
        if got != libc::ENOSYS {
            return Err(format!("the unknown number {number} gave {got}"));
        }
    }
    Ok(probed)
}

fn probe_all(role: Role, tier: Tier) -> usize {
    let policy = embedded_policy(Arch::native(), role, tier).expect("the embedded policy is sound");
    let (sender, receiver) = mpsc::channel();
    let subject = thread::spawn(move || probe(&policy, embedded(Arch::native(), role, tier), &sender));
    if let Ok(fd) = receiver.recv() {
        // SAFETY: the thread has just made the descriptor and leaves it to us.
        answer_marked_calls(&unsafe { OwnedFd::from_raw_fd(fd) });
    }
    subject.join().expect("the thread ends").unwrap_or_else(|error| panic!("{role} {tier}: {error}"))
}

#[test]
fn the_kernel_answers_every_rule_as_the_policy_says() {
    for role in Role::ALL {
        for tier in Tier::ALL {
            let probed = probe_all(role, tier);
            assert!(probed > 900, "{role} {tier}: only {probed} calls were made");
        }
    }
}

/// How a child ended that installed the filter and then ran `act`.
#[cfg(target_arch = "x86_64")]
fn child_status(program: &[Insn], act: fn()) -> libc::c_int {
    // SAFETY: the child makes system calls only and ends by _exit.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            if install(program).is_err() {
                libc::_exit(99);
            }
            act();
            libc::_exit(0);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        status
    }
}

#[cfg(target_arch = "x86_64")]
fn assert_killed_by_filter(act: fn()) {
    for role in Role::ALL {
        for tier in Tier::ALL {
            let program = embedded(Arch::native(), role, tier);
            let control = child_status(program, || {});
            assert!(libc::WIFEXITED(control) && libc::WEXITSTATUS(control) == 0, "control: {control:#x}");
            let status = child_status(program, act);
            let killed = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSYS;
            assert!(killed, "{role} {tier}: status {status:#x}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn x32_numbers_kill() {
    // SAFETY: getpid by its x32 number takes no argument.
    assert_killed_by_filter(|| unsafe {
        libc::syscall(0x4000_0027);
    });
}

#[cfg(target_arch = "x86_64")]
#[test]
fn calls_of_the_32_bit_abi_kill() {
    // SAFETY: getpid of the 32-bit table takes no argument and touches only the result register.
    assert_killed_by_filter(|| unsafe {
        std::arch::asm!("int 0x80", inlateout("eax") 20_i32 => _, lateout("r8") _, lateout("r9") _, lateout("r10") _, lateout("r11") _);
    });
}
