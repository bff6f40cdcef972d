//! Credentials of the user's indexes: from their addresses, from variables, from netrc, from a keyring. Read by the
//! server, outside every sandbox, for addresses that the user configured and no others.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::failure::EnvironmentError;
use super::host::HostEnv;
use super::index::{IndexSettings, variable_name};
use super::redact::redact;
use super::request::EnvironmentRequest;
use super::tool;
use crate::script::tool_uv::Location;

/// A keyring may ask its user; a call cannot wait for that for long.
const KEYRING_ANSWER: Duration = Duration::from_secs(10);

/// A user name and a password.
pub type Pair = (String, String);

/// Credentials, each bound to one index.
#[derive(Clone, Default)]
pub struct Credentials(Vec<Bound>);

#[derive(Clone)]
struct Bound {
    name: String,
    url: String,
    pair: Pair,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|bound| redact(&bound.url))).finish()
    }
}

impl Credentials {
    /// Finds the credentials of every configured index.
    pub async fn find(settings: &IndexSettings, env: &HostEnv) -> Self {
        let netrc = netrc_text(env);
        let mut found = Vec::new();
        for index in settings.indexes() {
            let (_, host) = realm(&index.url);
            let from_netrc = || netrc_entry(&netrc, host_name(&host), index.user());
            let mut pair = index.credentials.clone().filter(|(_, password)| !password.is_empty());
            pair = pair.or_else(from_netrc);
            if pair.is_none() && settings.asks_keyring() {
                pair = keyring(env, &index.url, &host, index.user()).await;
            }
            if let Some(pair) = pair.or_else(|| index.credentials.clone()) {
                found.push(Bound { name: index.name.clone(), url: index.url.clone(), pair });
            }
        }
        Self(found)
    }

    /// As environment variables for uv, each bound to the name of a configured index.
    pub fn variables(&self) -> BTreeMap<String, String> {
        let variables = self.0.iter().flat_map(|Bound { name, pair: (user, password), .. }| {
            let name = variable_name(name);
            [
                (format!("UV_INDEX_{name}_USERNAME"), user.clone()),
                (format!("UV_INDEX_{name}_PASSWORD"), password.clone()),
            ]
        });
        variables.collect()
    }

    /// What belongs to an address: files of an index lie on its host, though not always below its address.
    pub fn of(&self, url: &str) -> Option<Pair> {
        let wanted = realm(url);
        self.0.iter().find(|bound| realm(&bound.url) == wanted).map(|bound| bound.pair.clone())
    }

    /// Refuses addresses of a script on the host of an index that has credentials: uv sends them to the whole host,
    /// and behind another path of it may stand somebody else.
    pub fn guard(&self, request: &EnvironmentRequest) -> Result<(), EnvironmentError> {
        for url in addresses(request) {
            let same_host = |bound: &&Bound| realm(&bound.url) == realm(url);
            let Some(bound) = self.0.iter().find(same_host) else { continue };
            if !is_below(url, &bound.url) {
                return Err(EnvironmentError::Refused(format!(
                    "{} is on the host of a package index with credentials of the user, which would be sent there; \
                     leave the address out and ask for the package by its name",
                    redact(url)
                )));
            }
        }
        Ok(())
    }
}

/// Every address that a script brings.
pub(super) fn addresses(request: &EnvironmentRequest) -> Vec<&str> {
    let settings = &request.tool_uv;
    let mut all: Vec<&str> = settings.indexes.iter().map(|index| index.url.as_str()).collect();
    all.extend(
        settings
            .index_url
            .iter()
            .chain(&settings.extra_index_urls)
            .chain(&settings.find_links)
            .map(String::as_str),
    );
    let lists =
        [&request.requirements, &settings.constraints, &settings.overrides, &settings.build_constraints];
    let direct = lists.into_iter().flatten().filter_map(|requirement| requirement.url());
    all.extend(direct.map(|url| url.as_str().trim_start_matches("git+")));
    let sources = settings.sources.values().flatten();
    all.extend(sources.filter_map(|source| match &source.location {
        Location::Git { url, .. } | Location::Url { url, .. } => Some(url.as_str()),
        Location::Index(_) => None,
    }));
    all
}

