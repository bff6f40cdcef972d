//! `run`: one script, its output and its exit code passed through.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::time::Instant;

use super::progress::Line;
use super::{TIMED_OUT, audit, close, engine, fail, figures, print, read_script, words};
use crate::audit::{Caller, Entry, Outcome};
use crate::cli::RunArgs;
use crate::execution::output::{self, OutputFile};
use crate::execution::{Engine, ExecutionRequest, Progress, ProgressSink};
use crate::execution::{evidence, missing};
use crate::sandbox::{self, ExitStatus, OutputStream, Running, StartError, Tier, WaitError};
use crate::settings::Settings;

/// Bytes passed on at once: the size of a pipe's buffer.
const CHUNK: usize = 64 << 10;
/// Bytes of the end of a stream that are looked at.
const LAST_WORDS: usize = 4 << 10;

/// Runs one script. Ends with the script's own exit code, 128 and the signal where one ended it, 124 after a timeout,
/// 125 where nothing was run.
pub async fn run(settings: Settings, args: RunArgs) -> ExitCode {
    let script = match read_script(&args.file) {
        Ok(script) => script,
        Err(error) => return fail(&error),
    };
    let audit = match audit(&settings) {
        Ok(audit) => audit.filter(|_| !args.explain),
        Err(error) => return fail(&error.to_string()),
    };
    let timeout =
        Duration::from_secs(args.timeout.unwrap_or(settings.default_timeout).min(settings.max_timeout));
    let dependencies = args.with.clone();
    let request = ExecutionRequest { script, dependencies, python: settings.python, timeout };
    let engine = match engine(settings).await {
        Ok(engine) => engine,
        Err(error) => return fail(&error),
    };
    if let (Some(audit), Ok(tier)) = (&audit, &engine.sandbox().facts().tier) {
        audit.set_tier(*tier);
    }
    let entry = Entry::begin(audit.as_ref(), "run", Caller::default());
    entry.script(&request.script, request.dependencies.clone());
    let (outcome, code) = tokio::select! {
        ended = prepare_and_run(&engine, &request, &args, &entry) => ended,
        // What was started is killed when the other branch is dropped.
        _ = tokio::signal::ctrl_c() => (Outcome::Cancelled, ExitCode::from(128 + 2)),
    };
    if let Err(error) = entry.end(outcome) {
        eprintln!("warning: {error}");
    }
    if outcome != Outcome::Cancelled {
        tokio::select! {
            () = prepare_the_next_run(&engine) => {}
            // The script has had its answer; the next run does what is left.
            _ = tokio::signal::ctrl_c() => {}
        }
    }
    close(engine.sandbox().as_ref()).await;
    code
}

async fn prepare_and_run(
    engine: &Engine,
    request: &ExecutionRequest,
    args: &RunArgs,
    entry: &Entry,
) -> (Outcome, ExitCode) {
    let failed = |message: &str| (Outcome::Failed, fail(message));
    let deadline = Instant::now() + request.timeout;
    let line = Line::new();
    let shown = Arc::clone(&line);
    let progress: ProgressSink = Arc::new(move |progress: Progress| shown.show(&progress));
    let prepared = match line.during(engine.prepare(request, deadline, &progress)).await {
        Ok(prepared) => prepared,
        Err(error) => {
            entry.failure(error.kind);
            return failed(&words(&error));
        }
    };
    entry.environment(&prepared.environment.key);
    for note in &prepared.notes {
        eprintln!("note: {note}");
    }
    if args.explain {
        return match engine.sandbox().explain(&prepared.spec) {
            Ok(plan) => (Outcome::Answered, print(&plan)),
            Err(error) => failed(&error.to_string()),
        };
    }
    match engine.sandbox().start(&prepared.spec).await {
        Ok(running) => {
            line.wait("running");
            let (end, files, errors) = line.during(pass_through(running, deadline, &line, args)).await;
            let ended = ended(end.map(|end| named(engine, end, &errors)), request.timeout, entry);
            save_figures(&files, args);
            ended
        }
        Err(error @ StartError::ProgramMissing(_)) => {
            engine.forget(prepared.environment).await;
            failed(&format!(
                "{error}: the environment was removed from outside. Run it again: it is made anew"
            ))
        }
        Err(error) => failed(&error.to_string()),
    }
}

