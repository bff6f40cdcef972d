//! The user's own settings for uv: which of them count, and that nothing stands in for what cannot be used.

use serde_json::json;

use crate::credentials::certificate;
use crate::stage::{Index, Stage, skip, wheel};

const LOOK: &str = "import alpha; print('VERSION=' + alpha.VERSION)";

/// A stage whose settings name no index.
fn without_index() -> Stage {
    let mut stage = Stage::new("");
    stage.env.remove("UV_DEFAULT_INDEX");
    stage
}

#[test]
fn nothing_stands_in_for_an_index_that_cannot_be_used() {
    let wanted = Index::of(&[wheel("alpha", "1.0")]);
    let other = Index::of(&[wheel("alpha", "6.6")]);
    let mut stage = Stage::new(&other.at("/simple"));
    stage.env.insert("UV_INDEX".to_owned(), wanted.at("/simple"));
    assert_eq!(stage.run(&["alpha"], LOOK).succeeded().value("VERSION"), "1.0");
    let asked = other.requests().len();

    for variable in ["UV_DEFAULT_INDEX", "UV_INDEX"] {
        let mut stage = without_index();
        stage.flags.retain(|flag| flag != "--allow-http-index");
        stage.env.insert(variable.to_owned(), wanted.at("/simple"));
        stage.run(&["alpha"], LOOK).refused(&["nothing can be installed", variable, "--allow-http-index"]);
        stage.run(&[], "pass").succeeded();
    }
    let mut folder = Stage::new(&other.at("/simple"));
    folder.env.insert("UV_INDEX".to_owned(), "file:///srv/wheels".to_owned());
    folder.run(&["alpha"], LOOK).refused(&["nothing can be installed", "file:///srv/wheels"]);

    // What was installed before does not come back either.
    stage.env.insert("UV_INDEX".to_owned(), "file:///srv/wheels".to_owned());
    stage.run(&["alpha"], LOOK).refused(&["nothing can be installed"]);
    assert_eq!(other.requests().len(), asked, "{:?}", other.requests());
}

#[test]
fn configuration_files_are_found_as_uv_finds_them() {
    let (users, named) = (Index::of(&[wheel("alpha", "1.0")]), Index::of(&[wheel("alpha", "2.0")]));
    let stage = || {
        let stage = without_index();
        let folder = stage.home().join(".config/uv");
        std::fs::create_dir_all(&folder).expect("made");
        let text = |index: &Index| format!("[[index]]\nurl = '{}'\ndefault = true\n", index.at("/simple"));
        std::fs::write(folder.join("uv.toml"), text(&users)).expect("written");
        std::fs::write(stage.home().join("named.toml"), text(&named)).expect("written");
        stage
    };
    assert_eq!(stage().run(&["alpha"], LOOK).succeeded().value("VERSION"), "1.0");

    let mut by_name = stage();
    let path = by_name.home().join("named.toml").display().to_string();
    by_name.env.insert("UV_CONFIG_FILE".to_owned(), path);
    assert_eq!(by_name.run(&["alpha"], LOOK).succeeded().value("VERSION"), "2.0");

    let mut off = stage();
    off.env.insert("UV_NO_CONFIG".to_owned(), "1".to_owned());
    off.env.insert("UV_DEFAULT_INDEX".to_owned(), named.at("/simple"));
    assert_eq!(off.run(&["alpha"], LOOK).succeeded().value("VERSION"), "2.0");
    let (asked, before) = (|| users.requests().len(), users.requests().len());

    let mut missing = stage();
    missing.env.insert("UV_CONFIG_FILE".to_owned(), "/nonexistent/uv.toml".to_owned());
    missing.run(&["alpha"], LOOK).refused(&["nothing can be installed", "/nonexistent/uv.toml"]);
    let broken = stage();
    std::fs::write(broken.home().join(".config/uv/uv.toml"), "index = 3").expect("written");
    broken.run(&["alpha"], LOOK).refused(&["nothing can be installed", "uv.toml"]);
    assert_eq!(asked(), before);
}

#[test]
fn a_user_without_indexes_has_none_asked() {
    let index = Index::of(&[wheel("alpha", "1.0")]);
    let mut stage = Stage::new(&index.at("/simple"));
    stage.env.insert("UV_NO_INDEX".to_owned(), "1".to_owned());
    stage.run(&["alpha"], LOOK).refused(&["alpha"]);
    let by_file = Stage::new(&index.at("/simple"));
    let folder = by_file.home().join(".config/uv");
    std::fs::create_dir_all(&folder).expect("made");
    std::fs::write(folder.join("uv.toml"), "no-index = true\n").expect("written");
    by_file.run(&["alpha"], LOOK).refused(&["alpha"]);
    assert!(index.requests().is_empty(), "{:?}", index.requests());
    stage.env.remove("UV_NO_INDEX");
    stage.run(&["alpha"], LOOK).succeeded();
}

/// The whole table of places is in a unit test beside the code; here is that uv obeys it.
#[test]
fn a_default_index_of_a_script_goes_before_the_users_file_and_after_the_users_variable() {
    let place = tempfile::tempdir().expect("a temporary folder");
    if !certificate(place.path()) {
        return skip("there is no openssl to make a certificate with");
    }
    let user = Index::of(&[wheel("alpha", "1.0")]);
    let script = Index::start(&json!({"tls": place.path(), "packages": [wheel("alpha", "2.0")]}));
    let prepared = || {
        let mut stage = without_index();
        stage.env.insert("SSL_CERT_FILE".to_owned(), place.path().join("ca.pem").display().to_string());
        // In reach, since the user names it; nothing is found there.
        stage.env.insert("UV_INDEX".to_owned(), script.at("/another"));
        stage
    };
    let text =
        |setting: &str| format!("# /// script\n# dependencies = ['alpha']\n# {setting}\n# ///\n{LOOK}\n");
    let address = script.at("/simple");
    for setting in [
        format!("[tool.uv]\n# index-url = '{address}'"),
        format!("[[tool.uv.index]]\n# url = '{address}'\n# default = true"),
    ] {
        let mut variable = prepared();
        variable.env.insert("UV_DEFAULT_INDEX".to_owned(), user.at("/simple"));
        assert_eq!(variable.run(&[], &text(&setting)).succeeded().value("VERSION"), "1.0", "{setting}");
        let file = prepared();
        let folder = file.home().join(".config/uv");
        std::fs::create_dir_all(&folder).expect("made");
        std::fs::write(folder.join("uv.toml"), format!("index-url = '{}'\n", user.at("/simple")))
            .expect("written");
        assert_eq!(file.run(&[], &text(&setting)).succeeded().value("VERSION"), "2.0", "{setting}");
    }
}
