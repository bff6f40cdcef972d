//! Why the backend cannot be used, each reason with what to do about it.

use std::path::Path;
use std::process::Command;

use super::{Room, image};

/// What `run` says with another environment.
fn refusal(image: &str, change: impl FnOnce(&mut Command)) -> String {
    let data = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-python-exec-sandbox"));
    command
        .args([
            "run",
            "-",
            "--sandbox-backend",
            "docker",
            "--require-sandbox",
            "docker",
            "--docker-image",
            image,
        ])
        .arg("--data-dir")
        .arg(data.path())
        .env_remove("DOCKER_HOST")
        .env_remove("DOCKER_CONTEXT")
        .stdin(std::process::Stdio::null());
    change(&mut command);
    let output = command.output().expect("it starts");
    assert_eq!(output.status.code(), Some(125), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn no_engine_no_permission_no_image() {
    if Room::open().await.is_none() {
        return;
    }
    let said = refusal(&image(), |command| {
        command.env("DOCKER_HOST", "unix:///nowhere/engine.sock");
    });
    assert!(said.contains("not running") && said.contains("/nowhere/engine.sock"), "{said}");
    let said = refusal("no-such-image:0", |_| {});
    assert!(said.contains("has no image no-such-image:0") && said.contains("image build"), "{said}");
}

#[tokio::test]
async fn a_socket_that_this_user_may_not_open() {
    use std::os::unix::fs::PermissionsExt;
    if Room::open().await.is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("engine.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o000)).expect("set");
    if std::os::unix::net::UnixStream::connect(&socket).is_ok() {
        println!("SKIPPED: root may open every socket");
        return;
    }
    let said = refusal(&image(), |command| {
        command.env("DOCKER_HOST", format!("unix://{}", socket.display()));
    });
    assert!(said.contains("no permission"), "{said}");
}

#[test]
fn no_client_is_told_where_the_usual_folders_have_none() {
    let usual = ["/usr/local/bin/docker", "/usr/bin/docker", "/opt/homebrew/bin/docker", "/snap/bin/docker"];
    if let Some(found) = usual.iter().find(|path| Path::new(path).exists()) {
        println!("SKIPPED: {found} is found wherever PATH leads");
        return;
    }
    let said = refusal(&image(), |command| {
        command.env("PATH", "/nowhere").env("HOME", "/nowhere");
    });
    assert!(said.contains("not installed"), "{said}");
}
