//! Which package indexes the user configured, from the environment and from uv's own configuration files. Pure: a
//! function of texts.
//!
//! Credentials are split off each URL and bound to a name that a script cannot choose. Plain-http indexes and
//! local folders are left out, with a note, since a variable in the environment of the client that starts this
//! server is no proof that the user wants the network's every neighbour to choose the packages.

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::host::HostEnv;
use super::redact::{percent_decode, redact, split_credentials};

/// Names of our generated indexes start with this; a script's own index must not.
pub const RESERVED_PREFIX: &str = "configured-";

/// Whether plain-http indexes are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlainHttp {
    /// Left out, with a note.
    #[default]
    Refused,
    /// The user said so by a flag.
    Allowed,
}

/// The user's indexes, as uv is told of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexSettings {
    indexes: Vec<Index>,
    keyring: Option<String>,
    strategy: Option<String>,
    exclude_newer: Option<String>,
    /// Things the user should know: what was left out, and why.
    pub notes: Vec<String>,
}

/// One index of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// A name that no script can choose.
    pub name: String,
    /// Its address, without credentials.
    pub url: String,
    role: IndexRole,
    /// User name and password as they stand in the address or in variables; either may be empty.
    pub credentials: Option<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexRole {
    Default,
    Extra,
    /// Only for packages that name it; of no use without a name that a script knows, and so left out.
    Explicit,
}

/// The keys of uv's configuration that are honoured.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct UvToml {
    index: Vec<IndexEntry>,
    index_url: Option<String>,
    extra_index_url: Vec<String>,
    index_strategy: Option<String>,
    exclude_newer: Option<String>,
    keyring_provider: Option<String>,
    allow_insecure_host: Vec<String>,
    pip: Option<PipToml>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct PipToml {
    index_url: Option<String>,
    extra_index_url: Vec<String>,
    index_strategy: Option<String>,
    keyring_provider: Option<String>,
}

#[derive(Debug, Deserialize)]
struct IndexEntry {
    name: Option<String>,
    url: String,
    #[serde(default)]
    default: bool,
    #[serde(default)]
    explicit: bool,
}

impl IndexSettings {
    /// Reads the settings: the environment first, then the configuration files in the order given (the user's
    /// before the system's). `files` holds each file's name and text.
    pub fn read(env: &HostEnv, files: &[(String, String)], plain_http: PlainHttp) -> Self {
        let mut reader = Reader { env, plain_http, settings: Self::default() };
        reader.environment();
        for (name, text) in files {
            match toml::from_str::<UvToml>(text) {
                Ok(file) => reader.file(name, file),
                Err(error) => reader.settings.notes.push(format!("{name} is left out: {}", error.message())),
            }
        }
        reader.settings
    }

    /// The settings as tables for a `uv.toml`. No credentials are in it.
    pub fn to_toml(&self) -> toml::Table {
        let mut table = toml::Table::new();
        let entries: Vec<toml::Value> = self.indexes.iter().map(Index::to_toml).collect();
        if !entries.is_empty() {
            table.insert("index".to_owned(), entries.into());
        }
        if let Some(strategy) = &self.strategy {
            table.insert("index-strategy".to_owned(), strategy.clone().into());
        }
        if let Some(date) = &self.exclude_newer {
            table.insert("exclude-newer".to_owned(), date.clone().into());
        }
        table
    }

    /// The indexes, in order.
    pub fn indexes(&self) -> &[Index] {
        &self.indexes
    }

    /// Whether the user has uv ask a keyring.
    pub fn asks_keyring(&self) -> bool {
        self.keyring.as_deref() == Some("subprocess")
    }

    /// The user's limit on the date of publication.
    pub fn exclude_newer(&self) -> Option<&str> {
        self.exclude_newer.as_deref()
    }

    /// A text that is the same whenever the settings choose the same packages.
    pub fn identity(&self) -> String {
        self.to_toml().to_string()
    }
}

impl Index {
    /// The user name, where one is known.
    pub fn user(&self) -> Option<&str> {
        self.credentials.as_ref().map(|(user, _)| user.as_str()).filter(|user| !user.is_empty())
    }

