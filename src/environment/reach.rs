//! Which servers of this machine and its link the preparing stage may reach: those that the user's own settings name,
//! and none that a script or a package names.
//!
//! Addresses that stand in a script are judged before anything is contacted. What a page or a package leads to later is
//! stopped by the stage's own network, where the sandbox has one (`Network::Outbound`).

use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

use super::connection::Connection;
use super::failure::EnvironmentError;
use super::host::HostEnv;
use super::index::IndexSettings;
use super::interpreters::SOURCES;
use super::redact::redact;
use crate::sandbox::reserved::is_reserved;

/// A name that is not resolved by then is left to uv, which says what is wrong with it.
const RESOLVING: Duration = Duration::from_secs(2);

/// The servers that the user's settings name.
#[derive(Debug, Default)]
pub struct Reach {
    named: Vec<(String, u16)>,
    by_proxy: bool,
    addresses: OnceLock<Vec<SocketAddr>>,
}

impl Reach {
    /// Takes indexes, proxies and sources of interpreters from the settings.
    pub fn read(env: &HostEnv, index: &IndexSettings, connection: &Connection) -> Self {
        let mut reach = Self { by_proxy: connection.proxies().next().is_some(), ..Self::default() };
        let indexes = index.indexes().iter().map(|index| index.url.as_str());
        let interpreters = SOURCES.iter().filter_map(|name| env.get(name));
        let pages = index.find_links().iter().map(String::as_str);
        reach
            .named
            .extend(indexes.chain(pages).chain(interpreters).chain(connection.proxies()).filter_map(server));
        reach
    }

    /// Their addresses, this machine's own among them, whatever their network. Names are resolved once, unless one leads
    /// nowhere yet.
    pub async fn addresses(&self) -> Vec<SocketAddr> {
        if let Some(found) = self.addresses.get() {
            return found.clone();
        }
        let mut all = Vec::new();
        let mut complete = true;
        for (host, port) in &self.named {
            let found = resolve(host, *port).await;
            complete &= !found.is_empty();
            all.extend(found);
        }
        if complete {
            let _ = self.addresses.set(all.clone());
        }
        all
    }

    /// Refuses addresses of a script that are this machine's or its link's by what is written there. Contacts nobody.
    pub fn check(&self, urls: &[&str]) -> Result<(), EnvironmentError> {
        let local = |url: &&&str| {
            server(url).is_some_and(|server| is_local(&server.0) && !self.named.contains(&server))
        };
        urls.iter().find(local).map_or(Ok(()), |url| Err(refusal(url)))
    }

    /// The same for what names lead to. Behind a proxy it is the proxy that resolves them.
    pub async fn check_names(&self, urls: &[&str]) -> Result<(), EnvironmentError> {
        self.check(urls)?;
        for url in urls.iter().filter(|_| !self.by_proxy) {
            let Some(server) = server(url).filter(|server| !self.named.contains(server)) else { continue };
            let found = resolve(&server.0, server.1).await;
            if found.iter().any(|address| is_reserved(address.ip())) {
                return Err(refusal(url));
            }
        }
        Ok(())
    }
}

fn refusal(url: &str) -> EnvironmentError {
    EnvironmentError::Refused(format!(
        "{} leads to this machine or its link, where a script may have nothing contacted. A package index that is there \
         has to be named by the user: UV_INDEX, UV_DEFAULT_INDEX or uv.toml",
        redact(url)
    ))
}

async fn resolve(host: &str, port: u16) -> Vec<SocketAddr> {
    let found = tokio::time::timeout(RESOLVING, tokio::net::lookup_host((host, port))).await;
    found.ok().and_then(Result::ok).map(Iterator::collect).unwrap_or_default()
}

fn is_local(host: &str) -> bool {
    let name = host.trim_end_matches('.');
    name == "localhost" || name.ends_with(".localhost") || host.parse::<IpAddr>().is_ok_and(is_reserved)
}

/// Host in lower case, without brackets, and port. A proxy may be written without a scheme.
fn server(url: &str) -> Option<(String, u16)> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let own = match scheme.trim_start_matches("git+") {
        "https" => 443,
        scheme if scheme.starts_with("socks") => 1080,
        _ => 80,
    };
    let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (authority, own),
    };
    let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
    (!host.is_empty()).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::super::index::PlainHttp;
    use super::*;

    fn reach(variables: &[(&str, &str)]) -> Reach {
        let env: HostEnv = variables.iter().copied().collect();
        let index = IndexSettings::read(&env, &[], PlainHttp::Allowed);
        Reach::read(&env, &index, &Connection::read(&env))
    }

    #[tokio::test]
    async fn a_script_may_name_what_the_user_names_and_nothing_else_on_this_machine() {
        let reach = reach(&[("UV_INDEX", "https://me:pw@LocalHost:8443/simple http://127.0.0.1:81/simple")]);
        for url in ["https://localhost:8443/files/x", "git+https://files.example/x", "http://127.0.0.1:81/"] {
            assert_eq!(reach.check(&[url]), Ok(()), "{url}");
        }
        for url in [
            "https://localhost/x",
            "https://localhost:8444/x",
            "https://x.localhost./x",
            "https://127.0.0.1:8443/x",
            "https://127.9.9.9/x",
            "https://0.0.0.0/x",
            "https://[::1]:8443/x",
            "https://[::ffff:127.0.0.1]/x",
            "https://169.254.169.254/latest/",
            "https://100.100.100.200/latest/",
            "https://pkg.example/x https://127.0.0.1/",
        ] {
            let urls: Vec<&str> = url.split(' ').collect();
            let error = reach.check(&urls).expect_err(url).to_string();
            assert!(error.contains("UV_INDEX") && !error.contains("pw"), "{error}");
            assert!(reach.check_names(&urls).await.is_err());
        }
        let addresses = reach.addresses().await;
        assert!(addresses.contains(&"127.0.0.1:8443".parse().expect("an address")), "{addresses:?}");
        assert!(addresses.contains(&"127.0.0.1:81".parse().expect("an address")), "{addresses:?}");
    }

    #[tokio::test]
    async fn a_proxy_of_the_user_is_in_reach_and_resolves_names_itself() {
        let direct = reach(&[]);
        // Every resolver takes this for loopback, whatever the spelling.
        assert!(direct.check_names(&["https://0x7f.1/x"]).await.is_err());
        assert!(direct.addresses().await.is_empty());
        let proxied = reach(&[("ALL_PROXY", "me:pw@127.0.0.1:3128")]);
        assert_eq!(proxied.addresses().await, ["127.0.0.1:3128".parse().expect("an address")]);
        assert_eq!(proxied.check_names(&["https://0x7f.1/x"]).await, Ok(()));
    }
}
