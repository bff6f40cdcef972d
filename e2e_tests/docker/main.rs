//! The Docker backend on a real engine.
//!
//! The image is the one that `DOCKER_TEST_IMAGE` names, else `mcp-python-exec-sandbox:test`; `image.sh` makes it without
//! any registry. A test that cannot run here prints `SKIPPED` and the reason; where `CI` is set, engine and image have
//! to be there.
#![cfg(unix)]
#![allow(clippy::print_stdout, reason = "tests speak to whoever runs them")]

mod client;
mod engine_gone;
mod environments;
mod leftovers;
mod limits;
mod refusals;
mod runs;
mod sessions;
#[path = "../common/skipped.rs"]
mod skipped;
mod surfaces;
mod walls;

use std::collections::BTreeMap;
use std::time::Duration;

use mcp_python_exec_sandbox::execution::run::{Finished, run};
use mcp_python_exec_sandbox::sandbox::Sandbox;
use mcp_python_exec_sandbox::sandbox::docker::{DockerOptions, DockerSandbox, MissingImage};
use mcp_python_exec_sandbox::sandbox::spec::{Command, InlineFile, Limits, Network, Role, SandboxSpec};
use tokio::time::Instant;

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_mins(2);

/// Everything of an ended container is gone after this.
const GONE_WITHIN: Duration = Duration::from_secs(2);

/// The backend with a folder of its own.
struct Room {
    sandbox: DockerSandbox,
    folder: tempfile::TempDir,
}

fn image() -> String {
    std::env::var("DOCKER_TEST_IMAGE").unwrap_or_else(|_| "mcp-python-exec-sandbox:test".to_owned())
}

impl Room {
    /// The backend, or `None` where there is no engine or no image, which is said.
    async fn open() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = DockerOptions { image: Some(image()), folder: Some(folder.path().to_owned()) };
        let sandbox = DockerSandbox::probe(&options, MissingImage::Refuse).await;
        if let Err(refusal) = &sandbox.facts().tier {
            assert!(std::env::var_os("CI").is_none(), "CI has an engine: {}", refusal.reason);
            crate::skipped::skipped(format_args!("{}", refusal.reason));
            return None;
        }
        Some(Self { sandbox, folder })
    }

    async fn run_spec(&self, spec: &SandboxSpec, patience: Duration) -> Finished {
        run(&self.sandbox, spec, Instant::now() + patience, 1 << 20, None).await.expect("it runs")
    }

    async fn run(&self, script: &str) -> Finished {
        self.run_spec(&spec(script), PATIENCE).await
    }

    /// Containers of this room, whatever their state.
    fn containers(&self) -> Vec<String> {
        containers_of(self.folder.path())
    }

    /// Waits until no container is left; gives how long that took.
    async fn until_nothing_is_left(&self) -> Duration {
        let start = Instant::now();
        while !self.containers().is_empty() {
            assert!(start.elapsed() < PATIENCE, "containers are left: {:?}", self.containers());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        start.elapsed()
    }
}

/// Containers that carry the name of this folder for containers, whatever their state.
fn containers_of(folder: &std::path::Path) -> Vec<String> {
    let place = std::fs::read_to_string(folder.join("place")).expect("a place");
    let filter = format!("label=mcp-python-exec-sandbox.place={}", place.trim());
    docker(&["ps", "--all", "--quiet", "--filter", &filter]).lines().map(str::to_owned).collect()
}

/// A run of this script without network.
fn spec(script: &str) -> SandboxSpec {
    SandboxSpec {
        role: Role::Run,
        command: Command {
            program: "/usr/local/bin/python3".into(),
            args: vec!["-u".to_owned(), "/work/script.py".to_owned()],
            env: BTreeMap::from([
                ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
                ("HOME".to_owned(), "/home/sandbox".to_owned()),
                ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ]),
            cwd: "/work".into(),
        },
        mounts: Vec::new(),
        files: vec![InlineFile { path: "script.py".into(), content: script.as_bytes().into() }],
        network: Network::None,
        named_servers: Vec::new(),
        limits: Limits::default(),
        channel: false,
    }
}

/// The engine's own client, by hand.
fn docker(args: &[&str]) -> String {
    let output = std::process::Command::new("docker").args(args).output().expect("the client starts");
    assert!(output.status.success(), "docker {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