/// Scheme and host with port, in lower case, without the scheme's own port.
fn realm(url: &str) -> (String, String) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_ascii_lowercase();
    let scheme = scheme.to_ascii_lowercase();
    let own_port = if scheme == "https" { ":443" } else { ":80" };
    let host = host.strip_suffix(own_port).map_or(host.clone(), str::to_owned);
    (scheme, host)
}

fn host_name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn is_below(url: &str, index: &str) -> bool {
    let index = index.trim_end_matches('/');
    // A path that climbs is below nothing.
    let climbs = url.split(['/', '?', '#']).any(|part| matches!(part, ".." | "%2e%2e" | "%2E%2E"));
    let rest = url.strip_prefix(index);
    !climbs && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))
}

fn netrc_text(env: &HostEnv) -> String {
    let path = env.path("NETRC").or_else(|| Some(env.home()?.join(".netrc")));
    path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
}

/// The entry of a machine; the `default` entry is for no host in particular, and so for none here.
fn netrc_entry(text: &str, machine: &str, user: Option<&str>) -> Option<Pair> {
    let mut words = without_macros(text).into_iter();
    let (mut here, mut login, mut password) = (false, None, None);
    let fits = |login: &Option<String>| user.is_none_or(|user| login.as_deref() == Some(user));
    while let Some(word) = words.next() {
        match word {
            "machine" | "default" => {
                if here && password.is_some() && fits(&login) {
                    break;
                }
                here =
                    word == "machine" && words.next().is_some_and(|name| name.eq_ignore_ascii_case(machine));
                (login, password) = (None, None);
            }
            "login" => login = words.next().map(unquoted),
            "password" => password = words.next().map(unquoted),
            "account" => drop(words.next()),
            _ => {}
        }
    }
    let found = here && fits(&login);
    found.then_some(())?;
    Some((login.unwrap_or_default(), password?))
}

/// Words of the file. A macro goes up to an empty line; a comment to the end of its line.
fn without_macros(text: &str) -> Vec<&str> {
    let mut in_macro = false;
    let mut words = Vec::new();
    for line in text.lines() {
        if line.trim().is_empty() {
            in_macro = false;
        } else if line.trim_start().starts_with("macdef") {
            in_macro = true;
        } else if !in_macro && !line.trim_start().starts_with('#') {
            words.extend(line.split_whitespace());
        }
    }
    words
}

fn unquoted(word: &str) -> String {
    word.strip_prefix('"').and_then(|word| word.strip_suffix('"')).unwrap_or(word).to_owned()
}

