//! Ordinary Python notices nothing: what agents' scripts do, each in a run of its own.

use serde_json::json;

use crate::client::{Server, text};

/// Each script prints `OK` in the end.
const PROGRAMS: [(&str, &str); 22] = [
    (
        "threads",
        "import threading\nts = [threading.Thread(target=lambda: None) for _ in range(64)]\n[t.start() for t in ts]; [t.join() for t in ts]\nprint('OK')",
    ),
    (
        "process pool",
        "from concurrent.futures import ProcessPoolExecutor as P\ndef f(x): return x * x\nif __name__ == '__main__':\n    with P(3) as p: assert list(p.map(f, range(9))) == [x * x for x in range(9)]\n    print('OK')",
    ),
    (
        "spawn",
        "import multiprocessing as m\ndef f(q): q.put(41)\nif __name__ == '__main__':\n    c = m.get_context('spawn'); q = c.Queue(); p = c.Process(target=f, args=(q,)); p.start(); assert q.get() == 41; p.join(); print('OK')",
    ),
    (
        "forkserver",
        "import multiprocessing as m\ndef f(q): q.put(42)\nif __name__ == '__main__':\n    c = m.get_context('forkserver'); q = c.Queue(); p = c.Process(target=f, args=(q,)); p.start(); assert q.get() == 42; p.join(); print('OK')",
    ),
    (
        "manager",
        "import multiprocessing as m\nif __name__ == '__main__':\n    with m.Manager() as g:\n        d = g.dict(); d['a'] = 1; assert d['a'] == 1\n    print('OK')",
    ),
    (
        "shared memory",
        "from multiprocessing import shared_memory as s\na = s.SharedMemory(create=True, size=1 << 20); a.buf[5] = 7\nb = s.SharedMemory(a.name); assert b.buf[5] == 7; b.close(); a.close(); a.unlink(); print('OK')",
    ),
    (
        "asyncio subprocess",
        "import asyncio\nasync def go():\n    ps = [await asyncio.create_subprocess_exec('echo', str(i), stdout=-1) for i in range(3)]\n    return [(await p.communicate())[0] for p in ps]\nassert asyncio.run(go()) == [b'0\\n', b'1\\n', b'2\\n']; print('OK')",
    ),
    (
        "shell tools",
        "import subprocess\nassert subprocess.check_output('seq 3 | sort -r | head -1', shell=True) == b'3\\n'; print('OK')",
    ),
    (
        "interpreter by name",
        "import subprocess, sys\nfor n in ('python', 'python3', sys.executable):\n    assert subprocess.check_output([n, '-c', 'import sys; print(sys.prefix)'], text=True).strip() == sys.prefix, n\nprint('OK')",
    ),
    (
        "database",
        "import sqlite3\nc = sqlite3.connect('x.db'); assert c.execute('pragma journal_mode=wal').fetchone() == ('wal',)\nc.execute('create table t(a)'); c.commit(); print('OK')",
    ),
    (
        "user and home",
        "import getpass, os, pathlib, pwd\nassert getpass.getuser() and pwd.getpwuid(os.getuid()).pw_dir == os.environ['HOME'] == str(pathlib.Path.home())\n(pathlib.Path.home() / 'x').write_text('y'); print('OK')",
    ),
    (
        "time zones",
        "import zoneinfo, datetime\nassert datetime.datetime(2026, 1, 1, tzinfo=zoneinfo.ZoneInfo('Europe/Berlin')).utcoffset().seconds == 3600; print('OK')",
    ),
    (
        "certificates",
        "import ssl\nassert ssl.create_default_context().cert_store_stats()['x509_ca'] > 0; print('OK')",
    ),
    (
        "own server",
        "import http.server, threading, urllib.request\ns = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\nthreading.Thread(target=s.serve_forever, daemon=True).start()\nassert urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f'http://127.0.0.1:{s.server_port}/').status == 200; print('OK')",
    ),
    (
        "temporary files",
        "import tempfile, os, subprocess\nwith tempfile.TemporaryDirectory() as d:\n    p = d + '/run.sh'; open(p, 'w').write('#!/bin/sh\\necho ran\\n'); os.chmod(p, 0o755)\n    assert subprocess.check_output([p]) == b'ran\\n'\nprint('OK')",
    ),
    (
        "module beside",
        "open('helper.py', 'w').write('x = 5')\nimport helper; assert helper.x == 5; print('OK')",
    ),
    ("no input", "try: input(); print('BAD')\nexcept EOFError: print('OK')"),
    (
        "pseudo-terminal",
        "import pty, os\nm, s = pty.openpty(); os.write(s, b'x'); assert os.read(m, 1) == b'x'; print('OK')",
    ),
    (
        "memory file",
        "import os, mmap\nf = os.memfd_create('m'); os.ftruncate(f, 4096); mmap.mmap(f, 4096)[0] = 1; print('OK')",
    ),
    (
        "callbacks",
        "import ctypes\nT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))\na = (ctypes.c_int * 3)(3, 1, 2); ctypes.CDLL(None).qsort(a, 3, 4, T(lambda x, y: x[0] - y[0])); assert list(a) == [1, 2, 3]; print('OK')",
    ),
    (
        "new environment",
        "import venv, subprocess\nvenv.create('v'); assert subprocess.check_output(['v/bin/python', '-c', 'print(1)']) == b'1\\n'; print('OK')",
    ),
    (
        "facts of the machine",
        "import os, platform, socket\nassert os.cpu_count() and open('/proc/meminfo').read() and open('/proc/sys/kernel/osrelease').read().strip() == platform.release()\nassert socket.gethostbyname('localhost') == '127.0.0.1' and socket.gethostname(); print('OK')",
    ),
];

#[test]
fn programs_of_many_kinds_run() {
    let mut server = Server::start(&[]);
    let mut failed = Vec::new();
    for (name, script) in PROGRAMS {
        let result = server.run(script);
        if result["structuredContent"]["stdout"] != "OK\n" {
            failed.push(format!("{name}: {}", text(&result)));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

#[test]
fn a_run_finds_nothing_of_the_one_before() {
    let mut server = Server::start(&[]);
    let leave = "import os\nfor d in ('/tmp', '/var/tmp', '/dev/shm', os.path.expanduser('~'), '.'):\n    open(d + '/left', 'w').write('x')\nprint('left')";
    assert_eq!(server.run(leave)["structuredContent"]["stdout"], "left\n");
    let look = "import os\nprint([d for d in ('/tmp', '/var/tmp', '/dev/shm', os.path.expanduser('~'), '.') if os.path.exists(d + '/left')])";
    assert_eq!(server.run(look)["structuredContent"]["stdout"], "[]\n");
}

#[test]
fn packages_are_there_and_lines_of_tracebacks_are_the_users_own() {
    let mut server = Server::start(&[]);
    let script = "#!/usr/bin/env python3\n# /// script\n# dependencies = ['six']\n# ///\nimport six\nprint(six.__name__)\nraise ValueError('here')\n";
    let result = server.tool(
        "execute_python",
        json!({"script": script, "dependencies": ["packaging"], "timeout_seconds": 120}),
    );
    assert_eq!(result["structuredContent"]["stdout"], "six\n", "{result}");
    let errors = result["structuredContent"]["stderr"].as_str().expect("a traceback");
    assert!(errors.contains("line 7") && errors.contains("raise ValueError('here')"), "{errors}");
}
