//! Build code of a package that has no wheel.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::stage::{Index, SECRET, Stage, differences, wheel};

/// Source code whose build is this Python; it gives the files of the wheel.
fn source(name: &str, version: &str, build: &str) -> Value {
    let body = format!("    {}\n", build.replace('\n', "\n    "));
    json!({"name": name, "version": version, "sdist": format!("def build():\n{body}")})
}

/// A build that does nothing but build.
fn harmless(name: &str, version: &str) -> Value {
    source(name, version, &format!("return {{'{name}.py': 'VERSION = {version:?}\\n'}}"))
}

/// A build that looks around and tells in its module what it saw.
fn curious(home: &str, data: &str) -> Value {
    let build = format!(
        "import os, signal, subprocess, sys\n\
         seen = {{'env': sorted(os.environ), 'secret': any({SECRET:?} in value for value in os.environ.values())}}\n\
         def attempt(name, work):\n\
         \x20   try:\n\
         \x20       work(); seen[name] = 'DONE'\n\
         \x20   except Exception as error:\n\
         \x20       seen[name] = type(error).__name__\n\
         attempt('read key', lambda: open({home:?} + '/.ssh/id_ed25519').read())\n\
         attempt('write home', lambda: open({home:?} + '/pwned', 'w'))\n\
         attempt('write cache', lambda: open({data:?} + '/packages/native/pwned', 'w'))\n\
         attempt('read cache', lambda: os.listdir({data:?} + '/packages/native'))\n\
         attempt('write store', lambda: open({data:?} + '/environments/pwned', 'w'))\n\
         attempt('write environment', lambda: open(sys.prefix + '/pwned', 'w'))\n\
         attempt('write library', lambda: open(os.path.dirname(os.__file__) + '/pwned', 'w'))\n\
         attempt('control', lambda: open('/tmp/pwned', 'w'))\n\
         if os.fork() == 0:\n\
         \x20   os.setsid(); os.execvp('sleep', ['sleep', '600'])\n\
         attempt('parent', lambda: [os.kill(os.getppid(), number) for number in (15, 2)])\n\
         return {{'curious.py': 'SEEN = ' + repr(seen) + chr(10)}}"
    );
    source("curious", "1", &build)
}

#[test]
fn a_package_without_a_wheel_is_built_once_and_said() {
    let needy = json!({"name": "needy", "version": "1", "files": {"needy.py": ""}, "requires": ["old<2"]});
    let index = Index::of(&[needy, harmless("old", "1.5"), harmless("old", "2.0"), wheel("beta", "1")]);
    let stage = Stage::new(&index.at("/simple"));
    let script = "import needy, old; print('VERSION=' + old.VERSION)";
    let ran = stage.run(&["needy"], script).succeeded();
    assert_eq!(ran.value("VERSION"), "1.5");
    assert!(ran.stderr.contains("built old 1.5 from source"), "{}", ran.stderr);
    // Another set with the same package, and another process: the wheel is there already.
    let again = stage.run(&["old<2", "beta"], script.replace("needy, ", "").as_str()).succeeded();
    assert_eq!(again.value("VERSION"), "1.5");
    assert_eq!(std::fs::read_dir(stage.data().join("built")).expect("there").count(), 1);
}

#[test]
fn real_metadata_comes_from_the_build_and_an_earlier_version_is_taken_where_it_fits() {
    let mut fits = harmless("old", "1.0");
    fits["requires"] = json!(["beta>=1"]);
    let mut conflicts = harmless("old", "2.0");
    conflicts["requires"] = json!(["beta>=9"]);
    let index = Index::of(&[fits, conflicts, wheel("beta", "1.0")]);
    let stage = Stage::new(&index.at("/simple"));
    let ran = stage.run(&["old"], "import old, beta; print('VERSION=' + old.VERSION)").succeeded();
    assert_eq!(ran.value("VERSION"), "1.0");
}

#[test]
fn no_build_refuses_with_the_name_and_the_setting() {
    let index = Index::of(&[harmless("old", "1.0")]);
    let mut stage = Stage::new(&index.at("/simple"));
    let closed = "# /// script\n# dependencies = ['old']\n# [tool.uv]\n# no-build = true\n# ///\npass\n";
    stage.run(&[], closed).refused(&["old has no wheel", "no-build setting"]);
    stage.flags.push("--no-build".to_owned());
    stage.run(&["old"], "pass").refused(&["old has no wheel", "--no-build"]);
    assert!(!index.requests().iter().any(|request| request.contains("/files/old")), "{:?}", index.requests());
}

