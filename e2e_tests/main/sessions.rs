//! Stateful sandboxes from outside: real interpreters in real sandboxes.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::backend::differs;
use crate::client::{Server, binary, common_flags, marker, processes, take_name, text, wait_for_processes};

struct Session {
    server: Server,
}

impl Session {
    fn start(flags: &[&str]) -> Self {
        let mut server = Server::start(flags);
        let made = server.tool("create_sandbox", json!({"session_id": "s"}));
        assert_eq!(made["isError"], false, "{made}");
        Self { server }
    }

    fn call(&mut self, tool: &str, mut arguments: Value) -> Value {
        arguments["session_id"] = json!("s");
        self.server.tool(tool, arguments)
    }

    fn run(&mut self, code: &str) -> Value {
        self.call("execute_code", json!({"code": code, "timeout_seconds": 60}))
    }

    /// The text of the last value that a cell shows.
    fn value(&mut self, code: &str) -> String {
        let result = self.run(code);
        let fields = &result["structuredContent"];
        assert_eq!(fields["error"], Value::Null, "{result}");
        let shown = fields["results"].as_array().and_then(|results| results.last());
        shown.and_then(|shown| shown["text"].as_str()).unwrap_or_default().to_owned()
    }
}

fn error(result: &Value) -> &Value {
    &result["structuredContent"]["error"]
}

#[test]
fn state_lives_from_cell_to_cell() {
    let mut session = Session::start(&[]);
    session.run("import os\ndef double(x):\n    return 2 * x\nkept = 21\nos.makedirs('sub'); os.chdir('sub')\nfile = open('open.txt', 'w+')");
    assert_eq!(session.value("double(kept)"), "42");
    assert_eq!(session.value("_ + 1"), "43");
    assert_eq!(session.value("file.write('abc'), os.path.basename(os.getcwd())"), "(3, 'sub')");
    assert_eq!(session.value("file.seek(0); file.read()"), "'abc'");
    assert_eq!(session.value("kept;"), "");
    assert_eq!(session.value("None"), "");
    assert_eq!(session.value("# nothing"), "");
    assert_eq!(session.value("from __future__ import annotations\nx: undefined_name = 1"), "");
    assert_eq!(session.value("def later(a: undefined_name): return a\nlater(3)"), "3");
}

#[test]
fn exceptions_carry_the_lines_of_their_cells() {
    let mut session = Session::start(&[]);
    session.run("def fails():\n    return 1 / 0");
    let result = session.run("before = 1\nfails()");
    let traceback = error(&result)["traceback"].as_str().expect("a traceback");
    assert_eq!(
        (error(&result)["name"].as_str(), &result["isError"]),
        (Some("ZeroDivisionError"), &json!(false))
    );
    for line in [
        "File \"<cell 2>\", line 2, in <module>",
        "    fails()",
        "File \"<cell 1>\", line 2, in fails",
        "    return 1 / 0",
    ] {
        assert!(traceback.contains(line), "{line}: {traceback}");
    }
    assert!(!traceback.contains("driver"), "{traceback}");
    assert!(text(&result).contains("ZeroDivisionError: division by zero"));
    let result = session.run("x = (1,\n  2");
    assert_eq!(error(&result)["name"], "SyntaxError");
    let result = session.run("class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd");
    assert_eq!(error(&result)["name"], "Odd");
    let result = session.run("def deep(): deep()\ndeep()");
    assert_eq!(error(&result)["name"], "RecursionError");
    let result = session.run("import sys; sys.exit(3)");
    assert_eq!(
        (error(&result)["name"].as_str(), error(&result)["value"].as_str()),
        (Some("SystemExit"), Some("3"))
    );
    assert_eq!(session.value("before"), "1");
}

#[test]
fn await_works_and_input_is_at_its_end() {
    let mut session = Session::start(&[]);
    let code =
        "import asyncio\nasync def later(x):\n    await asyncio.sleep(0.01)\n    return x\nawait later(5)";
    assert_eq!(session.value(code), "5");
    let code = "async def count():\n    for x in range(3): yield x\n[x async for x in count()]";
    assert_eq!(session.value(code), "[0, 1, 2]");
    assert_eq!(session.value("async def main(): return 7\nasyncio.run(main())"), "7");
    let result = session.run("input('name? ')");
    assert_eq!(error(&result)["name"], "EOFError");
    session.run("exit()");
    assert_eq!(error(&session.run("input()"))["name"], "EOFError");
    let result =
        session.call("execute_code", json!({"code": "await asyncio.sleep(60)", "timeout_seconds": 1}));
    assert_eq!(error(&result)["name"], "KeyboardInterrupt");
    assert_eq!(session.value("await later(6)"), "6");
}

