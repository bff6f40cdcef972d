//! The `[tool.uv]` table: settings for the installer, by an allow-list.
//!
//! A script's metadata is hostile. What changes which packages are chosen is taken and typed; what reads the machine,
//! runs a command, or moves trust is refused with the reason; what has no effect in a throw-away environment is
//! said to be ignored. Unknown keys are errors, because a setting that silently does nothing is worse than none.
//! Must never know: how uv is started, or which indexes and credentials the user has.

mod exclude_newer;
mod index;
mod keys;
mod render;
mod sources;

use std::collections::BTreeMap;

use toml::de::DeTable;

pub use exclude_newer::ExcludeNewer;
pub use index::{Format, Index, Notation};
pub use sources::{GitReference, Location, Source};

use super::nearest::nearest;
use super::problem::{ProblemKind, quoted};
use super::requirement::Requirement;
use super::toml_reader::{Reader, Value};

/// Which pre-releases may be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prerelease {
    /// None.
    Disallow,
    /// All.
    Allow,
    /// Those of packages that have no final release.
    IfNecessary,
    /// Those of packages whose specifiers name one.
    Explicit,
    /// Either of the last two.
    IfNecessaryOrExplicit,
}

/// Which of the matching versions is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// The highest.
    Highest,
    /// The lowest.
    Lowest,
    /// The lowest of direct dependencies, the highest of theirs.
    LowestDirect,
}

/// What a resolution for several platforms or Pythons prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkStrategy {
    /// Few versions of each package.
    Fewest,
    /// The newest version for each Python.
    RequiresPython,
}

/// Whether one way to get packages is closed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Closed {
    /// For all packages; `None` where the script says nothing.
    pub all: Option<bool>,
    /// For these, by normalised name.
    pub packages: Vec<String>,
}

/// The settings that were taken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolUv {
    /// Package indexes in order of preference.
    pub indexes: Vec<Index>,
    /// The default index in the older notation.
    pub index_url: Option<String>,
    /// Further indexes in the older notation.
    pub extra_index_urls: Vec<String>,
    /// Pages with links to packages.
    pub find_links: Vec<String>,
    /// Packages published later are not chosen.
    pub exclude_newer: Option<ExcludeNewer>,
    /// The same for single packages, by normalised name.
    pub exclude_newer_package: BTreeMap<String, ExcludeNewer>,
    /// Versions that are allowed wherever the package comes from.
    pub constraints: Vec<Requirement>,
    /// Requirements that replace those of other packages.
    pub overrides: Vec<Requirement>,
    /// Versions that are allowed while building.
    pub build_constraints: Vec<Requirement>,
    /// Packages that are left out, by normalised name.
    pub excluded: Vec<String>,
    /// Pre-releases.
    pub prerelease: Option<Prerelease>,
    /// The same for single packages, by normalised name.
    pub prerelease_package: BTreeMap<String, Prerelease>,
    /// Choice of versions.
    pub resolution: Option<Resolution>,
    /// Preference where the resolution forks.
    pub fork_strategy: Option<ForkStrategy>,
    /// Builds from source.
    pub no_build: Closed,
    /// Ready-made wheels.
    pub no_binary: Closed,
    /// Where single packages come from, by normalised name.
    pub sources: BTreeMap<String, Vec<Source>>,
}

const PRERELEASES: [(&str, Prerelease); 5] = [
    ("disallow", Prerelease::Disallow),
    ("allow", Prerelease::Allow),
    ("if-necessary", Prerelease::IfNecessary),
    ("explicit", Prerelease::Explicit),
    ("if-necessary-or-explicit", Prerelease::IfNecessaryOrExplicit),
];
const RESOLUTIONS: [(&str, Resolution); 3] = [
    ("highest", Resolution::Highest),
    ("lowest", Resolution::Lowest),
    ("lowest-direct", Resolution::LowestDirect),
];
const FORK_STRATEGIES: [(&str, ForkStrategy); 2] =
    [("fewest", ForkStrategy::Fewest), ("requires-python", ForkStrategy::RequiresPython)];

/// Reads the table.
pub(super) fn read(reader: &mut Reader<'_>, table: &DeTable<'_>) -> ToolUv {
    let mut settings = ToolUv::default();
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        let taken = settings.read_addresses(reader, name, value)
            || settings.read_choices(reader, name, value)
            || settings.read_lists(reader, name, value);
        if !taken {
            refuse(reader, &key.span(), name);
        }
    }
    settings.check_index_names(reader, table);
    settings
}

impl ToolUv {
    /// Reads a key that says where packages come from; `false` for any other.
    fn read_addresses(&mut self, reader: &mut Reader<'_>, key: &str, value: &Value<'_>) -> bool {
        match key {
            "index" => self.indexes = index::read(reader, value),
            "index-url" => self.index_url = index::url(reader, "index-url", value),
            "extra-index-url" => self.extra_index_urls = index::urls(reader, "extra-index-url", value),
            "find-links" => self.find_links = index::urls(reader, "find-links", value),
            "sources" => self.sources = sources::read(reader, value),
            "index-strategy" => refuse_strategy(reader, value),
            _ => return false,
        }
        true
    }

