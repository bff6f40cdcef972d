//! Which Python a script accepts.
//!
//! Must never know: which interpreters there are.

use std::fmt;
use std::str::FromStr;

use pep440_rs::{Operator, Version, VersionSpecifier, VersionSpecifiers, release_specifiers_to_ranges};

use super::marker::{MAX_DIGITS, longest_number};
use super::problem::quoted;
use super::requirement::sorted;

/// A full version of Python, such as `3.14.0rc2`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PythonVersion(Version);

impl PythonVersion {
    /// A final release.
    #[must_use]
    pub fn new(major: u64, minor: u64, micro: u64) -> Self {
        Self(Version::new([major, minor, micro]))
    }

    /// Major and minor number.
    #[must_use]
    pub fn series(&self) -> (u64, u64) {
        let number = |at| self.0.release().get(at).copied().unwrap_or(0);
        (number(0), number(1))
    }

    /// Whether it is an alpha, beta, candidate or development version.
    #[must_use]
    pub fn is_prerelease(&self) -> bool {
        self.0.any_prerelease()
    }
}

impl fmt::Display for PythonVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// A text that is no version of Python.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a version of Python; it looks like `3.13.1` or `3.14.0rc2`")]
pub struct PythonVersionError(String);

impl FromStr for PythonVersion {
    type Err = PythonVersionError;

    /// Reads what `platform.python_version()` returns; the `+` of a build from a working tree is dropped.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = text.trim().trim_end_matches('+');
        let version = Version::from_str(plain).map_err(|_| PythonVersionError(quoted(text)))?;
        if version.release().len() >= 2 { Ok(Self(version)) } else { Err(PythonVersionError(quoted(text))) }
    }
}

/// A script and an interpreter that do not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the script requires Python `{required}` (requires-python) and the one on offer is {offered}: change requires-python or ask for another Python version"
)]
pub struct Unsatisfied {
    /// What the script says.
    pub required: String,
    /// The interpreter's version.
    pub offered: String,
}

/// Checks an interpreter's version against `requires-python`.
///
/// A pre-release counts as the release it leads to, as uv has it, so that `>=3.15` takes 3.15.0rc1; only against a
/// specifier that names a pre-release itself is it compared in full.
pub fn check(required: &VersionSpecifiers, offered: &PythonVersion) -> Result<(), Unsatisfied> {
    let release = offered.0.only_release();
    let fits = |specifier: &VersionSpecifier| {
        let version = if specifier.any_prerelease() { &offered.0 } else { &release };
        specifier.contains(version)
    };
    if required.iter().all(fits) {
        return Ok(());
    }
    Err(Unsatisfied { required: sorted(required), offered: offered.to_string() })
}

/// What was read from a `requires-python` value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequiresPython {
    /// The specifiers.
    pub specifiers: VersionSpecifiers,
    /// A likely mistake that is not an error.
    pub warning: Option<String>,
}

/// Why a `requires-python` value is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequiresPythonError {
    /// Not a version specifier.
    #[error("requires-python {given} is not a version specifier: {hint}")]
    Grammar {
        /// The value, quoted.
        given: String,
        /// What to write.
        hint: String,
    },
    /// Specifiers that exclude each other.
    #[error("no Python satisfies requires-python {0}: its parts exclude each other")]
    Nothing(String),
}

/// Parses a `requires-python` value.
pub fn parse(given: &str) -> Result<RequiresPython, RequiresPythonError> {
    let parts = given.split(',').map(str::trim).filter(|part| !part.is_empty());
    let specifiers: VersionSpecifiers =
        parts.map(|part| parse_part(given, part)).collect::<Result<_, _>>()?;
    if release_specifiers_to_ranges(specifiers.clone()).is_empty() {
        return Err(RequiresPythonError::Nothing(quoted(given)));
    }
    let warning = specifiers.iter().find_map(single_release);
    Ok(RequiresPython { specifiers, warning })
}

fn parse_part(given: &str, part: &str) -> Result<VersionSpecifier, RequiresPythonError> {
    let grammar = |hint| RequiresPythonError::Grammar { given: quoted(given), hint };
    if part.len() > 100 || longest_number(part) > MAX_DIGITS {
        return Err(grammar("it is too long".to_owned()));
    }
    VersionSpecifier::from_str(part).map_err(|error| {
        let version = part.trim_start_matches(['^', '=', '~', ' ', 'v']);
        match Version::from_str(version) {
            Ok(version) => grammar(format!("write `>={version}` for this version or newer")),
            Err(_) => grammar(format!("{error}; write it like `>=3.12` or `>=3.11,<3.14`")),
        }
    })
}

/// `==3.12` means 3.12.0 alone.
fn single_release(specifier: &VersionSpecifier) -> Option<String> {
    let short = specifier.version().release().len() < 3 && *specifier.operator() == Operator::Equal;
    short.then(|| {
        format!(
            "requires-python `{specifier}` accepts {0}.0 only: write `=={0}.*` for all of {0}",
            specifier.version()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(required: &str, offered: &str) -> bool {
        let required = parse(required).expect(required).specifiers;
        check(&required, &offered.parse().expect(offered)).is_ok()
    }

    #[test]
    fn interpreters_are_compared_in_full() {
        for (required, offered, want) in [
            (">=3.12", "3.13.0", true),
            (">=3.12,<3.13", "3.13.0", false),
            ("==3.13.*", "3.13.7", true),
            ("==3.13", "3.13.7", false),
            ("~=3.12", "3.15.0", true),
            ("!=3.13.0", "3.13.0", false),
            (">=3.15", "3.15.0rc1", true),
            ("<3.15", "3.15.0a1", false),
            (">=3.15.0rc2", "3.15.0rc1", false),
            (">=3.15.0b1", "3.15.0rc1", true),
            (">=3.13", "3.14.0a1+", true),
            ("", "3.8.0", true),
        ] {
            assert_eq!(fits(required, offered), want, "{required} {offered}");
        }
    }

    #[test]
    fn a_refusal_names_both() {
        let required = parse(">= 3.99").expect("specifiers").specifiers;
        let message = check(&required, &PythonVersion::new(3, 13, 1)).expect_err("too old").to_string();
        assert!(message.contains(">=3.99") && message.contains("3.13.1"), "{message}");
    }

    #[test]
    fn mistakes_come_with_a_remedy() {
        for (given, want) in [
            ("3.12", "write `>=3.12`"),
            ("^3.12", "write `>=3.12`"),
            ("python3", "`>=3.11,<3.14`"),
            (">=3.12,<3.10", "exclude each other"),
            (">=3.x", "write it like"),
            ("==3.99999999999999999999.*", "too long"),
            (">=3.12 <4", "Trailing"),
        ] {
            let message = parse(given).expect_err(given).to_string();
            assert!(message.contains(want), "{given}: {message}");
        }
        assert!(parse("==3.12").expect("valid").warning.is_some_and(|text| text.contains("`==3.12.*`")));
        assert_eq!(parse(">=3.12").expect("valid").warning, None);
    }

    #[test]
    fn versions_of_python_are_read() {
        assert_eq!("3.14.0rc2".parse::<PythonVersion>().expect("a version").series(), (3, 14));
        assert!("3.14.0rc2".parse::<PythonVersion>().expect("a version").is_prerelease());
        for text in ["", "3", "python", "3.x"] {
            assert!(text.parse::<PythonVersion>().is_err(), "{text}");
        }
    }
}
