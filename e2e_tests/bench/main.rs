//! How fast it is: every figure is a ratio to something that does the same job, taken in the same interleaved rounds.
//!
//! `cargo bench` builds it and runs all suites; `cargo bench -- --only hello,memory` some of them; `--server PATH` takes
//! another binary, so that an ordinary user can run what root has built. What is missing on the machine (another
//! sandbox, a container engine, a package index) is skipped, with its reason. The table for the README comes last.

mod client;
mod contestants;
mod jails;
mod machine;
mod numbers;
mod report;
mod setting;
mod suites;
mod table;

use std::process::ExitCode;

use clap::Parser;

use setting::{Flags, Setting};

fn main() -> ExitCode {
    // The library starts launchers by executing this program again.
    #[cfg(target_os = "linux")]
    mcp_python_exec_sandbox::launcher::enter_if_asked();
    match run(Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

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
    report.write(setting.flags.json.as_deref())
}
