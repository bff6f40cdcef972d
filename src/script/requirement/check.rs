//! Looks at a requirement's text before the real parser does.
//!
//! Refuses what is of another kind altogether and what the parser would panic on, and explains the mistakes that come
//! from other tools better than a grammar can.

use pep508_rs::Pep508ErrorSource;

use super::super::marker::{MAX_DIGITS, Marker, longest_number};
use super::super::problem::quoted;
use super::super::url::{DirectUrl, UrlError};
use super::{MAX_REQUIREMENT_BYTES, RequirementError};

/// A requirement cut before its marker.
pub struct Cut<'a> {
    /// Name, extras, and versions or URL, for the parser.
    pub body: &'a str,
    /// The name as written.
    pub name: &'a str,
    /// What follows name and extras, up to the marker.
    rest: &'a str,
    /// The marker.
    pub marker: Option<Marker>,
}

/// Checks a text and cuts it.
pub fn before_parsing(text: &str) -> Result<Cut<'_>, RequirementError> {
    refuse_foreign(text)?;
    let head = Head::split(text)?;
    head.check(text)?;
    let (rest, marker) = head.parts();
    let body = &text[..text.len() - (head.rest.len() - rest.len())];
    let marker = marker.map(Marker::parse).transpose();
    let marker = marker.map_err(|why| RequirementError::Marker { text: quoted(text), why })?;
    Ok(Cut { body, name: head.name, rest, marker })
}

/// Refuses what is of another kind altogether: options, paths, addresses without a name.
fn refuse_foreign(text: &str) -> Result<(), RequirementError> {
    let Some(first) = text.chars().next() else { return Err(RequirementError::Empty) };
    if text.len() > MAX_REQUIREMENT_BYTES {
        return Err(RequirementError::TooLong(quoted(text)));
    }
    if text
        .chars()
        .any(|other| other != '\t' && (other.is_control() || matches!(other, '\u{2028}' | '\u{2029}')))
    {
        return Err(RequirementError::ControlCharacter(quoted(text)));
    }
    if first == '-' {
        return Err(RequirementError::Option(quoted(text)));
    }
    let word = text.split([' ', '\t', ';', '@']).next().unwrap_or(text);
    if word.contains("://") || word.contains("::") || word.starts_with("file:") || word.starts_with("git+") {
        return Err(RequirementError::NamelessUrl);
    }
    let drive = word.len() > 2 && word.as_bytes()[0].is_ascii_alphabetic() && word[1..].starts_with(":\\");
    if matches!(first, '.' | '/' | '~' | '\\') || word.contains(['/', '\\']) || drive || is_archive(word) {
        return Err(RequirementError::Path(quoted(text)));
    }
    Ok(())
}

/// File names of packages. No project can be meant by them: they would be looked up as files.
fn is_archive(word: &str) -> bool {
    const ENDS: [&str; 8] = [".whl", ".zip", ".tgz", ".tar", ".tar.gz", ".tar.bz2", ".tar.xz", ".egg"];
    let word = word.split('[').next().unwrap_or(word).to_ascii_lowercase();
    ENDS.iter().any(|end| word.ends_with(end)) && !word.contains(['=', '<', '>', '!', '('])
}

/// A requirement cut at its joints: name, extras, and the rest.
struct Head<'a> {
    name: &'a str,
    extras: Option<&'a str>,
    rest: &'a str,
}

impl<'a> Head<'a> {
    fn split(text: &'a str) -> Result<Self, RequirementError> {
        let is_name = |other: char| other.is_ascii_alphanumeric() || matches!(other, '-' | '_' | '.');
        let (name, rest) = text.split_at(text.find(|other| !is_name(other)).unwrap_or(text.len()));
        let rest = rest.trim_start();
        let Some(inside) = rest.strip_prefix('[') else { return Ok(Self { name, extras: None, rest }) };
        match inside.split_once(']') {
            Some((extras, rest)) => Ok(Self { name, extras: Some(extras), rest: rest.trim_start() }),
            None => Err(RequirementError::Hint {
                text: quoted(text),
                hint: "the `[` of its extras is never closed".to_owned(),
            }),
        }
    }

