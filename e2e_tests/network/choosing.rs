//! Which network a script gets: by flag, by default, and where it cannot be had.

use std::process::Command;

use super::client::{Server, binary, common_flags, text};
use super::lab::{As, run, run_with, skipped};
use serde_json::json;

#[test]
fn the_default_is_to_connect_through_the_server() {
    let mut server = Server::start(&[]);
    let environment = server.tool("check_environment", json!({}));
    assert_eq!(environment["structuredContent"]["network"], "outbound", "{environment}");
    let result = server.run("print(open('/etc/resolv.conf').read())");
    assert!(text(&result).contains("nameserver 127.0.0.53"), "{result}");
    let layers = result["structuredContent"]["layers"].to_string();
    assert!(layers.contains("network namespace"), "{layers}");
}

#[test]
fn without_isolation_the_default_is_the_hosts_network_and_a_wish_is_refused() {
    let mut server = Server::start(&["--sandbox-backend", "none"]);
    let environment = server.tool("check_environment", json!({}));
    assert_eq!(environment["structuredContent"]["network"], "host", "{environment}");
    let refused = Command::new(binary())
        .args(common_flags(&["--sandbox-backend"]))
        .args(["--sandbox-backend", "none", "--network", "outbound", "--no-warm-cache"])
        .output()
        .expect("it starts");
    let words = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(125), "{words}");
    assert!(words.contains("--network outbound cannot be had"), "{words}");
}

/// A proxy on the machine that the user has set is meant for scripts; nothing else at its address is.
#[test]
fn a_proxy_on_this_machine_can_be_reached() {
    let script = r#"
told("variable", lambda: os.environ.get("HTTP_PROXY"))
told("proxy", lambda: greeting("127.0.0.1", 8001))
told("other", lambda: greeting("127.0.0.1", 8000))
"#;
    let variables = [("HTTP_PROXY", "http://me:secret@127.0.0.1:8001")];
    let Some(told) = run_with(script, &[], As::Caller, &variables) else { return };
    told.assert(&[("variable", "http://127.0.0.1:8001"), ("proxy", "secret"), ("other", "ECONNREFUSED")]);
    assert_eq!(told.seen, json!({"127.0.0.1 8001": 1}));
}

#[test]
fn the_other_networks_are_as_they_were() {
    let script = r#"
told("loopback", lambda: greeting("127.0.0.1", 8000))
told("world", lambda: greeting(WORLD))
"#;
    if let Some(told) = run(script, &["--network", "host"], As::Caller) {
        told.assert(&[("loopback", "secret"), ("world", "hello")]);
    }
    if let Some(told) = run(script, &["--network", "none"], As::Caller) {
        told.assert(&[("loopback", "ECONNREFUSED"), ("world", "ENETUNREACH")]);
    }
}

#[test]
fn the_real_network() {
    let Ok(url) = std::env::var("E2E_URL") else {
        crate::skipped::skipped("E2E_URL names no address of the real network");
        return;
    };
    let mut server = Server::start(&["--network", "outbound"]);
    let script = format!(
        "import urllib.request\nprint(len(urllib.request.urlopen({url:?}, timeout=30).read()) >= 100)"
    );
    assert!(text(&server.run(&script)).contains("True"));
    let script = format!(
        "# /// script\n# dependencies = [\"requests\"]\n# ///\nimport requests\nprint(len(requests.get({url:?}, timeout=30).content) >= 100)"
    );
    let result = server.run(&script);
    if text(&result).contains("True") {
        return;
    }
    let _: Option<()> = skipped(&format!("requests could not be had or used: {}", text(&result)));
}
