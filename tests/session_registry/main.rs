//! Sessions with an interpreter of the test's own: names, limits, order, ends. It also proves that a second
//! interpreter is one type that implements two traits.
#![allow(clippy::needless_pass_by_value, reason = "calls read better with the JSON in place")]

mod over_mcp;
#[path = "../server/mod.rs"]
mod server;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_python_exec_sandbox::execution::{Captured, Progress, ProgressSink};
use mcp_python_exec_sandbox::sandbox::BoxFuture;
use mcp_python_exec_sandbox::script::Requirement;
use mcp_python_exec_sandbox::session::interpreter::{Interpreter, Kernel, KernelUsage, Stop};
use mcp_python_exec_sandbox::session::{
    CellEnd, CellError, CellReport, Form, FormBody, Installed, SessionError, SessionId, SessionSettings,
    Sessions, Shown,
};
use mcp_python_exec_sandbox::workspace::path::WorkPath;
use mcp_python_exec_sandbox::workspace::{
    Entry, EntryKind, FileBytes, FileError, Listing, Piece, SHOWN_ENTRIES, Tree, Workspace,
};
use tokio::time::Instant;

/// An interpreter of a small language: `sleep N`, `lines`, `large`, and words that it repeats with a count of its own.
#[derive(Default)]
struct Echo {
    alive: Arc<AtomicUsize>,
    broken: bool,
}

struct EchoKernel {
    alive: Arc<AtomicUsize>,
    count: u64,
    files: Arc<Memory>,
}

impl Interpreter for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn start(&self, _deadline: Instant) -> BoxFuture<'_, Result<Box<dyn Kernel>, SessionError>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            if self.broken {
                return Err(SessionError::Broken("it is out of order".to_owned()));
            }
            self.alive.fetch_add(1, Ordering::SeqCst);
            let (alive, files) = (Arc::clone(&self.alive), Arc::default());
            Ok(Box::new(EchoKernel { alive, count: 0, files }) as Box<dyn Kernel>)
        })
    }
}

impl Drop for EchoKernel {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

fn report(text: String, end: CellEnd) -> CellReport {
    CellReport {
        stdout: Captured::default(),
        stderr: Captured::default(),
        results: vec![Shown { text, forms: Vec::new() }],
        error: None,
        end,
        environment: Arc::default(),
        notes: Vec::new(),
        duration: Duration::ZERO,
    }
}

/// As much of everything as code can make the driver say.
fn large() -> CellReport {
    let captured = |text: String| Captured { total_bytes: 1 << 30, text, truncated: true };
    let shown = |number: usize| {
        let path = format!("output/{}{number}.png", "\u{e4}".repeat(100));
        let file = FormBody::File { path: WorkPath::file(&path).expect("a path"), size: 5, preview: None };
        let forms = [("text/markdown", FormBody::Text("m".repeat(8192))), ("image/png", file)];
        let forms = forms.map(|(media, body)| Form { media, body }).into();
        Shown { text: format!("value {number} {}", "v".repeat(5000)), forms }
    };
    CellReport {
        stdout: captured("out\n".repeat(25_000)),
        stderr: captured("\u{2588}\"".repeat(25_000)),
        results: (0..100).map(shown).collect(),
        error: Some(CellError {
            name: "ValueError".to_owned(),
            value: "e".repeat(8192),
            traceback: format!("first{}last", "\n\u{1f40d}".repeat(6000)),
        }),
        notes: vec!["n".repeat(600); 32],
        ..report(String::new(), CellEnd::Finished)
    }
}

impl Kernel for EchoKernel {
    fn run<'a>(
        &'a mut self,
        code: &'a str,
        mut stop: Stop<'a>,
        progress: ProgressSink,
    ) -> BoxFuture<'a, Result<CellReport, SessionError>> {
        Box::pin(async move {
            self.count += 1;
            let text = format!("{code} {}", self.count);
            if code == "large" {
                return Ok(large());
            }
            if code == "lines" {
                for row in 0..3 {
                    progress(Progress::line(&format!("row {row}\n")));
                    tokio::time::sleep(Duration::from_millis(600)).await;
                }
            }
            let Some(milliseconds) = code.strip_prefix("sleep ").and_then(|number| number.parse().ok())
            else {
                return Ok(report(text, CellEnd::Finished));
            };
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(milliseconds)) => Ok(report(text, CellEnd::Finished)),
                _ = stop.due() => Ok(report(text, CellEnd::Interrupted(Duration::from_secs(1)))),
            }
        })
    }

    fn install<'a>(
        &'a mut self,
        packages: Vec<Requirement>,
        _stop: Stop<'a>,
        _progress: ProgressSink,
    ) -> BoxFuture<'a, Result<Installed, SessionError>> {
        let packages = packages.iter().map(|package| (package.name().to_owned(), "1.0".to_owned())).collect();
        Box::pin(std::future::ready(Ok(Installed { packages, ..Installed::default() })))
    }

    fn workspace(&self) -> Arc<dyn Workspace> {
        self.files.clone()
    }

    fn usage(&mut self) -> BoxFuture<'_, Option<KernelUsage>> {
        Box::pin(std::future::ready(Some(KernelUsage { memory: 4096, processes: 1 })))
    }

    fn version(&self) -> String {
        "1.0".to_owned()
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { drop(self) })
    }
}

