//! `run`: one script, its output and its exit code passed through.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::time::Instant;

use super::progress::Line;
use super::{TIMED_OUT, close, engine, fail, print, read_script, words};
use crate::cli::RunArgs;
use crate::execution::{Engine, ExecutionRequest, Progress, ProgressSink};
use crate::sandbox::{OutputStream, Running, StartError, WaitError};
use crate::settings::Settings;

/// Bytes passed on at once: the size of a pipe's buffer.
const CHUNK: usize = 64 << 10;

/// Runs one script. Ends with the script's own exit code, 128 and the signal where one ended it, 124 after a timeout,
/// 125 where nothing was run.
pub async fn run(settings: Settings, args: RunArgs) -> ExitCode {
    let script = match read_script(&args.file) {
        Ok(script) => script,
        Err(error) => return fail(&error),
    };
    let timeout =
        Duration::from_secs(args.timeout.unwrap_or(settings.default_timeout).min(settings.max_timeout));
    let request = ExecutionRequest { script, dependencies: args.with, python: settings.python, timeout };
    let engine = match engine(settings).await {
        Ok(engine) => engine,
        Err(error) => return fail(&error),
    };
    let code = tokio::select! {
        code = async {
            let code = prepare_and_run(&engine, &request, args.explain).await;
            compile_for_the_next_run(&engine).await;
            code
        } => code,
        // What was started is killed when the other branch is dropped.
        _ = tokio::signal::ctrl_c() => ExitCode::from(128 + 2),
    };
    close(engine.sandbox().as_ref()).await;
    code
}

async fn prepare_and_run(engine: &Engine, request: &ExecutionRequest, explain: bool) -> ExitCode {
    let deadline = Instant::now() + request.timeout;
    let line = Line::new();
    let shown = Arc::clone(&line);
    let progress: ProgressSink = Arc::new(move |progress: Progress| shown.show(&progress));
    let prepared = engine.prepare(request, deadline, &progress).await;
    line.clear();
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return fail(&words(&error)),
    };
    for note in &prepared.notes {
        eprintln!("note: {note}");
    }
    if explain {
        return match engine.sandbox().explain(&prepared.spec) {
            Ok(plan) => print(&plan),
            Err(error) => fail(&error.to_string()),
        };
    }
    match engine.sandbox().start(&prepared.spec).await {
        Ok(running) => pass_through(running, deadline, request.timeout).await,
        Err(error @ StartError::ProgramMissing(_)) => {
            engine.forget(prepared.environment).await;
            fail(&format!("{error}: the environment was removed from outside. Run it again: it is made anew"))
        }
        Err(error) => fail(&error.to_string()),
    }
}

/// A new environment is compiled to bytecode once; a run in it would else read its sources each time.
async fn compile_for_the_next_run(engine: &Engine) {
    let line = Line::new();
    line.wait("compiling the packages for the next run");
    engine.environments().compiled().await;
    line.clear();
}

async fn pass_through(mut running: Running, deadline: Instant, timeout: Duration) -> ExitCode {
    let stdout = copy(running.stdout, tokio::io::stdout());
    let stderr = copy(running.stderr, tokio::io::stderr());
    let end = async {
        if let Ok(end) = tokio::time::timeout_at(deadline, running.control.wait()).await {
            return end;
        }
        running.control.kill();
        // The answer is known; what matters is that everything is gone.
        let _ = running.control.wait().await;
        Err(WaitError::Killed)
    };
    let ((), (), end) = tokio::join!(stdout, stderr, end);
    match end {
        Ok(outcome) => {
            if let Some(limit) = outcome.limit {
                eprintln!("note: the script reached a limit: {limit}");
            }
            ExitCode::from(u8::try_from(outcome.status.code() & 0xff).unwrap_or(u8::MAX))
        }
        Err(WaitError::Killed) => {
            eprintln!(
                "error: the script was ended after {} seconds; --timeout allows more",
                timeout.as_secs()
            );
            ExitCode::from(TIMED_OUT)
        }
        Err(error) => fail(&error.to_string()),
    }
}

/// Passes a stream on as it comes. Where the reader is gone the rest is read and dropped, so that the script can end.
async fn copy(mut from: OutputStream, mut to: impl AsyncWrite + Unpin) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut chunk = vec![0; CHUNK];
    let mut wanted = true;
    while let Ok(size @ 1..) = from.read(&mut chunk).await {
        if wanted {
            wanted = to.write_all(&chunk[..size]).await.is_ok() && to.flush().await.is_ok();
        }
    }
}
