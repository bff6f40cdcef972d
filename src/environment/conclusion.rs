//! What uv's conclusion comes to when requirements have no solution: the kind of it, and its words without the phrases that
//! stand in every one. Pure.
//!
//! uv tells by its exit status that there is no solution, and the rest in prose. Where it words this in another way some day,
//! the kind is the general one; nothing but the kind and the advice depends on it.

/// Why there is no solution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// No index knows a package of this name.
    NoPackage,
    /// There is no such version.
    NoVersion,
    /// There is one, for another Python.
    WrongPython,
    /// Only wheels for other Pythons or machines.
    NoWheel,
    /// Its authors have withdrawn what would do.
    Yanked,
    /// Two requirements exclude each other.
    Conflict,
    /// Something else.
    Other,
}

/// A phrase of uv's for each kind, the more special ones first.
const PHRASES: [(&str, Why); 10] = [
    ("was not found in the package registry", Why::NoPackage),
    ("was not found in the provided package locations", Why::NoPackage),
    ("the current Python version", Why::WrongPython),
    ("the requested Python version", Why::WrongPython),
    ("has no wheels with a matching", Why::NoWheel),
    ("has no usable wheels", Why::NoWheel),
    ("was yanked", Why::Yanked),
    ("there is no version of", Why::NoVersion),
    ("there are no versions of", Why::NoVersion),
    ("are incompatible", Why::Conflict),
];

/// Phrases about something else than versions.
const FLAWS: [&str; 7] =
    ["has no ", "has an ", "has invalid", "is missing", "was not ", "was excluded", "needs to be downloaded"];

impl Why {
    /// Reads it off uv's conclusion.
    pub fn of(conclusion: &str) -> Self {
        let found = PHRASES.iter().find(|(phrase, _)| conclusion.contains(phrase));
        match found {
            Some((_, why)) => *why,
            None if FLAWS.iter().any(|phrase| conclusion.contains(phrase)) => Self::Other,
            // One of two ranges is that of the versions that exist, or both are asked for.
            None if conclusion.contains("only ") && conclusion.contains(" available") => Self::NoVersion,
            None if conclusion.contains(" and ") => Self::Conflict,
            None => Self::Other,
        }
    }

    /// Stands before the reason.
    pub(super) fn lead(self) -> &'static str {
        match self {
            Self::NoPackage => "no such package",
            Self::NoVersion => "no such version",
            Self::WrongPython => "no version for this Python",
            Self::NoWheel => "no wheel for this Python on this machine",
            Self::Yanked => "withdrawn by its authors",
            Self::Conflict => "the dependencies contradict each other",
            Self::Other => "the dependencies cannot be resolved",
        }
    }

    /// What to do about it.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::NoPackage => "Check the spelling: a package is often called otherwise than its module",
            Self::NoVersion => "Ask for a version that there is",
            Self::WrongPython => "Ask for another version of it, or for another Python with python_version",
            Self::NoWheel => {
                "Ask for another version of it, for another Python with python_version, or for another package"
            }
            Self::Yanked => "Ask for another version; naming one exactly (==) takes it all the same",
            Self::Conflict => "Loosen one of them",
            Self::Other => "Change the dependencies",
        }
    }
}

/// uv's conclusion without its framework of proof.
pub fn short(conclusion: &str) -> String {
    let end = ", we can conclude that your requirements are unsatisfiable";
    let text = conclusion.trim().trim_end_matches('.');
    let text = text.strip_suffix(end).unwrap_or(text);
    let text = text.strip_prefix("Because ").unwrap_or(text);
    text.replace(", we can conclude that", ", so").replace(" And because ", " And ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every text is what uv 0.13 says.
    #[test]
    fn conclusions_are_told_apart() {
        for (conclusion, why, words) in [
            (
                "Because nosuch was not found in the package registry and you require nosuch, we can conclude that your \
                 requirements are unsatisfiable.",
                Why::NoPackage,
                "nosuch was not found in the package registry and you require nosuch",
            ),
            (
                "Because only alpha<=1.0 is available and you require alpha>3, we can conclude that your requirements are \
                 unsatisfiable.",
                Why::NoVersion,
                "only alpha<=1.0 is available and you require alpha>3",
            ),
            (
                "Because there is no version of beta==3 and you require beta==3, we can conclude that your requirements \
                 are unsatisfiable.",
                Why::NoVersion,
                "there is no version of beta==3 and you require beta==3",
            ),
            (
                "Because you require alpha<1 and alpha>=1, we can conclude that your requirements are unsatisfiable.",
                Why::Conflict,
                "you require alpha<1 and alpha>=1",
            ),
            (
                "Because all versions of needy depend on alpha<1 and you require needy, we can conclude that you require \
                 alpha<1. And because you require alpha>=1, we can conclude that your requirements are unsatisfiable.",
                Why::Conflict,
                "all versions of needy depend on alpha<1 and you require needy, so you require alpha<1. And you require \
                 alpha>=1",
            ),
            (
                "Because the current Python version (3.13) does not satisfy Python>=3.99 and newpy==2 depends on \
                 Python>=3.99, we can conclude that newpy==2 cannot be used. And because only newpy==2 is available and \
                 you require newpy, we can conclude that your requirements are unsatisfiable.",
                Why::WrongPython,
                "the current Python version (3.13) does not satisfy Python>=3.99 and newpy==2 depends on Python>=3.99, so \
                 newpy==2 cannot be used. And only newpy==2 is available and you require newpy",
            ),
            (
                "Because other==1 has no wheels with a matching Python ABI tag (e.g., `cp313`) and you require other==1, \
                 we can conclude that your requirements are unsatisfiable.",
                Why::NoWheel,
                "other==1 has no wheels with a matching Python ABI tag (e.g., `cp313`) and you require other==1",
            ),
            (
                "Because yank==1 was yanked (reason: eats files) and you require yank==1, we can conclude that your \
                 requirements are unsatisfiable.",
                Why::Yanked,
                "yank==1 was yanked (reason: eats files) and you require yank==1",
            ),
            ("uv speaks otherwise.", Why::Other, "uv speaks otherwise"),
            (
                "Because alpha==1 has invalid metadata and you require alpha==1, we can conclude that your requirements \
                 are unsatisfiable.",
                Why::Other,
                "alpha==1 has invalid metadata and you require alpha==1",
            ),
        ] {
            assert_eq!((Why::of(conclusion), short(conclusion).as_str()), (why, words));
        }
    }
}