/// Files in memory.
#[derive(Default)]
struct Memory(Mutex<BTreeMap<String, Vec<u8>>>);

fn ready<T: Send + 'static>(value: Result<T, FileError>) -> BoxFuture<'static, Result<T, FileError>> {
    Box::pin(std::future::ready(value))
}

impl Workspace for Memory {
    fn list(&self, _folder: &WorkPath) -> BoxFuture<'_, Result<Listing, FileError>> {
        let files = self.0.lock().unwrap();
        let entry = |(name, bytes): (&String, &Vec<u8>)| Entry {
            name: name.clone(),
            kind: EntryKind::File,
            size: bytes.len() as u64,
        };
        let entries: Vec<_> = files.iter().take(SHOWN_ENTRIES).map(entry).collect();
        ready(Ok(Listing { count: files.len(), entries, more: false }))
    }

    fn read(&self, file: &WorkPath, piece: Piece) -> BoxFuture<'_, Result<FileBytes, FileError>> {
        let found = self.0.lock().unwrap().get(&file.to_string()).cloned();
        ready(found.ok_or_else(|| FileError::Missing(file.to_string())).map(|bytes| {
            let size = bytes.len() as u64;
            let from = bytes.len().min(usize::try_from(piece.offset).unwrap_or(usize::MAX));
            let to = bytes.len().min(from.saturating_add(piece.length));
            FileBytes { bytes: bytes[from..to].to_vec(), size }
        }))
    }

    fn write(&self, file: &WorkPath, content: Vec<u8>) -> BoxFuture<'_, Result<(), FileError>> {
        self.0.lock().unwrap().insert(file.to_string(), content);
        ready(Ok(()))
    }

    fn remove(&self, path: &WorkPath) -> BoxFuture<'_, Result<(), FileError>> {
        self.0.lock().unwrap().remove(&path.to_string());
        ready(Ok(()))
    }

    fn files(&self, _most: usize) -> BoxFuture<'_, Result<Tree, FileError>> {
        ready(Ok(Tree::default()))
    }
}

struct Made {
    sessions: Sessions,
    alive: Arc<AtomicUsize>,
}

impl Made {
    fn alive(&self) -> usize {
        self.alive.load(Ordering::SeqCst)
    }
}

fn sessions(settings: SessionSettings) -> Made {
    let echo = Echo::default();
    let alive = Arc::clone(&echo.alive);
    Made { sessions: Sessions::new(Arc::new(echo), settings), alive }
}

fn id(name: &str) -> SessionId {
    name.parse().expect("a name")
}

fn quiet() -> ProgressSink {
    Arc::new(|_| {})
}

const LONG: Duration = Duration::from_secs(1000);

async fn run(sessions: &Sessions, name: &str, code: &str) -> Result<String, SessionError> {
    let report = sessions.run(&id(name), code.to_owned(), LONG, quiet()).await?;
    Ok(report.results[0].text.clone())
}

