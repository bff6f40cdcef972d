//! A small MCP client over pipes: one server process, requests answered in any order.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::setting::Setting;

/// A server that has been greeted.
pub struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next: u64,
    /// From the start of the process to its answer to `initialize`.
    pub start: Duration,
}

impl Server {
    /// Starts this program with more flags than the common ones.
    pub fn start(setting: &Setting, flags: &[&str]) -> Result<Self, String> {
        let mut command = Command::new(&setting.server);
        command.args(setting.server_flags()).args(flags);
        Self::greet(command)
    }

    /// Starts any server and greets it.
    pub fn greet(mut command: Command) -> Result<Self, String> {
        let started = Instant::now();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("the server does not start: {error}"))?;
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        let mut server = Self { child, stdin, stdout, next: 0, start: Duration::ZERO };
        let greeting = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "bench", "version": "0"}});
        server.send("initialize", &greeting)?;
        server.reply()?;
        server.start = started.elapsed();
        server.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(server)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn write(&mut self, message: &Value) -> Result<(), String> {
        let line = format!("{message}\n");
        let stdin = self.stdin.as_mut().ok_or("the input is closed")?;
        stdin.write_all(line.as_bytes()).map_err(|error| format!("the server is gone: {error}"))
    }

    fn send(&mut self, method: &str, params: &Value) -> Result<u64, String> {
        self.next += 1;
        let id = self.next;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        Ok(id)
    }

    /// Sends a call without waiting for its answer.
    pub fn call(&mut self, script: &str, dependencies: &[&str]) -> Result<u64, String> {
        let arguments = json!({"script": script, "dependencies": dependencies, "timeout_seconds": 200});
        self.send("tools/call", &json!({"name": "execute_python", "arguments": arguments}))
    }

    /// One call of any tool; its result.
    pub fn tool(&mut self, tool: &str, arguments: &Value) -> Result<Value, String> {
        self.send("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        Ok(self.reply()?.1)
    }

    /// The next answer: its id and its result.
    pub fn reply(&mut self) -> Result<(u64, Value), String> {
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.stdout.read_line(&mut line).map_err(|error| error.to_string())?;
            if read == 0 {
                return Err("the server has ended".to_owned());
            }
            let mut message: Value = serde_json::from_str(&line).map_err(|error| error.to_string())?;
            if let Some(id) = message["id"].as_u64() {
                return Ok((id, message["result"].take()));
            }
        }
    }

    /// One call that has to end with exit code 0; its standard output.
    pub fn run(&mut self, script: &str, dependencies: &[&str]) -> Result<String, String> {
        self.call(script, dependencies)?;
        let (_, result) = self.reply()?;
        printed(&result)
    }
}

/// Standard output of a result whose script has ended with exit code 0.
pub fn printed(result: &Value) -> Result<String, String> {
    let structured = &result["structuredContent"];
    if structured["exit_code"] == 0 {
        return Ok(structured["stdout"].as_str().unwrap_or_default().to_owned());
    }
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    // The Python program gives text alone.
    match text.strip_prefix("--- stdout ---\n") {
        Some(rest) if text.contains("--- exit_code: 0 ---") => Ok(rest.to_owned()),
        _ => Err(format!("a run failed: {}", text.lines().take(6).collect::<Vec<_>>().join(" / "))),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let deadline = Instant::now() + Duration::from_secs(3);
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::yield_now();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
