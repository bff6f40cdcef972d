//! A limit that a run reached, in the words that everybody uses for it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A limit that a run reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitHit {
    /// Memory of all processes together, in bytes.
    Memory(u64),
    /// Number of processes.
    Processes(u64),
    /// Writable folders, in bytes.
    Disk(u64),
    /// Open files of one process.
    OpenFiles(u64),
}

impl LimitHit {
    /// The flag of the server that sets it.
    pub fn flag(self) -> &'static str {
        match self {
            Self::Memory(_) => "--memory-limit",
            Self::Processes(_) => "--max-processes",
            Self::Disk(_) => "--disk-limit",
            Self::OpenFiles(_) => "--max-open-files",
        }
    }
}

impl fmt::Display for LimitHit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(bytes) => write!(f, "memory {}", Bytes(*bytes)),
            Self::Processes(number) => write!(f, "processes {number}"),
            Self::Disk(bytes) => write!(f, "disk {}", Bytes(*bytes)),
            Self::OpenFiles(number) => write!(f, "open files {number}"),
        }
    }
}

/// A number of bytes, as a person says it; exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        let unit = units.into_iter().find(|(shift, _)| self.0 != 0 && self.0.trailing_zeros() >= *shift);
        match unit {
            Some((shift, name)) => write!(f, "{} {name}", self.0 >> shift),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact() {
        let shown: Vec<_> = [0, 1, 1024, 1025, 102_400, 1 << 20, 3 << 29, 2 << 30]
            .map(|bytes| Bytes(bytes).to_string())
            .into();
        assert_eq!(
            shown,
            ["0 bytes", "1 bytes", "1 KiB", "1025 bytes", "100 KiB", "1 MiB", "1536 MiB", "2 GiB"]
        );
    }

    #[test]
    fn each_limit_has_one_name_and_the_flag_that_sets_it() {
        use clap::CommandFactory;
        let cli = crate::cli::Cli::command();
        let limits = [
            (LimitHit::Memory(2 << 30), "memory 2 GiB"),
            (LimitHit::Processes(512), "processes 512"),
            (LimitHit::Disk(1 << 30), "disk 1 GiB"),
            (LimitHit::OpenFiles(1024), "open files 1024"),
        ];
        for (limit, name) in limits {
            assert_eq!(limit.to_string(), name);
            let flag = limit.flag().trim_start_matches("--");
            assert!(cli.get_arguments().any(|argument| argument.get_long() == Some(flag)), "{flag}");
        }
    }
}
