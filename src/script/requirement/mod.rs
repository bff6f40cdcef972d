//! One requirement of a script: a package with extras, versions or a direct URL, and a marker (PEP 508).
//!
//! Whatever is not a plain requirement is refused here, options and paths above all, so that nothing a script or an
//! argument says can become an option of the installer. A [`Requirement`] is compared and handed on in canonical
//! form: normalised name, sorted extras and specifiers, normalised URL and marker.
//! Must never know: how packages are resolved or installed.

mod check;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use pep440_rs::VersionSpecifiers;
use pep508_rs::VersionOrUrl;

use super::marker::Marker;
use super::url::{DirectUrl, UrlError};

/// Most requirements in one list. It bounds what a hostile list can cost; a thousand are a large project.
pub const MAX_REQUIREMENTS: usize = 2_000;

/// Longest requirement, in bytes. A URL with a hash takes about 300.
pub const MAX_REQUIREMENT_BYTES: usize = 4096;

const EXAMPLE: &str = "write a package name and, if needed, versions, like `requests>=2.31`";

/// Why a text is not taken as a requirement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequirementError {
    /// Nothing but white space.
    #[error("an empty text is not a requirement; {EXAMPLE}")]
    Empty,
    /// Longer than [`MAX_REQUIREMENT_BYTES`].
    #[error("{0} is longer than {MAX_REQUIREMENT_BYTES} bytes; {EXAMPLE}")]
    TooLong(String),
    /// A control character, a line break above all.
    #[error("{0} holds a control character or line break; give one requirement for each item")]
    ControlCharacter(String),
    /// An option of an installer.
    #[error("{0} is an option, and options are not taken here; {EXAMPLE}")]
    Option(String),
    /// A file or folder.
    #[error("{0} is a path, and the user's files are not read; {EXAMPLE}")]
    Path(String),
    /// An address without a name.
    #[error("a URL needs a package name in front, like `name @ https://…`")]
    NamelessUrl,
    /// An address that is refused.
    #[error("{name}: {why}")]
    Url {
        /// The package, quoted.
        name: String,
        /// The reason.
        why: UrlError,
    },
    /// A mistake with a known remedy.
    #[error("{text} is not a requirement; {hint}")]
    Hint {
        /// The text, quoted.
        text: String,
        /// What to write instead.
        hint: String,
    },
    /// Anything else that the grammar does not allow.
    #[error("{text} is not a requirement ({why}); {EXAMPLE}")]
    Grammar {
        /// The text, quoted.
        text: String,
        /// The parser's words.
        why: String,
    },
    /// A marker that can't be decided.
    #[error("the marker of {text} makes no sense: {why}")]
    Marker {
        /// The text, quoted.
        text: String,
        /// What is wrong with it.
        why: String,
    },
}

/// Its URL type is our own: that of the library replaces variables from the environment.
type Parsed = pep508_rs::Requirement<DirectUrl>;

/// A checked requirement in canonical form.
#[derive(Debug, Clone)]
pub struct Requirement {
    /// Without its marker, which is kept apart.
    parsed: Parsed,
    marker: Option<Marker>,
    canonical: String,
}

impl Requirement {
    /// Parses a requirement as it stands in an inline list or in the argument.
    pub fn parse(given: &str) -> Result<Self, RequirementError> {
        let text = given.trim_matches([' ', '\t']);
        let cut = check::before_parsing(text)?;
        match cut.body.parse::<Parsed>() {
            Ok(parsed) => Ok(Self::canonical(parsed, cut.marker)),
            Err(error) => Err(check::explain(text, &cut, error.message)),
        }
    }

    fn canonical(mut parsed: Parsed, marker: Option<Marker>) -> Self {
        parsed.extras.sort();
        parsed.extras.dedup();
        let mut canonical = parsed.name.to_string();
        if !parsed.extras.is_empty() {
            let extras: Vec<_> = parsed.extras.iter().map(ToString::to_string).collect();
            canonical.extend(["[", &extras.join(","), "]"]);
        }
        match &parsed.version_or_url {
            Some(VersionOrUrl::VersionSpecifier(versions)) => canonical += &sorted(versions),
            Some(VersionOrUrl::Url(url)) => canonical.extend([" @ ", url.as_str()]),
            None => {}
        }
        if let Some(marker) = &marker {
            canonical.extend([" ; ", &marker.to_string()]);
        }
        Self { parsed, marker, canonical }
    }

    /// The package's name, normalised as PEP 503 says.
    #[must_use]
    pub fn name(&self) -> &str {
        self.parsed.name.as_ref()
    }

    /// The canonical text: what the installer gets, and what cache keys are made of.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.canonical
    }

    /// The allowed versions, where versions are named.
    #[must_use]
    pub fn versions(&self) -> Option<&VersionSpecifiers> {
        match &self.parsed.version_or_url {
            Some(VersionOrUrl::VersionSpecifier(versions)) if !versions.is_empty() => Some(versions),
            _ => None,
        }
    }

    /// The direct URL, where one is named.
    #[must_use]
    pub fn url(&self) -> Option<&DirectUrl> {
        match &self.parsed.version_or_url {
            Some(VersionOrUrl::Url(url)) => Some(url),
            _ => None,
        }
    }

    /// Whether both are about the same package in the same environments.
    #[must_use]
    pub fn same_slot(&self, other: &Self) -> bool {
        self.parsed.name == other.parsed.name && self.marker == other.marker
    }

    /// This requirement with the extras of `other` added and, where it names neither versions nor a URL, those of
    /// `other`.
    #[must_use]
    pub fn over(&self, other: &Self) -> Self {
        let mut parsed = self.parsed.clone();
        parsed.extras.extend(other.parsed.extras.iter().cloned());
        if self.versions().is_none() && self.url().is_none() {
            parsed.version_or_url.clone_from(&other.parsed.version_or_url);
        }
        Self::canonical(parsed, self.marker.clone())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.canonical)
    }
}

impl PartialEq for Requirement {
    fn eq(&self, other: &Self) -> bool {
        self.canonical == other.canonical
    }
}

impl Eq for Requirement {}

impl Hash for Requirement {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.canonical.hash(state);
    }
}

impl PartialOrd for Requirement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Requirement {
    fn cmp(&self, other: &Self) -> Ordering {
        self.canonical.cmp(&other.canonical)
    }
}

/// Version specifiers in one order, without blanks.
pub(super) fn sorted(versions: &VersionSpecifiers) -> String {
    let mut texts: Vec<_> = versions.iter().map(ToString::to_string).collect();
    texts.sort();
    texts.dedup();
    texts.join(",")
}