#[tokio::test(start_paused = true)]
async fn state_stays_until_the_session_is_closed() {
    let made = sessions(SessionSettings::default());
    let summary = made.sessions.create(Some(id("a"))).await.expect("made");
    assert_eq!((summary.id.as_str(), summary.interpreter, summary.version.as_str()), ("a", "echo", "1.0"));
    assert_eq!(run(&made.sessions, "a", "x").await.as_deref(), Ok("x 1"));
    assert_eq!(run(&made.sessions, "a", "x").await.as_deref(), Ok("x 2"));
    assert_eq!(made.sessions.close(&id("a")).await, Ok(true));
    assert_eq!(made.alive(), 0, "it is gone when closing returns");
    assert_eq!(made.sessions.close(&id("a")).await, Ok(false), "a second time is harmless");
    let error = run(&made.sessions, "a", "x").await.expect_err("it is closed");
    assert!(error.to_string().contains("sandbox a was closed"), "{error}");
    let error = run(&made.sessions, "b", "x").await.expect_err("there never was one");
    assert!(error.to_string().contains("no sandbox is named b"), "{error}");
    // The name is free again, and nothing of the state is left.
    made.sessions.create(Some(id("a"))).await.expect("made again");
    assert_eq!(run(&made.sessions, "a", "x").await.as_deref(), Ok("x 1"));
}

#[tokio::test(start_paused = true)]
async fn a_name_is_taken_once_and_made_where_there_is_none() {
    let made = sessions(SessionSettings::default());
    made.sessions.create(Some(id("sandbox-1"))).await.expect("made");
    assert_eq!(
        made.sessions.create(Some(id("sandbox-1"))).await,
        Err(SessionError::Exists("sandbox-1".to_owned()))
    );
    let other = made.sessions.create(None).await.expect("made");
    assert_eq!(other.id.as_str(), "sandbox-2");
    assert_eq!(made.alive(), 2);
}

