//! Many connections, hostile ones among them: the run stays bounded, others are served, nothing stays behind.

use std::time::Duration;

use serde_json::{Value, json};

use super::client::{Server, marker, take_name, text, wait_for_processes};
use super::lab::{As, run};

#[test]
fn more_callers_wait_than_the_server_has_places() {
    let script = r#"
threading.stack_size(256 << 10)
for _ in range(300):
    threading.Thread(target=lambda: tcp().connect(("198.51.100.2", 7004)), daemon=True).start()
time.sleep(0.5)
told("waiting", lambda: threading.active_count() > 300)
print("end", 0, flush=True)
os._exit(0)
"#;
    let Some(told) = run(script, &[], As::Caller) else { return };
    told.assert(&[("waiting", "True"), ("end", "0")]);
    assert_eq!(told.code, 0, "{}", told.errors);
}

#[test]
fn descriptors_that_change_under_the_server_do_no_harm() {
    let script = r#"
stop = False
def close():
    while not stop:
        for number in range(20, 60):
            try:
                os.close(number)
            except OSError:
                pass
threading.Thread(target=close, daemon=True).start()
end = time.monotonic() + 3
counts = {}
while time.monotonic() < end:
    streams = []
    for _ in range(20):
        number = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK).detach()
        try:
            os.dup2(number, 20 + number % 40)
            socket.socket(fileno=20 + number % 40).connect_ex((WORLD, 7000))
        except OSError:
            pass
        finally:
            try:
                os.close(number)
            except OSError:
                pass
stop = True
time.sleep(0.1)
print("survived", greeting(WORLD), flush=True)
os._exit(0)
"#;
    let Some(told) = run(script, &[], As::Caller) else { return };
    told.assert(&[("survived", "hello")]);
}

fn descriptors(server: &Server) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("it runs").count()
}

/// A storm of processes that connect to addresses for examples, where nobody is, ends with its run.
#[test]
fn a_storm_ends_with_its_run_and_leaves_nothing() {
    let mut server = Server::start(&["--network", "outbound", "--pool-size", "0"]);
    let marker = marker("storm");
    let quiet = "import socket\ntry:\n    socket.create_connection(('169.254.169.254', 80))\nexcept OSError as e:\n    print(e.errno)\n";
    let first = server.run(quiet);
    assert!(text(&first).contains("13"), "{first}");
    let looks = |server: &Server| -> Vec<usize> {
        let look = |_| {
            std::thread::sleep(Duration::from_millis(20));
            descriptors(server)
        };
        (0..50).map(look).collect()
    };
    // The next sandbox's ground is laid meanwhile, and has some as well.
    let before = looks(&server).into_iter().max().unwrap_or_default();
    let storm = take_name(&marker)
        + "
import os, socket, threading, time
for _ in range(20):
    if os.fork() == 0:
        break
def connect(blocks):
    while True:
        stream = socket.socket()
        stream.setblocking(blocks)
        try:
            stream.connect_ex(('198.51.100.7', 9))
        except OSError:
            pass
for number in range(8):
    threading.Thread(target=connect, args=(number % 2 == 0,)).start()
";
    let arguments = json!({"script": storm, "timeout_seconds": 3});
    let storm = server.ask_tool("execute_python", arguments);
    wait_for_processes(&marker, |count| count > 10, Duration::from_secs(20));
    // Meanwhile the server answers, and another run connects.
    let beside = server.run(quiet);
    assert!(text(&beside).contains("13"), "{beside}");
    let reply: Value = server.reply(storm);
    assert!(reply["result"]["structuredContent"]["timed_out"] == json!(true), "{reply}");
    wait_for_processes(&marker, |count| count == 0, Duration::from_secs(5));
    let least = looks(&server).into_iter().min().unwrap_or(usize::MAX);
    assert!(least <= before, "{before} descriptors before, {least} after");
}
