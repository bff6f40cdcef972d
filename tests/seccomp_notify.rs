//! `notify` in practice: a listener makes the memory file that a program asked for without the seal against
//! execution, adds the seal, and hands it over. The program notices nothing.
#![cfg(target_os = "linux")]
mod seccomp_support;

use mcp_python_exec_sandbox::seccomp::{Arch, Role, Tier, embedded};
use seccomp_support::install_with;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::sync::mpsc;
use std::thread;

const NOTIF_RECV: libc::c_ulong = 0xC050_2100;
const NOTIF_ADDFD: libc::c_ulong = 0x4018_2103;
/// Hand the descriptor over and let the call return it, in one step (Linux 5.14).
const ADDFD_SEND: u32 = 2;
const F_SEAL_EXEC: libc::c_int = 0x20;

/// `struct seccomp_notif_addfd` of `linux/seccomp.h`.
#[repr(C)]
struct AddFd {
    id: u64,
    flags: u32,
    source: u32,
    wanted: u32,
    wanted_flags: u32,
}

fn memfd(flags: libc::c_uint) -> io::Result<OwnedFd> {
    // SAFETY: the name is a terminated string.
    let fd = unsafe { libc::memfd_create(c"test".as_ptr(), flags) };
    // SAFETY: a descriptor that the kernel has just made.
    if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(unsafe { OwnedFd::from_raw_fd(fd) }) }
}

/// Answers one call. The name that the program gave is not looked at: it lies in memory that may change.
fn answer(listener: &OwnedFd) {
    // SAFETY: all-zero is what the kernel wants.
    let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the structure has the size that the request names.
    assert_eq!(unsafe { libc::ioctl(listener.as_raw_fd(), NOTIF_RECV, &raw mut asked) }, 0);
    assert_eq!(libc::c_long::from(asked.data.nr), libc::SYS_memfd_create);
    let wanted = libc::c_uint::try_from(asked.data.args[1] & 0xFFFF_FFFF).expect("masked");
    let sealed = memfd(wanted | libc::MFD_NOEXEC_SEAL).expect("this kernel has the seal");
    let reply = AddFd {
        id: asked.id,
        flags: ADDFD_SEND,
        source: u32::try_from(sealed.as_raw_fd()).expect("a descriptor"),
        wanted: 0,
        wanted_flags: if wanted & libc::MFD_CLOEXEC == 0 { 0 } else { libc::O_CLOEXEC.unsigned_abs() },
    };
    // SAFETY: as above.
    assert!(unsafe { libc::ioctl(listener.as_raw_fd(), NOTIF_ADDFD, &raw const reply) } >= 0);
}

#[test]
fn a_listener_can_add_the_seal() {
    if memfd(libc::MFD_NOEXEC_SEAL).is_err() {
        eprintln!("skipped: this kernel is older than the seal against execution (Linux 6.3)");
        return;
    }
    let (sender, receiver) = mpsc::channel();
    let program = thread::spawn(move || {
        let filter = embedded(Arch::native(), Role::Run, Tier::Full);
        let fd = install_with(filter, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER).expect("installed");
        sender.send(RawFd::try_from(fd).expect("a descriptor")).expect("the listener waits");
        let file = memfd(libc::MFD_CLOEXEC).expect("the listener makes it");
        // SAFETY: reading the seals and flags of an own descriptor.
        unsafe {
            (libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS), libc::fcntl(file.as_raw_fd(), libc::F_GETFD))
        }
    });
    let fd = receiver.recv().expect("a descriptor");
    // SAFETY: the thread has just made the descriptor and leaves it to us.
    answer(&unsafe { OwnedFd::from_raw_fd(fd) });
    let (seals, flags) = program.join().expect("the thread ends");
    assert!(seals & F_SEAL_EXEC != 0, "seals {seals:#x}");
    assert_eq!(flags, libc::FD_CLOEXEC);
}

#[test]
fn a_script_gets_no_listener_of_its_own() {
    let refused = thread::spawn(|| {
        let filter = embedded(Arch::native(), Role::Run, Tier::Full);
        install_with(filter, 0).expect("installed");
        install_with(filter, 0).expect("a further filter is fine");
        install_with(filter, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER).expect_err("refused").raw_os_error()
    });
    assert_eq!(refused.join().expect("the thread ends"), Some(libc::EPERM));
}
