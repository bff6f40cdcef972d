//! Credentials of the user's index: who gets them, and who does not.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::stage::{Index, Ran, Stage, skip, wheel};

const LOOK: &str = "import alpha; print('VERSION=' + alpha.VERSION)";
const PASSWORD: &str = "s3cret-word";

fn private() -> Index {
    let old =
        json!({"name": "old", "version": "1", "sdist": "def build(): return {'old.py': 'VERSION = \"1\"'}"});
    Index::start(&json!({"password": format!("me:{PASSWORD}"), "packages": [wheel("alpha", "1.0"), old]}))
}

/// The password is in no file that is kept and in nothing that was said.
fn kept_secret(stage: &Stage, ran: &Ran) {
    assert!(!format!("{ran:?}").contains(PASSWORD), "{ran:?}");
    let found = Command::new("grep").args(["-rl", PASSWORD]).arg(stage.data()).output().expect("grep runs");
    assert!(found.stdout.is_empty(), "{}", String::from_utf8_lossy(&found.stdout));
}

/// A folder with an authority (`ca.pem`) and a certificate of it for loopback.
pub fn certificate(folder: &Path) -> bool {
    let commands = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -addext keyUsage=keyCertSign -keyout ca.key -out ca.pem && \
                    openssl req -newkey rsa:2048 -nodes -subj /CN=loopback -keyout key.pem -out asked.pem && \
                    printf 'subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n' > names && \
                    openssl x509 -req -in asked.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out cert.pem";
    let made = Command::new("sh").args(["-c", commands]).current_dir(folder).output();
    made.is_ok_and(|output| output.status.success())
}

#[test]
fn credentials_in_the_address_in_variables_and_in_netrc_reach_the_index() {
    let index = private();
    let address = index.with_user(&format!("me:{PASSWORD}"), "/simple");
    let ran = Stage::new(&address).run(&["alpha"], LOOK).succeeded();
    assert_eq!(ran.value("VERSION"), "1.0");

    let mut named = Stage::new("");
    named.env.remove("UV_DEFAULT_INDEX");
    named.env.insert("UV_INDEX".to_owned(), format!("corp={}", index.at("/simple")));
    named.env.insert("UV_INDEX_CORP_USERNAME".to_owned(), "me".to_owned());
    named.env.insert("UV_INDEX_CORP_PASSWORD".to_owned(), PASSWORD.to_owned());
    let ran = named
        .run(&["alpha"], "import os; import alpha; print('VERSION=' + alpha.VERSION, dict(os.environ))")
        .succeeded();
    kept_secret(&named, &ran);

    let netrc = Stage::new(&index.at("/simple"));
    let text = format!("machine 127.0.0.1 login me password {PASSWORD}\n");
    std::fs::write(netrc.home().join(".netrc"), text).expect("written");
    let ran = netrc.run(&["alpha"], LOOK).succeeded();
    kept_secret(&netrc, &ran);

    let stranger = Stage::new(&index.at("/simple"));
    assert_eq!(stranger.run(&["alpha"], LOOK).code, 125, "the index asks for a password");
}

#[test]
fn a_keyring_is_asked_for_the_users_index_and_for_no_other() {
    let index = private();
    let mut stage = Stage::new(&index.with_user("me", "/simple"));
    let programs = stage.home().join("programs");
    std::fs::create_dir(&programs).expect("made");
    let asked = stage.home().join("asked");
    let program = format!("#!/bin/sh\necho \"$*\" >> '{}'\necho '{PASSWORD}'\n", asked.display());
    std::fs::write(programs.join("keyring"), program).expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(programs.join("keyring"), mode).expect("executable");
    let path = format!("{}:{}", programs.display(), stage.env["PATH"]);
    stage.env.insert("PATH".to_owned(), path);
    assert_eq!(stage.run(&["alpha"], LOOK).code, 125, "the keyring is not asked where nobody said so");
    assert!(!asked.exists());

    stage.env.insert("UV_KEYRING_PROVIDER".to_owned(), "subprocess".to_owned());
    let ran = stage.run(&["alpha"], LOOK).succeeded();
    assert_eq!(ran.value("VERSION"), "1.0");
    kept_secret(&stage, &ran);
    let asked = std::fs::read_to_string(asked).expect("it was asked");
    let own = format!("get {} me", index.at("/simple"));
    assert!(asked.lines().all(|line| line == own), "{asked}");
}

#[test]
fn source_code_of_a_private_index_is_fetched_with_credentials_and_built_without() {
    let index = private();
    let stage = Stage::new(&index.with_user(&format!("me:{PASSWORD}"), "/simple"));
    let ran = stage.run(&["old"], "import old; print('VERSION=' + old.VERSION)").succeeded();
    assert_eq!(ran.value("VERSION"), "1");
    kept_secret(&stage, &ran);
}

#[test]
fn a_wrong_password_is_not_repeated() {
    let index = private();
    let stage = Stage::new(&index.with_user("me:wr0ng-word", "/simple"));
    let ran = stage.run(&["alpha"], LOOK);
    assert!(ran.code == 125 && !ran.stderr.contains("wr0ng-word"), "{ran:?}");
}

