//! One line on the terminal that says what a person is waiting for. Nothing where standard error is no terminal.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use crate::execution::Progress;

/// Columns of the bar.
const BAR: usize = 20;
/// The width of the line: no terminal is narrower, and a line that wraps cannot be taken back.
const WIDTH: usize = 79;

/// The line.
#[derive(Debug)]
pub struct Line {
    terminal: bool,
    shown: Mutex<bool>,
}

impl Line {
    /// A line on standard error.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { terminal: std::io::stderr().is_terminal(), shown: Mutex::new(false) })
    }

    /// Shows what is being done. The script's own output takes the terminal over.
    pub fn show(&self, progress: &Progress) {
        match text(progress) {
            Some(text) => self.wait(&text),
            None => self.clear(),
        }
    }

    /// Shows what is waited for.
    pub fn wait(&self, what: &str) {
        if self.terminal {
            *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = true;
            let text: String = what.chars().take(WIDTH).collect();
            let _ = write!(std::io::stderr(), "\r\x1b[2K{text}");
        }
    }

    /// Takes it away.
    pub fn clear(&self) {
        if std::mem::take(&mut *self.shown.lock().unwrap_or_else(PoisonError::into_inner)) {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }
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
}
