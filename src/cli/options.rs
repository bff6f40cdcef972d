//! The flags of the server and of every subcommand that runs something: how each is read, and what they say about each other.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::Cli;
use crate::audit::{AuditSettings, Scripts};
use crate::environment::{PythonVersion, SourceBuilds};
use crate::execution::user_mount::UserMount;
use crate::sandbox::{
    Backend, Tier,
    machine::{self, DEFAULT_DISK, DEFAULT_MEMORY, DEFAULT_OPEN_FILES, Machine},
    select::Choice,
    spec::Limits,
    spec::Network,
};
use crate::session::{InterpreterKind, SessionSettings};
use crate::settings::{Settings, ToolFamily};

/// Flags of the server.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[command(next_help_heading = "Options for every run")]
pub struct Options {
    /// Python to run, such as 3.13; without it 3.13, or the newest that can be had
    #[arg(long, global = true, value_name = "VERSION")]
    pub python_version: Option<PythonVersion>,
    /// How scripts are isolated
    #[arg(long, global = true, value_enum, default_value_t = AskedBackend::Auto)]
    pub sandbox_backend: AskedBackend,
    /// Refuse to start where the sandbox promises less than this
    #[arg(long, global = true, value_enum, value_name = "TIER")]
    pub require_sandbox: Option<RequiredTier>,
    /// Image for the Docker backend: one that the engine has, or can pull. Without it one is made from this program's
    /// own Dockerfile
    #[arg(long, global = true, value_name = "NAME")]
    pub docker_image: Option<String>,
    /// Folder of a system-call policy of your own, in place of the built-in one; `policy export folder PATH` writes a start
    #[arg(long, global = true, value_name = "FOLDER")]
    pub seccomp_policy: Option<PathBuf>,
    /// What of the network scripts can reach: out but not this machine, all that this machine can, or nothing; without
    /// it `outbound`, or `host` where that cannot be had
    #[arg(long, global = true, value_enum)]
    pub network: Option<Network>,
    /// Seconds at most for one call
    #[arg(long, global = true, value_name = "SECONDS", allow_negative_numbers = true, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub max_timeout: u64,
    /// Seconds for a call that names no timeout
    #[arg(long, global = true, value_name = "SECONDS", allow_negative_numbers = true, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub default_timeout: u64,
    /// Bytes kept of standard output, and of standard error; at least 1024
    #[arg(long, global = true, value_name = "BYTES", allow_negative_numbers = true, default_value_t = 102_400, value_parser = clap::value_parser!(u64).range(1024..=64 << 20))]
    pub max_output_bytes: u64,
    /// Runs at the same time; without it, twice the number of processors, as far as memory goes
    #[arg(long, global = true, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..=CONCURRENT_AT_MOST))]
    pub max_concurrent: Option<u16>,
    /// Sandboxes that wait for a script at most; 0 keeps none waiting; without it, by processors and memory
    #[arg(long, global = true, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(0..=64))]
    pub pool_size: Option<u16>,
    /// Modules that waiting sandboxes have imported already, where a script's packages hold them
    #[arg(long, global = true, value_name = "MODULES", value_delimiter = ',', value_parser = module)]
    pub preload: Vec<String>,
    /// Memory of one run, all its processes and its files in memory together; a small machine's default is less
    #[arg(long, global = true, value_name = "SIZE", default_value = DEFAULT_MEMORY.as_str(), value_parser = size, allow_hyphen_values = true)]
    pub memory_limit: u64,
    /// Processes and threads of one run
    #[arg(long, global = true, value_name = "N", default_value_t = 512, value_parser = count, allow_hyphen_values = true)]
    pub max_processes: u64,
    /// Processors' worth of time of one run, such as 0.5 or 2; without it, all there are
    #[arg(long, global = true, value_name = "N", value_parser = processors, allow_hyphen_values = true)]
    pub cpu_limit: Option<u32>,
    /// Space for what one run writes; a small machine's default is less
    #[arg(long, global = true, value_name = "SIZE", default_value = DEFAULT_DISK.as_str(), value_parser = size, allow_hyphen_values = true)]
    pub disk_limit: u64,
    /// Open files of one process
    #[arg(long, global = true, value_name = "N", default_value_t = *DEFAULT_OPEN_FILES, value_parser = count, allow_hyphen_values = true)]
    pub max_open_files: u64,
    /// Do not fetch common packages in advance
    #[arg(long, global = true)]
    pub no_warm_cache: bool,
    /// uv to use: a path, or a name to look for on PATH
    #[arg(long, global = true, value_name = "PATH")]
    pub uv_path: Option<PathBuf>,
    /// Environment variable that scripts may see; may be repeated, or several separated by commas
    #[arg(long, global = true, value_name = "NAME", value_delimiter = ',')]
    pub pass_env: Vec<String>,
    /// Folder for packages and environments; without it, one in your cache folder
    #[arg(long, global = true, value_name = "FOLDER")]
    pub data_dir: Option<PathBuf>,
    /// Space that packages and environments may take together, such as 500M or 5G
    #[arg(long, global = true, value_name = "SIZE", allow_negative_numbers = true, default_value = "5G", value_parser = size)]
    pub cache_size: u64,
    /// Seconds after which an environment's requirements are resolved again
    #[arg(
        long,
        global = true,
        value_name = "SECONDS",
        allow_negative_numbers = true,
        default_value_t = 86_400
    )]
    pub resolve_ttl: u64,
    /// Take packages that have a wheel, and refuse those that would have to be built from source
    #[arg(long, global = true)]
    pub no_build: bool,
    /// Use package indexes of your configuration that have no TLS
    #[arg(long, global = true)]
    pub allow_http_index: bool,
    /// Show a folder of yours in every sandbox's working directory, read-only unless :rw is added; may be repeated
    #[arg(long = "mount", global = true, value_name = "HOST:NAME[:rw]")]
    pub mounts: Vec<UserMount>,
    /// As --mount, and takes the root and home directories, too
    #[arg(long = "mount-home", global = true, value_name = "HOST:NAME[:rw]")]
    pub home_mounts: Vec<UserMount>,
    /// File to which a line of JSON is appended for every call and every `run`
    #[arg(long, global = true, value_name = "FILE")]
    pub audit_log: Option<PathBuf>,
    /// Write the text of scripts into the audit log, beside their hash
    #[arg(long, global = true)]
    pub audit_scripts: bool,
    /// Tools that clients see; several separated by commas
    #[arg(
        long,
        global = true,
        value_enum,
        value_delimiter = ',',
        value_name = "FAMILY",
        default_value = "execute,sandbox"
    )]
    pub tools: Vec<ToolFamily>,
    /// Stateful sandboxes at the same time
    #[arg(long, global = true, value_name = "N", allow_negative_numbers = true, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=60))]
    pub max_sandboxes: u16,
    /// Seconds without use after which a stateful sandbox is closed
    #[arg(long, global = true, value_name = "SECONDS", allow_negative_numbers = true, default_value_t = 1800, value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub sandbox_ttl: u64,
    /// Size of one picture in a result, such as 256K; larger ones are made smaller
    #[arg(long, global = true, value_name = "SIZE", allow_negative_numbers = true, default_value = "256K", value_parser = image_size)]
    pub max_image_bytes: u64,
    /// Interpreter of stateful sandboxes
    #[arg(
        long,
        global = true,
        env = "INTERPRETER_TYPE",
        value_enum,
        ignore_case = true,
        value_name = "NAME",
        default_value = "python"
    )]
    pub interpreter: InterpreterKind,
}

