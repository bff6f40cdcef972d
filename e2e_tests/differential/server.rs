//! A server whose log tells whether a waiting sandbox was used.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// The line of the log.
const USED: &str = "a waiting sandbox was used";

/// How often a script is run until a waiting sandbox was there for it.
const TRIES: usize = 50;

/// How a script ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    pub stdout: String,
    pub stderr: String,
    pub code: i64,
    /// Nothing was run.
    pub refused: bool,
}

impl Ended {
    /// Addresses and durations are another each time, whatever runs the script.
    pub fn without_chance(self) -> Self {
        Self { stdout: without_chance(&self.stdout), stderr: without_chance(&self.stderr), ..self }
    }
}

fn without_chance(text: &str) -> String {
    let mut parts = text.split("0x");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str("0x");
        plain.push_str(part.trim_start_matches(|letter: char| letter.is_ascii_hexdigit()));
    }
    match (plain.find(" in 0."), plain.contains("Ran ")) {
        (Some(at), true) => {
            let end = plain[at..].find('\n').map_or(plain.len(), |length| at + length);
            plain.replace_range(at..end, "");
            plain
        }
        _ => plain,
    }
}

/// A server with one call at a time.
pub struct Server {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    stderr: ChildStderr,
}

impl Server {
    pub fn start(flags: &[&str]) -> Self {
        let user = rustix::process::getuid().as_raw();
        let data = std::env::temp_dir().join(format!("mcp-differential-{user}"));
        let mut child = Command::new(env!("CARGO_BIN_EXE_mcp-python-exec-sandbox"))
            .arg("--data-dir")
            .arg(data)
            .args(["--no-warm-cache", "--max-output-bytes", "4194304"])
            .args(flags)
            .env("RUST_LOG", "mcp_python_exec_sandbox::execution=debug")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let stdin = child.stdin.take().expect("piped");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let stderr = child.stderr.take().expect("piped");
        rustix::io::ioctl_fionbio(&stderr, true).expect("a pipe");
        let mut server = Self { child, stdin, stdout, stderr };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "differential", "version": "0"}});
        server.ask("initialize", &hello);
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").expect("the server reads");
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
        self.answer()
    }

    fn answer(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(
                self.stdout.read_line(&mut line).expect("the server answers"),
                0,
                "the server has ended"
            );
            let message: Value = serde_json::from_str(&line).expect("every line is JSON");
            if message["id"] == 1 {
                return message["result"].clone();
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn run(&mut self, script: &str) -> Ended {
        self.run_with_timeout(script, 60)
    }

    /// Sends all scripts at once and gives what they printed, or why they were refused, in the order of the answers, each
    /// with the script's number.
    pub fn run_together(&mut self, scripts: &[String]) -> Vec<(usize, String)> {
        self.log();
        for (number, script) in scripts.iter().enumerate() {
            let params = json!({"name": "execute_python", "arguments": {"script": script}});
            self.send(&json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}));
        }
        let answer = |_| {
            let mut line = String::new();
            self.stdout.read_line(&mut line).expect("the server answers");
            let message: Value = serde_json::from_str(&line).expect("every line is JSON");
            let number = message["id"].as_u64().and_then(|id| usize::try_from(id).ok()).expect("an id");
            let result = &message["result"];
            let said = result["structuredContent"]["stdout"].as_str();
            (number, said.or_else(|| result["content"][0]["text"].as_str()).unwrap_or("nothing").to_owned())
        };
        (0..scripts.len()).map(answer).collect()
    }

    /// A stream of a result: of a long one the middle is not shown, and the whole is a file that the result links.
    fn whole(&mut self, result: &Value, file: &str, shown: &str) -> String {
        let links =
            result["content"].as_array().into_iter().flatten().filter_map(|part| part["uri"].as_str());
        let Some(link) = links.into_iter().find(|link| link.ends_with(file)) else { return shown.to_owned() };
        let read = self.ask("resources/read", &json!({"uri": link}));
        read["contents"][0]["text"].as_str().expect("the linked file is text").to_owned()
    }

    pub fn run_with_timeout(&mut self, script: &str, seconds: u32) -> Ended {
        // A log that nobody reads would stop the server once the pipe is full.
        self.log();
        let arguments = json!({"script": script, "timeout_seconds": seconds});
        let result = self.ask("tools/call", &json!({"name": "execute_python", "arguments": arguments}));
        self.ended(&result)
    }

    fn ended(&mut self, result: &Value) -> Ended {
        let structured = &result["structuredContent"];
        let text = [("stdout", "/stdout.txt"), ("stderr", "/stderr.txt")]
            .map(|(name, file)| self.whole(result, file, structured[name].as_str().unwrap_or_default()));
        let [stdout, stderr] = text;
        match structured["exit_code"].as_i64() {
            Some(code) => Ended { stdout, stderr, code, refused: false },
            None => Ended { stdout: String::new(), stderr: result.to_string(), code: -1, refused: true },
        }
    }

    /// Runs a script until a waiting sandbox was used for it. One that none takes (another encoding, a refusal) runs
    /// as it does without; so that this cannot hide a pool that never works, it is told apart by the caller's script.
    pub fn run_waiting(&mut self, script: &str) -> Option<Ended> {
        self.run_waiting_for(script, 60)
    }

    /// The same with a bound on its time.
    pub fn run_waiting_for(&mut self, script: &str, seconds: u32) -> Option<Ended> {
        let mut last = None;
        for _ in 0..TRIES {
            let ended = self.run_with_timeout(script, seconds);
            if self.log().contains(USED) {
                return Some(ended);
            }
            let takes_none = ended.refused || script.lines().take(2).any(|line| line.contains("coding"));
            last = takes_none.then_some(ended);
            if last.is_some() {
                break;
            }
        }
        last
    }

    /// Has a script run, and does something as soon as a waiting sandbox has got it; none where none got it.
    pub fn run_and_meanwhile(&mut self, script: &str, act: impl FnOnce()) -> Option<Ended> {
        self.log();
        let params = json!({"name": "execute_python", "arguments": {"script": script}});
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
        let mut log = String::new();
        while !log.contains(USED) && !self.has_answered() {
            log.push_str(&self.log());
        }
        let used = log.contains(USED);
        if used {
            act();
        }
        let result = self.answer();
        used.then(|| self.ended(&result))
    }

    fn has_answered(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut watched = [PollFd::new(self.stdout.get_ref(), PollFlags::IN)];
        let moment = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        poll(&mut watched, Some(&moment)).expect("it can be watched") > 0
    }

    /// Runs a script once and tells whether a waiting sandbox was used for it.
    pub fn was_waited_for(&mut self, script: &str) -> bool {
        self.run(script);
        self.log().contains(USED)
    }

    /// What has been logged since the last look. The server logs before it answers, so nothing is missing.
    fn log(&mut self) -> String {
        let mut log = Vec::new();
        let mut chunk = [0; 4096];
        while let Ok(size @ 1..) = self.stderr.read(&mut chunk) {
            log.extend_from_slice(&chunk[..size]);
        }
        String::from_utf8_lossy(&log).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
