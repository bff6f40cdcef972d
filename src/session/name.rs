//! Names of sessions, as callers choose them.

use std::fmt;
use std::str::FromStr;

use super::error::SessionError;

/// Longest name, in characters.
const LONGEST: usize = 64;

/// A checked name: up to 64 ASCII letters, digits, `-`, `_` and `.`, the first of them a letter or digit. It can stand
/// in a URI and in a message as it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(String);

impl SessionId {
    /// The name of the nth session without one of its own.
    pub(super) fn numbered(number: u64) -> Self {
        Self(format!("sandbox-{number}"))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SessionId {
    type Err = SessionError;

    fn from_str(text: &str) -> Result<Self, SessionError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let first = text.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
        if first && text.len() <= LONGEST && text.chars().all(plain) {
            return Ok(Self(text.to_owned()));
        }
        Err(SessionError::Name(text.chars().take(LONGEST).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_are_taken_and_others_refused() {
        for name in ["a", "analysis-1", "0a.b_c", &"x".repeat(64)] {
            assert_eq!(name.parse::<SessionId>().map(|id| id.to_string()).as_deref(), Ok(name));
        }
        for name in
            ["", "a/b", "../a", ".a", "-a", "a b", "a\n", "\u{e4}", &"x".repeat(65), &"x".repeat(10_000)]
        {
            let error = name.parse::<SessionId>().map(|_| ()).map_err(|error| error.to_string());
            assert!(error.is_err_and(|text| text.len() < 300), "{name} was taken");
        }
    }
}
