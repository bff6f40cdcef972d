//! Lines as they are read back, files that cannot be written, and calls that are dropped.

use super::*;
use std::path::Path;

fn settings(file: &Path, scripts: Scripts) -> AuditSettings {
    AuditSettings { file: file.to_owned(), scripts }
}

fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("there");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_call_is_one_line_with_every_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("audit.jsonl");
    let log = AuditLog::open(settings(&file, Scripts::Hash), Limits::default()).expect("writable");
    log.set_tier(Tier::Full);
    let caller = Caller {
        client: Some(("agent".to_owned(), "1.2".to_owned())),
        traceparent: Some("00-11-22-01".to_owned()),
    };
    let entry = Entry::begin(Some(&log), "execute_python", caller);
    let script = "# /// script\n# dependencies = [\"rich\"]\n# ///\nprint('\u{2028}')\n";
    let arguments = serde_json::json!({"script": script, "dependencies": ["six"]});
    entry.arguments(arguments.as_object().expect("an object"));
    entry.environment("abc");
    entry.exit(3);
    entry.end(Outcome::Answered).expect("written");
    drop(Entry::begin(Some(&log), "list_files", Caller::default()));
    let lines = lines(&file);
    let [first, second] = lines.as_slice() else { panic!("{lines:?}") };
    for (key, value) in [
        ("client", serde_json::json!({"name": "agent", "version": "1.2"})),
        ("tool", "execute_python".into()),
        ("script_sha256", "ad3f844c203167e5cf733bd815e33f44ba1decc92b845183f0fc1ddaf8a63e90".into()),
        ("traceparent", "00-11-22-01".into()),
        ("dependencies", serde_json::json!(["rich", "six"])),
        ("environment", "abc".into()),
        ("tier", "full".into()),
        ("outcome", "answered".into()),
        ("exit", 3.into()),
        ("failure", Value::Null),
    ] {
        assert_eq!(first[key], value, "{key}");
    }
    assert_eq!((&second["outcome"], &second["client"]), (&"dropped".into(), &Value::Null));
    let keys = |line: &Value| line.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(first), keys(second));
    assert!(!std::fs::read_to_string(&file).expect("there").contains("print"));
}

#[cfg(unix)]
#[test]
fn the_file_is_its_owners_alone_and_texts_are_there_when_asked_for() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("audit.jsonl");
    let log = AuditLog::open(settings(&file, Scripts::Text), Limits::default()).expect("writable");
    let mode = std::fs::metadata(&file).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let entry = Entry::begin(Some(&log), "execute_code", Caller::default());
    entry.arguments(serde_json::json!({"code": "1 + 1", "session_id": "s"}).as_object().expect("an object"));
    entry.end(Outcome::Failed).expect("written");
    let lines = lines(&file);
    assert_eq!((&lines[0]["script"], &lines[0]["session"]), (&"1 + 1".into(), &"s".into()));
}

#[test]
fn lines_of_several_logs_on_one_file_stay_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("audit.jsonl");
    let code = "x".repeat(20_000);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let log =
                    AuditLog::open(settings(&file, Scripts::Text), Limits::default()).expect("writable");
                for _ in 0..50 {
                    let entry = Entry::begin(Some(&log), "execute_code", Caller::default());
                    entry.arguments(serde_json::json!({"code": code}).as_object().expect("an object"));
                    entry.end(Outcome::Answered).expect("written");
                }
            });
        }
    });
    assert_eq!(lines(&file).len(), 200);
}

#[test]
fn what_cannot_be_written_is_an_error_at_start_and_later() {
    let folder = tempfile::tempdir().expect("a folder");
    for file in [folder.path().join("no/such/folder.jsonl"), folder.path().to_owned()] {
        let error = AuditLog::open(settings(&file, Scripts::Hash), Limits::default()).expect_err("refused");
        assert!(
            error.to_string().starts_with(&format!("the audit log {} cannot be written: ", file.display()))
        );
    }
    let device = AuditLog::open(settings(Path::new("/dev/null"), Scripts::Hash), Limits::default());
    assert!(device.expect_err("refused").to_string().ends_with("it is no regular file"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("audit.jsonl");
    let mut log = AuditLog::open(settings(&file, Scripts::Hash), Limits::default()).expect("writable");
    // A device that is always full takes the place of the file.
    let full = OpenOptions::new().append(true).open("/dev/full").expect("Linux has it");
    Arc::get_mut(&mut log).expect("not shared").file = Mutex::new(full);
    let entry = Entry::begin(Some(&log), "execute_python", Caller::default());
    let error = entry.end(Outcome::Answered).expect_err("nothing can be written");
    assert!(error.to_string().contains("audit.jsonl cannot be written: No space left"), "{error}");
}
