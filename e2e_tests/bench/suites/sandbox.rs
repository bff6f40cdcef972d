//! A sandbox around a program that does nothing: what building and ending it costs.

use std::path::Path;

use crate::contestants::{Contestant, Direct, race};
use crate::jails;
use crate::report::Report;
use crate::setting::Setting;

const TRUE: &str = "/usr/bin/true";

/// From spawn to reap. Ours is in two races, so that what the kernel does after the one is not counted for the other.
pub fn true_program(setting: &Setting, report: &mut Report) -> Result<(), String> {
    for (job, laid_ahead) in [("true", false), ("true, ground laid before", true)] {
        let mut contestants: Vec<Box<dyn Contestant>> = Vec::new();
        match jails::bwrap(setting, &[Path::new(TRUE)], None) {
            Ok(words) => contestants.push(Box::new(Direct::new("bwrap", words))),
            Err(reason) => report.skip("bwrap", &reason),
        }
        match jails::nsjail(setting, &[Path::new(TRUE)], None) {
            Ok(words) => contestants.push(Box::new(Direct::new("nsjail", words))),
            Err(reason) => report.skip("nsjail", &reason),
        }
        contestants.push(Box::new(Direct::new("no sandbox", [TRUE])));
        #[cfg(target_os = "linux")]
        contestants.push(Box::new(ours::Ours::new(laid_ahead)?));
        report.race(job, &race(setting.flags.rounds * 3, &mut contestants)?);
    }
    Ok(())
}

#[cfg(target_os = "linux")]
mod ours {
    use std::time::Duration;

    use mcp_python_exec_sandbox::sandbox::linux::LinuxSandbox;
    use mcp_python_exec_sandbox::sandbox::spec::{
        Command, Limits, Network, Role, SandboxSpec, USER_NAME, WORK_DIR,
    };
    use mcp_python_exec_sandbox::sandbox::{ExitStatus, Sandbox};
    use tokio::runtime::Runtime;

    use crate::contestants::Contestant;
    use crate::machine;

    /// The native backend in this process, which is what the other sandboxes' callers have to start too.
    pub struct Ours {
        runtime: Runtime,
        sandbox: LinuxSandbox,
        spec: SandboxSpec,
        /// Whether each start goes on from ground that was laid before, as a server's second call does.
        laid_ahead: bool,
    }

    impl Ours {
        pub fn new(laid_ahead: bool) -> Result<Self, String> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| error.to_string())?;
            let sandbox = runtime.block_on(LinuxSandbox::probe());
            if let Err(refusal) = &sandbox.facts().tier {
                return Err(format!("{}. {}", refusal.reason, refusal.remedy));
            }
            let spec = SandboxSpec {
                role: Role::Run,
                command: Command {
                    program: super::TRUE.into(),
                    args: Vec::new(),
                    env: [("USER".to_owned(), USER_NAME.to_owned())].into(),
                    cwd: WORK_DIR.into(),
                },
                mounts: Vec::new(),
                files: Vec::new(),
                network: Network::Host,
                named_servers: Vec::new(),
                limits: Limits::default(),
                channel: false,
            };
            let mut ours = Self { runtime, sandbox, spec, laid_ahead };
            ours.rest();
            Ok(ours)
        }
    }

    impl Contestant for Ours {
        fn name(&self) -> &'static str {
            "ours, every layer"
        }

        fn once(&mut self) -> Result<String, String> {
            let ended = self.runtime.block_on(async {
                let mut running = self.sandbox.start(&self.spec).await.map_err(|error| error.to_string())?;
                running.control.wait().await.map_err(|error| error.to_string())
            })?;
            match ended.status {
                ExitStatus::Exited(0) => Ok(String::new()),
                status => Err(format!("{} ended with {status:?}", super::TRUE)),
            }
        }

        fn rest(&mut self) {
            if self.laid_ahead {
                self.runtime.block_on(self.sandbox.get_ahead(&self.spec));
            }
        }

        fn cpu(&self) -> Duration {
            machine::cpu_of_tree(std::process::id())
        }
    }
}
