//! How fast it is: every figure is a ratio to something that does the same job, taken in the same interleaved rounds.
//!
//! `cargo bench` builds it and runs all suites; `cargo bench -- --only hello,memory` some of them; `--server PATH` takes
//! another binary, so that an ordinary user can run what root has built. What is missing on the machine (another
//! sandbox, a container engine, a package index) is skipped, with its reason. The table for the README comes last, and
//! `--readme FILE` puts it there.
//!
//! What sandboxes of an ordinary user take of the memory is told to nobody without a right of its own, which this
//! program keeps to itself:
//!
//! ```text
//! setpriv --reuid USER --regid USER --init-groups --inh-caps +sys_ptrace --ambient-caps +sys_ptrace speed --server PATH
//! ```

#[cfg(target_os = "linux")]
mod client;
#[cfg(target_os = "linux")]
mod contestants;
#[cfg(target_os = "linux")]
mod jails;
#[cfg(target_os = "linux")]
mod machine;
#[cfg(target_os = "linux")]
mod numbers;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod setting;
#[cfg(target_os = "linux")]
mod suites;
#[cfg(target_os = "linux")]
mod table;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
use setting::{Flags, Setting};

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    // The library starts launchers by executing this program again.
    mcp_python_exec_sandbox::launcher::enter_if_asked();
    match machine::pass_no_rights_on().and_then(|()| run(<Flags as clap::Parser>::parse())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(target_os = "linux")]
fn run(flags: Flags) -> Result<(), String> {
    let setting = Setting::make(flags)?;
    let mut report = report::Report::new(machine::describe(&setting));
    report.print_machine();
    for (name, suite) in suites::ALL {
        if !setting.wants(name) {
            continue;
        }
        report.begin(name);
        if let Err(reason) = suite(&setting, &mut report) {
            report.skip(name, &reason);
        }
    }
    report.print_table();
    report.write_into(setting.flags.readme.as_deref())?;
    report.write(setting.flags.json.as_deref())
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("error: what is measured is the native backend, which only Linux has");
    ExitCode::FAILURE
}
