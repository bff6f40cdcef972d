//! A small MCP client: one server process, requests and replies as JSON, and a look at what it leaves behind.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::backend::Backend;

/// Longest wait for anything.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// The binary under test.
pub fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_mcp-python-exec-sandbox"))
}

/// Flags for every process of these tests, after those of the test: the backend under test, unless the test names one.
pub fn common_flags(own: &[&str]) -> Vec<String> {
    let mut flags = Backend::under_test().flags();
    if !own.contains(&"--sandbox-backend") {
        flags.extend(["--sandbox-backend".to_owned(), Backend::under_test().name().to_owned()]);
    }
    flags
}

pub struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    replies: Receiver<Value>,
    early: Vec<Value>,
    next: i64,
}

impl Server {
    /// Starts a server and greets it.
    pub fn start(flags: &[&str]) -> Self {
        Self::start_without_greeting(flags).greeted()
    }

    /// Starts what becomes a server, and greets it.
    pub fn start_command(command: &mut Command) -> Self {
        Self::spawn(command).greeted()
    }

    fn greeted(self) -> Self {
        let mut server = self;
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "e2e", "version": "0"}});
        let reply = server.request("initialize", params);
        assert_eq!(reply["result"]["serverInfo"]["name"], "mcp-python-exec-sandbox", "{reply}");
        server.notify("notifications/initialized", json!({}));
        server
    }

    pub fn start_without_greeting(flags: &[&str]) -> Self {
        Self::spawn(Command::new(binary()).args(common_flags(flags)).arg("--no-warm-cache").args(flags))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the server starts");
        let stdout = child.stdout.take().expect("piped");
        let (sender, replies) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).expect("every line is JSON");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        Self { child, stdin, replies, early: Vec::new(), next: 0 }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn send_line(&mut self, line: &[u8]) {
        let stdin = self.stdin.as_mut().expect("input is open");
        stdin.write_all(line).and_then(|()| stdin.write_all(b"\n")).expect("the server reads");
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.send_line(message.to_string().as_bytes());
    }

    /// Sends a request and returns its id.
    pub fn ask(&mut self, method: &str, params: Value) -> i64 {
        self.next += 1;
        let message = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        self.send_line(message.to_string().as_bytes());
        self.next
    }

    pub fn ask_tool(&mut self, tool: &str, arguments: Value) -> i64 {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The reply to a request.
    pub fn reply(&mut self, id: i64) -> Value {
        self.reply_within(id, PATIENCE).unwrap_or_else(|| panic!("no reply to request {id}"))
    }

    pub fn reply_within(&mut self, id: i64, patience: Duration) -> Option<Value> {
        let wanted = |message: &Value| message["id"] == id;
        if let Some(at) = self.early.iter().position(wanted) {
            return Some(self.early.remove(at));
        }
        let end = Instant::now() + patience;
        loop {
            match self.replies.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(message) if wanted(&message) => return Some(message),
                Ok(message) => self.early.push(message),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.reply(id)
    }

    /// The result of a tool call that was not refused by the protocol.
    pub fn tool(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.ask_tool(tool, arguments);
        let reply = self.reply(id);
        assert!(reply.get("error").is_none(), "{reply}");
        reply["result"].clone()
    }

    pub fn run(&mut self, script: &str) -> Value {
        self.tool("execute_python", json!({"script": script, "timeout_seconds": 60}))
    }

    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Kills the server with a signal that it cannot catch.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    pub fn wait(&mut self) -> i32 {
        self.child.wait().expect("it ends").code().unwrap_or(-1)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All text of a result.
pub fn text(result: &Value) -> String {
    let parts = result["content"].as_array().cloned().unwrap_or_default();
    parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// A name that no other process has, for finding a script's processes on the host. At most 15 bytes are kept.
pub fn marker(test: &str) -> String {
    let mut marker = format!("{test}{}", std::process::id());
    marker.truncate(15);
    marker
}

/// Python that gives its process the marker as its name.
pub fn take_name(marker: &str) -> String {
    format!("import ctypes; ctypes.CDLL(None).prctl(15, b'{marker}')\n")
}

/// Live processes of this machine with the marker.
pub fn processes(marker: &str) -> usize {
    let entries = std::fs::read_dir("/proc").expect("/proc is there").filter_map(Result::ok);
    entries
        .filter(|entry| {
            let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            let status = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let state = status.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
            name.trim_end() == marker && !matches!(state, Some('Z' | 'X') | None)
        })
        .count()
}

/// Waits until the number of processes with the marker is as wanted; tells how long it took.
pub fn wait_for_processes(marker: &str, wanted: impl Fn(usize) -> bool, patience: Duration) -> Duration {
    let start = Instant::now();
    while !wanted(processes(marker)) {
        assert!(start.elapsed() < patience, "{} processes named {marker}", processes(marker));
        std::thread::sleep(Duration::from_millis(5));
    }
    start.elapsed()
}
