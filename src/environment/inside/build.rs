//! Installs into a volume: the last step of uv, in a sandbox that has the volume in the place of a folder. Files for uv
//! go in with the specification, and what there is to know comes out on standard output.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::json;

use super::super::build::{Builder, Resolution, install_args};
use super::super::failure::{EnvironmentError, Step};
use super::super::figures;
use super::super::job::limits;
use super::super::startup::Contents;
use super::super::venv::Layout;
use super::{packages, volume_mount};
use crate::sandbox::spec::{Access, Command, HOME_DIR, InlineFile, Network, Role, SandboxSpec, WORK_DIR};
use crate::sandbox::volumes::{ENVIRONMENT, PACKAGES, Programs, Volumes};

/// Makes the empty environment, starts uv, and prints the sizes of what there is.
const INSTALL: &str = include_str!("install.py");

/// An environment in its volume.
#[derive(Clone, Debug, Deserialize)]
pub struct Built {
    /// Its size on disk in bytes.
    pub size: u64,
    /// The package cache's.
    pub packages: u64,
    /// What it holds.
    #[serde(flatten)]
    pub contents: Contents,
}

/// Installs exactly the resolution's files into the volume.
pub async fn install(
    builder: &Builder<'_>,
    volumes: &dyn Volumes,
    programs: &Programs,
    resolution: &Resolution,
    volume: &str,
) -> Result<Built, EnvironmentError> {
    let root = Path::new(ENVIRONMENT);
    let mut files = vec![file("figures.py", figures::SOURCE)];
    let mut install = Vec::new();
    if resolution.packages > 0 {
        builder.reporter.phase("downloading and installing packages", 0, resolution.packages);
        files.push(file("uv.toml", &builder.config().to_string()));
        files.push(file("pylock.toml", &resolution.lock_file));
        install.push(programs.uv.to_string_lossy().into_owned());
        install.extend(install_args(&root.join("bin/python"), &at("pylock.toml")));
        install.extend(["--config-file".to_owned(), at("uv.toml").to_string_lossy().into_owned()]);
    }
    let Layout { folders, links, config } = Layout::of(builder.interpreter);
    let plan = json!({
        "root": ENVIRONMENT, "folders": folders, "links": links, "config": config, "install": install,
        "packages": PACKAGES, "figures": [at("figures.py"), figures::MODULE],
    });
    let mut mounts = vec![volume_mount(volume, ENVIRONMENT, Access::ReadWrite), packages(volumes)];
    mounts.extend(resolution.wheels.iter().cloned());
    mounts.extend(builder.runner.connection.mounts().iter().cloned());
    let spec = SandboxSpec {
        role: Role::Prepare,
        command: Command {
            program: programs.python.clone(),
            args: ["-I", "-S", "-c", INSTALL, &plan.to_string()].map(str::to_owned).to_vec(),
            env: builder.runner.uv_env(HOME_DIR.as_ref()).await,
            cwd: WORK_DIR.into(),
        },
        mounts,
        files,
        network: Network::Host,
        named_servers: Vec::new(),
        limits: limits(),
        channel: false,
    };
    let output = builder.runner.run(spec).await?;
    builder.check(Step::Install, &output)?;
    builder.reporter.phase("packages installed", resolution.packages, resolution.packages);
    serde_json::from_str(&output.stdout)
        .map_err(|error| EnvironmentError::Sandbox(format!("installing told nothing: {error}")))
}

fn file(name: &str, content: &str) -> InlineFile {
    InlineFile { path: name.into(), content: content.as_bytes().into() }
}

fn at(name: &str) -> PathBuf {
    Path::new(WORK_DIR).join(name)
}
