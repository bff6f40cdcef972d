//! Packages without a wheel: their source code is fetched, built in a sandbox of its own, and the wheel handed to the
//! resolver in its place.
//!
//! Three stages, and code of a package runs in the middle one alone: `fetch` has the network and credentials, `wheel`
//! has neither cache nor credentials, and installing knows wheels only. What a build leaves behind is kept under a key
//! of its own source code, build environment and index settings, so that nobody else's packages can come from it.
//!
//! Build requirements are resolved like a script's own, into an environment of the store, from wheels alone: a
//! build that would need another build is refused.

mod fetch;
mod keep;
mod origin;
mod resolve;
mod wheel;

use std::collections::BTreeSet;

use super::failure::EnvironmentError;
use super::request::{EnvironmentRequest, project};
use crate::sandbox::spec::Mount;
use crate::script::tool_uv::ToolUv;
use keep::Built;
pub(super) use keep::sweep;
use origin::{Demand, SourcePackage};
use wheel::About;

/// Whether packages may be built from source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceBuilds {
    /// In a sandbox of their own.
    #[default]
    Allowed,
    /// Not at all.
    Refused,
}

/// A requirement that nothing fulfils. Added to the build requirements of what was built already, it keeps uv from
/// building anything of that name itself, should it come upon other source code of it.
const IMPOSSIBLE: &str = "never-built-here>1,<1";

/// What is known of the source code in one resolution.
#[derive(Debug)]
pub struct Sources {
    demands: Vec<Demand>,
    direct: Vec<Option<Built>>,
    /// Names of which source code is taken from an index.
    names: BTreeSet<String>,
    built: Vec<Built>,
    notes: Vec<String>,
}

impl Sources {
    /// What a request names itself.
    pub fn new(request: &EnvironmentRequest) -> Result<Self, EnvironmentError> {
        if request.tool_uv.no_binary.all == Some(true) {
            return Err(EnvironmentError::Refused(
                "`no-binary` for all packages is refused; name them under `no-binary-package`".to_owned(),
            ));
        }
        let demands = Demand::all(request)?;
        let direct = vec![None; demands.len()];
        let names = request.tool_uv.no_binary.packages.iter().cloned().collect();
        Ok(Self { demands, direct, names, built: Vec::new(), notes: Vec::new() })
    }

    /// The project for uv, with wheels in the place of addresses of source code.
    pub fn project(&self, tool_uv: &ToolUv) -> String {
        let texts = self.demands.iter().zip(&self.direct);
        let texts = texts.map(|(demand, built)| demand.text(built.as_ref().map(Built::address).as_deref()));
        project(texts.collect(), tool_uv)
    }

    /// Options that let uv choose source code of these names and of no others.
    pub fn options(&self) -> Vec<String> {
        let mut options = vec!["--only-binary".to_owned(), ":all:".to_owned()];
        for name in &self.names {
            options.extend(["--no-binary".to_owned(), name.clone()]);
        }
        options
    }

    /// What uv is told of source code, so that it has no reason to build it: the real metadata of versions that were
    /// built, and none of the others, which are built when they are chosen.
    pub fn configure(&self, config: &mut toml::Table) {
        let unknown = self.names.iter().map(|name| entry(name, None, &[], &[], ""));
        let known = self.built.iter().map(|built| {
            let About { name, version, requires, extras, python, .. } = &built.about;
            entry(name, Some(version), requires, extras, python)
        });
        let entries: Vec<toml::Value> = unknown.chain(known).collect();
        if !entries.is_empty() {
            config.insert("dependency-metadata".to_owned(), entries.into());
            let block = toml::Value::from(vec![IMPOSSIBLE]);
            let blocked: toml::Table = self.names.iter().map(|name| (name.clone(), block.clone())).collect();
            config.insert("extra-build-dependencies".to_owned(), blocked.into());
        }
    }

    /// What the caller should know.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The folders of what was built.
    pub fn mounts(&self) -> Vec<Mount> {
        self.direct.iter().flatten().chain(&self.built).map(|built| Mount::read_only(&built.home)).collect()
    }

    /// Puts wheels in the place of source code; gives the packages of which there is none yet.
    fn settle(&self, lock_file: &mut toml::Table) -> Vec<SourcePackage> {
        let mut missing = Vec::new();
        for package in origin::in_lock_file(lock_file, &self.names) {
            match self.built.iter().find(|built| built.is(&package)) {
                Some(built) => substitute(lock_file, built),
                None => missing.push(package),
            }
        }
        missing
    }
}

fn entry(
    name: &str,
    version: Option<&str>,
    requires: &[String],
    extras: &[String],
    python: &str,
) -> toml::Value {
    let mut table = toml::Table::new();
    table.insert("name".to_owned(), name.into());
    if let Some(version) = version {
        table.insert("version".to_owned(), version.into());
    }
    table.insert("requires-dist".to_owned(), requires.to_vec().into());
    if !extras.is_empty() {
        table.insert("provides-extra".to_owned(), extras.to_vec().into());
    }
    if !python.is_empty() {
        table.insert("requires-python".to_owned(), python.into());
    }
    table.into()
}

fn substitute(lock_file: &mut toml::Table, built: &Built) {
    let packages = lock_file.get_mut("packages").and_then(toml::Value::as_array_mut);
    for package in packages.into_iter().flatten().filter_map(toml::Value::as_table_mut) {
        if package.get("name").and_then(toml::Value::as_str) != Some(&built.about.name) {
            continue;
        }
        package.remove("sdist");
        package.remove("wheels");
        let hashes = toml::Table::from_iter([("sha256".to_owned(), built.sha256.clone().into())]);
        let path = built.wheel().to_string_lossy().into_owned();
        let archive = [("path".to_owned(), path.into()), ("hashes".to_owned(), hashes.into())];
        package.insert("archive".to_owned(), toml::Table::from_iter(archive).into());
    }
}
