//! What the preparing stage contacts: what the user's settings name, and nothing on this machine that a script, a page or a
//! package names.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;

use crate::credentials::certificate;
use crate::stage::{Index, Ran, Stage, skip, wheel};

const LOOK: &str = "import alpha; print('VERSION=' + alpha.VERSION)";

/// Something on loopback that is not meant for scripts; tells whether anybody has come.
struct Service(TcpListener);

impl Service {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        listener.set_nonblocking(true).expect("set");
        Self(listener)
    }

    fn port(&self) -> u16 {
        self.0.local_addr().expect("bound").port()
    }

    fn was_contacted(&self) -> bool {
        self.0.accept().is_ok()
    }
}

/// Whether runs of this stage have a network of their own, out of which the server connects.
fn has_private_network(stage: &Stage) -> bool {
    let look = "import socket; print('NETWORK=' + ' '.join(name for _, name in socket.if_nameindex()))";
    let ran: Ran = stage.run(&[], look);
    ran.code == 0 && ran.value("NETWORK") == "lo"
}

#[test]
fn addresses_of_this_machine_in_a_script_are_refused_unless_the_user_names_them() {
    let place = tempfile::tempdir().expect("a temporary folder");
    if !certificate(place.path()) {
        return skip("there is no openssl to make a certificate with");
    }
    let index = Index::of(&[wheel("alpha", "1.0")]);
    let stage = Stage::new(&index.at("/simple"));
    let service = Service::start();
    let refused = |metadata: String| {
        let script = format!("# /// script\n# {metadata}\n# ///\nimport alpha\n");
        stage.run(&[], &script).refused(&["leads to this machine or its link"]);
    };
    for host in ["127.0.0.1", "localhost", "127.1", "2130706433", "[::ffff:127.0.0.1]", "0.0.0.0"] {
        let address = format!("https://{host}:{}/simple", service.port());
        refused(format!("dependencies = ['alpha']\n# [[tool.uv.index]]\n# url = '{address}'"));
    }
    let address = format!("https://127.0.0.1:{}", service.port());
    for metadata in [
        format!("dependencies = ['alpha']\n# [tool.uv]\n# index-url = '{address}/simple'"),
        format!("dependencies = ['alpha']\n# [tool.uv]\n# find-links = ['{address}/']"),
        format!("dependencies = ['beta @ {address}/beta-1-py3-none-any.whl']"),
        format!("dependencies = ['beta @ {address}/beta-1.tar.gz']"),
        format!("dependencies = ['beta @ git+{address}/beta.git']"),
        format!("dependencies = ['beta']\n# [tool.uv.sources]\n# beta = {{ git = '{address}/beta.git' }}"),
    ] {
        refused(metadata);
    }
    assert!(!service.was_contacted());

    // The user's own settings name the same server.
    let named = Index::start(&json!({"tls": place.path(), "packages": [wheel("alpha", "2.0")]}));
    let script = format!(
        "# /// script\n# dependencies = ['alpha']\n# [[tool.uv.index]]\n# url = '{}'\n# ///\n{LOOK}\n",
        named.at("/simple")
    );
    let mut stage = Stage::new(&index.at("/simple"));
    stage.env.insert("SSL_CERT_FILE".to_owned(), place.path().join("ca.pem").display().to_string());
    stage.run(&[], &script).refused(&["leads to this machine or its link"]);
    assert!(named.requests().is_empty(), "{:?}", named.requests());
    stage.env.insert("UV_EXTRA_INDEX_URL".to_owned(), named.at("/another"));
    assert_eq!(stage.run(&[], &script).succeeded().value("VERSION"), "2.0");
}

#[test]
fn a_page_that_leads_to_this_machine_leads_nowhere() {
    let service = Service::start();
    let mut lured = wheel("alpha", "1.0");
    lured["at"] = json!(format!("http://127.0.0.1:{}", service.port()));
    let index = Index::of(&[lured, wheel("beta", "1.0")]);
    let mut stage = Stage::new(&index.at("/simple"));
    stage.env.insert("UV_HTTP_TIMEOUT".to_owned(), "1".to_owned());
    if !has_private_network(&stage) {
        return crate::skipped::skipped(
            "links of an index to this machine: this tier has the machine's network",
        );
    }
    stage.run(&["beta"], "import beta").succeeded();
    assert_eq!(stage.run(&["alpha"], LOOK).code, 125);
    assert!(!service.was_contacted());
    // Where the user's settings name the same server, for whatever, uv comes by.
    let address = format!("http://127.0.0.1:{}", service.port());
    stage.env.insert("UV_PYTHON_INSTALL_MIRROR".to_owned(), address);
    assert_eq!(stage.run(&["alpha"], LOOK).code, 125);
    assert!(service.was_contacted());
}

#[test]
fn the_proxy_for_everything_serves_uv_and_source_code_and_exceptions_hold() {
    let old =
        json!({"name": "old", "version": "1", "sdist": "def build(): return {'old.py': 'VERSION = \"1\"'}"});
    let index = Index::of(&[old]);
    let look = "import old; print('VERSION=' + old.VERSION)";
    for name in ["ALL_PROXY", "all_proxy"] {
        let mut stage = Stage::new("http://packages.invalid/simple");
        stage.run(&["old"], look).refused(&["could not be reached"]);
        stage.env.insert(name.to_owned(), index.at(""));
        assert_eq!(stage.run(&["old"], look).succeeded().value("VERSION"), "1");
    }
    let fetched = |line: &&String| line.starts_with("GET http://packages.invalid/files/old-1.tar.gz");
    assert_eq!(index.requests().iter().filter(fetched).count(), 2, "{:?}", index.requests());

    let mut stage = Stage::new(&index.at("/simple"));
    stage.env.insert("ALL_PROXY".to_owned(), "http://127.0.0.1:9".to_owned());
    stage.run(&["old"], look).refused(&["could not be reached"]);
    stage.env.insert("NO_PROXY".to_owned(), "127.0.0.1".to_owned());
    assert_eq!(stage.run(&["old"], look).succeeded().value("VERSION"), "1");
}

#[test]
fn an_index_that_hangs_is_named_with_what_to_do() {
    // Connections wait in the queue, and nobody answers.
    let service = Service::start();
    let address = format!("127.0.0.1:{}", service.port());
    let stage = Stage::new(&format!("http://{address}/simple"));
    let before = std::time::Instant::now();
    let ran = stage.run_with(&["alpha"], &["--timeout", "3"], LOOK);
    assert!(before.elapsed() < Duration::from_secs(6), "{:?}", before.elapsed());
    ran.refused(&["within the call's 3 s", &address, "proxy", "timeout_seconds"]);
    assert!(service.was_contacted());
}
