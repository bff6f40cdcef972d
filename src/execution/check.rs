//! What can be said without running a script: its metadata, its syntax, and the state of this machine.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use super::engine::{Engine, SCRIPT, base_environment, environment_request};
use super::overview::Overview;
use super::request::ExecutionRequest;
use super::run;
use super::validation::{Finding, Validation};
use crate::environment::Interpreter;
use crate::sandbox::spec::{Command, InlineFile, Network, Role, SandboxSpec, WORK_DIR};
use crate::script::{self, Problem};

/// Time for a syntax check: finding an interpreter and compiling ten megabytes fit in.
const CHECK_TAKES: Duration = Duration::from_secs(20);

/// Bytes of output of the syntax check: one line of JSON.
const CHECK_OUTPUT: usize = 16 << 10;

/// Compiles the script and prints what is wrong with it as JSON; nothing of it is run.
const COMPILE: &str = "
import json, sys, warnings
warnings.simplefilter('ignore')
with open(sys.argv[1], 'rb') as file:
    source = file.read()
try:
    compile(source, 'script.py', 'exec', dont_inherit=True)
    found = {}
except SyntaxError as error:
    found = {'line': error.lineno, 'message': f'{type(error).__name__}: {error.msg}'}
except (ValueError, RecursionError, MemoryError, OverflowError) as error:
    found = {'message': f'{type(error).__name__}: {error}'}
json.dump(found, sys.stdout)
";

#[derive(Deserialize)]
struct Compiled {
    line: Option<u32>,
    message: Option<String>,
}

/// Everything that is wrong with a script.
pub async fn validate(engine: &Engine, script: String, dependencies: Vec<String>) -> Validation {
    let analysis = script::read(&script, &dependencies);
    let mut validation = Validation {
        valid: analysis.is_valid(),
        requires_python: analysis.metadata.requires_python.as_ref().map(ToString::to_string),
        dependencies: analysis.merged.iter().map(ToString::to_string).collect(),
        problems: analysis.errors().map(finding).collect(),
        warnings: analysis.warnings().map(finding).collect(),
        syntax: "not checked".to_owned(),
    };
    validation
        .warnings
        .extend(analysis.notes.iter().map(|note| Finding { line: None, message: note.clone() }));
    if script.trim().is_empty() || script.contains('\0') {
        return validation;
    }
    let request = ExecutionRequest { script, dependencies: Vec::new(), python: None, timeout: CHECK_TAKES };
    let mut wanted = environment_request(&analysis, &request);
    wanted.requirements.clear();
    wanted.tool_uv = crate::script::tool_uv::ToolUv::default();
    match syntax(engine, &wanted, request.script.as_bytes()).await {
        Ok((version, None)) => validation.syntax = format!("checked with Python {version}"),
        Ok((version, Some(problem))) => {
            validation.valid = false;
            validation.syntax = format!("checked with Python {version}");
            validation.problems.push(problem);
        }
        Err(reason) => validation.syntax = format!("not checked: {reason}"),
    }
    validation.problems.sort_by_key(|problem| problem.line.unwrap_or(u32::MAX));
    validation
}

fn finding(problem: &Problem) -> Finding {
    Finding { line: problem.line, message: problem.message.clone() }
}

async fn syntax(
    engine: &Engine,
    wanted: &crate::environment::EnvironmentRequest,
    script: &[u8],
) -> Result<(String, Option<Finding>), String> {
    let deadline = Instant::now() + CHECK_TAKES;
    let environment = engine.environments.prepare(wanted, deadline, Arc::new(|_| {})).await;
    let environment = environment.map_err(|error| error.to_string())?;
    let spec = check_spec(engine, &environment.interpreter, script);
    let finished = run::run(engine.sandbox.as_ref(), &spec, deadline, CHECK_OUTPUT, None).await;
    let finished = finished.map_err(|error| error.to_string())?;
    let compiled: Compiled = serde_json::from_str(&finished.stdout.text)
        .map_err(|_| format!("the check ended with exit code {}", finished.outcome.status.code()))?;
    let problem = compiled.message.map(|message| Finding { line: compiled.line, message });
    Ok((environment.interpreter.version.clone(), problem))
}

/// The interpreter alone, without network, without the environment's packages.
fn check_spec(engine: &Engine, interpreter: &Interpreter, script: &[u8]) -> SandboxSpec {
    let args = ["-I", "-S", "-c", COMPILE, &format!("{WORK_DIR}/{SCRIPT}")];
    SandboxSpec {
        role: Role::Run,
        command: Command {
            program: interpreter.executable.clone(),
            args: args.map(str::to_owned).to_vec(),
            env: base_environment(),
            cwd: WORK_DIR.into(),
        },
        mounts: interpreter.mounts(),
        files: vec![InlineFile { path: SCRIPT.into(), content: script.into() }],
        network: Network::None,
        named_servers: Vec::new(),
        limits: engine.settings.limits,
        channel: false,
    }
}

/// How this machine and this server are set up.
pub async fn overview(engine: &Engine) -> Overview {
    let facts = engine.sandbox.facts();
    let settings = &engine.settings;
    let deadline = Instant::now() + CHECK_TAKES;
    let python = engine.environments.default_python(deadline).await;
    let uv = engine.environments.uv().await;
    let mut notes = engine.environments.notes();
    notes.extend(settings.mounts.iter().map(ToString::to_string));
    notes.extend(uv.as_ref().ok().and_then(|uv| uv.note.clone()));
    if let Ok((_, Some(note))) = &python {
        notes.push(note.clone());
    }
    Overview {
        python: python.map(|(interpreter, _)| interpreter.version).map_err(|error| error.to_string()),
        uv: uv.map(|uv| format!("{} ({})", uv.version, uv.path.display())).map_err(|error| error.to_string()),
        platform: platform(),
        backend: facts.backend,
        tier: facts.tier.clone(),
        shortfall: engine.sandbox.shortfall().filter(|_| facts.tier.is_ok()).cloned(),
        layers: facts.layers.clone(),
        network: settings.network,
        limits: settings.limits,
        default_timeout: settings.default_timeout,
        max_timeout: settings.max_timeout,
        max_output_bytes: settings.max_output_bytes,
        warming: engine.warming.state(),
        notes,
    }
}

/// Operating system, kernel and architecture, in the order in which Python's `platform` names them.
fn platform() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let os = if cfg!(target_os = "macos") { "macOS" } else { "Linux" };
    [os, kernel.trim(), std::env::consts::ARCH]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}