/// A size from 1 KiB to 4 MiB: less shows nothing, and more is refused by clients.
fn image_size(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    if (1 << 10..=4 << 20).contains(&bytes) { Ok(bytes) } else { Err("it must be from 1K to 4M".to_owned()) }
}

/// A size in bytes: a number, with K, M, G or T for powers of 1,024.
fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no size; write it like 500M or 5G");
    let upper = text.trim().to_ascii_uppercase();
    let plain = upper.trim_end_matches("IB").trim_end_matches('B');
    let (digits, shift) = match plain.char_indices().last() {
        Some((at, 'K')) => (&plain[..at], 10),
        Some((at, 'M')) => (&plain[..at], 20),
        Some((at, 'G')) => (&plain[..at], 30),
        Some((at, 'T')) => (&plain[..at], 40),
        _ => (plain, 0),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    match number.checked_mul(1 << shift) {
        Some(0) => Err("it must be more than 0; write it like 500M or 5G".to_owned()),
        bytes => bytes.ok_or_else(wrong),
    }
}

/// A whole number. How large it has to be at least the limits say, 0 included.
fn count(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is no whole number above 0; write it like 64 or 512"))
}

/// The name of a module, as an import statement takes it.
fn module(text: &str) -> Result<String, String> {
    let is_name = |part: &str| {
        let mut letters = part.chars();
        letters.next().is_some_and(|first| first == '_' || first.is_alphabetic())
            && letters.all(|letter| letter == '_' || letter.is_alphanumeric())
    };
    if text.split('.').all(is_name) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is no module; write them like numpy,pandas"))
}

