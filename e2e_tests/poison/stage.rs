//! A home folder of its own with secrets in it, an index of its own, and the built program run in it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Longest time for one run.
const PATIENCE: Duration = Duration::from_mins(2);

/// An index that serves until it is dropped.
pub struct Index {
    child: Child,
    folder: tempfile::TempDir,
    port: u16,
    scheme: &'static str,
}

impl Index {
    pub fn start(description: &Value) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e_tests/poison/index.py");
        std::fs::write(folder.path().join("description"), description.to_string()).expect("written");
        let mut child = Command::new(python())
            .arg(script)
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a Python is there");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it says its port");
        let port = line.trim().parse().expect("a port");
        let scheme = if description.get("tls").is_some() { "https" } else { "http" };
        Self { child, folder, port, scheme }
    }

    pub fn of(packages: &[Value]) -> Self {
        Self::start(&json!({"packages": packages}))
    }

    /// Replaces its packages.
    pub fn publish(&self, packages: &[Value]) {
        let next = self.folder.path().join("next");
        std::fs::write(&next, json!({"packages": packages}).to_string()).expect("written");
        std::fs::rename(next, self.folder.path().join("description")).expect("replaced");
    }

    pub fn at(&self, path: &str) -> String {
        format!("{}://127.0.0.1:{}{path}", self.scheme, self.port)
    }

    pub fn with_user(&self, user: &str, path: &str) -> String {
        format!("{}://{user}@127.0.0.1:{}{path}", self.scheme, self.port)
    }

    /// Files below it are served as they are.
    pub fn static_folder(&self) -> PathBuf {
        let folder = self.folder.path().join("static");
        std::fs::create_dir_all(&folder).expect("made");
        folder
    }

    /// A line for each request: method, path, credentials.
    pub fn requests(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join("requests")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn python() -> PathBuf {
    std::env::var_os("E2E_PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from)
}

/// Whether the machine has a uv of its own. A test that needs one says that it is skipped.
pub fn has_uv(test: &str) -> bool {
    let there = Command::new(uv())
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !there {
        assert!(std::env::var_os("CI").is_none(), "CI has to set E2E_PYTHON, with uv beside it");
        crate::skipped::skipped(format_args!("{test}: there is no uv beside E2E_PYTHON or on PATH"));
    }
    there
}

/// The uv that the tests name to the program.
pub fn uv() -> PathBuf {
    std::env::var_os("E2E_PYTHON")
        .map_or_else(|| "uv".into(), |python| PathBuf::from(python).with_file_name("uv"))
}

/// What a run came to.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// The value of a line `NAME=value` that the script printed.
    pub fn value(&self, name: &str) -> &str {
        let line = self.stdout.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("{name} is not in {self:?}"))
    }

    pub fn succeeded(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }

    /// It failed before the script was started, with these words.
    pub fn refused(self, words: &[&str]) -> Self {
        assert_eq!(self.code, 125, "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "{word} is not in {}", self.stderr);
        }
        self
    }
}

/// One user of the machine.
pub struct Stage {
    home: tempfile::TempDir,
    pub env: BTreeMap<String, String>,
    pub flags: Vec<String>,
}

pub const SECRET: &str = "cnry-secret";

impl Stage {
    pub fn new(index: &str) -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(home.path().join(".ssh")).expect("made");
        std::fs::write(home.path().join(".ssh/id_ed25519"), SECRET).expect("written");
        let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
        let real_home = std::env::var("HOME").unwrap_or_default();
        let env = BTreeMap::from([
            ("HOME".to_owned(), text(home.path())),
            ("PATH".to_owned(), std::env::var("PATH").expect("set")),
            ("PYENV_ROOT".to_owned(), std::env::var("PYENV_ROOT").unwrap_or(format!("{real_home}/.pyenv"))),
            ("CANARY".to_owned(), SECRET.to_owned()),
            ("UV_DEFAULT_INDEX".to_owned(), index.to_owned()),
            ("UV_PYTHON_DOWNLOADS".to_owned(), "never".to_owned()),
        ]);
        let uv_path = text(&uv());
        let flags =
            ["--allow-http-index", "--no-warm-cache", "--uv-path", &uv_path].map(str::to_owned).to_vec();
        Self { home, env, flags }
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Where the program keeps everything.
    pub fn data(&self) -> PathBuf {
        self.home().join(".cache/mcp-python-exec-sandbox")
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-python-exec-sandbox"));
        command.args(&self.flags).args(args).env_clear().envs(&self.env).current_dir("/");
        command
    }

