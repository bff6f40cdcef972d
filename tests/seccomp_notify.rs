//! A script gets no listener of its own: it could let calls pass that the policy hands to the server's.
#![cfg(target_os = "linux")]
mod seccomp_support;

use mcp_python_exec_sandbox::seccomp::{Arch, Role, Tier, embedded};
use seccomp_support::install_with;
use std::thread;

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
