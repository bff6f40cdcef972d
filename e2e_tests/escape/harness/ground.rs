//! The place where a property is tried: one user, a folder of its own, the real server, and plain Python outside.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::property::Outside;

/// Seconds for one run: an emulated machine takes half a minute for the first, and minutes for hundreds of processes.
const RUN_TAKES: &str = "300";

/// Names and numbers of this architecture's system calls.
#[cfg(target_arch = "x86_64")]
const SYSTEM_CALLS: &str = include_str!("../../../seccomp/syscalls/x86_64.tbl");
#[cfg(target_arch = "aarch64")]
const SYSTEM_CALLS: &str = include_str!("../../../seccomp/syscalls/aarch64.tbl");

/// Who runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// For reports.
    pub name: String,
    /// User and group id; `None` stays what this process is.
    pub ids: Option<(u32, u32)>,
    /// Whether that is root.
    pub is_root: bool,
}

/// One property's place. The folder is removed when it is dropped.
pub struct Ground {
    /// Who runs.
    pub user: User,
    /// A folder of the user's own, with nothing in it but what the property puts there.
    pub folder: tempfile::TempDir,
    /// The server.
    pub binary: PathBuf,
    /// Home of the server: shared by all properties of one user, so that environments are made once.
    pub home: PathBuf,
    /// Whether the tier is the confined one.
    pub confined: bool,
    /// Words in front of the server's command line, which take from it what a tier must do without.
    pub wrapper: Vec<OsString>,
}

/// What may be different about a run.
#[derive(Clone, Default)]
pub struct Options {
    /// Variables of the server.
    pub env: BTreeMap<String, OsString>,
    /// Working directory of the server.
    pub cwd: Option<PathBuf>,
    /// Supplementary groups of what is started; only where the suite runs as root.
    pub groups: Vec<u32>,
    /// What lies on the server's standard input; nothing otherwise.
    pub stdin: Option<&'static str>,
    /// Python code that becomes the server (or, outside, the probe): it may open descriptors first. `COMMAND` is what
    /// it has to execute.
    pub by: Option<&'static str>,
}

/// The Python of this machine: for controls, and for what the harness itself does in another process.
pub fn python() -> PathBuf {
    std::env::var_os("ESCAPE_PYTHON").map_or_else(|| "/usr/bin/python3".into(), PathBuf::from)
}