#[test]
fn build_code_sees_and_reaches_nothing() {
    // The folders are known only once the stage stands, and the stage needs the index first.
    let mut stage = Stage::new("");
    let (home, data) = (stage.home().display().to_string(), stage.data().display().to_string());
    let index = Index::of(&[curious(&home, &data), wheel("alpha", "1.0")]);
    stage.env.insert("UV_DEFAULT_INDEX".to_owned(), index.at("/simple"));
    stage.warm(&["alpha"]);
    let before = stage.kept();
    let ran = stage
        .run(&["curious"], "import curious, json; print('SEEN=' + json.dumps(curious.SEEN))")
        .succeeded();
    let seen: Value = serde_json::from_str(ran.value("SEEN")).expect("JSON");
    assert_eq!((&seen["secret"], &seen["control"]), (&json!(false), &json!("DONE")), "{seen}");
    // Where the home folder lies below /tmp, its place is inside the sandbox's own /tmp: there may be written, and what
    // counts is that nothing comes of it.
    for attempt in ["read key", "read cache", "write environment", "write library"] {
        let outcome = seen[attempt].as_str().expect("it was tried");
        assert!(
            ["PermissionError", "FileNotFoundError", "OSError"].contains(&outcome),
            "{attempt}: {outcome}"
        );
    }
    for place in [stage.home().join("pwned"), stage.data().join("environments/pwned")] {
        assert!(!place.exists(), "{}", place.display());
    }
    assert!(!stage.data().join("packages/native/pwned").exists());
    let names: Vec<&str> = seen["env"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert!(
        !names.iter().any(|name| name.starts_with("UV_") || name.starts_with("FETCH_") || *name == "CANARY"),
        "{names:?}"
    );
    let lost: Vec<_> = differences(&before, &stage.kept())
        .into_iter()
        .filter(|path| before.contains_key(path) && !path.is_dir())
        .collect();
    assert_eq!(lost, Vec::<std::path::PathBuf>::new());
}

/// Live processes with this argument on their command line.
fn living(argument: &str) -> usize {
    let entries = std::fs::read_dir("/proc").expect("/proc is there").flatten();
    entries
        .filter(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|part| part == argument.as_bytes())
        })
        .count()
}

#[test]
fn a_build_that_does_not_end_is_ended_at_the_deadline_with_everything_it_started() {
    let marker = format!("{}.5", 600_000 + std::process::id());
    let build = format!(
        "import subprocess\nfor n in range(3): subprocess.Popen(['sleep', {marker:?}], start_new_session=True)\nimport time; time.sleep(300)"
    );
    let index = Index::of(&[source("slow", "1", &build)]);
    let stage = Stage::new(&index.at("/simple"));
    let start = Instant::now();
    let ran = stage.run_with(&["slow"], &["--timeout", "8"], "print('ran')");
    assert!(start.elapsed() < Duration::from_secs(16), "{:?}", start.elapsed());
    assert!(!ran.stdout.contains("ran"));
    ran.refused(&["building slow 1 from source"]);
    assert_eq!(living(&marker), 0);
    assert!(std::fs::read_dir(stage.data().join("jobs")).expect("there").next().is_none());
}

#[test]
fn a_build_that_is_interrupted_leaves_nothing() {
    let marker = format!("{}.25", 600_000 + std::process::id());
    let build = format!(
        "import subprocess\nsubprocess.Popen(['sleep', {marker:?}], start_new_session=True)\nimport time; time.sleep(300)"
    );
    let index = Index::of(&[source("slow", "1", &build)]);
    let stage = Stage::new(&index.at("/simple"));
    let script = stage.home().join("pass.py");
    std::fs::write(&script, "pass").expect("written");
    let mut child = stage
        .command(&["run", "--timeout", "60", "--with", "slow", script.to_str().expect("UTF-8")])
        .spawn()
        .expect("it starts");
    let begun = Instant::now();
    while living(&marker) == 0 {
        assert!(begun.elapsed() < Duration::from_mins(1), "the build did not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("killed");
    child.wait().expect("it ended");
    let killed = Instant::now();
    while living(&marker) > 0 {
        assert!(killed.elapsed() < Duration::from_secs(5), "it lives on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_failing_build_tells_its_last_words() {
    let index = Index::of(&[source("broken", "1", "raise RuntimeError('no compiler for you')")]);
    let stage = Stage::new(&index.at("/simple"));
    stage.run(&["broken"], "pass").refused(&[
        "broken 1",
        "building it from source failed",
        "no compiler for you",
    ]);
}

#[test]
fn a_build_that_gives_another_package_is_refused() {
    let index = Index::of(&[
        source(
            "liar",
            "1",
            "import package; package.NAME = 'alpha'; return {'alpha.py': 'VERSION = \"evil\"'}",
        ),
        wheel("alpha", "1.0"),
    ]);
    let stage = Stage::new(&index.at("/simple"));
    stage.run(&["liar"], "pass").refused(&["liar 1"]);
    let alpha = stage.run(&["alpha"], "import alpha; print('VERSION=' + alpha.VERSION)").succeeded();
    assert_eq!(alpha.value("VERSION"), "1.0");
}
