//! Ordinary runs: output to the byte, how a program ended, many at once.

use std::time::Duration;

use mcp_python_exec_sandbox::execution::run::attend;
use mcp_python_exec_sandbox::sandbox::spec::InlineFile;
use mcp_python_exec_sandbox::sandbox::{ExitStatus, Sandbox, StartError, WaitError};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::client::Server;
use super::{PATIENCE, Room, docker, spec};

#[tokio::test]
async fn output_and_exit_codes_are_the_program_s_own() {
    let Some(room) = Room::open().await else { return };
    let done = room.run("import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(7)").await;
    assert_eq!((done.stdout.text.as_str(), done.stderr.text.as_str()), ("out\n", "err\n"));
    assert_eq!((done.outcome.status, done.timed_out), (ExitStatus::Exited(7), false));
    assert!(done.outcome.usage.cpu > Duration::ZERO && done.outcome.usage.peak_memory > 1 << 20);
    // 139 by exit and 11 by signal are told apart.
    let done = room.run("import os\nos.kill(os.getpid(), 11)").await;
    assert_eq!(done.outcome.status, ExitStatus::Signaled(11));
    let done = room.run("import sys\nsys.exit(139)").await;
    assert_eq!(done.outcome.status, ExitStatus::Exited(139));
}

#[tokio::test]
async fn files_arrive_byte_for_byte_and_standard_input_is_empty() {
    let Some(room) = Room::open().await else { return };
    let mut spec = spec(
        "import hashlib, os, sys\nprint(hashlib.sha256(open('data/all.bin', 'rb').read()).hexdigest())\n\
         print(repr(sys.stdin.read()), sorted(os.listdir('.')))",
    );
    let bytes: Vec<u8> = (0..=255_u8).cycle().take(3 << 20).collect();
    let digest = {
        use sha2::{Digest, Sha256};
        format!("{:x}", Sha256::digest(&bytes))
    };
    spec.files.push(InlineFile { path: "data/all.bin".into(), content: bytes.into() });
    let done = room.run_spec(&spec, PATIENCE).await;
    assert_eq!(done.stdout.text, format!("{digest}\n'' ['data', 'script.py']\n"), "{}", done.stderr.text);
}

#[tokio::test]
async fn large_output_is_counted_whole_and_kept_in_part() {
    let Some(room) = Room::open().await else { return };
    let done = room.run("import sys\nfor _ in range(50):\n    sys.stdout.write('x' * (1 << 20))").await;
    assert_eq!((done.stdout.total_bytes, done.stdout.truncated), (50 << 20, true));
    assert_eq!(done.stdout.text.len(), 1 << 20);
}

#[tokio::test]
async fn a_timeout_keeps_what_was_printed_and_leaves_nothing() {
    let Some(room) = Room::open().await else { return };
    let warm = room.run("pass").await;
    assert_eq!(warm.outcome.status, ExitStatus::Exited(0));
    let script = "import os, time\nprint('before')\nif os.fork() == 0:\n    os.setsid()\ntime.sleep(600)";
    let done = room.run_spec(&spec(script), Duration::from_secs(5)).await;
    assert_eq!((done.stdout.text.as_str(), done.timed_out), ("before\n", true));
    assert_eq!(done.outcome.status, ExitStatus::Signaled(9));
    let took = room.until_nothing_is_left().await;
    assert!(took < super::GONE_WITHIN, "{took:?}");
}

#[tokio::test]
async fn twenty_at_once_do_not_mix() {
    let Some(room) = Room::open().await else { return };
    let scripts: Vec<String> = (0..20).map(|number| format!("print({number})")).collect();
    let specs: Vec<_> = scripts.iter().map(|script| spec(script)).collect();
    let mut runs = Vec::new();
    for spec in &specs {
        runs.push(room.run_spec(spec, PATIENCE));
    }
    for (number, done) in join_all(runs).await.into_iter().enumerate() {
        assert_eq!(done.stdout.text, format!("{number}\n"), "{}", done.stderr.text);
    }
    room.until_nothing_is_left().await;
}

/// All of them at the same time, in order.
async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut done: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, done) in futures.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            if let std::task::Poll::Ready(output) = future.as_mut().poll(context) {
                *done = Some(output);
            }
        }
        if done.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

#[tokio::test]
async fn the_private_channel_carries_bytes_both_ways() {
    let Some(room) = Room::open().await else { return };
    let mut spec = spec(
        "import socket\nchannel = socket.socket(fileno=3)\nwhile data := channel.recv(65536):\n    \
         channel.sendall(data.upper())\n    if data.endswith(b'.'): break",
    );
    spec.channel = true;
    let mut running = room.sandbox.start(&spec).await.expect("it starts");
    let mut channel = running.channel.take().expect("it was asked for");
    channel.write_all(b"hello.").await.expect("written");
    let mut answer = Vec::new();
    channel.read_to_end(&mut answer).await.expect("read until the program closed it");
    assert_eq!(answer, b"HELLO.");
    assert_eq!(running.control.wait().await.expect("it ended").status, ExitStatus::Exited(0));
}

#[tokio::test]
async fn a_program_that_is_not_there_is_told_as_such() {
    let Some(room) = Room::open().await else { return };
    let mut spec = spec("pass");
    spec.command.program = "/environment/bin/python".into();
    let error = room.sandbox.start(&spec).await.expect_err("it cannot start");
    assert!(matches!(&error, StartError::ProgramMissing(path) if path.ends_with("python")), "{error:?}");
    room.until_nothing_is_left().await;
}

