//! The server's side of one driver: one request at a time, with an end to every wait.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::reply;
use crate::execution::{ExecutionError, FailureKind, Progress, ProgressSink};
use crate::sandbox::{Control, ExitStatus, OutputStream, Running};
use crate::session::channel::{Channel, ChannelError, Said};
use crate::session::interpreter::Stop;
use crate::session::protocol::{Act, Answer, FilesAnswer, Line, Ready, Request, Setup, Usage};

/// Time for the driver to take a request from the channel. It does nothing else, so this is for a loaded machine.
const TAKE_TAKES: Duration = Duration::from_secs(10);
/// How long a cell may go on after it was interrupted.
pub const GRACE: Duration = Duration::from_secs(3);
/// Time for the driver to end the interpreter and say so.
const KILL_TAKES: Duration = Duration::from_secs(3);
/// Time for the end of every process of a sandbox.
const END_TAKES: Duration = Duration::from_secs(5);
/// Time to tell what is in use: looking at 512 processes, on a loaded machine.
const USAGE_TAKES: Duration = Duration::from_secs(10);
/// Time for one act on files: a piece, or counting 100,000 of them.
const FILES_TAKE: Duration = Duration::from_secs(20);
/// Least time between two lines of a cell. The driver leaves five times as much; a pause of this machine brings them
/// closer together.
const LINE_GAP: Duration = Duration::from_millis(100);
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

/// The lines that a cell prints while it runs.
struct Lines<'a> {
    started: Instant,
    heard: u128,
    progress: &'a ProgressSink,
}

