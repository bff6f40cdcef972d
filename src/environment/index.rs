//! Which package indexes the user configured, from the environment and from uv's own configuration files. Pure: a
//! function of texts.
//!
//! Credentials are split off each URL and bound to a name that a script cannot choose. A plain-http index is not taken
//! without a flag, since a variable in the environment of the client that starts this server is no proof that the user
//! wants the network's every neighbour to choose the packages. Nothing stands in for an index that cannot be used: packages
//! of the same names from another one are not what the user meant, so nothing is installed until that is put right. One case
//! is told from that: a variable that names a port of this machine without TLS, where any program may listen. It is passed over,
//! and every result with packages says so.

use super::host::HostEnv;
use super::redact::percent_encode;
use crate::script::tool_uv::Notation;

mod reader;

/// Names of our generated indexes start with this; a script's own index must not.
pub const RESERVED_PREFIX: &str = "configured-";

/// Whether plain-http indexes are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlainHttp {
    /// Nothing is installed while one is configured.
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
    no_index: Option<bool>,
    refusal: Option<String>,
    passed_over: Vec<String>,
    find_links: Vec<String>,
    /// Things the user should know: what is not used, and why.
    pub notes: Vec<String>,
}

/// Who configured an index, in uv's order of preference among those of one notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    Variable,
    Script,
    File,
}

/// One index of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// A name that no script can choose.
    pub name: String,
    /// Its address, without credentials.
    pub url: String,
    role: IndexRole,
    place: Place,
    format: Option<String>,
    /// User name and password as they stand in the address or in variables; either may be empty.
    pub credentials: Option<(String, String)>,
}

/// Where an index stands in uv's order of preference.
type Place = (Notation, Origin);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexRole {
    Default,
    Extra,
    /// Only for packages that name it; of no use without a name that a script knows, and so left out.
    Explicit,
}

impl IndexSettings {
    /// Reads the settings: the environment first, then the configuration files in the order given (the user's
    /// before the system's). `files` holds each file's name and text.
    pub fn read(env: &HostEnv, files: &[(String, String)], plain_http: PlainHttp) -> Self {
        reader::read(env, files, plain_http)
    }

    /// Has nothing installed, for this reason.
    pub fn refuse(&mut self, reason: String) {
        self.notes.push(format!("{reason}. No package is installed until this is put right"));
        self.refusal.get_or_insert(reason);
    }

    /// Why no package may be installed: an index that the user configured cannot be used, and another one is not
    /// what was meant.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Pages with links to packages.
    pub fn find_links(&self) -> &[String] {
        &self.find_links
    }

    /// What every result with packages says: which index was not asked.
    pub fn passed_over(&self) -> &[String] {
        &self.passed_over
    }

    /// The settings as tables for a `uv.toml`, with the indexes of a script at their place. No credentials are in it.
    pub fn to_toml(&self, of_script: Vec<(Notation, toml::Table)>) -> toml::Table {
        let mut table = toml::Table::new();
        let own = self.indexes.iter().map(|index| (index.place, index.to_toml()));
        let of_script = of_script.into_iter().map(|(notation, entry)| ((notation, Origin::Script), entry));
        let mut placed: Vec<(Place, toml::Table)> = own.chain(of_script).collect();
        placed.sort_by_key(|(place, _)| *place);
        let mut entries: Vec<toml::Table> = placed.into_iter().map(|(_, entry)| entry).collect();
        // uv asks the first default index and none of the others.
        let mut has_default = false;
        entries.retain(|entry| !is_default(entry) || !std::mem::replace(&mut has_default, true));
        if !entries.is_empty() {
            table.insert("index".to_owned(), entries.into());
        }
        if self.no_index == Some(true) {
            table.insert("no-index".to_owned(), true.into());
        }
        if !self.find_links.is_empty() {
            table.insert("find-links".to_owned(), self.find_links.clone().into());
        }
        if let Some(strategy) = &self.strategy {
            table.insert("index-strategy".to_owned(), strategy.clone().into());
        }
        if let Some(date) = &self.exclude_newer {
            table.insert("exclude-newer".to_owned(), date.clone().into());
        }
        table
    }