#[test]
fn output_of_every_kind_is_kept_apart_and_bounded() {
    let mut session = Session::start(&["--max-output-bytes", "2048"]);
    let code = "import os, sys, subprocess\nprint('out')\nprint('err', file=sys.stderr)\nos.write(1, b'raw\\xff')\n\
                subprocess.run(['echo', 'child'])\n'value'";
    let result = session.run(code);
    let logs = &result["structuredContent"]["logs"];
    assert_eq!(
        (logs["stdout"].as_str(), logs["stderr"].as_str()),
        (Some("out\nraw\u{fffd}child\n"), Some("err\n"))
    );
    let result = session.run("for _ in range(300000): print('x' * 100)");
    let shown = result["structuredContent"]["logs"]["stdout"].as_str().expect("output");
    assert!(shown.len() <= 2048 && shown.contains("truncated"), "{}", shown.len());
    let result = session.run("'y' * 10_000_000");
    assert!(text(&result).len() < 10_000, "{}", text(&result).len());
    assert_eq!(session.value("sys.stdout.close()"), "");
    let result = session.run("print('again')");
    assert_eq!(result["structuredContent"]["logs"]["stdout"], "again\n", "{result}");
}

#[test]
fn a_cell_that_takes_too_long_is_interrupted_and_state_stays() {
    let mut session = Session::start(&[]);
    session.run("kept = 1\nimport time");
    let arguments = json!({"code": "print('early')\ntime.sleep(60)", "timeout_seconds": 1});
    let result = session.call("execute_code", arguments);
    assert_eq!(result["isError"], true);
    assert_eq!(error(&result)["name"], "KeyboardInterrupt");
    assert!(text(&result).contains("interrupted after 1 s; variables are kept"), "{result}");
    assert!(text(&result).contains("early"));
    assert_eq!(session.value("kept"), "1");
    let stubborn =
        "while True:\n    try:\n        time.sleep(60)\n    except KeyboardInterrupt:\n        pass";
    let result = session.call("execute_code", json!({"code": stubborn, "timeout_seconds": 1}));
    assert!(text(&result).contains("variables and imports are lost"), "{result}");
    assert_eq!(
        (&result["isError"], &result["structuredContent"]["stopped"]["how"]),
        (&json!(true), &json!("state_lost"))
    );
    assert_eq!(error(&session.run("kept"))["name"], "NameError");
}