/// Hundredths of a processor from a number such as 1.5.
fn processors(text: &str) -> Result<u32, String> {
    let wrong = || format!("{text:?} is no number of processors above 0; write it like 0.5 or 2");
    let number: f64 = text.trim().parse().map_err(|_| wrong())?;
    let percent = (number * 100.0).round();
    if !(1.0..=1_000_000.0).contains(&percent) {
        return Err(wrong());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    Ok(percent as u32)
}

/// Tiers that can be required.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RequiredTier {
    /// Namespaces, a root of its own, Landlock and seccomp
    Full,
    /// At least Landlock and seccomp
    Confined,
    /// At least a container
    Docker,
}

impl From<RequiredTier> for Tier {
    fn from(required: RequiredTier) -> Self {
        match required {
            RequiredTier::Full => Self::Full,
            RequiredTier::Confined => Self::Confined,
            RequiredTier::Docker => Self::Docker,
        }
    }
}

/// Backends that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AskedBackend {
    /// This system's own means; containers where they cannot be had
    Auto,
    /// This system's own means (on Linux), and nothing else
    Native,
    /// Containers
    Docker,
    /// No isolation at all
    None,
}

impl AskedBackend {
    /// The backend, and whether the user chose it. Elsewhere than on Linux the native one is containers.
    fn backend(self) -> (Backend, Choice) {
        let native = if cfg!(target_os = "linux") { Backend::Native } else { Backend::Docker };
        match self {
            Self::Auto => (native, Choice::Default),
            Self::Native => (native, Choice::User),
            Self::Docker => (Backend::Docker, Choice::User),
            Self::None => (Backend::None, Choice::User),
        }
    }
}

impl Options {
    /// Checks what flags say about each other.
    pub fn settings(self) -> Result<Settings, clap::Error> {
        let conflict = |message: String| {
            use clap::CommandFactory;
            Cli::command().error(clap::error::ErrorKind::ValueValidation, message)
        };
        if self.default_timeout > self.max_timeout {
            return Err(conflict(format!(
                "--default-timeout {} is more than --max-timeout {}; lower the one or raise the other",
                self.default_timeout, self.max_timeout
            )));
        }
        if self.audit_scripts && self.audit_log.is_none() {
            return Err(conflict("--audit-scripts needs --audit-log FILE".to_owned()));
        }
        if let Some(name) = self.pass_env.iter().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
            return Err(conflict(format!("--pass-env takes the name of a variable, not {name:?}")));
        }
        let home = std::env::var_os("HOME").map(PathBuf::from);
        for mount in &self.mounts {
            mount.check_home(home.as_deref()).map_err(|error| conflict(format!("--mount: {error}")))?;
        }
        let mounts = [self.mounts, self.home_mounts].concat();
        if let Some(twice) = twice(mounts.iter().map(|mount| mount.name.as_str())) {
            return Err(conflict(format!("--mount: the name {twice:?} is given twice")));
        }
        let limits = Limits {
            memory: self.memory_limit,
            processes: self.max_processes,
            open_files: self.max_open_files,
            disk: self.disk_limit,
            cpu_percent: self.cpu_limit,
            niceness: 0,
        };
        machine::THIS.allows(&limits).map_err(conflict)?;
        let (backend, backend_choice) = self.sandbox_backend.backend();
        let concurrent = || default_concurrency(&machine::THIS);
        let pool =
            |backend| self.pool_size.map_or_else(|| default_pool_size(&machine::THIS, backend), usize::from);
        Ok(Settings {
            python: self.python_version,
            backend,
            backend_choice,
            require: self.require_sandbox.map(Tier::from),
            docker_image: self.docker_image,
            seccomp_policy: self.seccomp_policy,
            network: self.network.unwrap_or(Network::Outbound),
            network_choice: if self.network.is_some() { Choice::User } else { Choice::Default },
            limits,
            default_timeout: self.default_timeout,
            max_timeout: self.max_timeout,
            max_output_bytes: usize::try_from(self.max_output_bytes).unwrap_or(usize::MAX),
            max_concurrent: self.max_concurrent.map_or_else(concurrent, usize::from),
            pool_size: pool(backend),
            pool_size_of_containers: pool(Backend::Docker),
            preload: self.preload,
            warm_cache: !self.no_warm_cache,
            uv: self.uv_path,
            pass_env: self.pass_env,
            data_dir: self.data_dir,
            cache_size: self.cache_size,
            resolve_ttl: Duration::from_secs(self.resolve_ttl),
            source_builds: if self.no_build { SourceBuilds::Refused } else { SourceBuilds::Allowed },
            allow_http_index: self.allow_http_index,
            mounts,
            audit: self.audit_log.map(|file| AuditSettings {
                file,
                scripts: if self.audit_scripts { Scripts::Text } else { Scripts::Hash },
            }),
            tools: self.tools,
            sessions: SessionSettings {
                max_sandboxes: usize::from(self.max_sandboxes),
                idle_limit: Duration::from_secs(self.sandbox_ttl),
                max_image_bytes: usize::try_from(self.max_image_bytes).unwrap_or(usize::MAX),
                interpreter: self.interpreter,
            },
        })
    }
}