/// Asks the user's own `keyring` program, as uv does: for the address, then for its host.
async fn keyring(env: &HostEnv, url: &str, host: &str, user: Option<&str>) -> Option<Pair> {
    let program =
        env.search_path().into_iter().map(|folder| folder.join("keyring")).find(|path| path.is_file())?;
    for service in [url, host] {
        let found = match user {
            Some(user) => {
                ask(env, &program, &["get", service, user]).await.map(|text| (user.to_owned(), text))
            }
            None => ask(env, &program, &["--mode", "creds", "get", service]).await.and_then(|text| {
                let (user, password) = text.split_once('\n')?;
                Some((user.trim().to_owned(), password.trim().to_owned()))
            }),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

async fn ask(env: &HostEnv, program: &Path, args: &[&str]) -> Option<String> {
    let loader = |name: &str| {
        name.starts_with("LD_") || (name.starts_with("PYTHON") && name != "PYTHON_KEYRING_BACKEND")
    };
    let variables = env.iter().filter(|(name, _)| !loader(name));
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    match tool::run(program, args, &variables, KEYRING_ANSWER).await {
        Ok(output) if output.success => Some(output.stdout.trim().to_owned()).filter(|text| !text.is_empty()),
        Ok(_) => None,
        Err(error) => {
            tracing::warn!(%error, "the keyring gave no answer");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::index::PlainHttp;
    use super::*;
    use crate::script::Requirement;

    #[test]
    fn netrc_is_read_by_machine() {
        let text = "# x\nmachine a.example login me password one\nmacdef init\n machine evil password x\n\nmachine \
                    b.example\n  login you\n  password \"two\"\ndefault login any password all\n";
        let entry = |machine, user| netrc_entry(text, machine, user);
        assert_eq!(entry("a.example", None), Some(("me".into(), "one".into())));
        assert_eq!(entry("B.example", Some("you")), Some(("you".into(), "two".into())));
        assert_eq!(
            (entry("a.example", Some("you")), entry("c.example", None), entry("evil", None)),
            (None, None, None)
        );
    }

    #[tokio::test]
    async fn credentials_belong_to_the_host_and_a_script_may_name_what_is_below_the_index_only() {
        let env = HostEnv::from_iter([("UV_INDEX", "https://me:s3cret@Pkg.example:443/team/simple/")]);
        let settings = IndexSettings::read(&env, &[], PlainHttp::Refused);
        let credentials = Credentials::find(&settings, &env).await;
        assert!(!format!("{credentials:?}").contains("s3cret"));
        let pair = Some(("me".to_owned(), "s3cret".to_owned()));
        assert_eq!(credentials.of("https://pkg.example/files/x.tar.gz"), pair);
        for other in ["http://pkg.example/x", "https://pkg.example:8443/x", "https://evil.example/x"] {
            assert_eq!(credentials.of(other), None, "{other}");
        }
        let guard = |url: &str| {
            let mut request = EnvironmentRequest::default();
            request.tool_uv.extra_index_urls = vec![url.to_owned()];
            credentials.guard(&request)
        };
        assert_eq!(guard("https://other.example/simple"), Ok(()));
        let error = guard("https://pkg.example/attacker/simple").expect_err("refused").to_string();
        assert!(error.contains("credentials of the user") && !error.contains("s3cret"), "{error}");
        let requirement =
            Requirement::parse("x @ git+https://pkg.example/attacker.git").expect("a requirement");
        let direct = EnvironmentRequest { requirements: vec![requirement], ..EnvironmentRequest::default() };
        assert!(credentials.guard(&direct).is_err());
    }

    #[test]
    fn below_is_meant_by_whole_parts() {
        assert!(
            is_below("https://h/a/simple/x", "https://h/a/simple/")
                && is_below("https://h/a", "https://h/a/")
        );
        for other in ["https://h/ab", "https://h/a/../b", "https://h/a/%2e%2e/b", "https://h/"] {
            assert!(!is_below(other, "https://h/a"), "{other}");
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_keyring_is_asked_only_where_the_user_said_so() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().expect("a temporary folder");
        let program = place.path().join("keyring");
        std::fs::write(
            &program,
            "#!/bin/sh\n[ \"$*\" = 'get https://h.example/simple me' ] && echo from-keyring\n",
        )
        .expect("written");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("set");
        let folder = place.path().to_str().expect("UTF-8");
        for (provider, wanted) in [("subprocess", "from-keyring"), ("disabled", "")] {
            let env = HostEnv::from_iter([
                ("PATH", folder),
                ("UV_INDEX", "https://me@h.example/simple"),
                ("UV_KEYRING_PROVIDER", provider),
            ]);
            let settings = IndexSettings::read(&env, &[], PlainHttp::Refused);
            let credentials = Credentials::find(&settings, &env).await;
            assert_eq!(credentials.of("https://h.example/").expect("a user").1, wanted);
        }
    }
}