#[test]
fn an_index_of_a_script_gets_nothing_by_the_users_name_for_another() {
    let place = tempfile::tempdir().expect("a temporary folder");
    if !certificate(place.path()) {
        return skip("there is no openssl to make a certificate with");
    }
    let user = private();
    let evil = Index::start(&json!({"tls": place.path(), "packages": [wheel("beta", "2.0")]}));
    let mut stage = Stage::new("");
    stage.env.remove("UV_DEFAULT_INDEX");
    // The second one has the listener in reach: a script's own address on this machine is refused.
    let both = format!("corp={} {}", user.at("/simple"), evil.at("/another"));
    stage.env.insert("UV_INDEX".to_owned(), both);
    stage.env.insert("UV_INDEX_CORP_USERNAME".to_owned(), "me".to_owned());
    stage.env.insert("UV_INDEX_CORP_PASSWORD".to_owned(), PASSWORD.to_owned());
    stage.env.insert("SSL_CERT_FILE".to_owned(), place.path().join("ca.pem").display().to_string());
    for name in ["corp", "CORP", "Corp"] {
        let script = format!(
            "# /// script\n# dependencies = ['beta', 'alpha']\n# [[tool.uv.index]]\n# name = '{name}'\n# url = '{}'\n\
             # [tool.uv.sources]\n# beta = {{ index = '{name}' }}\n# ///\nimport alpha, beta; print('VERSION=' + beta.VERSION)\n",
            evil.at("/simple")
        );
        assert_eq!(stage.run(&[], &script).succeeded().value("VERSION"), "2.0");
    }
    let seen = evil.requests();
    assert!(seen.iter().any(|line| line.contains("/simple/beta/")), "the listener was not asked: {seen:?}");
    assert!(!seen.iter().any(|line| line.contains(PASSWORD) || line.contains("me:")), "{seen:?}");
}

#[test]
fn another_path_on_the_host_of_the_users_index_gets_nothing() {
    let place = tempfile::tempdir().expect("a temporary folder");
    if !certificate(place.path()) {
        return skip("there is no openssl to make a certificate with");
    }
    let password = format!("me:{PASSWORD}");
    let packages = [wheel("alpha", "1.0"), wheel("beta", "2.0")];
    let index = Index::start(&json!({"tls": place.path(), "password": password, "packages": packages}));
    let mut stage = Stage::new(&index.with_user(&password, "/simple"));
    stage.env.insert("SSL_CERT_FILE".to_owned(), place.path().join("ca.pem").display().to_string());
    stage.run(&["alpha"], LOOK).succeeded();
    let elsewhere = index.at("/elsewhere/simple");
    let settings = [
        format!("[[tool.uv.index]]\n# name = 'x'\n# url = '{elsewhere}'"),
        format!("[tool.uv]\n# extra-index-url = ['{elsewhere}']"),
        format!("[tool.uv]\n# find-links = ['{elsewhere}/beta/']"),
        format!("[tool.uv.sources]\n# beta = {{ url = '{}' }}", index.at("/elsewhere/beta-2.0.tar.gz")),
    ];
    for setting in settings {
        let script = format!("# /// script\n# dependencies = ['beta']\n# {setting}\n# ///\nimport beta\n");
        let ran = stage.run(&[], &script).refused(&["credentials of the user"]);
        kept_secret(&stage, &ran);
    }
    assert!(!index.requests().iter().any(|line| line.contains("/elsewhere")), "{:?}", index.requests());
}

#[test]
fn source_code_comes_from_git_and_from_addresses_without_credentials() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let git = Command::new("git").arg("--version").output().is_ok();
    if !git || !certificate(place.path()) {
        return skip("git and openssl are needed");
    }
    let old =
        json!({"name": "old", "version": "1", "sdist": "def build(): return {'old.py': 'VERSION = \"1\"'}"});
    let index = Index::start(&json!({"tls": place.path(), "packages": [old]}));
    let work = tempfile::tempdir().expect("a temporary folder");
    let bare = index.static_folder().join("old.git");
    let commands = format!(
        "cd {work} && curl -sk {address} | tar xz --strip-components 1 && git init -q -b main . && git add . && \
         git -c user.name=x -c user.email=x@x commit -qm x && git tag v1 && git clone -q --bare . {bare} && \
         git -C {bare} update-server-info",
        work = work.path().display(),
        address = index.at("/files/old-1.tar.gz"),
        bare = bare.display()
    );
    let made = Command::new("sh").args(["-c", &commands]).env("HOME", work.path()).status().expect("sh runs");
    assert!(made.success());
    let mut stage = Stage::new(&index.at("/another"));
    stage.env.insert("SSL_CERT_FILE".to_owned(), place.path().join("ca.pem").display().to_string());
    let script = "import old; print('VERSION=' + old.VERSION)";
    for requirement in [
        format!("old @ {}", index.at("/files/old-1.tar.gz")),
        format!("old @ git+{}", index.at("/old.git")),
        format!("old @ git+{}@v1", index.at("/old.git")),
    ] {
        let ran = stage.run(&[&requirement], script).succeeded();
        assert_eq!(ran.value("VERSION"), "1", "{requirement}");
        assert!(ran.stderr.contains("built old 1 from source"), "{ran:?}");
    }
    let source = format!(
        "# /// script\n# dependencies = ['old']\n# [tool.uv.sources]\n# old = {{ git = '{}', tag = 'v1' }}\n# ///\n{script}\n",
        index.at("/old.git")
    );
    stage.run(&[], &source).succeeded();
}