    /// Hosts of these and of a script's indexes, for people.
    pub fn hosts(&self, of_script: Vec<(Notation, toml::Table)>) -> String {
        let table = self.to_toml(of_script);
        let entries: Vec<&toml::Table> = table
            .get("index")
            .and_then(toml::Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(toml::Value::as_table)
            .collect();
        let urls = entries.iter().filter_map(|entry| entry.get("url")?.as_str());
        let host = |url: &str| Some(url.split_once("://")?.1.split(['/', '?', '#']).next()?.to_owned());
        let mut hosts: Vec<String> = urls.filter_map(host).collect();
        hosts.dedup();
        if !entries.iter().any(|entry| is_default(entry)) && self.no_index != Some(true) {
            hosts.push("the public one".to_owned());
        }
        hosts.join(", ")
    }

    /// The indexes, in order.
    pub fn indexes(&self) -> &[Index] {
        &self.indexes
    }

    /// The same for pip, which knows none of uv's settings: variables that have it ask the default index, or none. pip has
    /// no order of indexes, so further ones are not handed on.
    pub fn for_pip(&self) -> Vec<(&'static str, String)> {
        if self.no_index == Some(true) {
            return vec![("PIP_NO_INDEX", "1".to_owned())];
        }
        let mut defaults: Vec<&Index> =
            self.indexes.iter().filter(|index| index.role == IndexRole::Default).collect();
        defaults.sort_by_key(|index| index.place);
        let url = defaults.first().map(|index| with_credentials(&index.url, index.credentials.as_ref()));
        url.into_iter().map(|url| ("PIP_INDEX_URL", url)).collect()
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
        let places: Vec<Place> = self.indexes.iter().map(|index| index.place).collect();
        format!("{}{places:?}", self.to_toml(Vec::new()))
    }
}

fn is_default(entry: &toml::Table) -> bool {
    entry.get("default").and_then(toml::Value::as_bool).unwrap_or_default()
}

impl Index {
    /// The user name, where one is known.
    pub fn user(&self) -> Option<&str> {
        self.credentials.as_ref().map(|(user, _)| user.as_str()).filter(|user| !user.is_empty())
    }

