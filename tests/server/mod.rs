//! A client over in-memory pipes, and an executor that only pretends.

#![allow(dead_code, reason = "each test program uses a part of this")]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_python_exec_sandbox::environment::PythonVersion;
use mcp_python_exec_sandbox::execution::overview::Overview;
use mcp_python_exec_sandbox::execution::report::Captured;
use mcp_python_exec_sandbox::execution::validation::Validation;
use mcp_python_exec_sandbox::execution::{
    Execute, ExecutionError, ExecutionReport, ExecutionRequest, FailureKind, Progress, ProgressSink,
};
use mcp_python_exec_sandbox::sandbox::select::Choice;
use mcp_python_exec_sandbox::sandbox::spec::{Limits, Network};
use mcp_python_exec_sandbox::sandbox::{
    Backend, BoxFuture, ExitStatus, LayerState, LayerStatus, Tier, Usage,
};
use mcp_python_exec_sandbox::server::{ServeError, Services, serve_all};
use mcp_python_exec_sandbox::session::{SessionSettings, Sessions};
use mcp_python_exec_sandbox::settings::{Settings, ToolFamily};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub fn settings() -> Settings {
    Settings {
        python: None,
        backend: Backend::Native,
        backend_choice: Choice::Default,
        require: None,
        docker_image: None,
        seccomp_policy: None,
        network: Network::Host,
        network_choice: Choice::User,
        limits: Limits::default(),
        default_timeout: 30,
        max_timeout: 300,
        max_output_bytes: 102_400,
        max_concurrent: 2,
        pool_size: 0,
        pool_size_of_containers: 0,
        preload: Vec::new(),
        warm_cache: false,
        uv: None,
        pass_env: Vec::new(),
        data_dir: None,
        cache_size: 1 << 30,
        resolve_ttl: std::time::Duration::from_hours(24),
        source_builds: mcp_python_exec_sandbox::environment::SourceBuilds::Allowed,
        allow_http_index: false,
        mounts: Vec::new(),
        audit: None,
        tools: vec![ToolFamily::Execute, ToolFamily::Sandbox],
        sessions: SessionSettings::default(),
    }
}

pub fn report() -> ExecutionReport {
    ExecutionReport {
        stdout: captured("hi\n"),
        stderr: Captured::default(),
        status: ExitStatus::Exited(0),
        timed_out: false,
        duration: Duration::from_millis(12),
        python: "3.13.0".into(),
        environment: "0123456789abcdef".into(),
        backend: Backend::Native,
        tier: Tier::Full,
        layers: vec![
            LayerStatus { name: "landlock".into(), state: LayerState::Enforced(Some("ABI 7".into())) },
            LayerStatus { name: "seccomp".into(), state: LayerState::Enforced(None) },
        ],
        limit: None,
        usage: Usage::default(),
        output: Vec::new(),
        notes: Vec::new(),
    }
}

pub fn captured(text: &str) -> Captured {
    Captured { text: text.into(), total_bytes: text.len() as u64, truncated: false }
}

pub fn overview() -> Overview {
    Overview {
        python: Ok("3.13.0".into()),
        uv: Ok("0.13.9 (/usr/bin/uv)".into()),
        platform: "Linux 6.18 x86_64".into(),
        backend: Backend::Native,
        tier: Ok(Tier::Full),
        shortfall: None,
        layers: report().layers,
        network: Network::Host,
        limits: Limits::default(),
        default_timeout: 30,
        max_timeout: 300,
        max_output_bytes: 102_400,
        warming: "off".into(),
        notes: Vec::new(),
    }
}

/// What the pretended executor saw and does. Its scripts are words: `hang`, `sleep N` (milliseconds), `fail`,
/// `big N` (bytes), `progress`, `lines N` (milliseconds); anything else gives the prepared report.
pub struct Fake {
    pub requests: Mutex<Vec<ExecutionRequest>>,
    pub report: Mutex<ExecutionReport>,
    pub validation: Mutex<Validation>,
    pub overview: Mutex<Overview>,
    pub running: AtomicUsize,
    pub finished: AtomicUsize,
}

impl Default for Fake {
    fn default() -> Self {
        Self {
            requests: Mutex::default(),
            report: Mutex::new(report()),
            validation: Mutex::default(),
            overview: Mutex::new(overview()),
            running: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
        }
    }
}

impl Fake {
    pub fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    pub fn requests(&self) -> Vec<ExecutionRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// Lets other tasks run until `done` holds.
    pub async fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        for _ in 0..10_000 {
            if done(self) {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("never happened: {what}");
    }
}

struct Guard<'a>(&'a AtomicUsize);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Execute for Fake {
    fn execute(
        &self,
        request: ExecutionRequest,
        progress: ProgressSink,
    ) -> BoxFuture<'_, Result<ExecutionReport, ExecutionError>> {
        Box::pin(async move {
            self.running.fetch_add(1, Ordering::SeqCst);
            let _guard = Guard(&self.running);
            self.requests.lock().unwrap().push(request.clone());
            let mut report = self.report.lock().unwrap().clone();
            let (verb, number) = request.script.split_once(' ').unwrap_or((&request.script, "0"));
            let number = number.parse::<u64>().unwrap_or(0);
            match verb {
                "hang" => std::future::pending().await,
                "sleep" => tokio::time::sleep(Duration::from_millis(number)).await,
                "big" => report.stdout = captured(&"q".repeat(usize::try_from(number).unwrap())),
                "fail" => {
                    return Err(ExecutionError {
                        kind: FailureKind::Resolution,
                        message: "no package is named nosuch; check the spelling".into(),
                        detail: "  error: not found\n".into(),
                        notes: vec![],
                    });
                }
                "progress" => {
                    progress(Progress::Queued);
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    progress(Progress::Preparing { what: "downloading".into(), done: 1, total: 3 });
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    progress(Progress::Running);
                    tokio::time::sleep(Duration::from_secs(11)).await;
                    progress(Progress::Output("row 1".into()));
                    tokio::time::sleep(Duration::from_millis(600)).await;
                }
                "lines" => {
                    for line in 0..number {
                        progress(Progress::Output(format!("row {line}")));
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
                _ => {}
            }
            self.finished.fetch_add(1, Ordering::SeqCst);
            Ok(report)
        })
    }

    fn validate(&self, _script: String, _dependencies: Vec<String>) -> BoxFuture<'_, Validation> {
        Box::pin(async { self.validation.lock().unwrap().clone() })
    }

