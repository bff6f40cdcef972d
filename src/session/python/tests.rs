//! The driver in every interpreter that is here: the same words from each of them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::driver::{Driver, Stopped};
use super::testing::{interpreters, real_driver, setup};
use super::{driver, reply};
use crate::execution::{Progress, ProgressSink};
use crate::session::interpreter::Stop;
use crate::session::report::{CellEnd, CellReport, FormBody};

fn quiet() -> ProgressSink {
    Arc::new(|_| {})
}

fn stop(after: Duration) -> Stop<'static> {
    Stop { deadline: Instant::now() + after, abandoned: Box::pin(std::future::pending()) }
}

async fn run(driver: &mut Driver, code: &str, after: Duration) -> (CellReport, Option<Stopped>) {
    let (answer, stopped) = driver.run(code, stop(after), &quiet()).await.expect("an answer");
    let end = driver::end_of(&answer, stopped, after);
    let mut report = reply::cell(answer, &setup(), after).expect("a report");
    report.end = end;
    (report, stopped)
}

async fn cell(driver: &mut Driver, code: &str) -> CellReport {
    run(driver, code, Duration::from_mins(1)).await.0
}

async fn value(driver: &mut Driver, code: &str) -> String {
    let report = cell(driver, code).await;
    assert_eq!(report.error, None, "{code}");
    report.results.last().map(|shown| shown.text.clone()).unwrap_or_default()
}

#[tokio::test]
async fn every_interpreter_keeps_state_and_tells_errors() {
    for python in interpreters() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut driver = real_driver(&python, folder.path()).await;
        let shown = python.display();
        assert_eq!(value(&mut driver, "x = 41\nx + 1").await, "42", "{shown}");
        assert_eq!(value(&mut driver, "_ * 2;").await, "", "{shown}");
        assert_eq!(value(&mut driver, "import asyncio\nawait asyncio.sleep(0, x)").await, "41", "{shown}");
        assert_eq!(value(&mut driver, "[y async for y in aiter_()] if False else x").await, "41", "{shown}");
        let report = cell(&mut driver, "print('out'); 1/0").await;
        let error = report.error.expect("an error");
        assert_eq!(
            (report.stdout.text.as_str(), error.name.as_str()),
            ("out\n", "ZeroDivisionError"),
            "{shown}"
        );
        assert!(error.traceback.contains("File \"<cell 5>\", line 1"), "{shown}: {}", error.traceback);
        assert!(error.traceback.contains("    print('out'); 1/0"), "{shown}: {}", error.traceback);
        let report = cell(&mut driver, "input()").await;
        assert_eq!(report.error.map(|error| error.name).as_deref(), Some("EOFError"), "{shown}");
        let (report, stopped) =
            run(&mut driver, "import time\ntime.sleep(60)", Duration::from_millis(300)).await;
        assert_eq!(stopped, Some(Stopped::TimedOut), "{shown}");
        assert!(matches!(report.end, CellEnd::Interrupted(_)), "{shown}: {report:?}");
        assert_eq!(report.error.map(|error| error.name).as_deref(), Some("KeyboardInterrupt"), "{shown}");
        assert_eq!(value(&mut driver, "x").await, "41", "{shown}");
        let report = cell(&mut driver, "import os\nprint('last', flush=True)\nos._exit(9)").await;
        assert!(
            matches!(&report.end, CellEnd::Lost { how, .. } if how.contains("exit code 9")),
            "{shown}: {report:?}"
        );
        assert_eq!(report.stdout.text, "last\n", "{shown}");
        let report = cell(&mut driver, "x").await;
        assert_eq!(report.error.map(|error| error.name).as_deref(), Some("NameError"), "{shown}");
    }
}