/// A new environment is compiled to bytecode once; a run in it would else read its sources each time. An answer of the
/// resolver that has become old is looked for again.
async fn prepare_the_next_run(engine: &Engine) {
    let line = Line::new();
    line.wait("preparing the packages for the next run");
    line.during(engine.environments().settled()).await;
}

/// A limit that only the script's last words tell of.
fn named(engine: &Engine, mut end: sandbox::Outcome, errors: &[u8]) -> sandbox::Outcome {
    let tier = engine.sandbox().facts().tier.as_ref().copied().unwrap_or(Tier::None);
    if end.limit.is_none() && end.status == ExitStatus::Exited(1) {
        end.limit = evidence::limit_in(&String::from_utf8_lossy(errors), &engine.settings().limits, tier);
    }
    end
}

/// Passes the output on until the end. Gives the last of what came on standard error, too.
async fn pass_through(
    mut running: Running,
    deadline: Instant,
    line: &Line,
    args: &RunArgs,
) -> (Result<sandbox::Outcome, WaitError>, Vec<OutputFile>, Vec<u8>) {
    let (stdout, stderr) = running.take_streams();
    let stdout = copy(stdout, tokio::io::stdout(), line);
    let stderr = copy(stderr, tokio::io::stderr(), line);
    let end = async {
        if let Ok(end) = tokio::time::timeout_at(deadline, running.control.wait()).await {
            return end;
        }
        running.control.kill();
        // The answer is known; what matters is that everything is gone.
        let _ = running.control.wait().await;
        Err(WaitError::Killed)
    };
    let (_, errors, end) = tokio::join!(stdout, stderr, end);
    if matches!(&end, Ok(end) if end.status == ExitStatus::Exited(1))
        && let Some(hint) = missing::at_terminal(&String::from_utf8_lossy(&errors))
    {
        eprintln!("note: {hint}");
    }
    let files =
        if args.save_figures.is_some() { output::left_by(&mut running).await.output } else { Vec::new() };
    (end, files, errors)
}

/// Says how the script ended, and gives the exit code that says it, too.
fn ended(end: Result<sandbox::Outcome, WaitError>, timeout: Duration, entry: &Entry) -> (Outcome, ExitCode) {
    match end {
        Ok(end) => {
            if let Some(limit) = end.limit {
                eprintln!("note: the script reached a limit: {limit} ({} allows more)", limit.flag());
            }
            entry.exit(end.status.code());
            (Outcome::Answered, ExitCode::from(u8::try_from(end.status.code() & 0xff).unwrap_or(u8::MAX)))
        }
        Err(WaitError::Killed) => {
            entry.failure("timeout");
            let seconds = timeout.as_secs();
            eprintln!("error: the script was ended after {seconds} seconds; --timeout allows more");
            (Outcome::Failed, ExitCode::from(TIMED_OUT))
        }
        Err(error) => (Outcome::Failed, fail(&error.to_string())),
    }
}

fn save_figures(files: &[OutputFile], args: &RunArgs) {
    let Some(folder) = &args.save_figures else { return };
    let saved = match figures::save(files, folder) {
        Ok(saved) => saved,
        Err(error) => {
            eprintln!("warning: figures could not be saved in {}: {error}", folder.display());
            return;
        }
    };
    for path in &saved {
        eprintln!("saved: {}", path.display());
    }
    if saved.is_empty() {
        eprintln!("note: the script left no figure open and no picture in output/");
    }
    if args.open
        && let Err(error) = figures::open(&saved)
    {
        eprintln!("warning: {error}");
    }
}

/// Passes a stream on as it comes, and gives its end. Where the reader is gone the rest is read and dropped, so that the
/// script can end.
async fn copy(mut from: OutputStream, mut to: impl AsyncWrite + Unpin, line: &Line) -> Vec<u8> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut chunk = vec![0; CHUNK];
    let (mut wanted, mut last) = (true, Vec::new());
    while let Ok(size @ 1..) = from.read(&mut chunk).await {
        line.clear();
        if wanted {
            wanted = to.write_all(&chunk[..size]).await.is_ok() && to.flush().await.is_ok();
        }
        last.extend_from_slice(&chunk[size.saturating_sub(LAST_WORDS)..size]);
        last.drain(..last.len().saturating_sub(LAST_WORDS));
    }
    last
}