impl Lines<'_> {
    /// Passes them on until the answer comes.
    async fn until_answer(
        &mut self,
        channel: &mut Channel<UnixStream>,
        id: u64,
    ) -> Result<Answer, ChannelError> {
        loop {
            let line = match channel.answer_or::<Answer, Line>(id).await? {
                Said::Answer(answer) => return Ok(answer),
                Said::Before(line) => line.line,
            };
            self.heard += 1;
            if self.heard > 1 + self.started.elapsed().as_millis() / LINE_GAP.as_millis() {
                return Err(ChannelError::Unexpected("more lines than it may".to_owned()));
            }
            (self.progress)(Progress::line(&line));
        }
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

    /// Runs a cell to its end, or stops it. What it prints meanwhile is told to `progress` now and then.
    pub async fn run(
        &mut self,
        code: &str,
        mut stop: Stop<'_>,
        progress: &ProgressSink,
    ) -> Result<(Answer, Option<Stopped>), ChannelError> {
        let id = self.number();
        self.send(Request::Run { id, code }).await?;
        let mut lines = Lines { started: Instant::now(), heard: 0, progress };
        let stopped = tokio::select! {
            biased;
            answer = lines.until_answer(&mut self.channel, id) => return Ok((answer?, None)),
            timed_out = stop.due() => if timed_out { Stopped::TimedOut } else { Stopped::Abandoned },
        };
        self.send(Request::Interrupt { id }).await?;
        if let Ok(answer) = timeout(GRACE, lines.until_answer(&mut self.channel, id)).await {
            return Ok((answer?, Some(stopped)));
        }
        self.send(Request::Kill { id }).await?;
        match timeout(KILL_TAKES, lines.until_answer(&mut self.channel, id)).await {
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

    /// Does something with files of the work directory.
    pub async fn files(&mut self, act: Act<'_>) -> Result<FilesAnswer, ChannelError> {
        let id = self.number();
        self.send(Request::Files { id, act }).await?;
        match timeout(FILES_TAKE, self.channel.answer(id)).await {
            Ok(answer) => answer,
            Err(_) => Err(ChannelError::Unexpected("nothing, while it worked on files".to_owned())),
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
            (Some((Some(limit), _)), _) => {
                format!("it reached a limit: {limit} ({} allows more)", limit.flag())
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::{BoxFuture, Outcome, WaitError};
    use serde_json::{Value, json};
    use tokio::io::AsyncWriteExt;

    /// A sandbox without anything in it.
    struct Nothing;

    impl Control for Nothing {
        fn wait(&mut self) -> BoxFuture<'_, Result<Outcome, WaitError>> {
            Box::pin(std::future::ready(Err(WaitError::Killed)))
        }

        fn kill(&mut self) {}
    }

    /// A driver whose far end says what the test wants.
    struct Liar {
        stream: UnixStream,
    }

    impl Liar {
        async fn frame(&mut self, body: &[u8]) {
            let length = u32::try_from(body.len()).expect("short");
            self.raw(&length.to_le_bytes()).await;
            self.raw(body).await;
        }

        async fn raw(&mut self, bytes: &[u8]) {
            self.stream.write_all(bytes).await.expect("the server reads");
        }

        async fn say(&mut self, value: &Value) {
            self.frame(value.to_string().as_bytes()).await;
        }

        /// Waits for a request.
        async fn hear(&mut self) -> Value {
            let length = self.stream.read_u32_le().await.expect("a request");
            let mut body = vec![0; length as usize];
            self.stream.read_exact(&mut body).await.expect("a request");
            serde_json::from_slice(&body).expect("JSON")
        }
    }

    async fn driver() -> (Driver, Liar) {
        let (near, far) = UnixStream::pair().expect("a pair");
        let running = Running {
            stdout: Box::new(tokio::io::empty()),
            stderr: Box::new(tokio::io::empty()),
            channel: Some(near),
            work_dir: None,
            layers: Vec::new(),
            control: Box::new(Nothing),
        };
        let mut liar = Liar { stream: far };
        let setup = Setup::new(1024, 1024);
        let opening = Driver::open(running, &setup, Instant::now() + Duration::from_secs(5));
        let greeting = async {
            liar.hear().await;
            liar.say(&json!({"id": 0, "python": "3.13.0"})).await;
        };
        let (opened, ()) = tokio::join!(opening, greeting);
        (opened.expect("it is ready").0, liar)
    }

    fn soon(after: Duration) -> Stop<'static> {
        Stop { deadline: Instant::now() + after, abandoned: Box::pin(std::future::pending()) }
    }

    fn quiet() -> ProgressSink {
        Arc::new(|_| {})
    }

    fn answer(id: u64) -> Value {
        let stream = json!({"text": "", "total": 0});
        json!({"id": id, "stdout": stream, "stderr": stream, "cell": 1})
    }

    /// What the server makes of an answer to its first cell.
    async fn told(lie: impl AsyncFnOnce(&mut Liar)) -> Result<(Answer, Option<Stopped>), String> {
        let (mut driver, mut liar) = driver().await;
        let lying = async {
            liar.hear().await;
            lie(&mut liar).await;
            liar
        };
        let quiet = quiet();
        let (told, _open) = tokio::join!(driver.run("1", soon(Duration::from_secs(5)), &quiet), lying);
        told.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn an_honest_answer_is_taken() {
        let (answer, stopped) = told(async |liar| liar.say(&answer(1)).await).await.expect("an answer");
        assert_eq!((answer.cell, stopped), (Some(1), None));
    }

    #[tokio::test]
    async fn a_frame_over_the_limit_is_refused_before_it_is_read() {
        let error =
            told(async |liar| liar.raw(&u32::MAX.to_le_bytes()).await).await.expect_err("it was read");
        assert!(error.contains("more than the"), "{error}");
    }

    #[tokio::test]
    async fn another_number_is_no_answer() {
        let error = told(async |liar| liar.say(&answer(7)).await).await.expect_err("it was believed");
        assert!(error.contains("request 7, not 1"), "{error}");
    }

    #[tokio::test]
    async fn more_than_one_answer_is_a_lie() {
        let error = told(async |liar| {
            let (first, second) = (answer(1).to_string(), answer(1).to_string());
            let mut both = Vec::new();
            for text in [first, second] {
                both.extend(u32::try_from(text.len()).expect("short").to_le_bytes());
                both.extend(text.as_bytes());
            }
            liar.raw(&both).await;
        })
        .await
        .expect_err("it was believed");
        assert!(error.contains("more than one answer"), "{error}");
    }

    #[tokio::test]
    async fn what_is_not_an_answer_is_refused() {
        let stream = json!({"text": "", "total": 0});
        let wrong = [
            json!([]),
            json!({"id": 1}),
            json!({"id": "1", "stdout": stream, "stderr": stream}),
            json!({"id": 1, "stdout": stream, "stderr": stream, "command": "rm"}),
            json!({"id": 1, "stdout": {"text": 5, "total": 0}, "stderr": stream}),
            json!({"id": 1, "stdout": {"text": "", "total": -1}, "stderr": stream}),
            json!({"id": 1, "stdout": stream, "stderr": stream, "lost": {"signal": "9"}}),
        ];
        for lie in wrong {
            let error = told(async |liar| liar.say(&lie).await).await.map(|_| ());
            assert!(error.is_err(), "{lie} was believed");
        }
        for text in [&b"not JSON"[..], b"\xff\xfe", b"", b"{\"id\":1"] {
            assert!(told(async |liar| liar.frame(text).await).await.is_err(), "{text:?} was believed");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lines_before_the_answer_are_passed_on_and_bounded() {
        let (mut driver, mut liar) = driver().await;
        let heard: Arc<Mutex<Vec<Progress>>> = Arc::default();
        let told = Arc::clone(&heard);
        let progress: ProgressSink = Arc::new(move |said| told.lock().expect("not poisoned").push(said));
        let speaking = async {
            liar.hear().await;
            for line in ["one", "\u{1b}[31mtwo\u{7}"] {
                tokio::time::sleep(Duration::from_millis(500)).await;
                liar.say(&json!({"id": 1, "line": line})).await;
            }
            liar.say(&answer(1)).await;
        };
        let stop = soon(Duration::from_secs(5));
        let (told, ()) = tokio::join!(driver.run("1", stop, &progress), speaking);
        told.expect("an answer");
        let wanted = ["one", "[31mtwo"].map(|line| Progress::Output(line.to_owned()));
        assert_eq!(*heard.lock().expect("not poisoned"), wanted);
        let flooding = async {
            liar.hear().await;
            for _ in 0..5 {
                liar.say(&json!({"id": 2, "line": "x"})).await;
            }
        };
        let stop = soon(Duration::from_secs(5));
        let (told, ()) = tokio::join!(driver.run("1", stop, &progress), flooding);
        assert!(told.is_err_and(|error| error.to_string().contains("more lines than it may")));
        for lie in [json!({"id": 7, "line": "x"}), json!({"id": 1, "line": "x", "more": 1})] {
            assert!(self::told(async |liar| liar.say(&lie).await).await.is_err(), "{lie} was believed");
        }
    }

    #[tokio::test]
    async fn an_end_in_the_middle_of_an_answer_is_told() {
        let error = told(async |liar| {
            liar.raw(&[100, 0, 0, 0, b'{']).await;
            liar.stream.shutdown().await.expect("closed");
        })
        .await
        .expect_err("half an answer was taken");
        assert!(error.contains("has ended"), "{error}");
    }

    #[tokio::test]
    async fn an_answer_that_came_before_its_question_is_a_lie() {
        let (mut driver, mut liar) = driver().await;
        liar.say(&answer(0)).await;
        liar.say(&answer(1)).await;
        assert!(driver.run("1", soon(Duration::from_secs(5)), &quiet()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_cell_that_does_not_yield_is_interrupted_then_ended_then_given_up() {
        let (mut driver, mut liar) = driver().await;
        let silent = async {
            let heard: Vec<Value> = vec![liar.hear().await, liar.hear().await, liar.hear().await];
            (heard, liar)
        };
        let quiet = quiet();
        let (told, (heard, _open)) =
            tokio::join!(driver.run("1", soon(Duration::from_secs(2)), &quiet), silent);
        let ops: Vec<_> = heard.iter().map(|request| request["op"].as_str().unwrap_or_default()).collect();
        assert_eq!(ops, ["run", "interrupt", "kill"]);
        assert!(told.is_err_and(|error| error.to_string().contains("end the cell")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_driver_that_never_gets_ready_is_told_with_its_words() {
        let (near, _far) = UnixStream::pair().expect("a pair");
        let running = Running {
            stdout: Box::new(tokio::io::empty()),
            stderr: Box::new(&b"no such module"[..]),
            channel: Some(near),
            work_dir: None,
            layers: Vec::new(),
            control: Box::new(Nothing),
        };
        let opened =
            Driver::open(running, &Setup::new(1024, 1024), Instant::now() + Duration::from_secs(5)).await;
        let error = opened.err().expect("it never got ready").to_string();
        assert!(error.contains("not ready in time") && error.contains("no such module"), "{error}");
    }
}
