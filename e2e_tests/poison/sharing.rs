//! Several servers and many calls on one data folder.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::server::Server;
use crate::stage::{Index, Stage, describe, size, wheel};

/// Half of the time after which an environment is compiled though it is always in use.
const SOON: Duration = Duration::from_secs(30);

/// Waits for what is done in the background.
pub fn wait_for(what: &str, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < SOON, "{what} did not come about within {SOON:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn has_bytecode(stage: &Stage) -> bool {
    stage.kept().keys().any(|kept| kept.extension().is_some_and(|kind| kind == "pyc"))
}

#[test]
fn two_servers_and_twenty_calls_build_once() {
    let old =
        json!({"name": "old", "version": "1", "sdist": "def build(): return {'old.py': 'VERSION = \"1\"'}"});
    let index = Index::of(&[wheel("alpha", "1.0"), old]);
    let stage = Arc::new(Stage::new(&index.at("/simple")));
    let arguments = json!({"script": "import alpha, old; print('VERSION=' + alpha.VERSION)",
        "dependencies": ["alpha", "old"], "timeout_seconds": 100});
    let servers: Vec<_> = (0..2)
        .map(|_| {
            let (stage, arguments) = (stage.clone(), arguments.clone());
            std::thread::spawn(move || Server::start(&stage, &[]).calls(10, &arguments))
        })
        .collect();
    for server in servers {
        for result in server.join().expect("no panic") {
            assert!(result.to_string().contains("VERSION=1.0"), "{result}");
        }
    }
    let fetched = |file: &str| {
        index.requests().iter().filter(|line| line.starts_with("GET") && line.contains(file)).count()
    };
    // For its metadata at each of three steps, since this index names no times to keep them, and to be unpacked.
    assert!(fetched("/files/alpha") <= 4, "{:?}", index.requests());
    assert_eq!(fetched("/files/old"), 1, "{:?}", index.requests());
}

