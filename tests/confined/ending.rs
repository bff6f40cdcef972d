//! Nothing of a run outlives it, and nothing of it can end who watches over it.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::host::{Caller, Place};

/// Longest wait for processes to be gone on a busy machine.
const GONE: Duration = Duration::from_secs(10);

/// Processes whose command line holds this word.
fn processes(word: &str) -> usize {
    let entries = std::fs::read_dir("/proc").expect("processes are listed").flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(word)).count()
}

fn wait_until_gone(word: &str) {
    let end = Instant::now() + GONE;
    while processes(word) > 0 {
        assert!(Instant::now() < end, "{} processes are left", processes(word));
        std::thread::yield_now();
    }
}

/// A script that leaves daemons of every kind behind, each with the word in its command line.
fn daemons(word: &str, ending: &str) -> String {
    format!(
        "import os, signal, subprocess, sys\n\
         sleep = [sys.executable, '-c', 'import signal, time\\nfor s in (1, 2, 15): signal.signal(s, 1)\\nprint(1, flush=True)\\ntime.sleep(600)', '{word}']\n\
         for _ in range(3):\n    \
             child = subprocess.Popen(sleep, start_new_session=True, stdout=subprocess.PIPE)\n    \
             child.stdout.readline()\n\
         ready, tell = os.pipe()\n\
         if os.fork() == 0:\n    \
             os.setsid()\n    \
             if os.fork() == 0:\n        \
                 os.setpgid(0, 0)\n        \
                 os.dup2(tell, 1)\n        \
                 os.execv(sys.executable, sleep)\n    \
             os._exit(0)\n\
         os.read(ready, 1)\n\
         print('begun', flush=True)\n{ending}"
    )
}

#[test]
fn daemons_end_with_the_script() {
    for caller in [Caller::User, Caller::ContainerRoot] {
        let Some(place) = Place::of(caller) else { continue };
        let word = format!("daemon-{caller:?}-{}", std::process::id());
        let output = place.run(&[], &daemons(&word, ""));
        assert_eq!(output.stdout, b"begun\n", "{}", String::from_utf8_lossy(&output.stderr));
        // What has ended is not waited for: all are gone when the program tells the end.
        assert_eq!(processes(&word), 0, "{caller:?}");
    }
}

#[test]
fn a_killed_server_leaves_no_process_and_no_folder() {
    for caller in [Caller::User, Caller::ContainerRoot] {
        let Some(place) = Place::of(caller) else { continue };
        let word = format!("orphan-{caller:?}-{}", std::process::id());
        let ending = "print(os.path.dirname(os.getcwd()), flush=True)\nsignal.pause()";
        let file = place.write("script.py", &daemons(&word, ending));
        let mut command = place.command(&["run", file.to_str().expect("UTF-8"), "--timeout", "60"]);
        let mut server = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut lines = BufReader::new(server.stdout.take().expect("piped")).lines();
        assert_eq!(lines.next().expect("a line").expect("text"), "begun");
        let folder = lines.next().expect("a line").expect("text");
        server.kill().expect("killed");
        server.wait().expect("collected");
        wait_until_gone(&word);
        let end = Instant::now() + GONE;
        while std::path::Path::new(&folder).exists() {
            assert!(Instant::now() < end, "{folder} is still there");
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_fork_bomb_ends_at_the_deadline_and_the_next_run_works() {
    let place = Place::of(Caller::User).expect("everybody can be this one");
    // Bounded by its own deadline too, so that a test that fails does not take the machine along.
    let bomb = "import os, resource, time\nresource.setrlimit(resource.RLIMIT_NPROC, (300, 300))\n\
                print('begun', flush=True)\nend = time.monotonic() + 20\n\
                while time.monotonic() < end:\n    \
                    try:\n        os.fork()\n    except OSError:\n        time.sleep(0.001)";
    // What a start takes: on an emulated machine, many seconds.
    let start = Instant::now();
    assert_eq!(place.run(&[], "print('first')").stdout, b"first\n");
    let usual = start.elapsed();
    let start = Instant::now();
    let output = place.run(&["--timeout", "2"], bomb);
    assert_eq!((output.stdout.as_slice(), output.status.code()), (&b"begun\n"[..], Some(124)));
    assert!(start.elapsed() < Duration::from_secs(15) + 4 * usual, "{:?}, usual: {usual:?}", start.elapsed());
    assert_eq!(place.run(&[], "print('next')").stdout, b"next\n");
}

#[test]
fn nothing_ends_the_supervisor() {
    let script = "import os, signal\n\
                  for target in (os.getppid(), -1, 1):\n    \
                      try:\n        os.kill(target, signal.SIGTERM if target == -1 else signal.SIGKILL)\n        print('sent', target == -1)\n    \
                      except OSError as error:\n        print(type(error).__name__)\n\
                  print('alive')";
    let guarded = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n";
    for (caller, backend) in
        [(Caller::User, "native"), (Caller::ContainerRoot, "native"), (Caller::User, "none")]
    {
        let Some(place) = Place::of(caller) else { continue };
        let output = place.run(&["--sandbox-backend", backend], &format!("{guarded}{script}"));
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(stdout.starts_with("PermissionError\n"), "{caller:?} {backend}: {stdout}");
        assert!(stdout.ends_with("PermissionError\nalive\n"), "{caller:?} {backend}: {stdout}");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
