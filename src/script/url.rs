//! Which addresses a script may name.
//!
//! One policy for direct requirements, git sources and package indexes: encrypted transport, no credentials, nothing
//! that is read from the machine. An address is checked and brought into one form; only that form is handed on.
//! Must never know: what the address is fetched with.

use std::fmt;
use std::path::Path;

use pep508_rs::{Pep508Url, VerbatimUrl};

use super::problem::quoted;

/// Why an address is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Not an absolute address.
    #[error("{0} is not a URL; write it in full, starting with `https://`")]
    NotAUrl(String),
    /// Cannot be parsed.
    #[error("the URL {url} cannot be parsed ({why})")]
    Malformed {
        /// The address, quoted.
        url: String,
        /// The parser's words.
        why: String,
    },
    /// A user name or password. The address is not repeated.
    #[error(
        "the URL for {host} holds a user name or password; take it out, credentials come from the user's own configuration"
    )]
    Credentials {
        /// The host's name.
        host: String,
    },
    /// `${NAME}`, which the installer would replace by a variable of the environment.
    #[error("{0} holds `${{`, which would be replaced from the environment; write the URL out")]
    Variable(String),
    /// A scheme that is not allowed.
    #[error("`{scheme}` URLs are refused: {why}")]
    Scheme {
        /// The scheme without its colon.
        scheme: String,
        /// The reason and the way out.
        why: &'static str,
    },
    /// The revision of a git address starts with a dash.
    #[error("{0} names a revision that starts with `-`; name a branch, tag or commit")]
    Revision(String),
}

/// A direct address of a requirement: `https` or `git+https`, in normal form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectUrl(String);

impl DirectUrl {
    /// The address in normal form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DirectUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl Pep508Url for DirectUrl {
    type Err = UrlError;

    fn parse_url(given: &str, _working_dir: Option<&Path>) -> Result<Self, UrlError> {
        match given.strip_prefix("git+").filter(|rest| rest.starts_with("https:")) {
            Some(rest) => git(rest).map(|url| Self(format!("git+{url}"))),
            None => https(given).map(Self),
        }
    }
}

/// Checks an address that must be `https`, and normalises it.
pub fn https(given: &str) -> Result<String, UrlError> {
    if given.contains("${") {
        return Err(UrlError::Variable(quoted(given)));
    }
    let Some((scheme, _)) = given.split_once(':') else {
        return Err(UrlError::NotAUrl(quoted(given)));
    };
    let scheme = scheme.to_ascii_lowercase();
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    if scheme.is_empty() || !scheme.bytes().all(is_scheme) || scheme.as_bytes()[0].is_ascii_digit() {
        return Err(UrlError::NotAUrl(quoted(given)));
    }
    if scheme != "https" {
        let why = refusal(&scheme);
        return Err(UrlError::Scheme { scheme, why });
    }
    let url = VerbatimUrl::parse_url(given)
        .map_err(|why| UrlError::Malformed { url: quoted(without_user(given)), why: why.to_string() })?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(UrlError::Credentials { host: quoted(url.host_str().unwrap_or_default()) });
    }
    Ok(url.to_url().to_string())
}

/// Checks the address of a git repository (without `git+`), with an optional `@REVISION` in its path.
pub fn git(given: &str) -> Result<String, UrlError> {
    let url = https(given)?;
    let path = url.split(['?', '#']).next().unwrap_or_default();
    match path.rsplit_once('@') {
        Some((_, revision)) if revision.starts_with('-') => Err(UrlError::Revision(quoted(&url))),
        _ => Ok(url),
    }
}

/// Everything after the user part, so that a password in a malformed address is not repeated.
fn without_user(given: &str) -> &str {
    given.rsplit_once('@').map_or(given, |(_, rest)| rest)
}

fn refusal(scheme: &str) -> &'static str {
    match scheme {
        "http" => "anyone on the way could change what is installed; use `https`",
        "file" | "git+file" => "they read the user's files; use an `https` URL or a package from the index",
        "ssh" | "git+ssh" => "they need the user's keys; use `git+https`",
        "git" | "git+git" | "git+http" => "the connection is not protected; use `git+https`",
        "ext" | "git+ext" => "they run a command; use `git+https`",
        other if other.starts_with("hg") || other.starts_with("svn") || other.starts_with("bzr") => {
            "only git is supported; use `git+https`, an `https` URL or a package from the index"
        }
        _ => "only `https` and `git+https` are allowed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direct(given: &str) -> Result<String, UrlError> {
        DirectUrl::parse_url(given, None).map(|url| url.to_string())
    }

    #[test]
    fn encrypted_addresses_are_normalised() {
        for (given, want) in [
            ("https://Example.com/a b.whl#sha256=00", "https://example.com/a%20b.whl#sha256=00"),
            ("HTTPS://example.com", "https://example.com/"),
            (
                "git+https://example.com/r.git@v1#subdirectory=x",
                "git+https://example.com/r.git@v1#subdirectory=x",
            ),
        ] {
            assert_eq!(direct(given), Ok(want.to_owned()));
        }
    }

    #[test]
    fn every_other_way_is_refused_with_its_reason() {
        for (given, want) in [
            ("http://127.0.0.1/a.tar.gz", "`http` URLs are refused: anyone"),
            ("file:///etc/passwd", "user's files"),
            ("FILE:x", "user's files"),
            ("git+file:///srv/r", "user's files"),
            ("git+ssh://git@example.com/r", "user's keys"),
            ("git+http://example.com/r", "not protected"),
            ("git+ext::sh -c id", "run a command"),
            ("ext::sh -c id", "run a command"),
            ("hg+https://example.com/r", "only git"),
            ("data:,x", "only `https`"),
            ("1.0", "not a URL"),
            ("./x:y", "not a URL"),
            ("/etc/passwd", "not a URL"),
            ("https://", "cannot be parsed"),
            ("git+https://example.com/r@--upload-pack=id", "starts with `-`"),
            ("https://example.com/?${HOME}", "replaced from the environment"),
            ("git+https://example.com/${HOME}", "replaced from the environment"),
        ] {
            let message = direct(given).expect_err(given).to_string();
            assert!(message.contains(want), "{given}: {message}");
        }
    }

    #[test]
    fn credentials_are_refused_and_not_repeated() {
        for given in [
            "https://me:s3cret@example.com/a.whl",
            "https://s3cret@example.com/a.whl",
            "git+https://s3cret@example.com/r",
            "https://me:s3cret@exa mple.com/a.whl",
        ] {
            let message = direct(given).expect_err(given).to_string();
            assert!(!message.contains("s3cret"), "{message}");
        }
    }
}
