//! What can go wrong with packages, and in which words it is said.

use serde_json::{Value, json};

use crate::stage::{Index, Stage, wheel};

#[test]
fn a_package_that_is_not_there_is_named_and_so_are_near_ones() {
    let index = Index::of(&[wheel("numpy", "2.0")]);
    let stage = Stage::new(&index.at("/simple"));
    stage.run(&["nunpy"], "pass").refused(&["nunpy", "did you mean numpy"]);
    stage.run(&["quite-another"], "pass").refused(&["quite-another", "not found"]);
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
