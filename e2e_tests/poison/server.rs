//! The built program as a server, spoken to over its standard streams.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};

use serde_json::{Value, json};

use crate::stage::Stage;

/// A server that was greeted.
pub struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
}

impl Server {
    pub fn start(stage: &Stage, flags: &[&str]) -> Self {
        let mut child =
            stage.command(flags).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut server = Self { child, input, output };
        let about = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "0"}});
        server.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": about}));
        server.receive();
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").expect("it reads");
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it answers");
        serde_json::from_str(&line).expect("JSON")
    }

    /// Calls one tool and waits for its result.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        self.send(&json!({"jsonrpc": "2.0", "id": tool, "method": "tools/call", "params": params}));
        loop {
            let message = self.receive();
            if message.get("id").is_some() {
                return message["result"].clone();
            }
        }
    }

    /// Begins a call and waits until it tells of this phase.
    pub fn begin(&mut self, arguments: &Value, phase: &str) {
        let params = json!({"name": "execute_python", "arguments": arguments, "_meta": {"progressToken": 1}});
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
        loop {
            let message = self.receive();
            if message.to_string().contains(phase) {
                return;
            }
            assert!(message.get("id").is_none(), "it ended before {phase}: {message}");
        }
    }

    /// Sends that many calls at once and waits for all replies.
    pub fn calls(&mut self, count: i64, arguments: &Value) -> Vec<Value> {
        for id in 1..=count {
            let params = json!({"name": "execute_python", "arguments": arguments});
            self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
        }
        let mut replies = Vec::new();
        while replies.len() < usize::try_from(count).expect("small") {
            let message = self.receive();
            if message.get("id").is_some() {
                replies.push(message["result"].clone());
            }
        }
        replies
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
