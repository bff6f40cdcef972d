//! What a person types: flags and subcommands, turned into validated settings. It starts nothing.

pub mod config_file;
#[cfg(feature = "http")]
pub mod http;
pub mod options;
pub mod sources;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::environment::PythonVersion;
use crate::install::Client;
use crate::seccomp::{Arch, Role, Tier as PolicyTier};

pub use options::{Options, RequiredTier};

/// What the end of this program means; the README says the same.
const EXIT_CODES: &str = "Exit codes: 0 done; 1 a script that is not valid, or a machine that cannot run scripts; 2 a \
    wrong flag, variable or configuration file; 124 the time of `run` was up; 125 this program failed and nothing was \
    run. `run` otherwise ends as its script did, with 128 and the number where a signal ended it.\n\nEvery option for \
    runs is also a key of the configuration file, and an environment variable: MCP_PYTHON_EXEC_SANDBOX_ and the name in \
    capitals. `config show` prints them all with their origin.";

/// Runs Python that an AI agent wrote, in a sandbox that is built for that one run and thrown away.
///
/// Without a subcommand it is an MCP server on standard input and output: let your agent start it. To try it
/// yourself, use `run`: echo "print('hello')" | mcp-python-exec-sandbox run -
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = false, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    /// Flags of the server and of every subcommand that runs something.
    #[command(flatten)]
    pub options: Options,
    /// How to serve over HTTP.
    #[cfg(feature = "http")]
    #[command(flatten)]
    pub http: http::HttpArgs,
    /// Configuration file to use instead of the usual one; flags and environment variables go before it
    #[arg(long, global = true, value_name = "FILE", help_heading = "Options for every run")]
    pub config: Option<PathBuf>,
    /// What to do instead of serving.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do instead of serving.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one script in the sandbox; its output and exit code are passed through
    Run(RunArgs),
    /// Check a script's metadata and syntax without running it
    Validate(ValidateArgs),
    /// The image of the Docker backend
    #[command(subcommand)]
    Image(ImageCommand),
    /// Add this server to the configuration of a client, or print what to add
    Install(InstallArgs),
    /// Take this server out of the configuration of a client
    Uninstall {
        /// The client
        client: Client,
    },
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
    /// Tell what this machine can do, layer by layer, and how to get more
    Doctor {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// The settings, and where each comes from
    #[command(subcommand)]
    Config(ConfigAction),
    /// Show, empty or fill what is kept of packages and environments
    Cache {
        /// What to do with it.
        #[command(subcommand)]
        action: CacheAction,
    },
    /// Show, explain, compare, export or check the system-call policy
    Policy {
        /// What to do with it.
        #[command(subcommand)]
        action: PolicyAction,
    },
}

/// What to do with the settings.
#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Print every setting, with its origin: default, file, environment or flag
    Show,
}

/// What to do with packages and environments on disk.
#[derive(Debug, Subcommand)]
pub enum CacheAction {
    /// Environments: key, size, last use, Python and packages
    List,
    /// Space that is taken, by kind
    Size,
    /// Remove what nobody uses at the moment; interpreters stay
    Clean,
    /// Fetch and compile packages in advance: the common ones, or those that are named
    Warm {
        /// A package (PEP 508); may be repeated, and all together make one environment
        #[arg(long = "with", value_name = "DEP")]
        with: Vec<String>,
    },
}

/// What to do with the system-call policy.
#[derive(Debug, Subcommand)]
pub enum PolicyAction {
    /// The whole table: every system call, its decision and the reason
    Show(SelectionArgs),
    /// Why one system call is decided as it is, in every role and tier
    Explain {
        /// Name of the system call, such as ptrace, or its number
        name: String,
        /// Architecture
        #[arg(long, default_value_t = Arch::native(), value_parser = named::<Arch>)]
        arch: Arch,
    },
    /// The difference to another policy
    #[command(subcommand)]
    Diff(Other),
    /// The policy in another form
    #[command(subcommand)]
    Export(Form),
    /// Check a policy folder or file of your own; every mistake is named with its line
    Check {
        /// The folder or file
        path: PathBuf,
    },
}

/// Policies to compare with.
#[derive(Debug, Subcommand)]
pub enum Other {
    /// Docker's default profile
    Docker(SelectionArgs),
}

/// Forms of the policy.
#[derive(Debug, Subcommand)]
pub enum Form {
    /// A seccomp profile for Docker, as JSON on standard output
    Docker(SelectionArgs),
    /// The policy's own files, to start a policy of your own from
    Folder {
        /// A new or empty folder
        path: PathBuf,
    },
}

/// Which of the policies.
#[derive(Clone, Copy, Debug, Args)]
pub struct SelectionArgs {
    /// Architecture: `x86_64` or `aarch64`
    #[arg(long, default_value_t = Arch::native(), value_parser = named::<Arch>)]
    pub arch: Arch,
    /// Role: prepare, build or run
    #[arg(long, default_value_t = Role::Run, value_parser = named::<Role>)]
    pub role: Role,
    /// Tier: full, or one of the confined ones
    #[arg(long, default_value_t = PolicyTier::Full, value_parser = named::<PolicyTier>)]
    pub tier: PolicyTier,
}

fn named<T: std::str::FromStr<Err = String>>(text: &str) -> Result<T, String> {
    text.parse()
}

/// What to do with the image of the Docker backend.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Make it with your container engine
    Build(ImageBuildArgs),
    /// Print the Dockerfile that it is made from
    Dockerfile,
}

/// Arguments of `image build`.
#[derive(Debug, Args)]
pub struct ImageBuildArgs {
    /// A version of Python beside the image's own, such as 3.12; may be repeated
    #[arg(long = "python", value_name = "VERSION")]
    pub pythons: Vec<PythonVersion>,
}

/// Arguments of `install`.
#[derive(Debug, Args)]
pub struct InstallArgs {
    /// The client
    pub client: Client,
    /// Print what would be added, and a link where the client has such links; change nothing
    #[arg(long)]
    pub print: bool,
    /// Flags with which the client is to start the server
    #[arg(last = true, value_name = "FLAGS")]
    pub server: Vec<String>,
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The script, or - for standard input
    pub file: PathBuf,
    /// A package that the script needs beside those it names itself (PEP 508); may be repeated
    #[arg(long = "with", value_name = "DEP", allow_hyphen_values = true)]
    pub with: Vec<String>,
    /// Seconds until the run is ended
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: Option<u64>,
    /// Print the plan of the sandbox instead of running the script
    #[arg(long)]
    pub explain: bool,
    /// Folder for the figures that the script leaves open, and for pictures in its output/
    #[arg(long, value_name = "FOLDER")]
    pub save_figures: Option<PathBuf>,
    /// Open the saved figures
    #[arg(long, requires = "save_figures")]
    pub open: bool,
}

/// Arguments of `validate`.
#[derive(Debug, Args)]
pub struct ValidateArgs {
    /// The script, or - for standard input
    pub file: PathBuf,
    /// A package beside those that the script names itself; may be repeated
    #[arg(long = "with", value_name = "DEP", allow_hyphen_values = true)]
    pub with: Vec<String>,
}