    fn to_toml(&self) -> toml::Table {
        let mut entry = toml::Table::new();
        entry.insert("name".to_owned(), self.name.clone().into());
        entry.insert("url".to_owned(), self.url.clone().into());
        if self.role == IndexRole::Default {
            entry.insert("default".to_owned(), true.into());
        }
        if let Some(format) = &self.format {
            entry.insert("format".to_owned(), format.clone().into());
        }
        entry
    }
}

fn with_credentials(url: &str, pair: Option<&(String, String)>) -> String {
    match (url.split_once("://"), pair) {
        (Some((scheme, rest)), Some((user, password))) => {
            let encoded = |text: &str| percent_encode(text).replace('/', "%2F");
            format!("{scheme}://{}:{}@{rest}", encoded(user), encoded(password))
        }
        _ => url.to_owned(),
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
    fn nothing_stands_in_for_an_index_that_cannot_be_used() {
        for (name, value) in [
            ("UV_DEFAULT_INDEX", "http://u:secret@packages.example/simple"),
            ("UV_INDEX", "file:///srv/secret-less"),
            ("UV_EXTRA_INDEX_URL", "/srv/wheels"),
        ] {
            let env = HostEnv::from_iter([(name, value)]);
            let settings = IndexSettings::read(&env, &[], PlainHttp::Refused);
            let said = settings.refusal().expect("refused");
            assert!(said.contains(name) && !said.contains("secret@") && settings.notes[0].starts_with(said));
            assert!(settings.indexes().is_empty());
        }
        let files = [("uv.toml".to_owned(), "index = 3".to_owned())];
        let broken = IndexSettings::read(&HostEnv::default(), &files, PlainHttp::Refused);
        assert!(broken.refusal().is_some_and(|said| said.contains("uv.toml")), "{broken:?}");
    }

    #[test]
    fn a_plain_http_index_is_taken_where_the_user_says_so() {
        let env = HostEnv::from_iter([("UV_DEFAULT_INDEX", "http://u:secret@127.0.0.1:18081/simple")]);
        let refused = IndexSettings::read(&env, &[], PlainHttp::Refused);
        assert!(refused.indexes().is_empty() && refused.refusal().is_none(), "{refused:?}");
        let said = &refused.passed_over()[0];
        assert!(said.contains("--allow-http-index") && !said.contains("secret"), "{said}");
        let file = [("uv.toml".to_owned(), "index-url = \"http://localhost:1/\"".to_owned())];
        let by_file = IndexSettings::read(&HostEnv::default(), &file, PlainHttp::Refused);
        assert!(by_file.refusal().is_some_and(|said| said.contains("--allow-http-index")), "{by_file:?}");
        let allowed = IndexSettings::read(&env, &[], PlainHttp::Allowed);
        assert_eq!(urls(&allowed), [("http://127.0.0.1:18081/simple", IndexRole::Default)]);
        assert!(allowed.refusal().is_none() && allowed.passed_over().is_empty());
    }

    /// The first of the places where uv 0.13 looks, found out by asking it.
    #[test]
    fn scripts_and_users_indexes_stand_in_the_order_of_uv() {
        let (user, script) = ("https://user.example/", "https://script.example/");
        let files = |text: &str| [("uv.toml".to_owned(), text.replace("URL", &format!("\"{user}\"")))];
        let listed = files("[[index]]\nurl = URL");
        let default = files("[[index]]\nurl = URL\ndefault = true");
        let older = files("index-url = URL");
        let variable = |name: &'static str| HostEnv::from_iter([(name, user)]);
        let none = HostEnv::default();
        let default_entry = (Notation::Index, true);
        let (extra, old_extra) = ((Notation::Index, false), (Notation::ExtraIndexUrl, false));
        let old_default = (Notation::IndexUrl, true);
        for (of_script, env, files, first) in [
            (old_default, &variable("UV_DEFAULT_INDEX"), &[][..], user),
            (old_default, &variable("UV_INDEX_URL"), &[], user),
            (old_default, &none, &older, script),
            (old_default, &none, &default, user),
            (default_entry, &variable("UV_DEFAULT_INDEX"), &[], user),
            (default_entry, &variable("UV_EXTRA_INDEX_URL"), &[], user),
            (default_entry, &none, &default, script),
            (extra, &variable("UV_INDEX"), &[], user),
            (extra, &variable("UV_EXTRA_INDEX_URL"), &[], script),
            (extra, &none, &listed, script),
            (old_extra, &variable("UV_EXTRA_INDEX_URL"), &[], user),
            (old_extra, &none, &listed, user),
            (old_extra, &none, &older, script),
        ] {
            let settings = IndexSettings::read(env, files, PlainHttp::Refused);
            let mut entry = toml::Table::from_iter([("url".to_owned(), script.into())]);
            entry.insert("default".to_owned(), of_script.1.into());
            let table = settings.to_toml(vec![(of_script.0, entry)]);
            let entries: Vec<&toml::Table> =
                table["index"].as_array().expect("a list").iter().filter_map(toml::Value::as_table).collect();
            // The default index is asked last.
            let asked = entries.iter().find(|entry| !is_default(entry)).unwrap_or(&entries[0]);
            assert_eq!(asked["url"].as_str(), Some(first), "{of_script:?} {env:?} {files:?}");
            assert!(entries.iter().filter(|entry| is_default(entry)).count() <= 1, "{entries:?}");
        }
    }

    #[test]
    fn pages_with_links_are_taken_and_missed_where_they_are_all_there_is() {
        let env = HostEnv::from_iter([("UV_FIND_LINKS", "https://a.example/x, https://b.example/y")]);
        let file =
            [("uv.toml".to_owned(), "find-links = ['/srv/wheels', 'https://me:pw@c.example/']".to_owned())];
        let settings = IndexSettings::read(&env, &file, PlainHttp::Refused);
        assert_eq!(settings.find_links(), ["https://a.example/x", "https://b.example/y"]);
        assert!(settings.notes.len() == 2 && !format!("{:?}", settings.notes).contains("pw"), "{settings:?}");
        assert_eq!(settings.refusal(), None);
        let alone = [("uv.toml".to_owned(), "no-index = true\nfind-links = ['/srv/wheels']".to_owned())];
        let settings = IndexSettings::read(&HostEnv::default(), &alone, PlainHttp::Refused);
        assert!(settings.refusal().is_some_and(|said| said.contains("/srv/wheels")), "{settings:?}");
    }

    #[test]
    fn pip_is_told_of_the_default_index() {
        let of = |name: &str, value: &str| {
            let env = HostEnv::from_iter([(name, value)]);
            IndexSettings::read(&env, &[], PlainHttp::Refused).for_pip()
        };
        let url = "https://me:p%40%2Fw@pkg.example/simple";
        assert_eq!(of("UV_DEFAULT_INDEX", url), [("PIP_INDEX_URL", url.to_owned())]);
        assert_eq!(of("UV_NO_INDEX", "1"), [("PIP_NO_INDEX", "1".to_owned())]);
        assert!(of("UV_INDEX", url).is_empty());
    }

    #[test]
    fn a_user_who_wants_no_index_gets_none() {
        let off = [("uv.toml".to_owned(), "no-index = true".to_owned())];
        let of = |env: &HostEnv, files| {
            IndexSettings::read(env, files, PlainHttp::Refused).to_toml(Vec::new()).contains_key("no-index")
        };
        let none = HostEnv::default();
        assert!(of(&none, &off) && of(&HostEnv::from_iter([("UV_NO_INDEX", "1")]), &[]));
        let on = [("uv.toml".to_owned(), "no-index = false".to_owned()), off[0].clone()];
        assert!(!of(&none, &on) && !of(&none, &[]));
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
}
