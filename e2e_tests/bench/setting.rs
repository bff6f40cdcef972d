//! What is compared: the server, its data folder, and the interpreter that it gives to scripts.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;
use serde_json::Value;

/// Flags of the benchmark.
#[derive(Debug, Parser)]
#[command(about = "Measures this program against a bare interpreter and against other sandboxes")]
pub struct Flags {
    /// The server to measure; without it, the one built beside this benchmark
    #[arg(long)]
    pub server: Option<PathBuf>,
    /// Suites to run, separated by commas; without it, all
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Interleaved rounds of each suite
    #[arg(long, default_value_t = 60)]
    pub rounds: usize,
    /// Where the figures go as JSON
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// A document into which the table goes, between `<!-- bench:begin -->` and `<!-- bench:end -->`
    #[arg(long)]
    pub readme: Option<PathBuf>,
    /// Image for containers; without it, the one that the server makes
    #[arg(long)]
    pub docker_image: Option<String>,
    /// The server's folder for packages and environments; without it, one for benchmarks in the temporary folder
    #[arg(long)]
    pub data_dir: Option<PathBuf>,
    /// uv for the server
    #[arg(long)]
    pub uv_path: Option<PathBuf>,
    /// The Python program of the same name, where it is installed
    #[arg(long)]
    pub python_program: Option<PathBuf>,
    /// Cargo says so; it changes nothing.
    #[arg(long, hide = true)]
    pub bench: bool,
}

/// A setting in which everything can be measured.
pub struct Setting {
    pub flags: Flags,
    pub server: PathBuf,
    pub data_dir: PathBuf,
    /// The interpreter itself.
    pub python: PathBuf,
    /// The executable of the empty environment that every script gets.
    pub env_python: PathBuf,
    /// `3.13.0`.
    pub version: String,
    /// Where scripts for direct starts lie.
    pub place: tempfile::TempDir,
}

/// Prints when its first line ran, in nanoseconds of the monotonic clock.
pub const HELLO: &str = "import time\nprint(time.monotonic_ns())\n";

impl Setting {
    pub fn make(flags: Flags) -> Result<Self, String> {
        let built = || PathBuf::from(env!("CARGO_BIN_EXE_mcp-python-exec-sandbox"));
        let server = flags.server.clone().unwrap_or_else(built);
        let user = rustix::process::getuid().as_raw();
        let data_dir = flags
            .data_dir
            .clone()
            .unwrap_or_else(|| std::env::temp_dir().join(format!("mcp-bench-data-{user}")));
        let place = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
        let mut setting = Self {
            flags,
            server,
            data_dir,
            python: PathBuf::new(),
            env_python: PathBuf::new(),
            version: String::new(),
            place,
        };
        setting.env_python = setting.environment(&[])?;
        let canonical = |error| format!("{}: {error}", setting.env_python.display());
        setting.python = setting.env_python.canonicalize().map_err(canonical)?;
        setting.version = output(Command::new(&setting.python).arg("-V"))?.trim().replace("Python ", "");
        Ok(setting)
    }

    pub fn wants(&self, suite: &str) -> bool {
        self.flags.only.is_empty() || self.flags.only.iter().any(|name| name == suite)
    }

    /// Flags that every server of a benchmark gets.
    pub fn server_flags(&self) -> Vec<String> {
        let mut flags = vec!["--data-dir".to_owned(), self.data_dir.display().to_string()];
        if let Some(uv) = &self.flags.uv_path {
            flags.extend(["--uv-path".to_owned(), uv.display().to_string()]);
        }
        flags.push("--no-warm-cache".to_owned());
        flags
    }

    /// The executable that a script with these dependencies gets; builds the environment where there is none.
    pub fn environment(&self, dependencies: &[&str]) -> Result<PathBuf, String> {
        let script = self.script("explained.py", "pass\n")?;
        let mut command = Command::new(&self.server);
        command.args(self.server_flags()).args(["run", "--explain", "--timeout", "200"]);
        for dependency in dependencies {
            command.args(["--with", dependency]);
        }
        let plan: Value = serde_json::from_str(&output(command.arg(script))?)
            .map_err(|error| format!("the plan cannot be read: {error}"))?;
        let program = plan["program"]["execute"]["program"].as_str();
        program.map(PathBuf::from).ok_or_else(|| "the plan names no program".to_owned())
    }

    /// Writes a script for direct starts.
    pub fn script(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.place.path().join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }
}

/// What a program prints; its own words where it fails.
pub fn output(command: &mut Command) -> Result<String, String> {
    let name = Path::new(command.get_program()).display().to_string();
    let done = command.output().map_err(|error| format!("{name}: {error}"))?;
    if !done.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&done.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