    /// Reads a key that says which versions are chosen; `false` for any other.
    fn read_choices(&mut self, reader: &mut Reader<'_>, key: &str, value: &Value<'_>) -> bool {
        match key {
            "exclude-newer" => self.exclude_newer = exclude_newer::read(reader, key, value),
            "exclude-newer-package" => {
                self.exclude_newer_package = by_package(reader, key, value, exclude_newer::read);
            }
            "prerelease" => self.prerelease = reader.choice(key, value, &PRERELEASES),
            "prerelease-package" => {
                self.prerelease_package = by_package(reader, key, value, |reader, key, value| {
                    reader.choice(key, value, &PRERELEASES)
                });
            }
            "resolution" => self.resolution = reader.choice(key, value, &RESOLUTIONS),
            "fork-strategy" => self.fork_strategy = reader.choice(key, value, &FORK_STRATEGIES),
            _ => return false,
        }
        true
    }

    /// Reads a key with requirements or names; `false` for any other.
    fn read_lists(&mut self, reader: &mut Reader<'_>, key: &str, value: &Value<'_>) -> bool {
        match key {
            "constraint-dependencies" => self.constraints = reader.requirements(key, value),
            "override-dependencies" => self.overrides = reader.requirements(key, value),
            "build-constraint-dependencies" => self.build_constraints = reader.requirements(key, value),
            "exclude-dependencies" => self.excluded = reader.names(key, value),
            "no-build" => self.no_build.all = reader.boolean(key, value),
            "no-build-package" => self.no_build.packages = reader.names(key, value),
            "no-binary" => self.no_binary.all = reader.boolean(key, value),
            "no-binary-package" => self.no_binary.packages = reader.names(key, value),
            _ => return false,
        }
        true
    }

    /// A source can only name an index of the same block: a name of the user's own configuration is not a script's to
    /// use.
    fn check_index_names(&self, reader: &mut Reader<'_>, table: &DeTable<'_>) {
        let Some(value) = table.get("sources") else { return };
        let named =
            self.sources.iter().flat_map(|(package, list)| list.iter().map(move |source| (package, source)));
        for (package, source) in named {
            let Location::Index(name) = &source.location else { continue };
            if !self.indexes.iter().any(|index| index.name.as_deref() == Some(name)) {
                let message = format!(
                    "the source of `{package}` names the index {}, which the block does not define: add it as \
                     `[[tool.uv.index]]` with `name` and `url`",
                    quoted(name)
                );
                reader.error(&value.span(), ProblemKind::InvalidValue, message);
            }
        }
    }
}

/// A table from package names to values of one kind.
fn by_package<T>(
    reader: &mut Reader<'_>,
    key: &str,
    value: &Value<'_>,
    read: impl Fn(&mut Reader<'_>, &str, &Value<'_>) -> Option<T>,
) -> BTreeMap<String, T> {
    let mut found = BTreeMap::new();
    let Some(table) = reader.table(key, value) else { return found };
    for (package, value) in table {
        let name = reader.name(&package.span(), package.get_ref());
        let value = read(reader, &format!("{key}.{}", package.get_ref()), value);
        if let (Some(name), Some(value)) = (name, value) {
            found.insert(name, value);
        }
    }
    found
}

/// Only the safe strategy is taken.
fn refuse_strategy(reader: &mut Reader<'_>, value: &Value<'_>) {
    let Some(text) = reader.string("index-strategy", value) else { return };
    if text != "first-index" {
        let message = format!(
            "`index-strategy` {} is refused: a package of the same name on another index could replace the one that is \
             meant; mark the index `explicit = true` and name it under `[tool.uv.sources]`",
            quoted(text)
        );
        reader.error(&value.span(), ProblemKind::RefusedSetting, message);
    }
}

/// Reports a key that is not taken.
fn refuse(reader: &mut Reader<'_>, span: &std::ops::Range<usize>, key: &str) {
    if let Some(reason) = keys::refusal(key) {
        let message = format!("`[tool.uv]` key {} is refused: {reason}", quoted(key));
        reader.error(span, ProblemKind::RefusedSetting, message);
    } else if keys::has_no_effect(key) {
        let message = format!("`[tool.uv]` key {} has no effect here and is ignored", quoted(key));
        reader.warning(span, ProblemKind::IgnoredSetting, message);
    } else {
        let meant = nearest(key, &keys::TAKEN).map(|name| format!(": did you mean `{name}`?"));
        let message = format!("unknown `[tool.uv]` key {}{}", quoted(key), meant.unwrap_or_default());
        reader.error(span, ProblemKind::UnknownKey, message);
    }
}
