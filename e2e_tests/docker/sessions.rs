//! Stateful sandboxes in containers: the same analyst's session as on the native backend.

use std::process::Command;

use crate::{Room, image};

#[tokio::test]
async fn an_analyst_gets_through_a_whole_session() {
    let Some(room) = Room::open().await else { return };
    let Some(python) = std::env::var_os("E2E_PYTHON") else {
        assert!(std::env::var_os("CI").is_none(), "CI has to set E2E_PYTHON");
        println!("SKIPPED analyst's session: E2E_PYTHON names no Python with the mcp package");
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