#[tokio::test(start_paused = true)]
async fn two_hundred_are_too_many_and_the_others_go_on() {
    let made = sessions(SessionSettings { max_sandboxes: 8, ..SessionSettings::default() });
    let all = (0..200).map(|_| {
        let sessions = made.sessions.clone();
        tokio::spawn(async move { sessions.create(None).await })
    });
    let (mut good, mut refused) = (0, 0);
    for created in all.collect::<Vec<_>>() {
        match created.await.expect("no panic") {
            Ok(_) => good += 1,
            Err(error) => {
                assert!(error.to_string().contains("8 sandboxes are open"), "{error}");
                refused += 1;
            }
        }
    }
    assert_eq!((good, refused, made.alive()), (8, 192, 8));
    for id in made.sessions.all() {
        assert!(run(&made.sessions, id.as_str(), "x").await.is_ok());
    }
    made.sessions.close_all().await;
    assert_eq!(made.alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_session_queue_in_order_and_others_run_beside_them() {
    let made = sessions(SessionSettings::default());
    for name in ["a", "b"] {
        made.sessions.create(Some(id(name))).await.expect("made");
    }
    let started = Instant::now();
    let first = run(&made.sessions, "a", "sleep 1000");
    let second = run(&made.sessions, "a", "sleep 500");
    let beside = run(&made.sessions, "b", "sleep 1200");
    let (first, second, beside) = tokio::join!(first, second, beside);
    assert_eq!(first.as_deref(), Ok("sleep 1000 1"));
    assert_eq!(second.as_deref(), Ok("sleep 500 2"));
    assert_eq!(beside.as_deref(), Ok("sleep 1200 1"));
    let taken = started.elapsed();
    assert!((1500..1600).contains(&taken.as_millis()), "{taken:?}");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nobody_uses_is_closed_and_the_answer_says_so() {
    let idle_limit = Duration::from_mins(1);
    let made = sessions(SessionSettings { idle_limit, ..SessionSettings::default() });
    made.sessions.create(Some(id("a"))).await.expect("made");
    tokio::time::sleep(Duration::from_secs(50)).await;
    run(&made.sessions, "a", "x").await.expect("it is there");
    tokio::time::sleep(Duration::from_secs(50)).await;
    run(&made.sessions, "a", "x").await.expect("use keeps it");
    tokio::time::sleep(Duration::from_secs(61)).await;
    let error = run(&made.sessions, "a", "x").await.expect_err("it is gone");
    assert!(error.to_string().contains("after 60 seconds without use"), "{error}");
    assert_eq!(made.alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn looking_at_a_session_is_no_use_of_it() {
    let idle_limit = Duration::from_mins(1);
    let made = sessions(SessionSettings { idle_limit, ..SessionSettings::default() });
    made.sessions.create(Some(id("a"))).await.expect("made");
    run(&made.sessions, "a", "sleep 2000").await.expect("it ran");
    for seconds in [15, 30, 45] {
        tokio::time::sleep(Duration::from_secs(15)).await;
        let status = made.sessions.status(&id("a")).await.expect("a status");
        assert_eq!((status.idle.as_secs(), status.busy), (seconds, false), "since the end of the last cell");
        assert!(made.sessions.tree(&id("a"), 10).await.expect("it is there").is_some());
    }
    tokio::time::sleep(Duration::from_secs(16)).await;
    let error = made.sessions.status(&id("a")).await.expect_err("it is gone");
    assert!(error.to_string().contains("after 60 seconds without use"), "{error}");
    assert_eq!(made.alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_calls_wait_is_busy() {
    let made = sessions(SessionSettings::default());
    made.sessions.create(Some(id("a"))).await.expect("made");
    let (one, two) = (made.sessions.clone(), made.sessions.clone());
    let one = tokio::spawn(async move { run(&one, "a", "sleep 1000").await });
    let two = tokio::spawn(async move { run(&two, "a", "sleep 1000").await });
    for wanted in [true, true, false] {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let status = made.sessions.status(&id("a")).await.expect("a status");
        assert_eq!((status.busy, status.idle), (wanted, if wanted { Duration::ZERO } else { status.idle }));
    }
    assert!(one.await.is_ok() && two.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_interrupts_its_cell_and_the_next_call_runs() {
    let made = sessions(SessionSettings::default());
    made.sessions.create(Some(id("a"))).await.expect("made");
    let abandoned = tokio::time::timeout(Duration::from_secs(1), run(&made.sessions, "a", "sleep 900000"));
    assert!(abandoned.await.is_err());
    let started = Instant::now();
    assert_eq!(run(&made.sessions, "a", "x").await.as_deref(), Ok("x 2"));
    assert!(started.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_status_never_waits_for_a_cell() {
    let made = sessions(SessionSettings::default());
    made.sessions.create(Some(id("a"))).await.expect("made");
    made.sessions
        .install(&id("a"), vec![Requirement::parse("six").expect("a package")], LONG, Arc::new(|_| {}))
        .await
        .expect("installed");
    let status = made.sessions.status(&id("a")).await.expect("a status");
    assert!(!status.busy && status.usage.is_some(), "{status:?}");
    assert_eq!(status.packages, [("six".to_owned(), "1.0".to_owned())]);
    let sessions = made.sessions.clone();
    let running = tokio::spawn(async move { run(&sessions, "a", "sleep 100000").await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let started = Instant::now();
    let status = made.sessions.status(&id("a")).await.expect("a status");
    assert!(
        status.busy && status.usage.is_none() && started.elapsed() < Duration::from_secs(1),
        "{status:?}"
    );
    running.await.expect("no panic").expect("it ran");
}

#[tokio::test(start_paused = true)]
async fn closing_ends_what_runs_and_what_waits() {
    let made = sessions(SessionSettings::default());
    made.sessions.create(Some(id("a"))).await.expect("made");
    let ids = id("a");
    let (one, two, closed) = tokio::join!(
        run(&made.sessions, "a", "sleep 900000"),
        run(&made.sessions, "a", "x"),
        made.sessions.close(&ids)
    );
    assert_eq!((one, two, closed), (Err(SessionError::Closing), Err(SessionError::Closing), Ok(true)));
    assert_eq!(made.alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_interpreter_that_does_not_start_leaves_no_session() {
    let echo = Echo { broken: true, ..Echo::default() };
    let sessions =
        Sessions::new(Arc::new(echo), SessionSettings { max_sandboxes: 1, ..SessionSettings::default() });
    for _ in 0..3 {
        let error = sessions.create(Some(id("a"))).await.expect_err("it is broken");
        assert!(error.to_string().contains("out of order"), "{error}");
        assert_eq!(sessions.all(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn one_cell_in_a_session_of_its_own_leaves_nothing() {
    let made = sessions(SessionSettings { max_sandboxes: 1, ..SessionSettings::default() });
    for _ in 0..3 {
        let report = made.sessions.run_once("x".to_owned(), LONG, quiet()).await.expect("it ran").0;
        assert_eq!(report.results[0].text, "x 1");
    }
    // A caller that leaves.
    let abandoned = made.sessions.run_once("sleep 900000".to_owned(), LONG, quiet());
    assert!(tokio::time::timeout(Duration::from_secs(1), abandoned).await.is_err());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((made.alive(), made.sessions.all().len()), (0, 0));
}
