//! `--seccomp-policy`: a reviewed policy of the user's own stands in place of the embedded one, whole or not at all.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::backend::differs;
use crate::client::{binary, common_flags};

/// A rule more, for the role that runs scripts.
const REFUSING: &str =
    "\n[[override]]\ncalls = [\"getpriority\"]\nanswer = \"EACCES\"\nreason = \"a test\"\n";

const SCRIPT: &str = "import os\ntry:\n    os.getpriority(0, 0)\n    print('allowed')\nexcept OSError as error:\n    print(error.errno)\n";

/// The embedded policy in a folder, to be changed.
struct Policy(tempfile::TempDir);

impl Policy {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let output = Command::new(binary())
            .args(["policy", "export", "folder"])
            .arg(folder.path())
            .output()
            .expect("it starts");
        assert!(output.status.success(), "{output:?}");
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// The file for scripts on this machine.
    fn run(&self) -> PathBuf {
        self.path().join(std::env::consts::ARCH).join("run.toml")
    }

    fn change(file: &Path, change: impl FnOnce(String) -> String) {
        let text = fs::read_to_string(file).expect("it was exported");
        fs::write(file, change(text)).expect("it is written");
    }

    /// The file that decides about a call for every role.
    fn file_with(&self, call: &str) -> PathBuf {
        let files = fs::read_dir(self.path().join("shared"))
            .expect("listed")
            .map(|entry| entry.expect("listed").path());
        let holds = |path: &PathBuf| fs::read_to_string(path).is_ok_and(|text| text.contains(call));
        files.filter(|path| path.is_file()).find(holds).expect("one file names it")
    }

    fn command(&self, args: &[&str]) -> Output {
        let mut command = Command::new(binary());
        command.args(args).args(common_flags(args)).arg("--seccomp-policy").arg(self.path());
        command.stdin(Stdio::null()).output().expect("it starts")
    }

    /// Runs the script with this policy.
    fn script(&self, flags: &[&str]) -> String {
        let file = self.path().join("script.py");
        fs::write(&file, SCRIPT).expect("written");
        let output = self.command(&[&["run", file.to_str().expect("UTF-8")], flags].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

#[test]
fn a_policy_of_the_user_s_own_decides() {
    let policy = Policy::new();
    assert_eq!(policy.script(&[]), "allowed\n");
    Policy::change(&policy.run(), |text| text + REFUSING);
    for network in ["host", "none"] {
        assert_eq!(policy.script(&["--network", network]), "13\n", "{network}");
    }
    let doctor = policy.command(&["doctor"]);
    let (words, folder) = (String::from_utf8_lossy(&doctor.stdout), policy.path().display().to_string());
    assert!(words.contains(&format!("policy of {folder}")), "{words}");
    if differs("`run --explain`") {
        return;
    }
    let script = policy.path().join("script.py");
    let plan = policy.command(&["run", script.to_str().expect("UTF-8"), "--explain"]);
    assert!(String::from_utf8_lossy(&plan.stdout).contains(&folder), "{plan:?}");
}

/// Nothing is run, and the words have the mistake with its file and line.
fn assert_refused(policy: &Policy, args: &[&str], mistake: &str) {
    let output = policy.command(args);
    let words = String::from_utf8_lossy(&output.stderr);
    let line =
        words.lines().find(|line| line.contains(mistake)).unwrap_or_else(|| panic!("{args:?}: {words}"));
    let place = line.split(": ").next().unwrap_or_default();
    let number = place.rsplit_once(".toml:").map(|(_, number)| number.parse::<u32>());
    assert!(matches!(number, Some(Ok(1..))), "{line}");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), &b""[..]), "{args:?}");
}

#[test]
fn a_policy_with_a_mistake_is_refused_at_start() {
    let rules = [
        ("rule", "[\"no_such_call\"]", "\"allow\"", "`no_such_call` is not a system call of"),
        ("rule", "[\"getpriority\"]", "\"allow\"", "`getpriority` already has a decision at shared/"),
        ("override", "[\"getpriority\"]", "13", "invalid type: integer"),
        ("override", "\"getpriority\"", "\"allow\"", "invalid type: string"),
        ("override", "[\"getpriority\"]", "\"notify\"", "nothing answers for it"),
    ];
    // Whichever way the program is started.
    let ways: [&[&str]; 3] = [&[], &["doctor"], &["run", "/dev/null"]];
    for ((kind, calls, answer, mistake), args) in rules.into_iter().zip(ways.into_iter().cycle()) {
        let policy = Policy::new();
        let rule = format!("\n[[{kind}]]\ncalls = {calls}\nanswer = {answer}\nreason = \"a test\"\n");
        Policy::change(&policy.run(), |text| text + &rule);
        assert_refused(&policy, args, mistake);
    }
    let policy = Policy::new();
    let undecided = |text: String| text.replace("\"getpriority\", ", "");
    Policy::change(&policy.file_with("\"getpriority\""), undecided);
    assert_refused(&policy, &[], "no decision on 1 system call of");
}

#[test]
fn a_folder_without_a_policy_is_refused_at_start() {
    let start = |folder: &str, more: &[&str]| {
        let flags = [&["--seccomp-policy", folder], more].concat();
        let output =
            Command::new(binary()).args(&flags).args(common_flags(&flags)).stdin(Stdio::null()).output();
        let output = output.expect("it starts");
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let empty = tempfile::tempdir().expect("a temporary folder");
    let empty = empty.path().to_str().expect("UTF-8");
    assert!(start("/no/such/folder", &[]).contains("--seccomp-policy: /no/such/folder: No such file"));
    assert!(start(empty, &[]).contains("policy export folder"), "{}", start(empty, &[]));
    let policy = Policy::new();
    let unused = start(policy.path().to_str().expect("UTF-8"), &["--sandbox-backend", "none"]);
    assert!(unused.contains("does nothing with --sandbox-backend none"), "{unused}");
}
