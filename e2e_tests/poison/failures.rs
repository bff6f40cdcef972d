//! What can go wrong with packages, and in which words it is said.

use serde_json::{Value, json};

use crate::server::Server;
use crate::stage::{Index, Stage, wheel};

#[test]
fn a_package_that_is_not_there_is_named_and_so_are_near_ones() {
    let index = Index::of(&[wheel("numpy", "2.0")]);
    let stage = Stage::new(&index.at("/simple"));
    stage.run(&["nunpy"], "pass").refused(&["nunpy", "did you mean numpy"]);
    stage.run(&["quite-another"], "pass").refused(&["quite-another", "not found"]);
}

/// Every answer comes from uv itself, asked for packages of an index that has each fault.
#[test]
fn each_failure_is_an_error_of_its_kind_and_says_what_it_is_about() {
    let package = |name: &str, more: Value| {
        let mut made = json!({"name": name, "version": "1", "files": {}});
        made.as_object_mut().expect("a table").extend(more.as_object().expect("a table").clone());
        made
    };
    let index = Index::of(&[
        wheel("alpha", "1.0"),
        wheel("alpha", "0.5"),
        package("needy", json!({"requires": ["alpha<1"]})),
        package("greedy", json!({"requires": ["alpha>=1"]})),
        package("lost", json!({"requires": ["nowhere"]})),
        package("newer", json!({"requires_python": ">=3.99"})),
        package("foreign", json!({"tag": "cp39-cp39-win_amd64"})),
        package("yanked", json!({"yanked": "eats files"})),
        package("wrong", json!({"wrong_hash": true})),
        json!({"name": "source", "version": "1", "sdist": "def build(): return {}"}),
    ]);
    let stage = Stage::new(&index.at("/simple"));
    let mut server = Server::start(&stage, &["--no-build"]);
    for (dependencies, kind, words) in [
        (&["nowhere"][..], "no_such_package", &["nowhere", "spelling"][..]),
        (&["nunpy"], "no_such_package", &["nunpy", "did you mean numpy"]),
        (&["lost"], "no_such_package", &["nowhere", "lost"]),
        (&["alpha>3"], "no_such_version", &["alpha>3", "alpha<=1.0"]),
        (&["alpha==7"], "no_such_version", &["alpha==7"]),
        (&["alpha<1", "alpha>=1"], "conflict", &["alpha<1", "alpha>=1"]),
        (&["needy", "alpha>=1"], "conflict", &["needy", "alpha<1", "alpha>=1"]),
        (&["needy", "greedy"], "conflict", &["needy", "greedy", "alpha<1", "alpha>=1"]),
        (&["newer"], "wrong_python", &["newer", "3.99", "python_version"]),
        (&["foreign"], "no_wheel", &["foreign", "cp39", "python_version"]),
        (&["source"], "no_wheel", &["source", "--no-build"]),
        (&["yanked"], "yanked", &["yanked==1", "eats files"]),
        (&["wrong"], "hash_mismatch", &["wrong==1", "Hash mismatch"]),
        (&["x @ file:///srv/x"], "refused_requirement", &["file"]),
    ] {
        let arguments = json!({"script": "print('ran')", "dependencies": dependencies});
        let answer = &server.calls(1, &arguments)[0];
        assert_eq!(answer["isError"], true, "{answer}");
        assert_eq!(answer["structuredContent"]["error"], kind, "{dependencies:?}: {answer}");
        let message = answer["structuredContent"]["message"].as_str().unwrap_or_default();
        for word in words {
            assert!(message.contains(word), "{word} is not in: {message}");
        }
        assert!(message.len() < 700, "{message}");
    }
    let away = Stage::new("http://127.0.0.1:9/simple");
    let answer =
        &Server::start(&away, &[]).calls(1, &json!({"script": "pass", "dependencies": ["alpha"]}))[0];
    assert_eq!(answer["structuredContent"]["error"], "network", "{answer}");
}

