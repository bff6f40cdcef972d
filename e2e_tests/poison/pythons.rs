//! Interpreters that are not on the machine are installed by uv from where the user's settings say, and scripts, packages and
//! stateful sandboxes work on each.

use serde_json::{Value, json};

use crate::server::Server;
use crate::stage::{Index, Stage, skip, wheel};

const VERSIONS: [&str; 3] = ["3.13", "3.14", "3.15"];

/// A user with nothing but the system's own Python, and a list of archives to install others from (`TEST_PYTHON_DOWNLOADS`, as
/// uv's own variable has it).
fn stage(index: &Index) -> Option<Stage> {
    let Ok(list) = std::env::var("TEST_PYTHON_DOWNLOADS") else {
        skip("installing interpreters: TEST_PYTHON_DOWNLOADS names no list of archives");
        return None;
    };
    let mut stage = Stage::new(&index.at("/simple"));
    for (name, value) in [
        ("UV_PYTHON_DOWNLOADS", "automatic"),
        ("UV_PYTHON_DOWNLOADS_JSON_URL", &list),
        ("PATH", "/usr/bin:/bin"),
        ("PYENV_ROOT", "/nonexistent"),
    ] {
        stage.env.insert(name.to_owned(), value.to_owned());
    }
    Some(stage)
}

fn arguments(version: &str) -> Value {
    let script = "import alpha, sys; print('VERSION=%d.%d' % sys.version_info[:2])";
    json!({"script": script, "dependencies": ["alpha"], "python_version": version, "timeout_seconds": 200})
}

#[test]
fn each_version_is_installed_said_once_compiled_and_used_by_scripts_and_sandboxes() {
    let index = Index::of(&[wheel("alpha", "1.0")]);
    let Some(stage) = stage(&index) else { return };
    let mut server = Server::start(&stage, &[]);
    for version in VERSIONS {
        // Calls that find it missing at the same time: one installs it.
        for first in server.calls(3, &arguments(version)) {
            let first = first.to_string();
            assert!(first.contains(&format!("VERSION={version}")), "{first}");
            assert!(first.contains(&format!("was installed: {version} was asked for")), "{first}");
        }
        let second = server.calls(1, &arguments(version))[0].to_string();
        assert!(second.contains("VERSION=") && !second.contains("was installed"), "{second}");
    }
    for (range, version) in [(">=3.14,<3.15", "3.14"), (">3.14.99", "3.15"), (">=3.11", "3.13")] {
        let script = format!(
            "# /// script\n# requires-python = '{range}'\n# ///\nimport sys; print('VERSION=%d.%d' % sys.version_info[:2])"
        );
        let answer = server.calls(1, &json!({"script": script}))[0].to_string();
        assert!(answer.contains(&format!("VERSION={version}")), "{range}: {answer}");
        let told = answer.contains("was chosen because of requires-python");
        assert_eq!(told, version != "3.13", "{range}: {answer}");
    }
    let compiled = |version: &&str| {
        let kept = stage.kept();
        let holds = |path: &std::path::Path, end: &str| {
            path.to_string_lossy().contains(&format!("/python/cpython-{version}."))
                && path.to_string_lossy().ends_with(end)
        };
        kept.keys().any(|path| holds(path, "/.library-compiled"))
            && kept.keys().filter(|path| holds(path, ".pyc")).count() > 400
    };
    crate::sharing::wait_for("bytecode of the standard libraries", || VERSIONS.iter().all(compiled));
    drop(server);

    for version in VERSIONS {
        let mut server = Server::start(&stage, &["--python-version", version]);
        let mut tell = |tool: &str, arguments: Value| server.call(tool, &arguments).to_string();
        tell("create_sandbox", json!({"session_id": "s"}));
        let code = |code: &str| json!({"session_id": "s", "code": code});
        tell("execute_code", code("import sys; kept = sys.version_info[:2]"));
        let told = tell("execute_code", code("print('VERSION=%d.%d' % kept)"));
        assert!(told.contains(&format!("VERSION={version}")), "{told}");
        tell("install_package", json!({"session_id": "s", "package_name": "alpha"}));
        let told = tell("execute_code", code("import alpha; print('ALPHA=' + alpha.VERSION)"));
        assert!(told.contains("ALPHA=1.0"), "{version}: {told}");
    }
}

#[test]
fn what_a_script_requires_is_installed_and_the_result_says_why() {
    let index = Index::of(&[]);
    let Some(stage) = stage(&index) else { return };
    let script = "# /// script\n# requires-python = '>=3.15'\n# ///\nimport sys; print('VERSION=%d.%d' % sys.version_info[:2])";
    let ran = stage.run_with(&[], &["--timeout", "110"], script).succeeded();
    assert_eq!(ran.value("VERSION"), "3.15");
    assert!(ran.stderr.contains("was installed because of requires-python >=3.15"), "{ran:?}");
    let again = stage.run(&[], script).succeeded();
    assert!(again.stderr.contains("was chosen because of requires-python >=3.15"), "{again:?}");
    stage.run(&[], &script.replace(">=3.15", ">=3.99")).refused(&["no Python >=3.99", "Available: 3.15"]);
}
