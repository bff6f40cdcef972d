//! What a person types: the subcommands, each in its own file, and the way into them.

mod cache;
mod config;
mod doctor;
mod figures;
#[cfg(feature = "http")]
mod http;
mod image;
mod install;
mod manual;
pub mod policy;
mod progress;
mod run;
mod serve;
mod terminal;
mod validate;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::audit::{AuditError, AuditLog};
use crate::cli::sources::{self, ParseError, Parsed};
use crate::cli::{Command, ConfigAction, Form, Other, PolicyAction, SelectionArgs};
use crate::environment::{Environments, HostEnv, Options, PlainHttp};
use crate::execution::{Engine, ExecutionError};
use crate::sandbox::docker::DockerOptions;
use crate::sandbox::select::{Asked, network, select};
use crate::sandbox::{Backend, Sandbox};
use crate::settings::Settings;

/// Exit code where this program itself failed and nothing of a script was run, as `env` and `docker run` use it.
pub const FAILED: u8 = 125;

/// Exit code where the command line, an environment variable or the configuration file is wrong.
pub const USAGE: u8 = 2;

/// Exit code of `run` after a timeout, as `timeout` uses it.
pub const TIMED_OUT: u8 = 124;

/// Reads the command line and does what it says.
pub fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let parsed = match sources::parse(&words, &HostEnv::capture()) {
        Ok(parsed) => parsed,
        Err(ParseError::CommandLine(error)) => error.exit(),
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(USAGE);
        }
    };
    let Parsed { cli, settings: shown, file } = parsed;
    let settings = match cli.options.settings() {
        Ok(settings) => settings,
        Err(error) => error.exit(),
    };
    log_to_stderr();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("the runtime could not be started: {error}")),
    };
    let code = runtime.block_on(async {
        match cli.command {
            #[cfg(feature = "http")]
            None => serve::serve(settings, cli.http).await,
            #[cfg(not(feature = "http"))]
            None => serve::serve(settings).await,
            Some(Command::Run(args)) => run::run(settings, args).await,
            Some(Command::Validate(args)) => validate::validate(settings, args).await,
            Some(Command::Doctor { json }) => doctor::doctor(settings, json).await,
            Some(Command::Cache { action }) => cache::cache(settings, action).await,
            Some(Command::Install(args)) => install::install(args, &shown),
            Some(Command::Completions { shell }) => manual::completions(shell),
            Some(Command::Man) => manual::page(),
            Some(Command::Uninstall { client }) => install::uninstall(client),
            Some(Command::Config(ConfigAction::Show)) => config::show(&shown, file.as_deref()),
            Some(Command::Policy { action }) => policy_action(action),
            Some(Command::Image(command)) => image::image(settings, command).await,
        }
    });
    // A thread that still waits for standard input must not hold the end up.
    runtime.shutdown_background();
    code
}

/// `RUST_LOG` chooses what is logged, and of which stages the time is told; standard output is the protocol's.
fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn,rmcp=error"));
    let stages = tracing_subscriber::fmt::format::FmtSpan::CLOSE;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_span_events(stages);
    // Built without colours: asking for them would be answered with an error.
    log.with_writer(std::io::stderr).with_ansi(false).init();
}

fn policy_action(action: PolicyAction) -> ExitCode {
    let selection =
        |args: SelectionArgs| policy::Selection { arch: args.arch, role: args.role, tier: args.tier };
    let text = match action {
        PolicyAction::Show(args) => policy::show(selection(args)),
        PolicyAction::Explain { name, arch } => policy::explain(&name, arch),
        PolicyAction::Diff(Other::Docker(args)) => policy::diff_docker(selection(args)),
        PolicyAction::Export(Form::Docker(args)) => policy::export_docker(selection(args)).map(|exported| {
            for lost in exported.lost {
                eprintln!("note: {lost}");
            }
            exported.json
        }),
        PolicyAction::Export(Form::Folder { path }) => policy::export_folder(&path),
        PolicyAction::Check { path } => policy::check(&path),
    };
    match text {
        Ok(text) => print(&text),
        Err(error) => fail(&error.to_string()),
    }
}

