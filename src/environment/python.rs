//! Which Python is asked for. Pure.

use std::fmt;
use std::str::FromStr;

/// A Python version as a person names it: `3.13` or `3.13.2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PythonVersion {
    /// Major version; always 3.
    pub major: u8,
    /// Minor version.
    pub minor: u8,
    /// Patch version, where one was named.
    pub patch: Option<u8>,
}

impl PythonVersion {
    /// The version that is used when none is asked for.
    pub const DEFAULT: Self = Self { major: 3, minor: 13, patch: None };
}

impl fmt::Display for PythonVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        self.patch.map_or(Ok(()), |patch| write!(f, ".{patch}"))
    }
}

/// A text that names no Python 3 version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a Python version; write it like 3.13 or 3.13.2 (3.9 or newer)")]
pub struct PythonVersionError(pub String);

impl FromStr for PythonVersion {
    type Err = PythonVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || PythonVersionError(text.to_owned());
        let mut numbers = text.trim().split('.').map(|part| {
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            if digits { part.parse::<u8>().map_err(|_| error()) } else { Err(error()) }
        });
        let major = numbers.next().ok_or_else(error)??;
        let minor = numbers.next().ok_or_else(error)??;
        let patch = numbers.next().transpose()?;
        let oldest = 9;
        if major != 3 || minor < oldest || numbers.next().is_some() {
            return Err(error());
        }
        Ok(Self { major, minor, patch })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_shown_alike() {
        for text in ["3.13", "3.9", "3.14.2"] {
            assert_eq!(text.parse::<PythonVersion>().map(|v| v.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "3", "2.7", "3.8", "3.13.2.1", "3.x", "python3.13", "3.-1", "3.+1", "3.999"] {
            assert!(text.parse::<PythonVersion>().is_err(), "{text} was taken");
        }
    }
}
