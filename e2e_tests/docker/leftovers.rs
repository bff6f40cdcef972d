//! Nothing is left, however a run or a server ends, and nothing of anybody else is touched.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mcp_python_exec_sandbox::sandbox::Sandbox;
use mcp_python_exec_sandbox::sandbox::docker::{DockerOptions, DockerSandbox, MissingImage};

use super::{GONE_WITHIN, PATIENCE, Room, docker, image, spec};

const FOREVER: &str = "import time\nprint('here')\ntime.sleep(600)";

#[tokio::test]
async fn a_run_that_nobody_waits_for_is_gone() {
    let Some(room) = Room::open().await else { return };
    let running = room.sandbox.start(&spec(FOREVER)).await.expect("it starts");
    assert_eq!(room.containers().len(), 1);
    drop(running);
    let took = room.until_nothing_is_left().await;
    assert!(took < GONE_WITHIN, "{took:?}");
}

#[tokio::test]
async fn a_start_that_is_given_up_leaves_nothing() {
    let Some(room) = Room::open().await else { return };
    for delay in [1, 60, 150, 300, 500] {
        let spec = spec(FOREVER);
        let given_up = tokio::time::timeout(Duration::from_millis(delay), room.sandbox.start(&spec)).await;
        drop(given_up);
    }
    // What was on its way to the engine is waited for as well.
    room.sandbox.close().await;
    room.until_nothing_is_left().await;
}

#[tokio::test]
async fn closing_ends_everything() {
    let Some(room) = Room::open().await else { return };
    let running = room.sandbox.start(&spec(FOREVER)).await.expect("it starts");
    room.sandbox.close().await;
    assert_eq!(room.containers(), [""; 0]);
    drop(running);
}

#[tokio::test]
async fn a_server_that_is_killed_leaves_nothing() {
    let Some(room) = Room::open().await else { return };
    let place = room.folder.path().parent().expect("a parent").join(format!("killed-{}", std::process::id()));
    let script = room.folder.path().join("forever.py");
    std::fs::write(&script, FOREVER).expect("written");
    let mut server = Command::new(env!("CARGO_BIN_EXE_mcp-python-exec-sandbox"))
        .args([
            "run",
            "--sandbox-backend",
            "docker",
            "--timeout",
            "120",
            "--docker-image",
            &image(),
            "--data-dir",
        ])
        .arg(&place)
        .arg(&script)
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut output = std::io::BufReader::new(server.stdout.take().expect("piped"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut output, &mut line).expect("it prints");
    assert_eq!(line, "here\n");
    let id = std::fs::read_to_string(place.join("docker/place")).expect("a place");
    let filter = format!("label=mcp-python-exec-sandbox.place={}", id.trim());
    let left = || docker(&["ps", "--all", "--quiet", "--filter", &filter]);
    assert!(!left().is_empty(), "the control sees the container");
    server.kill().expect("it lives");
    server.wait().expect("it ends");
    let start = Instant::now();
    while !left().is_empty() {
        assert!(start.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(start.elapsed() < GONE_WITHIN, "{:?}", start.elapsed());
    for volume in docker(&["volume", "ls", "--quiet", "--filter", &filter]).lines() {
        docker(&["volume", "rm", "--force", volume]);
    }
    std::fs::remove_dir_all(&place).expect("removed");
}

#[tokio::test]
async fn the_next_start_removes_what_a_killed_one_left_and_nothing_else() {
    let Some(room) = Room::open().await else { return };
    let id = std::fs::read_to_string(room.folder.path().join("place")).expect("a place");
    let label = |name: &str, value: &str| format!("mcp-python-exec-sandbox.{name}={value}");
    let image = image();
    let create = |labels: &[String]| {
        let mut args = vec!["create"];
        for label in labels {
            args.extend(["--label", label]);
        }
        args.extend([image.as_str(), "sleep", "600"]);
        docker(&args)
    };
    let left = create(&[label("place", id.trim()), label("server", "0123456789abcdef")]);
    let of_others = create(&[label("place", "another"), label("server", "0123456789abcdef")]);
    let without_label = create(&[]);
    let mine = room.sandbox.start(&spec(FOREVER)).await.expect("it starts");
    let options = DockerOptions { image: Some(image.clone()), folder: Some(room.folder.path().to_owned()) };
    let second = DockerSandbox::probe(&options, MissingImage::Refuse).await;
    let exists = |name: &str| docker(&["ps", "--all", "--no-trunc", "--quiet"]).contains(name);
    let start = Instant::now();
    while exists(&left) {
        assert!(start.elapsed() < PATIENCE, "what was left is still there");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(exists(&of_others) && exists(&without_label), "a container of somebody else was removed");
    assert_eq!(room.containers().len(), 1, "a run of a server that lives was removed");
    docker(&["rm", "--force", &of_others, &without_label]);
    drop((mine, second));
    room.until_nothing_is_left().await;
}