    fn overview(&self) -> BoxFuture<'_, Overview> {
        Box::pin(async { self.overview.lock().unwrap().clone() })
    }
}

/// A client that writes raw lines and reads whole ones.
pub struct Client {
    pub fake: Arc<Fake>,
    input: Option<WriteHalf<DuplexStream>>,
    output: Option<Lines<BufReader<ReadHalf<DuplexStream>>>>,
    seen: VecDeque<Value>,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<Result<(), ServeError>>,
}

impl Client {
    /// A server that nobody has spoken to.
    pub fn connect() -> Self {
        Self::connect_with(settings(), 1 << 16)
    }

    /// The same with other settings and pipes of `capacity` bytes.
    pub fn connect_with(settings: Settings, capacity: usize) -> Self {
        Self::connect_to(settings, capacity, None)
    }

    /// The same with stateful sandboxes.
    pub fn connect_to(settings: Settings, capacity: usize, sessions: Option<Sessions>) -> Self {
        let fake = Arc::new(Fake::default());
        let (near_in, far_in) = tokio::io::duplex(capacity);
        let (near_out, far_out) = tokio::io::duplex(capacity);
        let (_, input) = tokio::io::split(far_in);
        let (output, _) = tokio::io::split(far_out);
        let (stop, stopped) = oneshot::channel();
        let services = Services { executor: fake.clone(), sessions, audit: None };
        let served = tokio::spawn(async move {
            let shutdown = async {
                if stopped.await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            serve_all(services, &settings, near_in, near_out, shutdown).await
        });
        let output = Some(BufReader::new(output).lines());
        Self { fake, input: Some(input), output, seen: VecDeque::new(), stop: Some(stop), served }
    }

    /// A server after the handshake.
    pub async fn initialized() -> Self {
        let mut client = Self::connect();
        client.initialize("2025-06-18").await;
        client
    }

    pub async fn initialize(&mut self, version: &str) -> Value {
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let answer = self.ask("init", "initialize", params).await;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer
    }

    pub async fn raw(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("input is open");
        input.write_all(bytes).await.expect("the server reads");
    }

    pub async fn send(&mut self, message: &Value) {
        self.raw(format!("{message}\n").as_bytes()).await;
    }

    pub async fn request(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let id = id.into();
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }

    /// Sends a request and gives its answer.
    pub async fn ask(&mut self, id: impl Into<Value>, method: &str, params: Value) -> Value {
        let id = id.into();
        self.request(id.clone(), method, params).await;
        self.answer(id).await
    }

    pub async fn call(&mut self, id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
        self.ask(id, "tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// The next line as JSON; `None` at the end of output.
    pub async fn next(&mut self) -> Option<Value> {
        if let Some(seen) = self.seen.pop_front() {
            return Some(seen);
        }
        self.read().await
    }

    async fn read(&mut self) -> Option<Value> {
        let lines = self.output.as_mut().expect("output is open");
        let line = tokio::time::timeout(Duration::from_secs(50), lines.next_line()).await;
        let line = line.expect("the server is silent").expect("output is text")?;
        let value: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(value["jsonrpc"], "2.0", "{line}");
        Some(value)
    }

    /// The answer to `id`; everything else that comes first is kept.
    pub async fn answer(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        let is_answer = |value: &Value| value.get("method").is_none() && value["id"] == id;
        if let Some(at) = self.seen.iter().position(is_answer) {
            return self.seen.remove(at).expect("found above");
        }
        loop {
            let value = self.read().await.unwrap_or_else(|| panic!("output ended without an answer to {id}"));
            if is_answer(&value) {
                return value;
            }
            self.seen.push_back(value);
        }
    }

    /// What came beside the answers so far.
    pub fn others(&mut self) -> Vec<Value> {
        self.seen.drain(..).collect()
    }

    /// Asserts that nothing else has come, and that the server still answers.
    pub async fn quiet(&mut self) {
        let pong = self.ask("quiet?", "ping", json!({})).await;
        assert!(pong.get("result").is_some(), "{pong}");
        assert_eq!(self.others(), Vec::<Value>::new(), "unexpected messages");
    }

    pub fn close_input(&mut self) {
        self.input = None;
    }

    pub fn close_output(&mut self) {
        self.output = None;
    }

    pub fn stop(&mut self) {
        let _gone = self.stop.take().expect("stopped once").send(());
    }

    /// What the server ended with.
    pub async fn ended(self) -> Result<(), ServeError> {
        let Self { served, .. } = self;
        tokio::time::timeout(Duration::from_secs(50), served)
            .await
            .expect("the server does not end")
            .expect("no panic")
    }
}

/// The text of a tool's result.
pub fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {answer}"))
}

/// The structured part of a tool's result.
pub fn fields(answer: &Value) -> &Value {
    &answer["result"]["structuredContent"]
}

pub fn error_code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error in {answer}"))
}

pub fn python(text: &str) -> PythonVersion {
    text.parse().unwrap()
}
