//! Which interpreter a run gets. Pure.

use pep440_rs::{Version, VersionSpecifiers};

use super::super::failure::EnvironmentError;
use super::{Interpreter, PythonVersion};

/// What is wanted of the interpreter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The version that the caller or the user named.
    pub version: Option<PythonVersion>,
    /// The script's `requires-python`.
    pub requires: Option<VersionSpecifiers>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This one, with a note where it is not the obvious one.
    Take(Interpreter, Option<String>),
    /// None will do: this is to be installed, as a request in uv's words.
    Install(String),
    /// The default version is not here: it is to be installed, and where that fails this one is taken.
    InstallOr(String, Interpreter),
}

/// Chooses among `available`, which is sorted newest first.
pub fn choose(wanted: &Wanted, available: &[Interpreter]) -> Result<Choice, EnvironmentError> {
    match (wanted.version, &wanted.requires) {
        (Some(version), requires) => named(version, requires.as_ref(), available),
        (None, Some(requires)) => Ok(required(requires, available)),
        (None, None) => Ok(default(available)),
    }
}

fn named(
    version: PythonVersion,
    requires: Option<&VersionSpecifiers>,
    available: &[Interpreter],
) -> Result<Choice, EnvironmentError> {
    let Some(found) = available.iter().find(|interpreter| interpreter.is(version)) else {
        return Ok(Choice::Install(version.to_string()));
    };
    check(found, requires)?;
    Ok(Choice::Take(found.clone(), None))
}

/// Whether the script takes this interpreter; the error names both.
pub(super) fn check(
    interpreter: &Interpreter,
    requires: Option<&VersionSpecifiers>,
) -> Result<(), EnvironmentError> {
    match requires {
        Some(requires) if !admits(requires, interpreter) => Err(EnvironmentError::PythonExcluded {
            requires: requires.to_string(),
            chosen: interpreter.version.clone(),
        }),
        _ => Ok(()),
    }
}

fn required(requires: &VersionSpecifiers, available: &[Interpreter]) -> Choice {
    let fitting: Vec<&Interpreter> =
        available.iter().filter(|interpreter| admits(requires, interpreter)).collect();
    let preferred = fitting.iter().find(|interpreter| interpreter.is(PythonVersion::DEFAULT));
    match (preferred, fitting.first()) {
        (Some(found), _) => Choice::Take((*found).clone(), None),
        (None, Some(newest)) => {
            let note = format!("Python {} was chosen because of requires-python {requires}", newest.version);
            Choice::Take((*newest).clone(), Some(note))
        }
        (None, None) => Choice::Install(install_request(requires)),
    }
}

fn default(available: &[Interpreter]) -> Choice {
    let request = PythonVersion::DEFAULT.to_string();
    match available.iter().find(|interpreter| interpreter.is(PythonVersion::DEFAULT)) {
        Some(found) => Choice::Take(found.clone(), None),
        None => match available.first() {
            Some(newest) => Choice::InstallOr(request, newest.clone()),
            None => Choice::Install(request),
        },
    }
}

fn admits(requires: &VersionSpecifiers, interpreter: &Interpreter) -> bool {
    // `>=3.13` is meant to take a 3.13 candidate, which PEP 440 orders before 3.13: compare the release alone.
    let (major, minor, patch) = interpreter.numbers;
    requires.contains(&Version::new([major, minor, patch].map(u64::from)))
}

/// The default version where the range takes it in, else the range itself.
fn install_request(requires: &VersionSpecifiers) -> String {
    let default = PythonVersion::DEFAULT;
    let late_patch = Version::new([u64::from(default.major), u64::from(default.minor), 30]);
    if requires.contains(&late_patch) { default.to_string() } else { requires.to_string().replace(' ', "") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(minor: u8, patch: u8) -> Interpreter {
        Interpreter {
            executable: format!("/p/{minor}").into(),
            version: format!("3.{minor}.{patch}"),
            numbers: (3, minor, patch),
            prerelease: false,
            prefix: "/p".into(),
            stdlib: "/p/lib".into(),
            folders: Vec::new(),
            fingerprint: String::new(),
        }
    }

    fn wanted(version: Option<&str>, requires: Option<&str>) -> Wanted {
        Wanted {
            version: version.map(|text| text.parse().expect("a version")),
            requires: requires.map(|text| text.parse().expect("a range")),
        }
    }

    fn taken(wanted: &Wanted, available: &[Interpreter]) -> (u8, bool) {
        match choose(wanted, available) {
            Ok(Choice::Take(interpreter, note)) => (interpreter.numbers.1, note.is_some()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_default_comes_first_and_the_newest_match_otherwise() {
        let available = [python(15, 0), python(14, 2), python(13, 1), python(12, 9)];
        assert_eq!(taken(&wanted(None, None), &available), (13, false));
        assert_eq!(taken(&wanted(None, Some(">=3.10")), &available), (13, false));
        assert_eq!(taken(&wanted(None, Some(">=3.14")), &available), (15, true));
        assert_eq!(taken(&wanted(None, Some("<3.13")), &available), (12, true));
        assert_eq!(taken(&wanted(Some("3.14"), None), &available), (14, false));
    }

    #[test]
    fn a_named_version_that_the_script_excludes_is_refused_with_both_names() {
        let error = choose(&wanted(Some("3.12"), Some(">=3.13")), &[python(12, 9)]).expect_err("refused");
        let message = error.to_string();
        assert!(message.contains(">=3.13") && message.contains("3.12.9"), "{message}");
    }

    #[test]
    fn what_is_not_there_is_installed() {
        let available = [python(12, 9)];
        assert_eq!(choose(&wanted(Some("3.13.2"), None), &available), Ok(Choice::Install("3.13.2".into())));
        assert_eq!(choose(&wanted(None, Some(">=3.99")), &available), Ok(Choice::Install(">=3.99".into())));
        assert_eq!(choose(&wanted(None, Some(">=3.13")), &available), Ok(Choice::Install("3.13".into())));
        assert_eq!(
            choose(&wanted(None, None), &available),
            Ok(Choice::InstallOr("3.13".into(), python(12, 9)))
        );
        assert_eq!(choose(&wanted(None, None), &[]), Ok(Choice::Install("3.13".into())));
    }
}
