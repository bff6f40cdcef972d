//! Who may speak: decided on the head of a request alone. Pure.

use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use hyper::{HeaderMap, StatusCode, header};

use super::token::Token;

/// What a request's head must show.
#[derive(Clone, Debug)]
pub struct Guard {
    /// `None` only in this project's own tests of the protocol.
    token: Option<Token>,
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// Why a request is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The name in `Host` is none of this server's: a web page may have made its own name mean this machine.
    #[error(
        "the Host header names none of this server's names; add the name with --http-host if it is meant"
    )]
    Host,
    /// The request comes from a web page of somebody else.
    #[error("requests from this Origin are not allowed; add it with --http-origin if it is meant")]
    Origin,
    /// There is no token.
    #[error("a bearer token is needed: Authorization: Bearer TOKEN")]
    NoToken,
    /// It is another token.
    #[error("the bearer token is not this server's")]
    WrongToken,
}

impl Refused {
    /// The status of the answer.
    pub fn status(self) -> StatusCode {
        match self {
            Self::Host | Self::Origin => StatusCode::FORBIDDEN,
            Self::NoToken | Self::WrongToken => StatusCode::UNAUTHORIZED,
        }
    }
}

impl Guard {
    /// Takes requests that carry `token` and come to this machine by its own names, or by those in `hosts`; from web
    /// pages only of the same address, or of `origins` (`https://name:port`, as browsers write it).
    pub fn new(token: Token, hosts: Vec<String>, origins: Vec<String>) -> Self {
        Self { token: Some(token), hosts, origins }
    }

    /// Asks for no token. For tests of the protocol with clients that cannot send one.
    #[cfg(feature = "conformance")]
    pub fn without_token() -> Self {
        Self { token: None, hosts: Vec::new(), origins: Vec::new() }
    }

    /// Whether the request comes from where it should. A health check needs no more than that.
    pub fn comes_rightly(&self, head: &Parts) -> Result<(), Refused> {
        let host = host(head).filter(|host| self.is_ours(host.host())).ok_or(Refused::Host)?;
        let mut origins = head.headers.get_all(header::ORIGIN).iter();
        let fine = origins.all(|origin| origin.to_str().is_ok_and(|origin| self.is_welcome(origin, &host)));
        if fine { Ok(()) } else { Err(Refused::Origin) }
    }

    /// Whether it shows the token.
    pub fn shows_token(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let Some(token) = &self.token else { return Ok(()) };
        let mut shown = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(shown), None) = (shown.next(), shown.next()) else { return Err(Refused::NoToken) };
        let (scheme, text) =
            shown.to_str().ok().and_then(|shown| shown.split_once(' ')).ok_or(Refused::NoToken)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(Refused::NoToken);
        }
        if token.is(text.trim()) { Ok(()) } else { Err(Refused::WrongToken) }
    }

    fn is_ours(&self, host: &str) -> bool {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let loopback = bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        loopback
            || host.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(bare))
    }

    fn is_welcome(&self, origin: &str, host: &Authority) -> bool {
        let same =
            origin.strip_prefix("http://").is_some_and(|from| from.eq_ignore_ascii_case(host.as_str()));
        same || self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
    }
}

/// The one name that the request is for.
fn host(head: &Parts) -> Option<Authority> {
    let mut names = head.headers.get_all(header::HOST).iter();
    match (names.next(), names.next()) {
        (Some(name), None) => {
            Authority::try_from(name.to_str().ok()?).ok().filter(|name| !name.as_str().contains('@'))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        let token = Token::new("0123456789abcdef").unwrap_or_else(|error| panic!("{error}"));
        Guard::new(token, vec!["box.example".into()], vec!["https://app.example".into()])
    }

    fn head(headers: &[(&'static str, &str)]) -> Parts {
        let mut request = hyper::Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap_or_else(|error| panic!("{error}")).into_parts().0
    }

    #[test]
    fn only_this_machine_s_names_are_served() {
        for host in ["localhost", "LocalHost:8765", "127.0.0.1:1", "127.9.9.9", "[::1]:80", "box.example:9"] {
            assert_eq!(guard().comes_rightly(&head(&[("host", host)])), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "[::2]",
            "a@localhost",
            "",
        ] {
            assert_eq!(guard().comes_rightly(&head(&[("host", host)])), Err(Refused::Host), "{host}");
        }
        assert_eq!(guard().comes_rightly(&head(&[])), Err(Refused::Host));
        let two = head(&[("host", "localhost"), ("host", "evil.example")]);
        assert_eq!(guard().comes_rightly(&two), Err(Refused::Host));
    }

    #[test]
    fn web_pages_of_others_are_turned_away() {
        let from = |origin| guard().comes_rightly(&head(&[("host", "localhost:8765"), ("origin", origin)]));
        for origin in ["http://localhost:8765", "https://app.example"] {
            assert_eq!(from(origin), Ok(()), "{origin}");
        }
        for origin in [
            "null",
            "http://localhost:3000",
            "https://localhost:8765",
            "http://evil.example",
            "http://app.example",
            "",
        ] {
            assert_eq!(from(origin), Err(Refused::Origin), "{origin}");
        }
    }

    #[test]
    fn the_token_is_asked_for_in_one_form() {
        let shown = |value| guard().shows_token(&head(&[("authorization", value)]).headers);
        assert_eq!(shown("Bearer 0123456789abcdef"), Ok(()));
        assert_eq!(shown("bearer  0123456789abcdef"), Ok(()));
        assert_eq!(shown("Bearer 0123456789abcdeX"), Err(Refused::WrongToken));
        assert_eq!(shown("Bearer "), Err(Refused::WrongToken));
        for none in ["0123456789abcdef", "Basic 0123456789abcdef", ""] {
            assert_eq!(shown(none), Err(Refused::NoToken), "{none}");
        }
        let twice = head(&[("authorization", "Bearer x"), ("authorization", "Bearer 0123456789abcdef")]);
        assert_eq!(guard().shows_token(&twice.headers), Err(Refused::NoToken));
    }
}
