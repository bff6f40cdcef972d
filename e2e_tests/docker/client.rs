//! A server with the Docker backend, and a small client that speaks to it over pipes, one request after the other.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A server that has been greeted. Dropping it ends its input and waits.
pub struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    data: PathBuf,
    next: u64,
}

impl Server {
    /// Starts one with this data folder and these flags.
    pub fn start(data: &Path, flags: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mcp-python-exec-sandbox"))
            .args(["--no-warm-cache", "--sandbox-backend", "docker", "--data-dir"])
            .arg(data)
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().expect("piped")));
        let mut server = Self { child, input, output, data: data.to_owned(), next: 0 };
        let client = json!({"name": "e2e", "version": "0"});
        let greeting = server.ask(
            "initialize",
            &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}),
        );
        assert!(greeting["serverInfo"].is_object(), "{greeting}");
        server
    }

    /// Sends a request.
    pub fn send(&mut self, method: &str, params: &Value) {
        self.next += 1;
        let message = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        writeln!(self.input.as_mut().expect("open"), "{message}").expect("it reads");
    }

    /// The result of the last request.
    pub fn result(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).expect("it answers") > 0, "the server has ended");
            let mut message: Value = serde_json::from_str(&line).expect("a message");
            if message["id"] == self.next {
                return message["result"].take();
            }
        }
    }

    /// A request and its result.
    pub fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.send(method, params);
        self.result()
    }

    /// Sends a call of a tool.
    pub fn send_call(&mut self, tool: &str, arguments: &Value) {
        self.send("tools/call", &json!({"name": tool, "arguments": arguments}));
    }

    /// A call of a tool and its result.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.send_call(tool, arguments);
        self.result()
    }

    /// Its containers, whatever their state.
    pub fn containers(&self) -> Vec<String> {
        crate::containers_of(&self.data.join("docker"))
    }

    /// Kills it, so that it tidies nothing up.
    pub fn kill(mut self) {
        self.child.kill().expect("it lives");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
