//! The server's side of one driver: one request at a time, with an end to every wait.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::reply;
use crate::execution::{ExecutionError, FailureKind};
use crate::sandbox::{Control, ExitStatus, LimitHit, OutputStream, Running};
use crate::session::interpreter::Stop;
use crate::session::protocol::{Answer, Channel, ChannelError, Ready, Request, Setup, Usage};

/// Time for the driver to take a request from the channel. It does nothing else, so this is for a loaded machine.
const TAKE_TAKES: Duration = Duration::from_secs(10);
/// How long a cell may go on after it was interrupted.
pub const GRACE: Duration = Duration::from_secs(3);
/// Time for the driver to end the interpreter and say so.
const KILL_TAKES: Duration = Duration::from_secs(3);
/// Time for the end of every process of a sandbox.
const END_TAKES: Duration = Duration::from_secs(5);
/// Time to tell what is in use.
const USAGE_TAKES: Duration = Duration::from_secs(1);
/// Bytes kept of what the main process itself prints: only a failed start prints.
const WORDS: usize = 4096;

/// A running driver. Dropping it ends its sandbox.
pub struct Driver {
    channel: Channel<UnixStream>,
    control: Box<dyn Control>,
    words: Words,
    last: u64,
}

/// What the main process printed itself.
#[derive(Clone, Default)]
struct Words(Arc<Mutex<Vec<u8>>>);

impl Words {
    /// Reads a stream to its end, keeping the start.
    fn keep(&self, mut stream: OutputStream) {
        let words = self.clone();
        tokio::spawn(async move {
            let mut chunk = [0; 1024];
            while let Ok(size @ 1..) = stream.read(&mut chunk).await {
                let mut kept = words.0.lock().unwrap_or_else(PoisonError::into_inner);
                let room = WORDS.saturating_sub(kept.len());
                kept.extend_from_slice(&chunk[..size.min(room)]);
            }
        });
    }

    fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).trim().to_owned()
    }
}

/// Why a cell was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Its time was up.
    TimedOut,
    /// Nobody waits for it.
    Abandoned,
}

impl Driver {
    /// Hands the driver's source over and waits until it is ready. Gives the interpreter's version along.
    pub async fn open(
        running: Running,
        setup: &Setup,
        deadline: Instant,
    ) -> Result<(Self, String), ExecutionError> {
        let words = Words::default();
        words.keep(running.stdout);
        words.keep(running.stderr);
        let Some(stream) = running.channel else {
            return Err(failed("this sandbox backend has no channel for a stateful sandbox".to_owned()));
        };
        let channel = Channel::new(stream, setup.frame_limit);
        let mut driver = Self { channel, control: running.control, words, last: 0 };
        let greeting = async {
            driver.channel.send(setup).await?;
            driver.channel.answer::<Ready>(0).await
        };
        let why = match timeout_at(deadline, greeting).await {
            Ok(Ok(ready)) => return Ok((driver, ready.python)),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it was not ready in time".to_owned(),
        };
        let words = driver.words.clone();
        let ended = driver.end(Some(why)).await;
        Err(failed(format!("the interpreter of the sandbox did not start: {ended} {}", words.text())))
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    async fn send(&mut self, request: Request<'_>) -> Result<(), ChannelError> {
        match timeout(TAKE_TAKES, self.channel.send(&request)).await {
            Ok(sent) => sent,
            Err(_) => Err(ChannelError::Unexpected("nothing, and took no request".to_owned())),
        }
    }

    /// Runs a cell to its end, or stops it.
    pub async fn run(
        &mut self,
        code: &str,
        mut stop: Stop<'_>,
    ) -> Result<(Answer, Option<Stopped>), ChannelError> {
        let id = self.number();
        self.send(Request::Run { id, code }).await?;
        let stopped = tokio::select! {
            biased;
            answer = self.channel.answer(id) => return Ok((answer?, None)),
            timed_out = stop.due() => if timed_out { Stopped::TimedOut } else { Stopped::Abandoned },
        };
        self.send(Request::Interrupt { id }).await?;
        if let Ok(answer) = timeout(GRACE, self.channel.answer(id)).await {
            return Ok((answer?, Some(stopped)));
        }
        self.send(Request::Kill { id }).await?;
        match timeout(KILL_TAKES, self.channel.answer(id)).await {
            Ok(answer) => Ok((answer?, Some(stopped))),
            Err(_) => Err(ChannelError::Unexpected("nothing, after it was told to end the cell".to_owned())),
        }
    }

    /// Makes the packages of an environment importable.
    pub async fn install(&mut self, root: &str, deadline: Instant) -> Result<Answer, ChannelError> {
        let id = self.number();
        self.send(Request::Install { id, root }).await?;
        match timeout_at(deadline, self.channel.answer(id)).await {
            Ok(answer) => answer,
            Err(_) => Err(ChannelError::Unexpected("nothing, while packages were to be taken up".to_owned())),
        }
    }

    /// What is in use; `None` where it cannot be told.
    pub async fn usage(&mut self) -> Result<Usage, ChannelError> {
        let id = self.number();
        self.send(Request::Usage { id }).await?;
        match timeout(USAGE_TAKES, self.channel.answer(id)).await {
            Ok(usage) => usage,
            Err(_) => Err(ChannelError::Unexpected("nothing, when asked what is in use".to_owned())),
        }
    }

    /// Ends the sandbox, or finds out how it ended by itself; in words.
    pub async fn end(mut self, why: Option<String>) -> String {
        let control = &mut self.control;
        // Where the main process has ended, how it did says more than that it did.
        let by_itself = timeout(Duration::from_millis(200), control.wait()).await.ok().and_then(Result::ok);
        if by_itself.is_none() {
            control.kill();
            let _ = timeout(END_TAKES, control.wait()).await;
        }
        match (by_itself.as_ref().map(|outcome| (outcome.limit, outcome.status)), why) {
            (Some((Some(limit), _)), _) => format!("it reached its limit of {}", limit_in_words(limit)),
            (Some((None, ExitStatus::Signaled(signal))), _) => {
                format!("its main process was ended by signal {signal}")
            }
            (Some((None, ExitStatus::Exited(code))), None) => {
                format!("its main process ended with exit code {code}")
            }
            (_, Some(why)) => why,
            (None, None) => "it was closed".to_owned(),
        }
    }

    /// Ends the sandbox at once. Every process of it is gone when this returns.
    pub async fn close(mut self) {
        self.control.kill();
        let _ = timeout(END_TAKES, self.control.wait()).await;
    }
}

fn limit_in_words(limit: LimitHit) -> String {
    match limit {
        LimitHit::Memory(bytes) => format!("{bytes} bytes of memory"),
        LimitHit::Processes(number) => format!("{number} processes"),
        LimitHit::Disk(bytes) => format!("{bytes} bytes of disk"),
    }
}

fn failed(message: String) -> ExecutionError {
    ExecutionError { kind: FailureKind::Sandbox, message, detail: String::new(), notes: Vec::new() }
}

/// What a stop came to, where a cell was stopped.
pub fn end_of(answer: &Answer, stopped: Option<Stopped>, after: Duration) -> crate::session::CellEnd {
    use crate::session::CellEnd;
    match (answer.lost, answer.cell, stopped) {
        // Ended during this cell.
        (Some(lost), None, _) => {
            CellEnd::Lost { how: reply::lost(lost), timed_out: stopped == Some(Stopped::TimedOut) }
        }
        (_, _, Some(_)) => CellEnd::Interrupted(after),
        _ => CellEnd::Finished,
    }
}