#[test]
fn a_cancelled_cell_is_interrupted_and_state_stays() {
    let mut session = Session::start(&[]);
    session.run("kept = 5\nimport time");
    let arguments = json!({"session_id": "s", "code": "open('begun', 'w').close()\ntime.sleep(60)", "timeout_seconds": 100});
    let id = session.server.ask_tool("execute_code", arguments);
    // The file shows that it runs; reading it would wait for the cell, so the next cell looks.
    std::thread::sleep(Duration::from_millis(500));
    session.server.notify("notifications/cancelled", json!({"requestId": id}));
    let started = Instant::now();
    assert_eq!(session.value("import os; os.path.exists('begun'), kept"), "(True, 5)");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_crash_is_told_and_the_sandbox_lives_on_with_its_files() {
    let mut session = Session::start(&[]);
    session.call("write_file", json!({"file_path": "kept.txt", "content": "here"}));
    for (code, told) in [
        ("print('last words', flush=True)\nimport ctypes; ctypes.string_at(0)", "signal 11"),
        ("import os; os._exit(7)", "exit code 7"),
        ("import os; os.kill(os.getpid(), 9)", "killed"),
    ] {
        let result = session.run(code);
        assert!(text(&result).contains(told) && result["isError"] == true, "{code}: {result}");
        assert_eq!(session.value("open('kept.txt').read()"), "'here'");
    }
}

#[test]
fn a_forked_child_that_comes_to_the_end_of_its_cell_answers_no_other_cell() {
    let mut session = Session::start(&[]);
    session.run("import os, sys\nchild = os.fork()\nif not child: raise ValueError('of the child')");
    assert_eq!(session.value("os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])"), "1");
    session.run("child = os.fork()\nif not child: sys.exit(3)");
    assert_eq!(session.value("os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])"), "3");
    session.run("child = os.fork()");
    assert_eq!(session.value("os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])"), "0");
    for number in 0..5 {
        assert_eq!(session.value(&format!("{number} + 1")), (number + 1).to_string());
    }
}

#[test]
fn the_loss_of_the_whole_sandbox_is_told_and_its_files_are_carried_over() {
    let mut session = Session::start(&[]);
    session.call("write_file", json!({"file_path": "d/kept.txt", "content": "here"}));
    let result = session.run("import os; os.kill(os.getppid(), 9)");
    assert_eq!(
        (&result["isError"], &result["structuredContent"]["error"]),
        (&json!(true), &json!("sandbox_ended"))
    );
    let read = session.call("read_file", json!({"file_path": "d/kept.txt"}));
    if differs("a stateful sandbox that is lost") {
        assert!(read["isError"] == true && text(&read).contains("and its files with it"), "{read}");
        let result = session.run("1");
        assert!(text(&result).contains("variables, imports and files are lost"), "{result}");
        return;
    }
    assert_eq!(read["structuredContent"]["content"], "here", "files are there before the next cell");
    let result = session.run("open('d/kept.txt').read()");
    assert!(
        text(&result).contains("'here'") && text(&result).contains("variables and imports are lost"),
        "{result}"
    );
}

#[test]
fn code_that_forges_the_driver_s_words_hurts_its_own_session_only() {
    let mut session = Session::start(&[]);
    session.server.tool("create_sandbox", json!({"session_id": "other"}));
    // Writes to every descriptor that it finds.
    let forge = "import os\nfor fd in range(3, 512):\n    try: os.write(fd, b'\\xff\\xff\\xff\\xff{}')\n    except OSError: pass";
    let result = session.run(forge);
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(session.value("6 * 7"), "42");
    let other = session.server.tool("execute_code", json!({"session_id": "other", "code": "6 * 7"}));
    assert!(text(&other).contains("42"), "{other}");
}

#[test]
fn two_sandboxes_see_nothing_of_each_other() {
    let mut session = Session::start(&[]);
    session.server.tool("create_sandbox", json!({"session_id": "other"}));
    session.run("open('/tmp/mark', 'w').write('1'); open('mark', 'w').write('1'); open('/dev/shm/mark', 'w').write('1'); secret = 1");
    let look = "import os; [os.path.exists(p) for p in ('/tmp/mark', 'mark', '/dev/shm/mark')], 'secret' in globals()";
    let other = session.server.tool("execute_code", json!({"session_id": "other", "code": look}));
    assert!(text(&other).contains("([False, False, False], False)"), "{other}");
}

#[test]
fn planted_names_lead_to_nothing_of_the_host() {
    let mut session = Session::start(&[]);
    let plant = "import os\nos.symlink('/etc/passwd', 'link'); os.symlink('/', 'root'); os.symlink('/proc/self', 'proc')\n\
                 os.mkfifo('fifo'); open('one', 'w').write('x'); os.link('one', 'two')\n\
                 open(b'odd\\xff', 'w').close()\nopen('large', 'w').close(); os.truncate('large', 1 << 29)";
    let planted = session.run(plant);
    assert_eq!(error(&planted), &Value::Null, "{planted}");
    for path in
        ["link", "root/etc/passwd", "proc/environ", "fifo", "one", "two", "../x", "/etc/passwd", "root"]
    {
        let read = session.call("read_file", json!({"file_path": path}));
        assert!(read["isError"] == true && !text(&read).contains("root:"), "{path}: {read}");
        let written =
            session.call("write_file", json!({"file_path": format!("{path}/made"), "content": "x"}));
        assert_eq!(written["isError"], true, "{path}: {written}");
    }
    let piece = session.call("read_file", json!({"file_path": "large", "offset": 1 << 28, "length": 10}));
    assert_eq!(piece["isError"], false, "{piece}");
    let listed = session.call("list_files", json!({}));
    assert!(text(&listed).contains("odd\u{fffd}") && text(&listed).contains("fifo (special)"), "{listed}");
    let deleted = session.call("delete_file", json!({"file_path": "link"}));
    assert_eq!(deleted["isError"], false, "{deleted}");
}

#[test]
fn what_the_server_writes_belongs_to_the_code_inside() {
    let mut session = Session::start(&[]);
    session.call("write_file", json!({"file_path": "a/b.txt", "content": "one"}));
    assert_eq!(
        session
            .value("open('a/b.txt', 'a').write(' two'); open('a/new', 'w').close(); open('a/b.txt').read()"),
        "'one two'"
    );
    let upload = json!({"file_name": "x.bin", "file_content": "AAEC/w==", "destination_path": "a", "encoding": "base64"});
    session.call("upload_file", upload);
    assert_eq!(session.value("open('a/x.bin', 'rb').read()"), "b'\\x00\\x01\\x02\\xff'");
}

#[test]
fn a_full_disk_is_told() {
    let mut session = Session::start(&[]);
    let fill = "try:\n    with open('fill', 'wb') as f:\n        while True: f.write(bytes(1 << 22))\nexcept OSError as e:\n    print(e.errno)";
    let result = session.run(fill);
    assert!(text(&result).contains("28") || text(&result).contains("27"), "{result}");
    session.run("open('fill2', 'wb').write(bytes(1 << 22)) if False else None");
    let deleted = session.call("delete_file", json!({"file_path": "fill"}));
    assert_eq!(deleted["isError"], false, "{deleted}");
    let written = session.call("write_file", json!({"file_path": "again", "content": "x"}));
    assert_eq!(written["isError"], false, "{written}");
}

#[test]
fn idle_sandboxes_are_closed() {
    let mut session = Session::start(&["--sandbox-ttl", "1"]);
    std::thread::sleep(Duration::from_millis(1500));
    let result = session.run("1");
    assert!(text(&result).contains("after 1 seconds without use"), "{result}");
}

#[test]
fn nothing_is_left_when_a_sandbox_is_closed_or_the_client_goes_or_the_server_dies() {
    let mark = marker("sess");
    let daemon = format!(
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    {}    time.sleep(1000)",
        take_name(&mark)
    );
    let mut session = Session::start(&[]);
    session.run(&daemon);
    wait_for_processes(&mark, |count| count > 0, Duration::from_secs(10));
    let closed = session.call("close_sandbox", json!({}));
    assert_eq!(
        (closed["isError"].as_bool(), processes(&mark)),
        (Some(false), 0),
        "gone when the answer comes"
    );
    for end in [Server::close_input as fn(&mut Server), Server::kill] {
        let mut session = Session::start(&[]);
        session.run(&daemon);
        wait_for_processes(&mark, |count| count > 0, Duration::from_secs(10));
        end(&mut session.server);
        wait_for_processes(&mark, |count| count == 0, Duration::from_secs(5));
    }
}

/// The newest versions of the language, which come with the gate and not with the machine.
#[test]
fn sandboxes_of_the_newest_versions_work_whole() {
    if differs("interpreters") {
        return;
    }
    let Some(folder) = std::env::var_os("TEST_PYTHONS") else {
        crate::skipped::skipped("sandboxes of Python 3.14 and 3.15: TEST_PYTHONS names no folder with them");
        return;
    };
    for version in ["3.14", "3.15"] {
        let mut command = Command::new(binary());
        command.env("UV_PYTHON_INSTALL_DIR", &folder).args(common_flags(&[]));
        command.args(["--no-warm-cache", "--python-version", version]);
        let mut server = Server::start_command(&mut command);
        let made = server.tool("create_sandbox", json!({"session_id": "s"}));
        let told = made["structuredContent"]["version"].as_str().unwrap_or_default();
        assert!(told.starts_with(version), "{version}: {made}");
        let mut session = Session { server };
        session.run("import asyncio, sys, time\nx = 20\ndef fails(): return 1 / 0");
        assert_eq!(session.value("await asyncio.sleep(0, x + 1)"), "21", "{version}");
        assert_eq!(session.value("'%d.%d' % sys.version_info[:2]"), format!("'{version}'"));
        let failed = session.run("fails()");
        assert_eq!(error(&failed)["name"], "ZeroDivisionError", "{version}");
        assert!(error(&failed)["traceback"].to_string().contains("<cell 1>"), "{version}: {failed}");
        // The default way to start processes is another one from 3.14 on.
        let pool = "from concurrent.futures import ProcessPoolExecutor\nimport math\n\
                    with ProcessPoolExecutor(2) as pool: print(list(pool.map(math.sqrt, [4, 9])))";
        let pooled = session.run(pool);
        assert_eq!(pooled["structuredContent"]["logs"]["stdout"], "[2.0, 3.0]\n", "{version}: {pooled}");
        let late = session.call("execute_code", json!({"code": "time.sleep(60)", "timeout_seconds": 1}));
        assert!(text(&late).contains("variables are kept"), "{version}: {late}");
        let installed =
            session.call("install_package", json!({"package_name": "six", "timeout_seconds": 120}));
        assert_eq!(installed["isError"], false, "{version}: {installed}");
        assert_eq!(session.value("import six; six.PY3, x"), "(True, 20)", "{version}");
        let lost = session.run("import os; os._exit(3)");
        assert!(text(&lost).contains("exit code 3"), "{version}: {lost}");
        assert_eq!(session.value("import six; six.PY3"), "True", "{version}");
    }
}

#[test]
fn an_analyst_gets_through_a_whole_session_with_the_python_client() {
    let Some(python) = std::env::var_os("E2E_PYTHON") else {
        assert!(std::env::var_os("CI").is_none(), "CI has to set E2E_PYTHON");
        crate::skipped::skipped("analyst's session: E2E_PYTHON names no Python with the mcp package");
        return;
    };
    let output = std::process::Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/e2e_tests/session_client.py"))
        .arg(binary())
        .arg("--no-warm-cache")
        .args(common_flags(&[]))
        .output()
        .expect("Python starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("all steps done"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