/// Prints to standard output; a reader that has gone away is no reason for words.
fn print(text: &str) -> ExitCode {
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    match write!(std::io::stdout(), "{text}{newline}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("error: {message}");
    ExitCode::from(FAILED)
}

/// Puts the rooms together.
async fn engine(settings: Settings) -> Result<Arc<Engine>, String> {
    let sandbox = sandbox(&settings).await?;
    engine_with(settings, sandbox)
}

/// The backend that the settings ask for.
async fn sandbox(settings: &Settings) -> Result<Arc<dyn Sandbox>, String> {
    let docker = docker_options(settings);
    let own = settings.seccomp_policy.as_deref().map(policy::load).transpose();
    let own = own.map_err(|error| format!("--seccomp-policy: {error}"))?.map(Arc::new);
    let wanted =
        Asked { backend: settings.backend, choice: settings.backend_choice, required: settings.require };
    let sandbox = select(wanted, &docker, own).await.map_err(|error| error.to_string())?;
    if sandbox.facts().backend == Backend::Docker
        && let Some(uv) = &settings.uv
    {
        tracing::warn!("--uv-path {} is not used: containers have the image's own uv", uv.display());
    }
    Ok(sandbox)
}

/// What the settings say about containers.
fn docker_options(settings: &Settings) -> DockerOptions {
    let cache = || {
        HostEnv::capture().xdg("XDG_CACHE_HOME", ".cache").map(|cache| cache.join("mcp-python-exec-sandbox"))
    };
    DockerOptions {
        image: settings.docker_image.clone(),
        folder: settings.data_dir.clone().or_else(cache).map(|folder| folder.join("docker")),
    }
}

fn engine_with(mut settings: Settings, sandbox: Arc<dyn Sandbox>) -> Result<Arc<Engine>, String> {
    sandbox.carries(&settings.limits).map_err(|missing| format!("{}. {}", missing.reason, missing.remedy))?;
    let network = network(sandbox.as_ref(), settings.network, settings.network_choice);
    settings.network = network.map_err(|error| error.to_string())?;
    if sandbox.facts().backend == Backend::Docker {
        settings.pool_size = settings.pool_size_of_containers;
    }
    for mount in &settings.mounts {
        mount.check_backend(sandbox.facts(), is_root()).map_err(|error| error.to_string())?;
    }
    let options = Options {
        data_dir: settings.data_dir.clone(),
        uv: settings.uv.clone(),
        python: settings.python,
        cache_size: settings.cache_size,
        resolve_ttl: settings.resolve_ttl,
        plain_http: if settings.allow_http_index { PlainHttp::Allowed } else { PlainHttp::Refused },
        source_builds: settings.source_builds,
        build_network: settings.network,
    };
    let environments = Environments::open(options, HostEnv::capture(), Arc::clone(&sandbox));
    let environments = environments.map_err(|error| error.to_string())?;
    Ok(Arc::new(Engine::new(settings, sandbox, environments)))
}

#[cfg(native)]
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(not(native))]
fn is_root() -> bool {
    false
}

/// The audit log that the settings ask for.
fn audit(settings: &Settings) -> Result<Option<Arc<AuditLog>>, AuditError> {
    let wanted = settings.audit.clone();
    wanted.map(|wanted| AuditLog::open(wanted, settings.limits)).transpose()
}

/// How long this program waits at its end until everything that it started is gone: a container that is only being
/// started has to be there before it can end.
const CLOSING: Duration = Duration::from_secs(5);

/// Ends what still lives. What takes longer than that is found and removed at the next start.
async fn close(sandbox: &dyn Sandbox) {
    let _ = tokio::time::timeout(CLOSING, sandbox.close()).await;
}

/// A script from a file or, for `-`, from standard input.
fn read_script(file: &Path) -> Result<String, String> {
    let read = if file == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    read.map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData => format!("{} is not UTF-8 text", file.display()),
        _ => format!("{} could not be read: {error}", file.display()),
    })
}

/// A failure in words, with the underlying tool's own below.
fn words(error: &ExecutionError) -> String {
    if error.detail.is_empty() {
        error.message.clone()
    } else {
        format!("{}\n{}", error.message, error.detail)
    }
}
