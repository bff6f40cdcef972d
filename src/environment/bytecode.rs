//! Compiles installed packages to bytecode after they have been published, so that the first answer does not wait.
//!
//! The compiler reads the packages' source and runs none of it: the base interpreter is started without `site`, so
//! that no `.pth` file of a package is executed. It has no network and writes only below the folder. Each bytecode
//! file appears by a rename, so a run that reads the folder meanwhile sees it whole or not at all.

use std::collections::BTreeMap;

use super::failure::EnvironmentError;
use super::interpreters::Interpreter;
use super::job::Runner;
use crate::sandbox::spec::{Command, Limits, Mount, Network, Role, SandboxSpec};

/// One process, and the lowest priority (`nice(2)`): a call that runs at the same time goes first.
pub const NICENESS: u8 = 19;
const COMPILE: &str = "
import compileall, sys
sys.exit(0 if compileall.compile_dir(sys.argv[1], maxlevels=40, quiet=2, workers=1) else 1)
";

/// Compiles everything below the mount's folder. Sources that do not compile are passed over: some packages ship templates
/// and tests for other versions.
pub async fn compile(
    runner: &Runner,
    interpreter: &Interpreter,
    mount: Mount,
) -> Result<(), EnvironmentError> {
    let folder = mount.target.clone();
    let args = ["-I", "-S", "-c", COMPILE].map(str::to_owned).into_iter();
    let command = Command {
        program: interpreter.executable.clone(),
        args: args.chain([folder.to_string_lossy().into_owned()]).collect(),
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        cwd: folder.clone(),
    };
    let mut mounts = interpreter.mounts();
    mounts.retain(|other| other.target != folder);
    mounts.push(mount);
    let spec = SandboxSpec {
        role: Role::Prepare,
        command,
        mounts,
        files: Vec::new(),
        network: Network::None,
        named_servers: Vec::new(),
        limits: Limits { disk: 4 << 30, niceness: NICENESS, ..Limits::default() },
        channel: false,
    };
    let output = runner.run(spec).await?;
    // 1 says that some file did not compile.
    if matches!(output.code, 0 | 1) {
        return Ok(());
    }
    Err(EnvironmentError::Sandbox(format!("compiling ended with {}: {}", output.code, output.stderr.trim())))
}
