//! One line on the terminal that says what a person is waiting for, and for how long. Nothing where standard error is no
//! terminal.

use std::io::Write;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, interval};

use super::terminal;
use crate::execution::Progress;

/// Columns of the bar.
const BAR: usize = 20;
/// The width of the line: no terminal is narrower, and a line that wraps cannot be taken back.
const WIDTH: usize = 79;
/// What turns at the beginning of the line.
const FRAMES: [char; 4] = ['|', '/', '-', '\\'];
/// Time between two of them.
const TURN: Duration = Duration::from_millis(120);
/// What is done within this time is not worth a line.
const SOON: Duration = Duration::from_millis(300);

/// The line.
#[derive(Debug)]
pub struct Line {
    terminal: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    since: Instant,
    text: Option<String>,
    turns: usize,
    drawn: bool,
}

impl Line {
    /// A line on standard error.
    pub fn new() -> Arc<Self> {
        let state = State { since: Instant::now(), text: None, turns: 0, drawn: false };
        Arc::new(Self { terminal: terminal::moving(&std::io::stderr()), state: Mutex::new(state) })
    }

    /// Does `work` while the line turns, and takes it away at the end.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let (mut work, mut turn) = (pin!(work), interval(TURN));
        loop {
            tokio::select! {
                biased;
                done = &mut work => {
                    self.clear();
                    return done;
                }
                _ = turn.tick(), if self.terminal => self.draw(),
            }
        }
    }

    /// Shows what is being done. The script's own output takes the terminal over.
    pub fn show(&self, progress: &Progress) {
        match text(progress) {
            Some(text) => self.wait(&text),
            None => self.clear(),
        }
    }

    /// Shows what is waited for, as long as work is done.
    pub fn wait(&self, what: &str) {
        self.state().text = Some(what.to_owned());
    }

    /// Takes it away.
    pub fn clear(&self) {
        let mut state = self.state();
        state.text = None;
        if std::mem::take(&mut state.drawn) {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }

    fn draw(&self) {
        let mut state = self.state();
        let elapsed = state.since.elapsed();
        if elapsed < SOON {
            return;
        }
        let Some(text) = &state.text else { return };
        let line = line(text, state.turns, elapsed);
        let _ = write!(std::io::stderr(), "\r\x1b[2K{line}");
        state.turns += 1;
        state.drawn = true;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn line(text: &str, turns: usize, elapsed: Duration) -> String {
    let line = format!("{} {text}, {} s", FRAMES[turns % FRAMES.len()], elapsed.as_secs());
    line.chars().take(WIDTH).collect()
}

fn text(progress: &Progress) -> Option<String> {
    match progress {
        Progress::Queued => Some("waiting for a free place".to_owned()),
        Progress::Preparing { what, total: 0, .. } => Some(what.clone()),
        Progress::Preparing { what, done, total } => {
            let full = (1..=BAR as u64).filter(|column| column * total <= BAR as u64 * done).count();
            let bar = "#".repeat(full) + &".".repeat(BAR - full);
            Some(format!("[{bar}] {done}/{total} {what}"))
        }
        Progress::Running | Progress::Output(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_grows_with_the_packages() {
        let preparing =
            |done, total| text(&Progress::Preparing { what: "installing".to_owned(), done, total });
        assert_eq!(preparing(0, 0).as_deref(), Some("installing"));
        assert_eq!(preparing(5, 10).as_deref(), Some("[##########..........] 5/10 installing"));
        assert_eq!(preparing(11, 10).as_deref(), Some("[####################] 11/10 installing"));
        assert_eq!(text(&Progress::Running), None);
    }

    #[test]
    fn the_line_turns_counts_and_never_wraps() {
        assert_eq!(line("running", 0, Duration::from_millis(1900)), "| running, 1 s");
        assert_eq!(line("running", 5, Duration::from_secs(62)), "/ running, 62 s");
        assert_eq!(line(&"ä".repeat(200), 1, SOON).chars().count(), WIDTH);
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_that_was_taken_away_is_not_drawn_again() {
        let state = State { since: Instant::now(), text: None, turns: 0, drawn: false };
        let line = Line { terminal: true, state: Mutex::new(state) };
        line.wait("resolving");
        let result = line.during(async {
            tokio::time::sleep(SOON * 2).await;
            let turned = line.state().turns;
            line.clear();
            tokio::time::sleep(SOON * 2).await;
            (turned, line.state().turns)
        });
        let (turned, later) = result.await;
        assert!(turned > 0 && turned == later, "{turned} and then {later}");
        assert!(!line.state().drawn);
    }
}
