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
        stage.env.insert(variable.to_owned(), "http://packages.invalid/simple".to_owned());
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

/// A variable that names a plain port of this machine is the one exception: passed over, in no result silently.
#[test]
fn a_plain_port_of_this_machine_in_a_variable_is_passed_over_and_every_result_says_so() {
    let place = tempfile::tempdir().expect("a temporary folder");
    if !certificate(place.path()) {
        return skip("there is no openssl to make a certificate with");
    }
    let port = Index::of(&[wheel("alpha", "6.6")]);
    let users = Index::start(&json!({"tls": place.path(), "packages": [wheel("alpha", "1.0")]}));
    let mut stage = without_index();
    stage.flags.retain(|flag| flag != "--allow-http-index");
    stage.env.insert("SSL_CERT_FILE".to_owned(), place.path().join("ca.pem").display().to_string());
    stage.env.insert("UV_DEFAULT_INDEX".to_owned(), port.at("/simple"));
    let folder = stage.home().join(".config/uv");
    std::fs::create_dir_all(&folder).expect("made");
    let text = format!("[[index]]\nurl = '{}'\ndefault = true\n", users.at("/simple"));
    std::fs::write(folder.join("uv.toml"), text).expect("written");
    for _ in 0..2 {
        let ran = stage.run(&["alpha"], LOOK).succeeded();
        assert_eq!(ran.value("VERSION"), "1.0");
        let words = [port.at("/simple"), "was not asked".to_owned(), "--allow-http-index".to_owned()];
        assert!(words.iter().all(|word| ran.stderr.contains(word)), "{ran:?}");
    }
    assert!(port.requests().is_empty(), "{:?}", port.requests());
    assert!(!stage.run(&[], "pass").succeeded().stderr.contains("was not asked"));
    stage.flags.push("--allow-http-index".to_owned());
    assert_eq!(stage.run(&["alpha"], LOOK).succeeded().value("VERSION"), "6.6");
}

#[test]
fn certificates_that_are_not_there_are_named_where_a_connection_fails_for_want_of_them() {
    let place = tempfile::tempdir().expect("a temporary folder");
    if !certificate(place.path()) {
        return skip("there is no openssl to make a certificate with");
    }
    let index = Index::start(&json!({"tls": place.path(), "packages": [wheel("alpha", "1.0")]}));
    let mut stage = Stage::new(&index.at("/simple"));
    let missing = place.path().join("missing.pem").display().to_string();
    stage.env.insert("SSL_CERT_FILE".to_owned(), missing.clone());
    stage.run(&["alpha"], LOOK).refused(&["could not be reached", "certificate", &missing, "SSL_CERT_FILE"]);
    // A folder of authorities, by the names that openssl gives them, beside one that is empty.
    let (folder, empty) = (place.path().join("authorities"), place.path().join("empty"));
    let commands =
        "mkdir authorities empty && cp ca.pem authorities/$(openssl x509 -hash -noout -in ca.pem).0";
    let made = std::process::Command::new("sh").args(["-c", commands]).current_dir(place.path()).status();
    assert!(made.is_ok_and(|status| status.success()));
    stage.env.remove("SSL_CERT_FILE");
    let both = format!("{}:{}", empty.display(), folder.display());
    stage.env.insert("SSL_CERT_DIR".to_owned(), both);
    assert_eq!(stage.run(&["alpha"], LOOK).succeeded().value("VERSION"), "1.0");
}

#[test]
fn pages_with_links_to_packages_are_the_users_too() {
    let place = tempfile::tempdir().expect("a temporary folder");
    if !certificate(place.path()) {
        return skip("there is no openssl to make a certificate with");
    }
    let index = Index::start(&json!({"tls": place.path(), "packages": [wheel("alpha", "1.0")]}));
    let mut stage = without_index();
    stage.env.insert("SSL_CERT_FILE".to_owned(), place.path().join("ca.pem").display().to_string());
    stage.env.insert("UV_NO_INDEX".to_owned(), "1".to_owned());
    stage.env.insert("UV_FIND_LINKS".to_owned(), index.at("/simple/alpha/"));
    assert_eq!(stage.run(&["alpha"], LOOK).succeeded().value("VERSION"), "1.0");
    stage.env.insert("UV_FIND_LINKS".to_owned(), "/srv/wheels".to_owned());
    stage.run(&["alpha"], LOOK).refused(&["nothing can be installed", "/srv/wheels"]);
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
