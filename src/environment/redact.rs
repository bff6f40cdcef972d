//! Takes credentials out of URLs and texts. Pure.

/// The text with the user-info part of every URL replaced by `***`.
pub fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let end = authority_end(after);
        let authority = &after[..end];
        match authority.rfind('@') {
            Some(sign) => {
                out.push_str("***");
                out.push_str(&authority[sign..]);
            }
            None => out.push_str(authority),
        }
        rest = &after[end..];
    }
    out.push_str(rest);
    out
}

/// Splits a URL into the URL without user-info and its user name and password, percent-encoded as they stood.
pub fn split_credentials(url: &str) -> (String, Option<(String, String)>) {
    let Some(at) = url.find("://") else { return (url.to_owned(), None) };
    let (scheme, after) = url.split_at(at + 3);
    let end = authority_end(after);
    let Some(sign) = after[..end].rfind('@') else { return (url.to_owned(), None) };
    let user_info = &after[..sign];
    let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
    (format!("{scheme}{}", &after[sign + 1..]), Some((user.to_owned(), password.to_owned())))
}

fn authority_end(after: &str) -> usize {
    after
        .find(|c: char| matches!(c, '/' | '?' | '#' | '"' | '\'' | '`' | '<' | '>') || c.is_whitespace())
        .unwrap_or(after.len())
}

/// A path as it stands in a URL.
pub fn percent_encode(path: &str) -> String {
    use std::fmt::Write;
    path.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"/-._~+".contains(&byte) {
            text.push(byte.into());
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

/// Undoes percent-encoding; what is not valid stays as it stands.
pub fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.push(escaped.unwrap_or(bytes[at]));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_info_is_taken_out_wherever_a_url_stands() {
        let text = "get `https://user:p@ss@host/x` and http://tok@h:8080, not https://host/a@b";
        assert_eq!(redact(text), "get `https://***@host/x` and http://***@h:8080, not https://host/a@b");
    }

    #[test]
    fn credentials_are_split_off() {
        let (url, credentials) = split_credentials("https://u:p%40@host/simple");
        assert_eq!(url, "https://host/simple");
        assert_eq!(credentials, Some(("u".to_owned(), "p%40".to_owned())));
        assert_eq!(split_credentials("https://host/a@b"), ("https://host/a@b".to_owned(), None));
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(percent_decode("p%40ss%2"), "p@ss%2");
        assert_eq!(percent_decode("%zz%é"), "%zz%é");
        assert_eq!(percent_decode(&percent_encode("/a b/é#%")), "/a b/é#%");
    }
}
