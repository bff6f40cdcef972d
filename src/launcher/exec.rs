//! The last step: descriptors, signals, working directory, and the program in place of this process.

use std::convert::Infallible;
use std::ffi::CString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::Launch;
use super::stage::{Failed, Filtered, Worker};
use super::status::Message;
use super::{selftest, sys};
use crate::sandbox::linux::plan::{Exec, Outside, Program};

const STAGE: &str = "exec";

/// Descriptor of the program's private channel, where it has one.
pub const CHANNEL: i32 = 3;

impl Worker<Filtered> {
    /// Reports that every layer stands and runs the program. Returns only when that failed.
    pub fn run(self, launch: &Launch) -> Failed {
        let never = match &launch.plan.program {
            Program::Execute(exec) => self.execute(launch, exec),
            Program::ConnectTest { allowed, refused } => self.connect_test(launch, *allowed, *refused),
            Program::SelfTest { hidden, outside } => self.test(launch, hidden, outside.as_ref()),
        };
        match never {
            Ok(never) => match never {},
            Err(failed) => failed,
        }
    }

    fn ready(self, launch: &Launch) -> Result<(), Failed> {
        let ready = Message::Ready { layers: self.layers, timeline: self.clock.into_marks() };
        launch.reporter.send(&ready, None).map_err(|error| Failed::io(STAGE, "reporting", &error))
    }

    fn test(
        self,
        launch: &Launch,
        hidden: &[PathBuf],
        outside: Option<&Outside>,
    ) -> Result<Infallible, Failed> {
        self.ready(launch)?;
        let mut breaches = selftest::breaches(hidden);
        breaches.extend(outside.into_iter().flat_map(|outside| selftest::confined(outside, &launch.plan)));
        let report = Message::SelfTest { breaches };
        launch.reporter.send(&report, None).map_err(|error| Failed::io(STAGE, "reporting", &error))?;
        sys::exit_now(0)
    }

    fn connect_test(self, launch: &Launch, allowed: u16, refused: u16) -> Result<Infallible, Failed> {
        self.ready(launch)?;
        let report = Message::SelfTest { breaches: selftest::connections(allowed, refused) };
        launch.reporter.send(&report, None).map_err(|error| Failed::io(STAGE, "reporting", &error))?;
        sys::exit_now(0)
    }

    fn execute(self, launch: &Launch, exec: &Exec) -> Result<Infallible, Failed> {
        rustix::process::chdir(&exec.cwd)
            .map_err(|error| Failed::errno(STAGE, format!("entering {}", exec.cwd.display()), error))?;
        let mut first_closed = CHANNEL;
        if let Some(channel) = &launch.channel {
            sys::place(channel.as_fd(), CHANNEL)
                .map_err(|error| Failed::io(STAGE, "placing the channel", &error))?;
            first_closed += 1;
        }
        sys::close_on_exec_from(first_closed.unsigned_abs())
            .map_err(|error| Failed::io(STAGE, "closing descriptors", &error))?;
        sys::default_signals().map_err(|error| Failed::io(STAGE, "resetting signals", &error))?;
        let program = c_string(exec.program.as_os_str().as_bytes())?;
        let mut args = vec![program.clone()];
        for arg in &exec.args {
            args.push(c_string(arg.as_bytes())?);
        }
        let env = exec.env.iter().map(|(name, value)| c_string(format!("{name}={value}").as_bytes()));
        let env = env.collect::<Result<Vec<_>, _>>()?;
        self.ready(launch)?;
        let error = sys::execve(&program, &args, &env);
        Err(Failed::io(STAGE, format!("executing {}", exec.program.display()), &error))
    }
}

fn c_string(bytes: &[u8]) -> Result<CString, Failed> {
    CString::new(bytes).map_err(|_| Failed::plain(STAGE, "an argument or a variable holds a NUL byte"))
}
