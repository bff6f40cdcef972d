//! Writes the settings down again, in one form for equal settings.
//!
//! What reaches the installer is this text and never a copy of the script's own. Names that a script gives to its
//! indexes get a prefix, so that none of them can equal a name in the user's configuration, to which credentials
//! may be tied.

use toml::{Table, Value};

use super::super::requirement::Requirement;
use super::{
    Closed, ExcludeNewer, ForkStrategy, Format, GitReference, Index, Location, Notation, Prerelease,
    Resolution, Source, ToolUv,
};

/// Stands before the name of every index that a script defines.
pub const INDEX_PREFIX: &str = "script-";

impl ToolUv {
    /// Whether the script sets nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The settings as the text of a `uv.toml`. Sources are not part of it, since uv takes them only from metadata.
    #[must_use]
    pub fn to_uv_toml(&self) -> String {
        self.settings().to_string()
    }

    /// Everything, sources included, as the content of a `[tool.uv]` table in script metadata. Equal settings give equal
    /// text: it is also what cache keys are made of.
    #[must_use]
    pub fn to_metadata(&self) -> String {
        if self.is_empty() {
            return String::new();
        }
        let mut settings = self.settings();
        if !self.sources.is_empty() {
            let sources = self.sources.iter().map(|(name, list)| {
                let list = list.iter().map(|source| Value::Table(source_table(source))).collect();
                (name.clone(), Value::Array(list))
            });
            settings.insert("sources".to_owned(), Value::Table(sources.collect()));
        }
        let tool = Table::from_iter([("uv".to_owned(), Value::Table(settings))]);
        Table::from_iter([("tool".to_owned(), Value::Table(tool))]).to_string()
    }

    /// Takes out the indexes, whatever their notation, as entries of a list `index`.
    pub fn take_indexes(&mut self) -> Vec<(Notation, Table)> {
        let listed = self.indexes.drain(..).map(|index| (Notation::Index, index_table(&index)));
        let mut entries: Vec<_> = listed.collect();
        let entry = |url: String| Table::from_iter([("url".to_owned(), Value::String(url))]);
        entries.extend(self.extra_index_urls.drain(..).map(|url| (Notation::ExtraIndexUrl, entry(url))));
        if let Some(url) = self.index_url.take() {
            let mut default = entry(url);
            default.insert("default".to_owned(), Value::Boolean(true));
            entries.push((Notation::IndexUrl, default));
        }
        entries
    }

    fn settings(&self) -> Table {
        let mut table = Table::new();
        let mut set = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                table.insert(key.to_owned(), value);
            }
        };
        set("index", list(self.indexes.iter().map(|index| Value::Table(index_table(index)))));
        set("index-url", self.index_url.clone().map(Value::String));
        set("extra-index-url", strings(&self.extra_index_urls));
        set("find-links", strings(&self.find_links));
        set("exclude-newer", self.exclude_newer.as_ref().map(limit));
        set(
            "exclude-newer-package",
            packages(self.exclude_newer_package.iter().map(|(name, at)| (name, limit(at)))),
        );
        set("constraint-dependencies", requirements(&self.constraints));
        set("override-dependencies", requirements(&self.overrides));
        set("build-constraint-dependencies", requirements(&self.build_constraints));
        set("exclude-dependencies", strings(&self.excluded));
        set("prerelease", self.prerelease.map(prerelease));
        set(
            "prerelease-package",
            packages(self.prerelease_package.iter().map(|(name, mode)| (name, prerelease(*mode)))),
        );
        set("resolution", self.resolution.map(resolution));
        set("fork-strategy", self.fork_strategy.map(fork_strategy));
        let Closed { all, packages } = &self.no_build;
        set("no-build", all.map(Value::Boolean));
        set("no-build-package", strings(packages));
        let Closed { all, packages } = &self.no_binary;
        set("no-binary", all.map(Value::Boolean));
        set("no-binary-package", strings(packages));
        table
    }
}

fn list(values: impl Iterator<Item = Value>) -> Option<Value> {
    let values: Vec<Value> = values.collect();
    (!values.is_empty()).then_some(Value::Array(values))
}

fn strings(texts: &[String]) -> Option<Value> {
    list(texts.iter().cloned().map(Value::String))
}

fn requirements(list_of: &[Requirement]) -> Option<Value> {
    let mut sorted: Vec<&Requirement> = list_of.iter().collect();
    sorted.sort();
    sorted.dedup();
    list(sorted.into_iter().map(|requirement| Value::String(requirement.to_string())))
}

fn packages<'a>(entries: impl Iterator<Item = (&'a String, Value)>) -> Option<Value> {
    let table: Table = entries.map(|(name, value)| (name.clone(), value)).collect();
    (!table.is_empty()).then_some(Value::Table(table))
}

fn text(word: &str) -> Value {
    Value::String(word.to_owned())
}

fn limit(limit: &ExcludeNewer) -> Value {
    match limit {
        ExcludeNewer::Limit(limit) => text(limit),
        ExcludeNewer::Off => Value::Boolean(false),
    }
}

fn prerelease(mode: Prerelease) -> Value {
    text(match mode {
        Prerelease::Disallow => "disallow",
        Prerelease::Allow => "allow",
        Prerelease::IfNecessary => "if-necessary",
        Prerelease::Explicit => "explicit",
        Prerelease::IfNecessaryOrExplicit => "if-necessary-or-explicit",
    })
}

fn resolution(mode: Resolution) -> Value {
    text(match mode {
        Resolution::Highest => "highest",
        Resolution::Lowest => "lowest",
        Resolution::LowestDirect => "lowest-direct",
    })
}

fn fork_strategy(mode: ForkStrategy) -> Value {
    text(match mode {
        ForkStrategy::Fewest => "fewest",
        ForkStrategy::RequiresPython => "requires-python",
    })
}

fn index_table(index: &Index) -> Table {
    let mut table = Table::new();
    if let Some(name) = &index.name {
        table.insert("name".to_owned(), text(&format!("{INDEX_PREFIX}{name}")));
    }
    table.insert("url".to_owned(), text(&index.url));
    for (key, set) in [("default", index.default), ("explicit", index.explicit)] {
        if set {
            table.insert(key.to_owned(), Value::Boolean(true));
        }
    }
    if index.format == Format::Flat {
        table.insert("format".to_owned(), text("flat"));
    }
    table
}

fn source_table(source: &Source) -> Table {
    let mut table = Table::new();
    let mut set = |key: &str, value: &str| drop(table.insert(key.to_owned(), text(value)));
    match &source.location {
        Location::Index(name) => set("index", &format!("{INDEX_PREFIX}{name}")),
        Location::Url { url, subdirectory } => {
            set("url", url);
            if let Some(folder) = subdirectory {
                set("subdirectory", folder);
            }
        }
        Location::Git { url, reference, subdirectory } => {
            set("git", url);
            match reference {
                Some(GitReference::Rev(name)) => set("rev", name),
                Some(GitReference::Tag(name)) => set("tag", name),
                Some(GitReference::Branch(name)) => set("branch", name),
                None => {}
            }
            if let Some(folder) = subdirectory {
                set("subdirectory", folder);
            }
        }
    }
    if let Some(marker) = &source.marker {
        set("marker", marker);
    }
    table
}