/// A name that stands there more than once.
fn twice<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = std::collections::BTreeSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}

/// Runs at the same time that may be asked for.
const CONCURRENT_AT_MOST: i64 = 256;

/// Memory of an ordinary run, in bytes: an interpreter with numpy and pandas and some data.
const RUN_TAKES: u64 = 128 << 20;

/// Twice the processors: runs wait for the network and the disk as well. Fewer where so many would not fit into memory,
/// which a container's limit may keep far below what its processors could do.
fn default_concurrency(machine: &Machine) -> usize {
    let wanted = machine.processors.map_or(4, |processors| 2 * processors);
    let fitting = machine.memory.map_or(wanted, |memory| memory / RUN_TAKES);
    usize::try_from(wanted.min(fitting).clamp(1, CONCURRENT_AT_MOST.unsigned_abs())).unwrap_or(1)
}

/// Memory that the whole pool may hold: this part of the machine's.
const POOL_SHARE: u64 = 50;

/// Memory of the machine where it cannot be told, which is so on desktops only.
const DESKTOP: u64 = 8 << 30;

/// As many as a burst of calls has (at least eight, four for each processor), as far as memory goes.
fn default_pool_size(machine: &Machine, backend: Backend) -> usize {
    // Memory of one that waits, generously, and how many nobody needs more of: a container has processes of the engine
    // and a client beside its own.
    let (takes, most) = if backend == Backend::Docker { (48 << 20, 4) } else { (8 << 20, 16) };
    let wanted = (4 * machine.processors.unwrap_or(1)).clamp(8, 16).min(most);
    let fitting = machine.memory.unwrap_or(DESKTOP) / POOL_SHARE / takes;
    usize::try_from(wanted.min(fitting)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn settings(args: &[&str]) -> Result<Settings, clap::Error> {
        Cli::try_parse_from([&["mcp-python-exec-sandbox"], args].concat())?.options.settings()
    }

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn defaults_are_those_of_the_python_program() {
        let settings = settings(&[]).expect("no flag is needed");
        assert_eq!(
            (settings.max_timeout, settings.default_timeout, settings.max_output_bytes),
            (300, 30, 102_400)
        );
        assert!(settings.warm_cache);
        assert_eq!((settings.python, settings.require), (None, None));
        assert_eq!(settings.limits, Limits::default());
    }

    #[test]
    fn a_container_s_memory_bounds_the_defaults() {
        let machine =
            |memory: u64| Machine { memory: Some(memory), processors: Some(8), ..Machine::default() };
        let defaults = |memory, backend| {
            let machine = machine(memory);
            (default_concurrency(&machine), default_pool_size(&machine, backend))
        };
        assert_eq!(defaults(64 << 30, Backend::Native), (16, 16));
        assert_eq!(defaults(1 << 30, Backend::Native), (8, 2));
        assert_eq!(defaults(256 << 20, Backend::Native), (2, 0));
        assert_eq!(defaults(32 << 20, Backend::Native), (1, 0));
        assert_eq!(defaults(64 << 30, Backend::Docker), (16, 4));
        assert_eq!(defaults(4 << 30, Backend::Docker), (16, 1));
        let desktop = Machine { processors: Some(400), ..Machine::default() };
        assert_eq!((default_concurrency(&desktop), default_pool_size(&desktop, Backend::Docker)), (256, 3));
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(
            [size("1024"), size("5G"), size("500MiB"), size("2kb")],
            [Ok(1024), Ok(5 << 30), Ok(500 << 20), Ok(2048)]
        );
        for wrong in ["", "0", "-1", "G", "5X", "99999999999T"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_below_zero_are_refused_as_values() {
        for flag in [
            "--max-timeout",
            "--default-timeout",
            "--max-output-bytes",
            "--max-concurrent",
            "--pool-size",
            "--memory-limit",
            "--max-processes",
            "--cpu-limit",
            "--disk-limit",
            "--max-open-files",
            "--cache-size",
            "--resolve-ttl",
            "--max-sandboxes",
            "--sandbox-ttl",
            "--max-image-bytes",
        ] {
            let error = settings(&[flag, "-1"]).expect_err("it is too little").to_string();
            assert!(error.contains(&format!("invalid value '-1' for '{flag} ")), "{error}");
        }
    }

    #[test]
    fn processors_are_read_in_parts() {
        assert_eq!([processors("0.5"), processors("2"), processors("1.25")], [Ok(50), Ok(200), Ok(125)]);
        for wrong in ["", "0", "-1", "two", "nan", "inf", "0.001"] {
            assert!(processors(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_that_contradict_are_refused_with_exit_code_two() {
        let wrong: [&[&str]; 19] = [
            &["--memory-limit", "0"],
            &["--memory-limit=-1G"],
            &["--memory-limit", "1M"],
            &["--memory-limit", "900T"],
            &["--max-processes", "0"],
            &["--max-processes", "99999999"],
            &["--cpu-limit", "0"],
            &["--cpu-limit=-1"],
            &["--cpu-limit", "100000"],
            &["--disk-limit", "0"],
            &["--default-timeout", "400"],
            &["--max-timeout", "10"],
            &["--max-output-bytes", "1023"],
            &["--max-timeout", "0"],
            &["--python-version", "2.7"],
            &["--sandbox-backend", "jail"],
            &["--pass-env", "A=B"],
            &["--audit-scripts"],
            &["--no-such-flag"],
        ];
        for args in wrong {
            let error = settings(args).expect_err("it was taken");
            assert_eq!(error.exit_code(), 2, "{args:?}");
        }
        assert!(settings(&["--max-timeout", "10", "--default-timeout", "10"]).is_ok());
    }

    #[test]
    fn a_limit_of_nothing_is_refused_with_what_is_needed() {
        for (flag, says) in [
            ("--max-processes", "--max-processes: 0 is too little to run anything; use at least 1"),
            ("--max-open-files", "--max-open-files: 0 is too little to run anything; use at least 16"),
            ("--memory-limit", "it must be more than 0; write it like 500M or 5G"),
            ("--disk-limit", "it must be more than 0; write it like 500M or 5G"),
            ("--cache-size", "it must be more than 0; write it like 500M or 5G"),
            ("--cpu-limit", "no number of processors above 0; write it like 0.5 or 2"),
        ] {
            let error = settings(&[flag, "0"]).expect_err("it was taken");
            assert_eq!(error.exit_code(), 2, "{flag}");
            assert!(error.to_string().contains(says), "{flag}: {error}");
        }
    }

    #[test]
    fn a_limit_below_nothing_is_refused_with_what_is_needed_instead() {
        for (flag, says) in [
            ("--max-processes", "is no whole number above 0; write it like 64 or 512"),
            ("--max-open-files", "is no whole number above 0; write it like 64 or 512"),
            ("--memory-limit", "is no size; write it like 500M or 5G"),
            ("--disk-limit", "is no size; write it like 500M or 5G"),
            ("--cpu-limit", "is no number of processors above 0; write it like 0.5 or 2"),
        ] {
            for args in [&[flag, "-1"][..], &[&format!("{flag}=-1")]] {
                let error = settings(args).expect_err("it was taken");
                assert_eq!(error.exit_code(), 2, "{args:?}");
                assert!(error.to_string().contains(says), "{args:?}: {error}");
            }
        }
    }
}