#[test]
fn an_answer_that_is_old_serves_while_a_new_one_is_looked_for() {
    let first = Index::of(&[wheel("alpha", "1.0")]);
    let mut stage = Stage::new(&first.at("/simple"));
    let run =
        |stage: &Stage| stage.run(&["alpha"], "import alpha; print('VERSION=' + alpha.VERSION)").succeeded();
    assert_eq!(run(&stage).value("VERSION"), "1.0");
    first.publish(&[wheel("alpha", "1.0"), wheel("alpha", "2.0")]);
    assert_eq!(run(&stage).value("VERSION"), "1.0", "the answer is younger than a day");
    stage.flags.extend(["--resolve-ttl".to_owned(), "1".to_owned()]);
    let arguments =
        json!({"script": "import alpha; print('VERSION=' + alpha.VERSION)", "dependencies": ["alpha"]});
    let mut server = Server::start(&stage, &[]);
    let begun = std::time::Instant::now();
    // Each answer comes from what is there; the index is asked in the background.
    loop {
        let answer = server.calls(1, &arguments)[0].to_string();
        if answer.contains("VERSION=2.0") {
            break;
        }
        assert!(answer.contains("VERSION=1.0"), "{answer}");
        assert!(begun.elapsed().as_secs() < 60, "the newer version never came");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn a_run_from_the_command_line_leaves_a_compiled_environment() {
    let index = Index::of(&[wheel("alpha", "1.0")]);
    let stage = Stage::new(&index.at("/simple"));
    stage.run(&["alpha"], "import alpha").succeeded();
    assert!(has_bytecode(&stage), "{:?}", stage.kept().keys());
}

#[test]
fn a_server_compiles_an_environment_while_sandboxes_wait_in_it() {
    let index = Index::of(&[wheel("alpha", "1.0")]);
    let stage = Stage::new(&index.at("/simple"));
    let mut server = Server::start(&stage, &[]);
    let answer = server.calls(1, &json!({"script": "import alpha", "dependencies": ["alpha"]}));
    assert_eq!(answer[0]["structuredContent"]["exit_code"], 0, "{answer:?}");
    wait_for("bytecode", || has_bytecode(&stage));
}

#[test]
fn runs_from_the_command_line_find_newer_versions() {
    let index = Index::of(&[wheel("alpha", "1.0")]);
    let mut stage = Stage::new(&index.at("/simple"));
    let version = |stage: &Stage| {
        let ran = stage.run(&["alpha"], "import alpha; print('VERSION=' + alpha.VERSION)").succeeded();
        ran.value("VERSION").to_owned()
    };
    assert_eq!(version(&stage), "1.0");
    index.publish(&[wheel("alpha", "1.0"), wheel("alpha", "2.0")]);
    stage.flags.extend(["--resolve-ttl".to_owned(), "0".to_owned()]);
    assert_eq!(version(&stage), "1.0", "the answer that is there serves");
    assert_eq!(version(&stage), "2.0", "the run before has looked for a newer one");
}

#[test]
fn installations_that_fail_leave_no_more_than_the_bound() {
    let bomb =
        |number: i32| json!({"name": format!("bomb{number}"), "version": "1", "files": {}, "megabytes": 200});
    let index = Index::of(&[bomb(1), bomb(2), bomb(3)]);
    let stage = Stage::new(&index.at("/simple"));
    let mut server = Server::start(&stage, &["--cache-size", "100M"]);
    for number in 1..=3 {
        let answer = server.calls(1, &json!({"script": "pass", "dependencies": [format!("bomb{number}")]}));
        assert_eq!(answer[0]["isError"], true, "{answer:?}");
        assert!(answer[0].to_string().contains("--cache-size"), "{answer:?}");
    }
    wait_for("the size bound", || size(&stage.data()) <= 100 << 20);
}

#[test]
fn a_server_that_is_killed_while_it_prepares_leaves_nothing_that_runs_or_stays() {
    let large =
        json!({"name": "large", "version": "1", "files": {"large.py": "VERSION = '1'"}, "megabytes": 150});
    let index = Index::of(&[large, wheel("alpha", "1.0")]);
    let stage = Stage::new(&index.at("/simple"));
    let home = stage.home().to_str().expect("UTF-8").to_owned();
    let processes = || {
        let lines = std::fs::read_dir("/proc").expect("there").flatten();
        let lines = lines.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        lines.filter(|line| String::from_utf8_lossy(line).contains(&home)).count()
    };
    let arguments = json!({"script": "import large, alpha; print('VERSION=' + large.VERSION)",
        "dependencies": ["large", "alpha"], "timeout_seconds": 100});
    for phase in ["resolving dependencies", "downloading and installing packages"] {
        let mut server = Server::start(&stage, &[]);
        server.begin(&arguments, phase);
        wait_for("uv", || processes() > 0);
        drop(server);
        wait_for("the end of uv", || processes() == 0);
        let environments = stage.data().join("environments");
        let half = |path: &&std::path::PathBuf| path.starts_with(&environments) && path.ends_with("large.py");
        assert_eq!(stage.kept().keys().find(half), None, "{phase}");
    }
    let mut server = Server::start(&stage, &[]);
    let answer = &server.calls(1, &arguments)[0];
    assert!(answer.to_string().contains("VERSION=1"), "{answer}");
    let jobs = || std::fs::read_dir(stage.data().join("jobs")).expect("there").count();
    wait_for("the sweep", || jobs() == 0);
}

#[test]
fn many_runs_leave_nothing_behind() {
    let index = Index::of(&[wheel("alpha", "1.0"), wheel("beta", "1.0")]);
    let stage = Stage::new(&index.at("/simple"));
    let sets: [&[&str]; 4] = [&["alpha"], &["beta"], &["alpha", "beta"], &[]];
    for set in &sets[..3] {
        stage.warm(set);
    }
    stage.run(&[], "pass").succeeded();
    let all = || {
        let mut found = std::collections::BTreeMap::new();
        describe(&stage.data(), &mut found);
        found.into_keys().collect::<Vec<_>>()
    };
    let before = all();
    // A thousand for a release; enough here to see whether each run leaves something.
    let runs: usize = std::env::var("POISON_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(24);
    for number in 0..runs {
        let script = format!("open('/tmp/x', 'w').write('x' * 10000)\nprint({number})\n");
        stage.run(sets[number % 4], &script).succeeded();
    }
    assert_eq!(all(), before);
}

#[test]
fn modules_that_were_imported_before_are_told() {
    let index = Index::of(&[wheel("alpha", "1.0")]);
    let stage = Stage::new(&index.at("/simple"));
    let server = std::cell::RefCell::new(Server::start(&stage, &["--preload", "alpha", "--pool-size", "2"]));
    let script = "import gc, sys\nprint('THERE=%s' % ('alpha' in sys.modules and gc.get_freeze_count() > 0))\n\
                  import alpha\nprint('ALPHA=' + alpha.VERSION)";
    let call = json!({"script": script, "dependencies": ["alpha"]});
    // The first has no sandbox that waited for it.
    wait_for("a sandbox with the module", || {
        let result = server.borrow_mut().calls(1, &call)[0].to_string();
        assert!(result.contains("ALPHA=1.0"), "{result}");
        let told = result.contains("imported before the script started (--preload): alpha");
        assert_eq!(told, result.contains("THERE=True"), "{result}");
        told
    });
}

#[test]
fn a_module_whose_import_does_not_end_holds_up_neither_a_call_nor_the_other_sandboxes() {
    let endless = json!({"name": "endless", "version": "1", "files": {"endless.py": "while True: pass\n"}});
    let index = Index::of(&[endless, wheel("alpha", "1.0")]);
    let stage = Stage::new(&index.at("/simple"));
    let flags = ["--preload", "endless,alpha", "--pool-size", "2"];
    let server = std::cell::RefCell::new(Server::start(&stage, &flags));
    let call = |package: &str, script: &str| {
        let call = json!({"script": script, "dependencies": [package], "timeout_seconds": 20});
        server.borrow_mut().calls(1, &call)[0].to_string()
    };
    // The later ones come while a sandbox that imports the module is being started.
    for _ in 0..3 {
        let result = call("endless", "print('IT' + 'RAN')");
        assert!(result.contains("ITRAN"), "{result}");
    }
    wait_for("a sandbox with the other module", || {
        let result = call("alpha", "import sys\nprint('THERE=%s' % ('alpha' in sys.modules))");
        assert!(result.contains("THERE="), "{result}");
        result.contains("THERE=True")
    });
}
