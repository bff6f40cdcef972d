//! Makes an environment in a volume: the same two steps of uv as elsewhere, each in a sandbox of the backend. Files for
//! uv go in with the specification, and results come out on standard output.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;

use super::super::build::{Resolution, check, compile_args, config, install_args, resolution};
use super::super::failure::{EnvironmentError, Step};
use super::super::interpreters::Interpreter;
use super::super::job::{Runner, StepOutput, limits};
use super::super::progress::Reporter;
use super::super::request::EnvironmentRequest;
use super::super::venv;
use super::volume_mount;
use crate::sandbox::spec::{
    Access, Command, HOME_DIR, InlineFile, Mount, Network, Role, SandboxSpec, WORK_DIR,
};
use crate::sandbox::volumes::Programs;

/// Makes the empty environment, starts uv, and prints the sizes of what there is.
const INSTALL: &str = r#"
import json, os, subprocess, sys
plan = json.loads(sys.argv[1])
root = plan["root"]
for folder in plan["folders"]:
    os.makedirs(os.path.join(root, folder), exist_ok=True)
for name, target in plan["links"].items():
    os.symlink(target, os.path.join(root, name))
with open(os.path.join(root, "pyvenv.cfg"), "w") as file:
    file.write(plan["config"])
code = subprocess.run(plan["install"]).returncode if plan["install"] else 0
if os.path.exists(os.path.join(root, ".lock")):
    os.remove(os.path.join(root, ".lock"))
def size(folder):
    total = 0
    for at, _, files in os.walk(folder):
        for name in files:
            total += os.lstat(os.path.join(at, name)).st_blocks * 512
    return total
if code == 0:
    json.dump({"size": size(root), "packages": size(plan["packages"])}, sys.stdout)
sys.exit(code)
"#;

/// Everything that both steps need.
pub struct Builder<'a> {
    /// Runs sandboxes.
    pub runner: &'a Runner,
    /// What can be started in them.
    pub programs: &'a Programs,
    /// The volume of the package cache.
    pub packages: &'a str,
    /// For which interpreter.
    pub interpreter: &'a Interpreter,
    /// What is asked for.
    pub request: &'a EnvironmentRequest,
    /// The most that the packages may take, in bytes of downloads.
    pub largest: u64,
    /// Who is told how it goes.
    pub reporter: &'a Reporter,
}

/// An environment in its volume.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Built {
    /// Its size on disk in bytes.
    pub size: u64,
    /// The package cache's.
    pub packages: u64,
}

impl Builder<'_> {
    /// Chooses versions.
    pub async fn resolve(&self) -> Result<Resolution, EnvironmentError> {
        if self.request.requirements.is_empty() {
            return Ok(Resolution::default());
        }
        self.reporter.phase("resolving dependencies", 0, 0);
        let files = vec![file("script.py", &self.request.metadata_script()), self.config()];
        let mut command = compile_args(&self.interpreter.executable, &at("script.py"));
        command.extend(config_file());
        let program = self.programs.uv.to_string_lossy().into_owned();
        let output = self.step(program, command, files, Vec::new()).await?;
        check(self.interpreter, Step::Resolve, &output)?;
        resolution(output, self.largest)
    }

    /// Installs exactly these files into the volume.
    pub async fn install(&self, resolution: &Resolution, volume: &str) -> Result<Built, EnvironmentError> {
        let root = &self.programs.environment;
        let layout = venv::Layout::of(self.interpreter);
        let mut files = vec![self.config()];
        let mut install = Vec::new();
        if resolution.packages > 0 {
            self.reporter.phase("downloading and installing packages", 0, resolution.packages);
            files.push(file("pylock.toml", &resolution.lock_file));
            install.push(self.programs.uv.to_string_lossy().into_owned());
            install.extend(install_args(&root.join("bin/python"), &at("pylock.toml")));
            install.extend(config_file());
        }
        let plan = json!({
            "root": root, "folders": layout.folders, "links": layout.links, "config": layout.config,
            "install": install, "packages": self.programs.packages,
        });
        let args = ["-I", "-S", "-c", INSTALL, &plan.to_string()].map(str::to_owned).to_vec();
        let python = self.programs.python.to_string_lossy().into_owned();
        let mounts = vec![volume_mount(volume, root, Access::ReadWrite)];
        let output = self.step(python, args, files, mounts).await?;
        check(self.interpreter, Step::Install, &output)?;
        self.reporter.phase("packages installed", resolution.packages, resolution.packages);
        serde_json::from_str(&output.stdout)
            .map_err(|error| EnvironmentError::Sandbox(format!("installing told nothing: {error}")))
    }

    fn config(&self) -> InlineFile {
        file("uv.toml", &config(&self.runner.index, self.request).to_string())
    }

    async fn step(
        &self,
        program: String,
        args: Vec<String>,
        files: Vec<InlineFile>,
        mut mounts: Vec<Mount>,
    ) -> Result<StepOutput, EnvironmentError> {
        mounts.push(volume_mount(self.packages, &self.programs.packages, Access::ReadWrite));
        mounts.extend(self.runner.connection.mounts().iter().cloned());
        let env: BTreeMap<String, String> = self.runner.uv_env(HOME_DIR.as_ref(), &self.programs.packages);
        self.runner
            .run(SandboxSpec {
                role: Role::Prepare,
                command: Command { program: program.into(), args, env, cwd: WORK_DIR.into() },
                mounts,
                files,
                network: Network::Host,
                limits: limits(),
                channel: false,
            })
            .await
    }
}

fn file(name: &str, content: &str) -> InlineFile {
    InlineFile { path: name.into(), content: content.as_bytes().into() }
}

fn config_file() -> [String; 2] {
    ["--config-file".to_owned(), at("uv.toml").to_string_lossy().into_owned()]
}

fn at(name: &str) -> std::path::PathBuf {
    std::path::Path::new(WORK_DIR).join(name)
}