#[test]
fn a_version_that_is_not_there_and_a_conflict_name_what_they_are_about() {
    let needy = json!({"name": "needy", "version": "1", "files": {}, "requires": ["alpha<1"]});
    let index = Index::of(&[wheel("alpha", "1.0"), wheel("alpha", "0.5"), needy]);
    let stage = Stage::new(&index.at("/simple"));
    stage.run(&["alpha>3"], "pass").refused(&["alpha>3"]);
    stage.run(&["needy", "alpha>=1"], "pass").refused(&["needy", "alpha"]);
}

#[test]
fn a_file_that_is_not_what_was_promised_is_not_installed() {
    let mut wrong = wheel("alpha", "1.0");
    wrong["wrong_hash"] = json!(true);
    let mut source = json!({"name": "old", "version": "1", "sdist": "def build(): return {}"});
    source["wrong_hash"] = json!(true);
    let index = Index::of(&[wrong, source]);
    let stage = Stage::new(&index.at("/simple"));
    stage.run(&["alpha"], "import alpha").refused(&["alpha", "ash mismatch"]);
    stage.run(&["old"], "import old").refused(&["old", "hash mismatch"]);
}

#[test]
fn a_withdrawn_version_is_taken_only_where_it_is_named_and_then_said() {
    let mut bad = wheel("alpha", "2.0");
    bad["yanked"] = json!("eats files");
    let index = Index::of(&[wheel("alpha", "1.0"), bad]);
    let stage = Stage::new(&index.at("/simple"));
    let look = "import alpha; print('VERSION=' + alpha.VERSION)";
    assert_eq!(stage.run(&["alpha"], look).succeeded().value("VERSION"), "1.0");
    let ran = stage.run(&["alpha==2.0"], look).succeeded();
    assert!(ran.value("VERSION") == "2.0" && ran.stderr.contains("eats files"), "{ran:?}");
}

#[test]
fn a_thousand_requirements_are_no_harm() {
    let packages: Vec<Value> = (0..1000).map(|number| wheel(&format!("many{number}"), "1.0")).collect();
    let index = Index::of(&packages);
    let stage = Stage::new(&index.at("/simple"));
    let list: Vec<String> = (0..1000).map(|number| format!("'many{number}'")).collect();
    let script = format!(
        "# /// script\n# dependencies = [{}]\n# ///\nimport many0, many999; print('VERSION=' + many999.VERSION)\n",
        list.join(", ")
    );
    let ran = stage.run_with(&[], &["--timeout", "110"], &script).succeeded();
    assert_eq!(ran.value("VERSION"), "1.0");
}

#[test]
fn offline_with_everything_there_a_run_is_as_quick_as_ever() {
    let index = Index::of(&[wheel("alpha", "1.0")]);
    let stage = Stage::new(&index.at("/simple"));
    stage.warm(&["alpha"]);
    drop(index);
    let look = "import alpha; print('VERSION=' + alpha.VERSION)";
    assert_eq!(stage.run(&["alpha"], look).succeeded().value("VERSION"), "1.0");
    stage.run(&["beta"], "pass").refused(&["could not be reached"]);
}

#[test]
fn a_small_file_that_unpacks_to_a_large_one_is_bounded() {
    let bomb = json!({"name": "bomb", "version": "1", "files": {"bomb.py": ""}, "megabytes": 300});
    let index = Index::of(&[bomb, wheel("alpha", "1.0")]);
    let mut stage = Stage::new(&index.at("/simple"));
    stage.flags.extend(["--cache-size".to_owned(), "100M".to_owned()]);
    stage.run(&["bomb"], "pass").refused(&["more than the 75 MB", "--cache-size"]);
    assert!(std::fs::read_dir(stage.data().join("jobs")).expect("there").next().is_none());
    stage.run(&["alpha"], "import alpha").succeeded();
}
