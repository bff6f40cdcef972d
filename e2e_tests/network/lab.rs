//! Runs a script in a sandbox in the lab, and tells what came of it.

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::client::{binary, common_flags};

/// What every script starts with: a line for each thing it finds, `name value`.
const PRELUDE: &str = r#"
import errno, fcntl, os, select, socket, struct, sys, threading, time

def told(name, act):
    try:
        value = act()
    except OSError as error:
        value = errno.errorcode.get(error.errno, repr(error)) if error.errno else repr(error)
    except Exception as error:
        value = repr(error)
    print(name, value, flush=True)

def tcp(family=socket.AF_INET):
    return socket.socket(family, socket.SOCK_STREAM)

def greeting(host, port=7000, timeout=5):
    with socket.create_connection((host, port), timeout=timeout) as stream:
        return stream.recv(6).decode().strip()

WORLD = "93.184.216.34"
"#;

/// What came of a run.
pub struct Told {
    pub text: String,
    pub errors: String,
    pub code: i64,
    /// Services of the machine that somebody has come to.
    pub seen: Value,
}

impl Told {
    /// What the script said of this.
    pub fn of(&self, name: &str) -> &str {
        let found = self.text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("nothing is told of {name}:\n{}\n{}", self.text, self.errors))
    }

    pub fn assert(&self, expected: &[(&str, &str)]) {
        for (name, value) in expected {
            assert_eq!(self.of(name), *value, "{name}\n{}\n{}", self.text, self.errors);
        }
    }

    pub fn assert_nobody_came(&self) {
        assert_eq!(self.seen, serde_json::json!({}), "services of the machine were reached\n{}", self.text);
    }
}

/// Who runs the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum As {
    /// Whoever runs the tests; an ordinary user becomes root of the lab alone.
    Caller,
    /// An ordinary user, on a machine that is root's. Needs root.
    User,
}

/// Runs a script in the lab; `None` where no lab can be made.
pub fn run(script: &str, flags: &[&str], who: As) -> Option<Told> {
    run_with(script, flags, who, &[])
}

/// As [`run`], with variables in the server's environment.
pub fn run_with(script: &str, flags: &[&str], who: As, variables: &[(&str, &str)]) -> Option<Told> {
    let user = std::env::var("TEST_USER").unwrap_or_else(|_| "nobody".to_owned());
    let is_root = rustix::process::geteuid().is_root();
    if who == As::User && !is_root {
        crate::skipped::skipped("only root can run the server as somebody else in a lab of root's");
        return None;
    }
    let namespaces = if is_root { "-nm" } else { "-Urnm" };
    let can = Command::new("unshare").args([namespaces, "ip", "link"]).stdout(Stdio::null()).status();
    if !can.is_ok_and(|status| status.success()) {
        return skipped("namespaces cannot be made, or unshare and ip are not installed");
    }
    let folder =
        tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir().expect("a folder");
    let file = folder.path().join("script.py");
    let mut opened = std::fs::File::create(&file).expect("made");
    opened.write_all([PRELUDE, script].concat().as_bytes()).expect("written");
    opened.set_permissions(Permissions::from_mode(0o644)).expect("set");
    let lab = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("e2e_tests/network/lab.py");
    let mut command = Command::new("unshare");
    command.args([namespaces, "python3"]).arg(lab).arg(&file).arg(python_version());
    let mut common = common_flags(flags);
    if who == As::User {
        let copy = folder.path().join("server");
        std::fs::copy(binary(), &copy).expect("copied");
        command.args(["setpriv", "--reuid", &user, "--regid", "nogroup", "--clear-groups"]).arg(copy);
        common[1] = std::env::temp_dir().join(format!("mcp-e2e-data-of-{user}")).display().to_string();
    } else {
        command.arg(binary());
    }
    command.envs(variables.iter().copied());
    let output = command.args(common).args(flags).stdin(Stdio::null()).output().expect("unshare was there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = text.lines().find_map(|line| line.strip_prefix("lab: "));
    let report: Value =
        serde_json::from_str(report.unwrap_or_else(|| panic!("no report:\n{text}\n{errors}")))
            .expect("the lab's report is JSON");
    Some(Told { code: report["code"].as_i64().unwrap_or(-1), seen: report["seen"].clone(), text, errors })
}

pub fn skipped<T>(why: &str) -> Option<T> {
    assert!(std::env::var_os("CI").is_none(), "not skipped in CI: {why}");
    crate::skipped::skipped(format_args!("{why}"));
    None
}

/// The machine's own Python: nothing has to be installed in a lab that has no package index.
fn python_version() -> String {
    let words = "import sys; print('%d.%d' % sys.version_info[:2])";
    let output = Command::new("python3").args(["-c", words]).output().expect("these tests need python3");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