/// Waits until a condition holds, for at most ten seconds. Says whether it came to hold.
pub fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if holds() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Ground {
    /// A file in the property's folder that belongs to the user and that only the user can read.
    pub fn file(&self, name: &str, content: &str) -> Result<PathBuf, String> {
        let path = self.folder.path().join(name);
        let parent = path.parent().unwrap_or(&path).to_owned();
        fs::create_dir_all(&parent).map_err(|error| format!("{}: {error}", parent.display()))?;
        fs::write(&path, content).map_err(|error| format!("{}: {error}", path.display()))?;
        let _ = fs::set_permissions(&path, fs::Permissions::from_mode(0o600));
        let mut owned = path.as_path();
        while owned != self.folder.path() {
            self.give(owned)?;
            owned = owned.parent().unwrap_or(self.folder.path());
        }
        Ok(path)
    }

    /// Hands a file or folder to the user.
    pub fn give(&self, path: &Path) -> Result<(), String> {
        let Some((uid, gid)) = self.user.ids else { return Ok(()) };
        std::os::unix::fs::lchown(path, Some(uid), Some(gid))
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// A command that runs as the user, with nothing of this process's environment but what is needed.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>, options: &Options) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("HOME", &self.home).env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.envs(&options.env);
        command.current_dir(options.cwd.as_deref().unwrap_or_else(|| self.folder.path()));
        if !options.groups.is_empty() {
            become_member(&mut command, options.groups.clone(), self.user.ids);
        } else if let Some((uid, gid)) = self.user.ids {
            command.gid(gid).uid(uid);
        }
        command
    }

    /// The probe's text with the prelude and what it is told.
    pub fn script(
        &self,
        probe: &str,
        args: &serde_json::Map<String, serde_json::Value>,
        skip: &[&str],
    ) -> String {
        let pairs = SYSTEM_CALLS.lines().filter(|line| !line.starts_with('#'));
        let numbers: BTreeMap<&str, u32> = pairs
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(number, name)| Some((name.trim(), number.parse().ok()?)))
            .collect();
        // A JSON text as a JSON string is a Python string literal too.
        let literal = |value: serde_json::Value| serde_json::Value::String(value.to_string()).to_string();
        format!(
            "{}\nNR = json.loads({})\nARGS = json.loads({})\nSKIP = json.loads({})\n{probe}\nprint('@end', flush=True)\n",
            include_str!("prelude.py"),
            literal(serde_json::json!(numbers)),
            literal(serde_json::Value::Object(args.clone())),
            literal(serde_json::json!(skip)),
        )
    }

    /// Runs a script in a sandbox by the real server.
    pub fn inside(&self, script: &str, flags: &[&str], options: &Options) -> Result<Output, String> {
        let child = self.start_inside(script, flags, options)?;
        finish(child, options)
    }

    /// Starts a script in a sandbox by the real server.
    pub fn start_inside(&self, script: &str, flags: &[&str], options: &Options) -> Result<Child, String> {
        let file = self.file(&format!("inside-{}.py", unique()), script)?;
        let mut words: Vec<OsString> = vec![self.binary.clone().into()];
        words.extend(self.server_flags(flags));
        words.extend(["run".into(), "--timeout".into(), RUN_TAKES.into(), file.into()]);
        self.spawn(words, options)
    }

    /// Flags of every start of the server.
    pub fn server_flags(&self, flags: &[&str]) -> Vec<OsString> {
        let uv = std::env::var_os("ESCAPE_UV").map(|uv| ["--uv-path".into(), uv]);
        let mut words: Vec<OsString> = uv.into_iter().flatten().collect();
        // A tier that is not the one to try would answer in its place.
        words.extend(["--require-sandbox".into(), if self.confined { "confined" } else { "full" }.into()]);
        words.extend(flags.iter().map(OsString::from));
        words
    }

    /// Starts a command line behind the tier's wrapper.
    pub fn spawn(&self, words: Vec<OsString>, options: &Options) -> Result<Child, String> {
        self.spawn_plain(self.wrapper.iter().cloned().chain(words).collect(), options)
    }

    fn spawn_plain(&self, words: Vec<OsString>, options: &Options) -> Result<Child, String> {
        let mut words = words;
        if let Some(by) = options.by {
            let code =
                format!("import os, sys\nCOMMAND = sys.argv[1:]\n{by}\nos.execv(COMMAND[0], COMMAND)\n");
            words = [python().into(), "-c".into(), code.into()].into_iter().chain(words).collect();
        }
        let mut command = self.command(&words[0], options);
        command.args(&words[1..]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(if options.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.process_group(0);
        command.spawn().map_err(|error| format!("{}: {error}", words[0].display()))
    }

    /// Runs a script by the machine's own Python: the control.
    pub fn outside(&self, script: &str, place: Outside, options: &Options) -> Result<Output, String> {
        let script = match place {
            Outside::Plain => script.to_owned(),
            Outside::Private => script.replacen("\nARGS = ", "\nenter_private_namespaces()\nARGS = ", 1),
        };
        let file = self.file(&format!("outside-{}.py", unique()), &script)?;
        let words = vec![python().into(), "-I".into(), file.into()];
        finish(self.spawn_plain(words, options)?, options)
    }
}

impl Ground {
    /// Starts a script by the machine's own Python.
    pub fn start_outside(&self, script: &str, options: &Options) -> Result<Child, String> {
        let file = self.file(&format!("outside-{}.py", unique()), script)?;
        self.spawn_plain(vec![python().into(), "-I".into(), file.into()], options)
    }

    /// Runs a script in a sandbox to its end; its attempts and their outcomes.
    pub fn attempts(&self, script: &str) -> Result<BTreeMap<String, String>, String> {
        let output = self.inside(script, &["--network", "none"], &Options::default())?;
        let stdout = String::from_utf8_lossy(&output.stdout);
        if !stdout.lines().any(|line| line == "@end") {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(format!("the script did not reach its end ({}): {stderr}", output.status));
        }
        let pairs = stdout.lines().filter_map(|line| line.strip_prefix('@')?.split_once('\t'));
        Ok(pairs.map(|(label, outcome)| (label.to_owned(), outcome.to_owned())).collect())
    }

    /// A word that no other process on this machine has on its command line.
    #[allow(clippy::unused_self, reason = "reads as a property of the place")]
    pub fn marker(&self) -> String {
        format!("escape-marker-{}-{}", std::process::id(), unique())
    }

    /// Processes whose first word is the marker, as the host sees them.
    #[allow(clippy::unused_self, reason = "reads as a property of the place")]
    pub fn processes_with(&self, marker: &str) -> Vec<u32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).next() == Some(marker.as_bytes())
        })
        .collect()
    }

    /// Ends what a control, or a property that did not hold, left behind.
    pub fn end_processes_with(&self, marker: &str) {
        for pid in self.processes_with(marker) {
            if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

/// Has a command run with these groups, as another user where there is one.
fn become_member(command: &mut Command, groups: Vec<u32>, ids: Option<(u32, u32)>) {
    let become_it = move || {
        // SAFETY: the list is as long as is said and outlives the call; the other calls take no pointers.
        let done = unsafe {
            libc::setgroups(groups.len(), groups.as_ptr()) == 0
                && ids.is_none_or(|(uid, gid)| {
                    libc::setresgid(gid, gid, gid) == 0 && libc::setresuid(uid, uid, uid) == 0
                })
        };
        if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec only system calls are made, with data that was allocated before.
    unsafe { command.pre_exec(become_it) };
}

/// Feeds standard input and waits for the end.
pub fn finish(mut child: Child, options: &Options) -> Result<Output, String> {
    if let (Some(text), Some(mut stdin)) = (options.stdin, child.stdin.take()) {
        // Where nobody reads it, that is what a property may be about.
        let _ = stdin.write_all(text.as_bytes());
    }
    child.wait_with_output().map_err(|error| error.to_string())
}

/// A number that no other call of this process gives.
pub fn unique() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}