    /// Refuses what the parser would panic on, and explains what the parser would explain less well.
    fn check(&self, text: &str) -> Result<(), RequirementError> {
        let grammar = |why: &str| RequirementError::Grammar { text: quoted(text), why: why.to_owned() };
        if !is_name(self.name) {
            return Err(grammar("a name starts and ends with a letter or digit"));
        }
        let extras = self.extras.unwrap_or_default().trim();
        if !extras.is_empty() && !extras.split(',').all(|extra| is_name(extra.trim())) {
            return Err(grammar("extras are names, separated by commas"));
        }
        // A URL is judged by its own rules.
        if self.rest.starts_with('@') {
            return Ok(());
        }
        let (versions, _) = self.parts();
        if !versions.is_ascii() {
            return Err(grammar("it holds a character that is not ASCII"));
        }
        if text.contains("${") {
            return Err(grammar("variables are not replaced"));
        }
        if longest_number(versions) > MAX_DIGITS {
            return Err(grammar("a number in it is too long"));
        }
        hint(self.name, versions)
            .map_or(Ok(()), |hint| Err(RequirementError::Hint { text: quoted(text), hint }))
    }

    /// What stands before the marker, and the marker. Only a `;` after a blank ends a URL.
    fn parts(&self) -> (&'a str, Option<&'a str>) {
        let mut ends = self.rest.match_indices(';').map(|(at, _)| at);
        let end = if self.rest.starts_with('@') {
            ends.find(|at| self.rest[..*at].ends_with(char::is_whitespace))
        } else {
            ends.next()
        };
        end.map_or((self.rest, None), |at| (&self.rest[..at], Some(&self.rest[at + 1..])))
    }
}

fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    is_outer(bytes.first()) && is_outer(bytes.last()) && bytes.iter().all(|byte| is_inner(*byte))
}

/// Mistakes carried over from other tools.
fn hint(name: &str, versions: &str) -> Option<String> {
    let versions = versions.trim();
    let after = |operator: &str| versions.strip_prefix(operator).map(str::trim_start);
    if let Some(version) = after("^") {
        return Some(format!(
            "`^` is not an operator here, write `{name}>={}` with an upper bound",
            bare(version)
        ));
    }
    if let Some(version) = after("=").filter(|rest| !rest.starts_with('=')) {
        return Some(format!("versions are compared with `==`, write `{name}=={}`", bare(version)));
    }
    if let Some(comment) = versions.find(" #") {
        return Some(format!("comments are not part of it, leave out {}", quoted(&versions[comment + 1..])));
    }
    if versions.starts_with(|first: char| first.is_ascii_digit()) {
        return Some(format!(
            "an operator is missing before the version, write `{name}=={}`",
            bare(versions)
        ));
    }
    versions
        .trim_start_matches(['=', '>', '<', '~', '!', ' '])
        .eq_ignore_ascii_case("latest")
        .then(|| format!("there is no version called latest, write `{name}` alone for the newest one"))
}

/// The first word, as far as it can be part of a version.
fn bare(text: &str) -> &str {
    let is_version =
        |other: char| other.is_ascii_alphanumeric() || matches!(other, '.' | '*' | '+' | '!' | '-' | '_');
    &text[..text.find(|other| !is_version(other)).unwrap_or(text.len())]
}

/// Puts the parser's error into our words.
pub fn explain(text: &str, cut: &Cut<'_>, source: Pep508ErrorSource<DirectUrl>) -> RequirementError {
    match source {
        Pep508ErrorSource::UrlError(UrlError::NotAUrl(_))
            if cut.rest.starts_with('@')
                && cut.rest[1..].trim_start().starts_with(|c: char| c.is_ascii_digit()) =>
        {
            let version = bare(cut.rest[1..].trim_start());
            let hint = format!("`@` takes a URL, write `{}=={version}` for a version", cut.name);
            RequirementError::Hint { text: quoted(text), hint }
        }
        Pep508ErrorSource::UrlError(why) => RequirementError::Url { name: quoted(cut.name), why },
        Pep508ErrorSource::String(why) | Pep508ErrorSource::UnsupportedRequirement(why) => {
            RequirementError::Grammar { text: quoted(text), why: one_line(&why) }
        }
    }
}

/// The parser's messages are wrapped over several lines.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
