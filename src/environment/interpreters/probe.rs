//! Asks an executable what it is, by running it once. It is one of the machine's own interpreters, so it runs
//! outside a sandbox: isolated, without `site`, with an empty environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::tool;
use super::{Interpreter, needed_folders};

/// A cold disk is slow.
const ANSWER: Duration = Duration::from_secs(10);

/// Prints one fact on each line, in the order of [`Facts::parse`], then the libraries that are mapped.
pub(in super::super) const QUESTION: &str = r#"
import sys, os
v = sys.version_info
print(sys.implementation.name)
print(*v[:3], sep=".")
print("" if v[3] == "final" else {"alpha": "a", "beta": "b", "candidate": "rc"}[v[3]] + str(v[4]))
print(getattr(sys, "abiflags", ""))
print(sys.maxsize > 2**32)
print(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
print(os.path.realpath(sys.base_prefix))
print(os.path.realpath(os.path.dirname(os.__file__)))
try:
    with open("/proc/self/maps") as maps:
        for path in sorted({line.split(None, 5)[5].strip() for line in maps if ".so" in line}):
            print(path)
except OSError:
    pass
"#;

/// Why an executable is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// It did not answer.
    #[error("it does not answer: {0}")]
    Silent(String),
    /// It is another implementation, a free-threaded or a 32-bit build.
    #[error("it is {0}")]
    Unsuitable(String),
}

/// Runs the executable and reads its answer. `fingerprint` is kept as it is; `private` are folders that must not be
/// mounted whole.
pub async fn probe(path: &Path, fingerprint: &str, private: &[PathBuf]) -> Result<Interpreter, ProbeError> {
    let env = BTreeMap::from([("PYTHONIOENCODING".to_owned(), "utf-8".to_owned())]);
    let output = tool::run(path, &["-I", "-S", "-c", QUESTION], &env, ANSWER)
        .await
        .map_err(|error| ProbeError::Silent(error.to_string()))?;
    if !output.success {
        let reason = output.stderr.lines().last().unwrap_or("it failed");
        return Err(ProbeError::Silent(reason.to_owned()));
    }
    let facts = Facts::checked(&output.stdout)?;
    let folders = needed_folders(&facts.prefix, &facts.stdlib, &facts.executable, &facts.libraries, private);
    Ok(facts.interpreter(fingerprint, folders))
}

/// An interpreter that answered [`QUESTION`] where all that it needs is visible anyway.
pub(in super::super) fn interpreter_without_mounts(
    answer: &str,
    fingerprint: &str,
) -> Result<Interpreter, ProbeError> {
    Ok(Facts::checked(answer)?.interpreter(fingerprint, Vec::new()))
}

#[derive(Debug, PartialEq, Eq)]
struct Facts {
    implementation: String,
    numbers: (u8, u8, u8),
    prerelease: String,
    abi_flags: String,
    wide: bool,
    executable: PathBuf,
    prefix: PathBuf,
    stdlib: PathBuf,
    libraries: Vec<PathBuf>,
}

impl Facts {
    fn checked(answer: &str) -> Result<Self, ProbeError> {
        let facts = Self::parse(answer).ok_or_else(|| ProbeError::Silent("no facts".to_owned()))?;
        facts.check()?;
        Ok(facts)
    }

    fn interpreter(self, fingerprint: &str, folders: Vec<PathBuf>) -> Interpreter {
        let (major, minor, patch) = self.numbers;
        Interpreter {
            version: format!("{major}.{minor}.{patch}{}", self.prerelease),
            prerelease: !self.prerelease.is_empty(),
            numbers: self.numbers,
            executable: self.executable,
            prefix: self.prefix,
            stdlib: self.stdlib,
            folders,
            fingerprint: fingerprint.to_owned(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let implementation = lines.next()?.to_owned();
        let mut numbers = lines.next()?.split('.').map(str::parse);
        let numbers = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
        let facts = Self {
            implementation,
            numbers,
            prerelease: lines.next()?.to_owned(),
            abi_flags: lines.next()?.to_owned(),
            wide: lines.next()? == "True",
            executable: lines.next()?.into(),
            prefix: lines.next()?.into(),
            stdlib: lines.next()?.into(),
            libraries: lines.filter(|line| line.starts_with('/')).map(PathBuf::from).collect(),
        };
        [&facts.executable, &facts.prefix, &facts.stdlib]
            .iter()
            .all(|path| path.is_absolute())
            .then_some(facts)
    }

    fn check(&self) -> Result<(), ProbeError> {
        let unsuitable = |what: &str| Err(ProbeError::Unsuitable(what.to_owned()));
        if self.implementation != "cpython" {
            return unsuitable(&self.implementation);
        }
        if self.numbers.0 != 3 || self.numbers.1 < 9 {
            return unsuitable(&format!("Python {}.{}, older than 3.9", self.numbers.0, self.numbers.1));
        }
        if self.abi_flags.contains('t') {
            return unsuitable("a free-threaded build");
        }
        if !self.wide {
            return unsuitable("a 32-bit build");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_unsuitable_ones_refused() {
        let text = "cpython\n3.13.2\nrc1\n\nTrue\n/p/bin/python3.13\n/p\n/p/lib/python3.13\n/p/lib/libpython.so\n[heap]\n";
        let facts = Facts::parse(text).expect("read");
        assert_eq!(facts.numbers, (3, 13, 2));
        assert_eq!(facts.libraries, [PathBuf::from("/p/lib/libpython.so")]);
        assert_eq!(facts.check(), Ok(()));
        for (from, to) in [("cpython", "pypy"), ("3.13", "3.8"), ("rc1\n\n", "rc1\nt\n"), ("True", "False")] {
            let facts = Facts::parse(&text.replace(from, to)).expect("read");
            assert!(facts.check().is_err(), "{to} was taken");
        }
        assert_eq!(Facts::parse("cpython\n3.13\n"), None);
    }
}