#[tokio::test]
async fn a_waiting_interpreter_runs_a_script_like_any_other() {
    let Some(room) = Room::open().await else { return };
    let script = "import os, sys, traceback\nprint(__name__, __file__, sorted(os.listdir('.')), sys.argv)\n\
                  print(open(__file__).read() == SOURCE if 'SOURCE' in globals() else os.stat(__file__).st_size)\n\
                  def deep():\n    raise ValueError('here')\ntry:\n    deep()\nexcept ValueError:\n    traceback.print_exc()\n\
                  sys.exit(5)\n";
    let cold = room.run(script).await;
    let mut waiting = spec("");
    waiting.files.clear();
    let slot = room.sandbox.start_waiting(&waiting, "script.py".as_ref()).await.expect("it waits");
    assert!(slot.is_fit());
    let delivered = tokio::time::Instant::now();
    let running = slot.deliver(&script.as_bytes().into()).expect("it goes on");
    let warm = attend(running, delivered + PATIENCE, 1 << 20, None).await.expect("it runs");
    let took = delivered.elapsed();
    assert_eq!((&warm.stdout, &warm.stderr), (&cold.stdout, &cold.stderr));
    assert_eq!(warm.outcome.status, ExitStatus::Exited(5));
    assert!(took < Duration::from_secs(1), "{took:?}");
    println!("a hit took {took:?}");
}

#[tokio::test]
async fn a_waiting_container_that_is_gone_is_not_fit() {
    let Some(room) = Room::open().await else { return };
    let mut waiting = spec("");
    waiting.files.clear();
    let slot = room.sandbox.start_waiting(&waiting, "script.py".as_ref()).await.expect("it waits");
    let id = room.containers().pop().expect("one container");
    docker(&["kill", &id]);
    let start = tokio::time::Instant::now();
    while slot.is_fit() {
        assert!(start.elapsed() < PATIENCE, "it is still taken for one that waits");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(slot);
    room.until_nothing_is_left().await;
}

#[tokio::test]
async fn a_container_that_ends_before_its_script_has_come_says_so() {
    let Some(room) = Room::open().await else { return };
    let mut waiting = spec("");
    waiting.files.clear();
    let slot = room.sandbox.start_waiting(&waiting, "script.py".as_ref()).await.expect("it waits");
    let id = room.containers().pop().expect("one container");
    // Its first process does not take what it is given.
    docker(&["kill", "--signal", "STOP", &id]);
    let mut running = slot.deliver(&b"print('run')".as_slice().into()).expect("it is on its way");
    docker(&["kill", &id]);
    let error = running.control.wait().await.expect_err("nothing was run");
    assert!(matches!(error, WaitError::NotBegun(_)), "{error:?}");
    room.until_nothing_is_left().await;
}

#[tokio::test]
async fn a_call_whose_container_ends_before_its_script_has_come_is_run_by_another() {
    let Some(room) = Room::open().await else { return };
    let flags = ["--pool-size", "1", "--docker-image", &super::image()];
    let mut server = Server::start(room.folder.path(), &flags);
    let hello = |text: &str| json!({"script": format!("print('{text}')"), "timeout_seconds": 60});
    server.call("execute_python", &hello("first"));
    let id = waiting_container(&server);
    docker(&["kill", "--signal", "STOP", &id]);
    server.send_call("execute_python", &hello("second"));
    // The script is on its way: a container that is killed before that is not taken at all.
    tokio::time::sleep(Duration::from_millis(500)).await;
    docker(&["kill", &id]);
    let result = server.result();
    assert_eq!(result["structuredContent"]["stdout"], "second\n", "{result}");
}

/// The server's only container, once the program in it waits for its script.
fn waiting_container(server: &Server) -> String {
    let start = std::time::Instant::now();
    loop {
        assert!(start.elapsed() < PATIENCE, "no container waits");
        if let [id] = server.containers().as_slice() {
            let top =
                std::process::Command::new("docker").args(["top", id]).output().expect("the client starts");
            if String::from_utf8_lossy(&top.stdout).contains("/work/script.py") {
                return id.clone();
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[tokio::test]
async fn files_in_the_output_folder_are_shown() {
    let Some(room) = Room::open().await else { return };
    let done = room
        .run(
            "import os\nos.makedirs('output/sub')\nopen('output/b.txt', 'w').write('bee')\n\
             open('output/sub/a.bin', 'wb').write(bytes(200_000))\nopen('output/empty', 'w')\n\
             open('other', 'w').write('x')\nos.symlink('/etc/passwd', 'output/link')\nos.link('other', 'output/hard')\n\
             with open('output/large', 'wb') as file: file.truncate(9 << 20)",
        )
        .await;
    let shown: Vec<_> = done
        .left
        .output
        .iter()
        .map(|file| (file.path.to_string(), file.size, file.content.as_deref().map(<[u8]>::len)))
        .collect();
    let wanted = [
        ("output/b.txt".to_owned(), 3, Some(3)),
        ("output/empty".to_owned(), 0, Some(0)),
        ("output/large".to_owned(), 9 << 20, None),
        ("output/sub/a.bin".to_owned(), 200_000, Some(200_000)),
    ];
    assert_eq!(shown, wanted, "{}", done.stderr.text);
}