    /// Runs a script with these dependencies.
    pub fn run(&self, dependencies: &[&str], script: &str) -> Ran {
        self.run_with(dependencies, &["--timeout", "60"], script)
    }

    pub fn run_with(&self, dependencies: &[&str], flags: &[&str], script: &str) -> Ran {
        let file = self.home().join(format!("script-{}.py", unique()));
        std::fs::write(&file, script).expect("written");
        let mut args = vec!["run"];
        args.extend(flags);
        args.extend(dependencies.iter().flat_map(|dependency| ["--with", dependency]));
        args.push(file.to_str().expect("UTF-8"));
        let ran = finish(self.command(&args));
        let _ = std::fs::remove_file(file);
        ran
    }

    /// Builds and compiles an environment, so that nothing is written afterwards.
    pub fn warm(&self, dependencies: &[&str]) {
        let mut args = vec!["cache", "warm"];
        args.extend(dependencies.iter().flat_map(|dependency| ["--with", dependency]));
        finish(self.command(&args)).succeeded();
    }

    /// Everything that is kept, apart from locks: path, kind, permissions and content of each file.
    pub fn kept(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        for folder in ["environments", "packages", "python", "built", "resolutions", "uv"] {
            describe(&self.data().join(folder), &mut found);
        }
        found
    }
}

fn unique() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Runs to the end, or panics after a while.
pub fn finish(mut command: Command) -> Ran {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let (mut out, mut err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let stderr = std::thread::spawn(move || {
        let mut text = Vec::new();
        err.read_to_end(&mut text).map(|_| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
    });
    let stdout = std::thread::spawn(move || {
        let mut text = Vec::new();
        out.read_to_end(&mut text).map(|_| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
    });
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            break status;
        }
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("no end within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Ran {
        code: status.code().unwrap_or(-1),
        stdout: stdout.join().expect("read"),
        stderr: stderr.join().expect("read"),
    }
}

/// Path, kind, permissions, owner and content of everything below a folder.
pub fn describe(path: &Path, found: &mut BTreeMap<PathBuf, String>) {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return };
    let kind = if meta.is_dir() {
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            describe(&entry.path(), found);
        }
        "folder".to_owned()
    } else if meta.is_symlink() {
        format!("{:?}", std::fs::read_link(path))
    } else {
        format!("{:x}", Sha256::digest(std::fs::read(path).unwrap_or_default()))
    };
    found.insert(path.to_owned(), format!("{:o} {} {kind}", meta.mode(), meta.uid()));
}

/// Bytes of all files below a folder.
pub fn size(path: &Path) -> u64 {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return 0 };
    let below = std::fs::read_dir(path).into_iter().flatten().flatten();
    if meta.is_dir() { below.map(|entry| size(&entry.path())).sum() } else { meta.len() }
}

/// The entries in which two descriptions differ.
pub fn differences(before: &BTreeMap<PathBuf, String>, after: &BTreeMap<PathBuf, String>) -> Vec<PathBuf> {
    let all: std::collections::BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
    all.into_iter().filter(|path| before.get(*path) != after.get(*path)).cloned().collect()
}

/// A wheel with one module that says which version it is.
pub fn wheel(name: &str, version: &str) -> Value {
    let (file, text) = (format!("{name}.py"), format!("VERSION = {version:?}\n"));
    json!({"name": name, "version": version, "files": {file: text}})
}

/// Says why a test does nothing here; where CI provides for it, that is a failure.
pub fn skip(reason: &str) {
    assert!(std::env::var_os("CI").is_none(), "{reason}");
    crate::skipped::skipped(format_args!("{reason}"));
}
