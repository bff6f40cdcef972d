//! The real driver in real interpreters, without a sandbox: for tests of what it says.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::Instant;

use super::driver::Driver;
use super::{DRIVER, START};
use crate::sandbox::{BoxFuture, Control, Outcome, Running, WaitError};
use crate::session::protocol::Setup;

/// Every interpreter that is here and that we serve; `TEST_PYTHONS` names a folder of further ones.
pub fn interpreters() -> Vec<PathBuf> {
    let named = std::env::var_os("TEST_PYTHON").map(PathBuf::from);
    let folders = [Some("/root/.pyenv/versions".into()), std::env::var_os("TEST_PYTHONS").map(PathBuf::from)];
    let entries = folders.into_iter().flatten().filter_map(|folder: PathBuf| std::fs::read_dir(folder).ok());
    // uv's names without the last number are links to those with it.
    let real = entries.flatten().flatten().filter(|entry| !entry.path().is_symlink());
    let installed = real.map(|entry| entry.path().join("bin/python3"));
    let mut found: Vec<PathBuf> = installed.chain(["/usr/bin/python3".into()]).chain(named).collect();
    found.retain(|python| version(python).is_some_and(|minor| minor >= 9));
    if found.is_empty() {
        assert!(std::env::var_os("CI").is_none(), "CI has to have a Python");
        // Past the test harness, which keeps what a test prints to itself.
        let _ = writeln!(std::io::stderr(), "SKIPPED tests of the driver: no Python 3.9 or newer is here");
    }
    found
}

fn version(python: &Path) -> Option<u32> {
    let output =
        Command::new(python).args(["-c", "import sys; print(*sys.version_info[:2])"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.trim().strip_prefix("3 ")?.parse().ok()
}

struct Process(Child);

impl Control for Process {
    fn wait(&mut self) -> BoxFuture<'_, Result<Outcome, WaitError>> {
        let _ = self.0.wait();
        Box::pin(std::future::ready(Err(WaitError::Killed)))
    }

    fn kill(&mut self) {
        let _ = self.0.kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The limits that the tests' driver has.
pub fn setup() -> Setup {
    let mut setup = Setup::new(64 << 10, 64 << 10);
    setup.driver = DRIVER.into();
    setup
}

/// Starts the driver in a folder. Its channel comes as standard input.
pub async fn real_driver(python: &Path, folder: &Path) -> Driver {
    let (near, far) = std::os::unix::net::UnixStream::pair().expect("a pair");
    near.set_nonblocking(true).expect("a socket");
    let start = format!("import os; os.dup2(0, 3); os.dup2(os.open(os.devnull, 0), 0)\n{START}");
    let child = Command::new(python)
        .args(["-c", &start])
        .current_dir(folder)
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(far)))
        .stdout(Stdio::inherit())
        .spawn()
        .expect("Python starts");
    let running = Running {
        stdout: Box::new(tokio::io::empty()),
        stderr: Box::new(tokio::io::empty()),
        channel: Some(UnixStream::from_std(near).expect("a socket")),
        work_dir: None,
        layers: Vec::new(),
        control: Box::new(Process(child)),
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    Driver::open(running, &setup(), deadline).await.expect("the driver is ready").0
}
