//! A container or the whole engine that goes away under a run.

use mcp_python_exec_sandbox::sandbox::{Sandbox, WaitError};

use mcp_python_exec_sandbox::sandbox::docker::{DockerOptions, DockerSandbox, MissingImage};

use super::{Room, docker, spec};

#[tokio::test]
async fn a_container_that_is_killed_from_outside_is_told() {
    let Some(room) = Room::open().await else { return };
    let mut running =
        room.sandbox.start(&spec("import time\nprint('here')\ntime.sleep(600)")).await.expect("it starts");
    let id = room.containers().pop().expect("one container");
    docker(&["kill", &id]);
    let error = running.control.wait().await.expect_err("nobody told how it ended");
    assert!(matches!(&error, WaitError::Lost(reason) if reason.contains("from outside")), "{error:?}");
    room.until_nothing_is_left().await;
}

#[tokio::test]
async fn an_image_that_was_removed_is_told_with_what_to_do() {
    if Room::open().await.is_none() {
        return;
    }
    // Another image than everybody else's, so that nobody misses it.
    let name = format!("mcp-python-exec-sandbox-gone:{}", std::process::id());
    let text = format!("FROM {}\nLABEL test={name}\n", super::image());
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("Dockerfile"), text).expect("written");
    docker(&["build", "--quiet", "--tag", &name, folder.path().to_str().expect("UTF-8")]);
    let options = DockerOptions { image: Some(name.clone()), folder: Some(folder.path().join("data")) };
    let sandbox = DockerSandbox::probe(&options, MissingImage::Refuse).await;
    let mut running = sandbox.start(&spec("print('here')")).await.expect("it starts");
    running.control.wait().await.expect("it ends");
    drop(running);
    // An image that a container still has is not removed.
    while !docker(&["ps", "--all", "--quiet", "--filter", &format!("ancestor={name}")]).is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    docker(&["rmi", "--force", &name]);
    let error = sandbox.start(&spec("print('here')")).await.expect_err("there is no image");
    let said = error.to_string();
    assert!(said.contains(&format!("no image {name}")) && said.contains("image build"), "{said}");
}

/// Stops the engine that `DOCKER_TEST_STOP_ENGINE` names by its process id and starts another, so it runs last and
/// alone.
#[tokio::test]
async fn an_engine_that_stops_ends_the_run_with_a_reason_and_one_that_comes_back_is_used() {
    let Ok(engine) = std::env::var("DOCKER_TEST_STOP_ENGINE") else {
        crate::skipped::skipped("DOCKER_TEST_STOP_ENGINE names no engine that may be stopped");
        return;
    };
    let Some(room) = Room::open().await else { return };
    let mut running =
        room.sandbox.start(&spec("import time\nprint('here')\ntime.sleep(600)")).await.expect("it starts");
    let stopped = std::process::Command::new("kill").args(["-TERM", &engine]).status().expect("kill starts");
    assert!(stopped.success());
    let error = running.control.wait().await.expect_err("nobody told how it ended");
    assert!(matches!(error, WaitError::Lost(_)), "{error:?}");
    let error = room.sandbox.start(&spec("pass")).await.expect_err("there is no engine");
    assert!(error.to_string().contains("not running"), "{error}");
    while std::path::Path::new("/proc").join(&engine).exists() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e_tests/docker/engine.sh");
    let started = std::process::Command::new(script).arg("start").status().expect("it starts");
    assert!(started.success());
    assert_eq!(room.run("print('again')").await.stdout.text, "again\n");
    room.until_nothing_is_left().await;
}