    fn to_toml(&self) -> toml::Value {
        let mut entry = toml::Table::new();
        entry.insert("name".to_owned(), self.name.clone().into());
        entry.insert("url".to_owned(), self.url.clone().into());
        if self.role == IndexRole::Default {
            entry.insert("default".to_owned(), true.into());
        }
        entry.into()
    }
}

struct Reader<'a> {
    env: &'a HostEnv,
    plain_http: PlainHttp,
    settings: IndexSettings,
}

impl Reader<'_> {
    fn environment(&mut self) {
        let env = self.env;
        for variable in ["UV_INDEX", "UV_EXTRA_INDEX_URL"] {
            for entry in env.get(variable).unwrap_or_default().split_whitespace() {
                let (name, url) = match entry.split_once('=') {
                    Some((name, url)) if !name.contains(':') => (Some(name), url),
                    _ => (None, entry),
                };
                self.add(variable, name, url, IndexRole::Extra);
            }
        }
        for variable in ["UV_DEFAULT_INDEX", "UV_INDEX_URL"] {
            if let Some(url) = env.get(variable) {
                self.add(variable, None, url, IndexRole::Default);
            }
        }
        self.settings.strategy = env.get("UV_INDEX_STRATEGY").map(str::to_owned);
        self.settings.exclude_newer = env.get("UV_EXCLUDE_NEWER").map(str::to_owned);
        self.settings.keyring = env.get("UV_KEYRING_PROVIDER").map(str::to_owned);
        self.left_out();
    }

    /// Says of settings which might be taken for effective that they are not.
    fn left_out(&mut self) {
        for name in ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"] {
            let said = ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL"];
            if self.env.get(name).is_some() && said.iter().all(|name| self.env.get(name).is_none()) {
                self.note(format!("{name} is pip's setting and not read; set UV_DEFAULT_INDEX or UV_INDEX"));
            }
        }
        if self.env.get("UV_INSECURE_HOST").is_some() {
            self.note("UV_INSECURE_HOST is not used: certificates are always checked; name your own with SSL_CERT_FILE".to_owned());
        }
    }

    fn note(&mut self, text: String) {
        self.settings.notes.push(text);
    }

    fn file(&mut self, source: &str, file: UvToml) {
        let pip = file.pip.unwrap_or_default();
        for entry in &file.index {
            let role = match (entry.default, entry.explicit) {
                (true, _) => IndexRole::Default,
                (false, true) => IndexRole::Explicit,
                (false, false) => IndexRole::Extra,
            };
            self.add(source, entry.name.as_deref(), &entry.url, role);
        }
        for url in pip.extra_index_url.iter().chain(&file.extra_index_url) {
            self.add(source, None, url, IndexRole::Extra);
        }
        for url in pip.index_url.iter().chain(&file.index_url) {
            self.add(source, None, url, IndexRole::Default);
        }
        let settings = &mut self.settings;
        settings.strategy = settings.strategy.take().or(pip.index_strategy).or(file.index_strategy);
        settings.exclude_newer = settings.exclude_newer.take().or(file.exclude_newer);
        settings.keyring = settings.keyring.take().or(file.keyring_provider).or(pip.keyring_provider);
        if !file.allow_insecure_host.is_empty() {
            self.note(format!(
                "allow-insecure-host in {source} is not used: certificates are always checked"
            ));
        }
    }

    fn add(&mut self, source: &str, user_name: Option<&str>, full_url: &str, role: IndexRole) {
        let shown = redact(full_url);
        let (url, in_url) = split_credentials(full_url);
        let indexes = &self.settings.indexes;
        if role == IndexRole::Explicit {
            self.note(format!(
                "the explicit index {shown} from {source} is not used: it serves packages that a project names for it"
            ));
            return;
        }
        let second_default = role == IndexRole::Default && indexes.iter().any(|index| index.role == role);
        if second_default || indexes.iter().any(|index| index.url == url) {
            return;
        }
        if let Some(reason) = self.refusal(&url) {
            self.settings.notes.push(format!("the index {shown} from {source} is not used: {reason}"));
            return;
        }
        let credentials = in_url
            .map(|(user, password)| (percent_decode(&user), percent_decode(&password)))
            .or_else(|| self.named_credentials(user_name?));
        let name = format!("{RESERVED_PREFIX}{}", &hex(&Sha256::digest(&url))[..12]);
        self.settings.indexes.push(Index { name, url, role, credentials });
    }

    fn refusal(&self, url: &str) -> Option<&'static str> {
        match url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase()).as_deref() {
            Some("https") => None,
            Some("http") if self.plain_http == PlainHttp::Allowed => None,
            Some("http") => Some("it is plain http; --allow-http-index takes it"),
            _ => Some("only https indexes are used"),
        }
    }

    fn named_credentials(&self, name: &str) -> Option<(String, String)> {
        let name = variable_name(name);
        let user = self.env.get(&format!("UV_INDEX_{name}_USERNAME"));
        let password = self.env.get(&format!("UV_INDEX_{name}_PASSWORD"));
        (user.is_some() || password.is_some())
            .then(|| (user.unwrap_or_default().to_owned(), password.unwrap_or_default().to_owned()))
    }
}

