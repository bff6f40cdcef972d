//! Stateful sandboxes in containers: the same analyst's session as on the native backend.

use std::process::Command;

use crate::client::Server;
use crate::{Room, image};

#[tokio::test]
async fn an_analyst_gets_through_a_whole_session() {
    let Some(room) = Room::open().await else { return };
    let Some(python) = std::env::var_os("E2E_PYTHON") else {
        assert!(std::env::var_os("CI").is_none(), "CI has to set E2E_PYTHON");
        crate::skipped::skipped("analyst's session: E2E_PYTHON names no Python with the mcp package");
        return;
    };
    let output = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/e2e_tests/session_client.py"))
        .arg(env!("CARGO_BIN_EXE_mcp-python-exec-sandbox"))
        .args(["--no-warm-cache", "--sandbox-backend", "docker", "--docker-image", &image(), "--data-dir"])
        .arg(room.folder.path())
        .output()
        .expect("Python starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("all steps done"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// Names of the volumes for packages of stateful sandboxes, of this folder's servers.
fn session_volumes(data: &std::path::Path) -> usize {
    let place = std::fs::read_to_string(data.join("docker/place")).expect("a place");
    let filter = format!("label=mcp-python-exec-sandbox.place={}", place.trim());
    let list = crate::docker(&["volume", "ls", "--quiet", "--filter", &filter]);
    list.lines().filter(|name| name.ends_with("-session")).count()
}

/// A server with one stateful sandbox.
fn with_a_sandbox(data: &std::path::Path) -> Server {
    let mut server = Server::start(data, &["--docker-image", &image()]);
    let made = server.call("create_sandbox", &serde_json::json!({"session_id": "s"}));
    assert_ne!(made["isError"], true, "{made}");
    server
}

#[tokio::test]
async fn volumes_of_sandboxes_go_with_their_server_or_at_the_next_start() {
    let Some(room) = Room::open().await else { return };
    let data = room.folder.path();
    let killed = with_a_sandbox(data);
    assert_eq!(session_volumes(data), 1, "the control sees the volume");
    killed.kill();
    let server = with_a_sandbox(data);
    let start = std::time::Instant::now();
    while session_volumes(data) != 1 {
        assert!(start.elapsed() < crate::PATIENCE, "what the killed server left is still there");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    drop(server);
    assert_eq!(session_volumes(data), 0);
}