#[tokio::test]
async fn every_interpreter_shows_values_in_their_forms() {
    const DRAWS: &str = "
class Draws:
    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n...'
    def _repr_markdown_(self): return '**bold**'
    def _repr_html_(self): raise ValueError
    def __repr__(self): return 'drawn'
Draws()";
    for python in interpreters() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut driver = real_driver(&python, folder.path()).await;
        let report = cell(&mut driver, DRAWS).await;
        assert_eq!(report.error, None);
        let [shown] = report.results.as_slice() else { panic!("one value: {report:?}") };
        let forms: Vec<_> = shown.forms.iter().map(|form| form.media).collect();
        assert_eq!((shown.text.as_str(), forms), ("drawn", vec!["image/png", "text/markdown"]));
        let FormBody::File { path, size, preview } = &shown.forms[0].body else { panic!("a file") };
        assert_eq!((path.to_string().as_str(), *size), ("output/cell-1-1.png", 11));
        assert_eq!(preview.as_ref().map(|(media, _)| *media), Some("image/png"));
        assert!(folder.path().join("output/cell-1-1.png").is_file());
        let report = cell(&mut driver, "display(1, 'two')\n3").await;
        let texts: Vec<_> = report.results.iter().map(|shown| shown.text.as_str()).collect();
        assert_eq!(texts, ["1", "'two'", "3"]);
    }
}

#[tokio::test]
async fn lines_of_a_long_cell_are_told_while_it_runs() {
    let Some(python) = interpreters().pop() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut driver = real_driver(&python, folder.path()).await;
    let heard: Arc<Mutex<Vec<Progress>>> = Arc::default();
    let told = Arc::clone(&heard);
    let progress: ProgressSink = Arc::new(move |said| told.lock().expect("not poisoned").push(said));
    // A line, a progress bar, and half a line, each for as long as it takes until it is told.
    let code = "import sys, time\nprint('row 1', flush=True)\ntime.sleep(0.8)\n\
                sys.stderr.write('\\r10%\\r20%'); sys.stderr.flush()\ntime.sleep(0.8)\n\
                print('half', end='', flush=True)\ntime.sleep(0.8)";
    let (answer, _) = driver.run(code, stop(Duration::from_mins(1)), &progress).await.expect("an answer");
    let wanted = ["row 1", "10%"].map(|line| Progress::Output(line.to_owned()));
    assert_eq!(*heard.lock().expect("not poisoned"), wanted);
    assert_eq!((answer.stdout.text.as_str(), answer.stderr.text.as_str()), ("row 1\nhalf", "\r10%\r20%"));
    let quick = driver.run("for x in range(100000): print(x)", stop(Duration::from_mins(1)), &progress).await;
    assert_eq!(quick.expect("an answer").0.stdout.total, 588_890);
    assert!(heard.lock().expect("not poisoned").len() <= 4, "{heard:?}");
}

#[tokio::test]
async fn a_background_thread_is_heard_with_the_next_cell() {
    let Some(python) = interpreters().pop() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut driver = real_driver(&python, folder.path()).await;
    let code = "import threading\nevent = threading.Event()\ndef late():\n    event.wait(); print('late', flush=True)\n\
                thread = threading.Thread(target=late); thread.start()";
    assert_eq!(cell(&mut driver, code).await.stdout.text, "");
    assert_eq!(cell(&mut driver, "event.set(); thread.join()").await.stdout.text, "late\n");
}

#[tokio::test]
async fn an_interpreter_that_ends_between_the_calls_is_told_with_the_next() {
    let Some(python) = interpreters().pop() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut driver = real_driver(&python, folder.path()).await;
    let code = "import os, threading\nthreading.Timer(0.2, lambda: os._exit(5)).start()\nkept = 1";
    cell(&mut driver, code).await;
    std::thread::sleep(Duration::from_millis(600));
    let (answer, _) =
        driver.run("'kept' in globals()", stop(Duration::from_secs(10)), &quiet()).await.expect("an answer");
    assert!(answer.lost.is_some() && answer.cell.is_some(), "{answer:?}");
    assert_eq!(answer.results[0].text, "False");
}