/// An index's name as it stands in variables.
pub(super) fn variable_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(settings: &IndexSettings) -> Vec<(&str, IndexRole)> {
        settings.indexes.iter().map(|index| (index.url.as_str(), index.role)).collect()
    }

    #[test]
    fn a_plain_http_index_from_the_environment_is_left_out_and_said() {
        let env = HostEnv::from_iter([("UV_DEFAULT_INDEX", "http://u:secret@127.0.0.1:18081/simple")]);
        let settings = IndexSettings::read(&env, &[], PlainHttp::Refused);
        assert!(settings.to_toml().is_empty() && settings.indexes().is_empty());
        assert!(settings.notes[0].contains("--allow-http-index") && !settings.notes[0].contains("secret"));
        let allowed = IndexSettings::read(&env, &[], PlainHttp::Allowed);
        assert_eq!(urls(&allowed), [("http://127.0.0.1:18081/simple", IndexRole::Default)]);
    }

    #[test]
    fn credentials_are_bound_to_a_name_of_ours() {
        let env = HostEnv::from_iter([
            ("UV_INDEX", "corp=https://pkg.example/simple https://u:p%40@two.example/simple"),
            ("UV_INDEX_CORP_USERNAME", "me"),
            ("UV_INDEX_CORP_PASSWORD", "secret"),
        ]);
        let settings = IndexSettings::read(&env, &[], PlainHttp::Refused);
        let found: Vec<_> = settings.indexes().iter().map(|index| index.credentials.clone()).collect();
        let pair = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        assert_eq!(found, [pair("me", "secret"), pair("u", "p@")]);
        assert!(settings.indexes().iter().all(|index| index.name.starts_with(RESERVED_PREFIX)));
        let toml = settings.identity();
        assert!(
            !toml.contains("secret") && !toml.contains("corp") && toml.contains("https://pkg.example/simple")
        );
    }

    #[test]
    fn the_environment_goes_before_the_user_s_file_and_that_before_the_system_s() {
        let env = HostEnv::from_iter([("UV_EXTRA_INDEX_URL", "https://env.example/simple")]);
        let files = [
            (
                "uv.toml".to_owned(),
                "index-strategy = \"unsafe-best-match\"\n[[index]]\nurl = \"https://user.example/\"\ndefault = true\n\
                 [[index]]\nname = \"x\"\nurl = \"https://explicit.example/\"\nexplicit = true\n"
                    .to_owned(),
            ),
            ("/etc/uv/uv.toml".to_owned(), "index-url = \"https://system.example/\"".to_owned()),
        ];
        let settings = IndexSettings::read(&env, &files, PlainHttp::Refused);
        assert_eq!(
            urls(&settings),
            [("https://env.example/simple", IndexRole::Extra), ("https://user.example/", IndexRole::Default)]
        );
        assert_eq!(settings.strategy.as_deref(), Some("unsafe-best-match"));
    }

    #[test]
    fn folders_and_broken_files_are_said() {
        let env = HostEnv::from_iter([("UV_INDEX", "/srv/wheels file:///srv/wheels")]);
        let files = [("uv.toml".to_owned(), "index = 3".to_owned())];
        assert_eq!(IndexSettings::read(&env, &files, PlainHttp::Refused).notes.len(), 3);
    }
}
