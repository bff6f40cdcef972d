//! Reads the settings: variables, and uv's configuration files.

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{Index, IndexRole, IndexSettings, Origin, Place, PlainHttp, RESERVED_PREFIX, hex, variable_name};
use crate::environment::host::HostEnv;
use crate::environment::redact::{percent_decode, redact, split_credentials};
use crate::script::tool_uv::Notation;

/// The keys of uv's configuration that are honoured.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct UvToml {
    index: Vec<IndexEntry>,
    index_url: Option<String>,
    extra_index_url: Vec<String>,
    find_links: Vec<String>,
    no_index: Option<bool>,
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
    find_links: Vec<String>,
    no_index: Option<bool>,
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
    /// `simple` or `flat`.
    format: Option<String>,
}

pub(super) fn read(env: &HostEnv, files: &[(String, String)], plain_http: PlainHttp) -> IndexSettings {
    let mut reader =
        Reader { env, plain_http, settings: IndexSettings::default(), pages_left_out: Vec::new() };
    reader.environment();
    for (name, text) in files {
        match toml::from_str::<UvToml>(text) {
            Ok(file) => reader.file(name, file),
            Err(error) => reader.settings.refuse(format!("{name} cannot be read: {}", error.message())),
        }
    }
    let mut settings = reader.settings;
    if let (Some(true), Some(reason)) = (settings.no_index, reader.pages_left_out.into_iter().next()) {
        settings.refuse(reason);
    }
    settings
}

struct Reader<'a> {
    env: &'a HostEnv,
    plain_http: PlainHttp,
    settings: IndexSettings,
    pages_left_out: Vec<String>,
}

impl Reader<'_> {
    fn environment(&mut self) {
        let env = self.env;
        let variables = [("UV_INDEX", Notation::Index), ("UV_EXTRA_INDEX_URL", Notation::ExtraIndexUrl)];
        for (variable, notation) in variables {
            for entry in env.get(variable).unwrap_or_default().split_whitespace() {
                let (name, url) = match entry.split_once('=') {
                    Some((name, url)) if !name.contains(':') => (Some(name), url),
                    _ => (None, entry),
                };
                self.add(variable, name, url, IndexRole::Extra, (notation, Origin::Variable));
            }
        }
        for (variable, notation) in
            [("UV_DEFAULT_INDEX", Notation::Index), ("UV_INDEX_URL", Notation::IndexUrl)]
        {
            if let Some(url) = env.get(variable) {
                self.add(variable, None, url, IndexRole::Default, (notation, Origin::Variable));
            }
        }
        let pages = env.get("UV_FIND_LINKS").unwrap_or_default().split(',');
        for page in pages.map(str::trim).filter(|page| !page.is_empty()) {
            self.page("UV_FIND_LINKS", page);
        }
        self.settings.strategy = env.get("UV_INDEX_STRATEGY").map(str::to_owned);
        self.settings.exclude_newer = env.get("UV_EXCLUDE_NEWER").map(str::to_owned);
        self.settings.keyring = env.get("UV_KEYRING_PROVIDER").map(str::to_owned);
        self.settings.no_index = env.is_on("UV_NO_INDEX").then_some(true);
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
            self.add(source, entry.name.as_deref(), &entry.url, role, (Notation::Index, Origin::File));
            self.set_format(entry);
        }
        for url in pip.extra_index_url.iter().chain(&file.extra_index_url) {
            self.add(source, None, url, IndexRole::Extra, (Notation::ExtraIndexUrl, Origin::File));
        }
        for url in pip.index_url.iter().chain(&file.index_url) {
            self.add(source, None, url, IndexRole::Default, (Notation::IndexUrl, Origin::File));
        }
        for page in pip.find_links.iter().chain(&file.find_links) {
            self.page(source, page);
        }
        let settings = &mut self.settings;
        settings.no_index = settings.no_index.or(pip.no_index).or(file.no_index);
        settings.strategy = settings.strategy.take().or(pip.index_strategy).or(file.index_strategy);
        settings.exclude_newer = settings.exclude_newer.take().or(file.exclude_newer);
        settings.keyring = settings.keyring.take().or(file.keyring_provider).or(pip.keyring_provider);
        if !file.allow_insecure_host.is_empty() {
            self.note(format!(
                "allow-insecure-host in {source} is not used: certificates are always checked"
            ));
        }
    }

    fn add(&mut self, source: &str, user_name: Option<&str>, full_url: &str, role: IndexRole, place: Place) {
        let shown = redact(full_url);
        let (url, in_url) = split_credentials(full_url);
        let indexes = &self.settings.indexes;
        if role == IndexRole::Explicit {
            self.note(format!(
                "the explicit index {shown} from {source} is not used: it serves packages that a project names for it"
            ));
            return;
        }
        // A default index that has another one before it is never asked.
        let before = |index: &Index| index.role == role && index.place <= place;
        let second_default = role == IndexRole::Default && indexes.iter().any(before);
        if second_default || indexes.iter().any(|index| index.url == url) {
            return;
        }
        if let Some(reason) = self.refusal(&url) {
            if place.1 == Origin::Variable && is_plain_port_of_this_machine(&url) {
                let note = format!("the index {shown} from {source} was not asked: {reason}");
                self.settings.notes.push(note.clone());
                self.settings.passed_over.push(note);
            } else {
                self.settings.refuse(format!("the index {shown} from {source} cannot be used: {reason}"));
            }
            return;
        }
        let credentials = in_url
            .map(|(user, password)| (percent_decode(&user), percent_decode(&password)))
            .or_else(|| self.named_credentials(user_name?));
        let name = format!("{RESERVED_PREFIX}{}", &hex(&Sha256::digest(&url))[..12]);
        self.settings.indexes.push(Index { name, url, role, place, format: None, credentials });
    }

    fn set_format(&mut self, entry: &IndexEntry) {
        let (url, _) = split_credentials(&entry.url);
        if let Some(index) = self.settings.indexes.iter_mut().find(|index| index.url == url) {
            index.format.clone_from(&entry.format);
        }
    }

    /// A page with links to packages. They come in addition to those of indexes, so without it nothing else is asked for
    /// what it holds, unless it was all there is.
    fn page(&mut self, source: &str, address: &str) {
        let (url, credentials) = split_credentials(address);
        let reason = match credentials {
            Some(_) => Some("credentials are taken for indexes alone"),
            None => self.refusal(&url),
        };
        match reason {
            None => self.settings.find_links.push(url),
            Some(reason) => {
                let note = format!("find-links {} from {source} is not used: {reason}", redact(address));
                self.pages_left_out.push(note.clone());
                self.note(note);
            }
        }
    }

    fn refusal(&self, url: &str) -> Option<&'static str> {
        match url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase()).as_deref() {
            Some("https") => None,
            Some("http") if self.plain_http == PlainHttp::Allowed => None,
            Some("http") => Some("it is plain http; give --allow-http-index to take it"),
            _ => Some("only https addresses are taken, not folders; serve it over https, or unset it"),
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

fn is_plain_port_of_this_machine(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let host = rest.split(['/', '?', '#', ':']).next().unwrap_or_default();
    let is_loopback = host.parse::<std::net::Ipv4Addr>().is_ok_and(|ip| ip.is_loopback());
    let is_loopback = is_loopback || host.eq_ignore_ascii_case("localhost") || rest.starts_with("[::1]");
    scheme.eq_ignore_ascii_case("http") && is_loopback
}
