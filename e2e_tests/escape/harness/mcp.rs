//! A server on its standard streams, and a client that sends calls and reads lines.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use super::ground::{Ground, Options};

/// A server with a client. Dropping it ends the server.
pub struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// Reads standard error, so that the server never waits for a reader.
    log: Option<JoinHandle<String>>,
    next: u64,
}

impl Server {
    /// Starts a server and greets it.
    pub fn start(ground: &Ground) -> Result<Self, String> {
        Self::start_with(ground, &["--no-warm-cache"], &[])
    }

    /// The same with these flags and variables.
    pub fn start_with(ground: &Ground, flags: &[&str], env: &[(&str, &str)]) -> Result<Self, String> {
        let mut words = vec![ground.binary.clone().into()];
        words.extend(ground.server_flags(flags));
        let env = env.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect();
        let options = Options { stdin: Some(""), env, ..Options::default() };
        let mut child = ground.spawn(words, &options)?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or("no standard output")?;
        let mut stderr = child.stderr.take().ok_or("no standard error")?;
        let log = std::thread::spawn(move || {
            let mut text = String::new();
            // What is no text is not looked for.
            let _ = stderr.read_to_string(&mut text);
            text
        });
        let mut server = Self { child, stdin, stdout: BufReader::new(stdout), log: Some(log), next: 1 };
        let greeting = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "escape", "version": "0" } } });
        server.send(&greeting)?;
        server.line()?;
        server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(server)
    }

    /// Calls a tool without waiting for the answer.
    pub fn send_call(&mut self, tool: &str, arguments: &Value) -> Result<(), String> {
        self.next += 1;
        let params = json!({ "name": tool, "arguments": arguments });
        self.send(&json!({ "jsonrpc": "2.0", "id": self.next, "method": "tools/call", "params": params }))
    }

    /// Calls a tool, then pings: every line that came before the ping's answer.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Result<Vec<Value>, String> {
        self.send_call(tool, arguments)?;
        let mut answers = vec![self.line()?];
        self.send(&json!({ "jsonrpc": "2.0", "id": "ping", "method": "ping" }))?;
        loop {
            let line = self.line()?;
            if line["id"] == "ping" {
                return Ok(answers);
            }
            answers.push(line);
        }
    }

    /// Closes the server and gives what it has written to its standard error.
    pub fn log(mut self) -> String {
        self.close();
        let log = self.log.take().and_then(|reading| reading.join().ok());
        log.unwrap_or_default()
    }

    /// The client is gone.
    pub fn close(&mut self) {
        self.stdin = None;
    }

    fn send(&mut self, message: &Value) -> Result<(), String> {
        let stdin = self.stdin.as_mut().ok_or("the client is gone")?;
        writeln!(stdin, "{message}").and_then(|()| stdin.flush()).map_err(|error| error.to_string())
    }

    fn line(&mut self) -> Result<Value, String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).map_err(|error| error.to_string())?;
        serde_json::from_str(&line).map_err(|error| format!("{error}: {line:?}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
