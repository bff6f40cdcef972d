//! The bearer token: where it comes from, and whether another is the same.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// Fewest characters of a token; one of this program's own has 43.
const SHORTEST: usize = 16;

/// A token. It is never shown again; only its digest is kept.
#[derive(Clone)]
pub struct Token([u8; 32]);

/// Why a token cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// Somebody could guess it.
    #[error(
        "the token must have at least {SHORTEST} characters and no spaces; leave it out to have one made"
    )]
    Weak,
    /// Others could read it.
    #[error("{} can be read by others; run: chmod 600 {}", .0.display(), .0.display())]
    Open(PathBuf),
    /// The file cannot be read or made.
    #[error("the token file {} cannot be used: {}", .0.display(), .1)]
    File(PathBuf, #[source] io::Error),
    /// No random numbers.
    #[error("no token can be made, since the system gives no random numbers: {0}; name a token yourself")]
    Random(#[source] io::Error),
}

impl Token {
    /// A token that the user chose.
    pub fn new(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        if text.len() < SHORTEST || text.contains(char::is_whitespace) {
            return Err(TokenError::Weak);
        }
        Ok(Self(digest(text)))
    }

    /// The token in a file that only its owner may read. Where there is none it is made, with a token that nobody knows.
    pub fn from_file(path: &Path) -> Result<Self, TokenError> {
        use std::os::unix::fs::PermissionsExt;
        let failed = |error| TokenError::File(path.to_owned(), error);
        match std::fs::metadata(path) {
            Ok(found) if found.permissions().mode() & 0o077 != 0 => Err(TokenError::Open(path.to_owned())),
            Ok(_) => Self::new(&std::fs::read_to_string(path).map_err(failed)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::into_file(path),
            Err(error) => Err(failed(error)),
        }
    }

    fn into_file(path: &Path) -> Result<Self, TokenError> {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let failed = |error| TokenError::File(path.to_owned(), error);
        let (token, text) = Self::made()?;
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        Ok(token)
    }

    /// A new token, and its text for whoever is to know it.
    pub fn made() -> Result<(Self, String), TokenError> {
        use std::io::Read;
        let mut bytes = [0; 32];
        let read = std::fs::File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
        read.map_err(TokenError::Random)?;
        let text = URL_SAFE_NO_PAD.encode(bytes);
        Ok((Self(digest(&text)), text))
    }

    /// Whether `text` is the token. Digests are compared: how long that takes says nothing about the token.
    pub fn is(&self, text: &str) -> bool {
        digest(text) == self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_text_is_the_token() {
        let token = Token::new(" 0123456789abcdef\n").unwrap_or_else(|error| panic!("{error}"));
        assert!(token.is("0123456789abcdef"));
        for other in ["", "0123456789abcde", "0123456789abcdeF", "0123456789abcdef "] {
            assert!(!token.is(other), "{other:?}");
        }
        for weak in ["", "short", "               x", "0123456789 abcdef"] {
            assert!(matches!(Token::new(weak), Err(TokenError::Weak)), "{weak:?}");
        }
        let made =
            [Token::made(), Token::made()].map(|made| made.unwrap_or_else(|error| panic!("{error}")).1);
        assert_ne!(made[0], made[1]);
        assert_eq!(made[0].len(), 43);
    }

    #[test]
    fn a_file_is_made_once_and_refused_where_others_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let token = Token::from_file(&path).unwrap_or_else(|error| panic!("{error}"));
        let mode = std::fs::metadata(&path).expect("made").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = std::fs::read_to_string(&path).expect("readable");
        assert!(token.is(&text));
        assert!(Token::from_file(&path).unwrap_or_else(|error| panic!("{error}")).is(&text));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("changed");
        assert!(matches!(Token::from_file(&path), Err(TokenError::Open(_))));
    }
}
