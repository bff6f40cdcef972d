//! Choosing versions and building what has no wheel, by turns, until the choice holds.

use std::path::PathBuf;

use super::keep::{Built, keep, kept};
use super::origin::SourcePackage;
use super::wheel::{About, Outcome};
use super::{SourceBuilds, Sources, fetch, wheel};
use crate::environment::Environment;
use crate::environment::build::{Builder, Resolution};
use crate::environment::failure::{EnvironmentError, Step, names_without_wheels};
use crate::environment::job::StepOutput;
use crate::environment::request::{EnvironmentRequest, environment_key};
use crate::script::Requirement;
use crate::script::tool_uv::{Closed, ToolUv};

/// Builds of one preparation: a chain of versions that do not fit in the end is given up here.
const MOST_BUILDS: usize = 16;
impl Builder<'_> {
    /// Chooses versions; builds what has no wheel on the way.
    pub async fn resolve(&self) -> Result<Resolution, EnvironmentError> {
        let mut sources = Sources::new(self.request)?;
        self.build_direct(&mut sources).await?;
        loop {
            self.reporter.phase("resolving dependencies", 0, 0);
            let output = self.compile(&sources).await?;
            if output.code != 0 {
                let names = names_without_wheels(output.code, &output.stderr);
                self.take_source_code(&mut sources, names, &output)?;
                continue;
            }
            let broken = |error: toml::de::Error| EnvironmentError::Sandbox(error.message().to_owned());
            let mut lock_file: toml::Table = toml::from_str(&output.stdout).map_err(broken)?;
            let Some(package) = sources.settle(&mut lock_file).into_iter().next() else {
                return self.resolution(&sources, &lock_file, &output.stderr);
            };
            let built = self.build_source(&package, sources.built.len()).await?;
            sources.notes.push(format!("built {} from source", package.label()));
            sources.built.push(built);
        }
    }

    /// What stands at an address is built before anything is resolved: the name and version come out of it.
    async fn build_direct(&self, sources: &mut Sources) -> Result<(), EnvironmentError> {
        for at in 0..sources.demands.len() {
            let Some(package) = sources.demands[at].source().cloned() else { continue };
            self.check_allowed(&package.name)?;
            let built = self.build_source(&package, at).await?;
            let About { name, version, .. } = &built.about;
            sources.notes.push(format!("built {name} {version} from source"));
            sources.direct[at] = Some(built);
        }
        Ok(())
    }

    /// Lets uv choose source code of packages that have no wheel, or gives the reason why not.
    fn take_source_code(
        &self,
        sources: &mut Sources,
        names: Vec<String>,
        output: &StepOutput,
    ) -> Result<(), EnvironmentError> {
        let new: Vec<String> = names.into_iter().filter(|name| !sources.names.contains(name)).collect();
        if new.is_empty() {
            return self.check(Step::Resolve, output);
        }
        for name in new {
            self.check_allowed(&name)?;
            sources.names.insert(name);
        }
        Ok(())
    }

    fn check_allowed(&self, name: &str) -> Result<(), EnvironmentError> {
        let closed = &self.request.tool_uv.no_build;
        let by_script = closed.all == Some(true) || closed.packages.iter().any(|package| package == name);
        let by_user = self.source_builds == SourceBuilds::Refused;
        if !by_script && !by_user {
            return Ok(());
        }
        let python = self.interpreter.version.clone();
        let setting = if by_user { "--no-build" } else { "the script's no-build setting" }.to_owned();
        Err(EnvironmentError::NoWheel { package: name.to_owned(), python, setting })
    }

    /// A wheel of one package: kept from before, or built now.
    async fn build_source(&self, package: &SourcePackage, number: usize) -> Result<Built, EnvironmentError> {
        if number >= MOST_BUILDS {
            return Err(EnvironmentError::BuildFailed {
                package: package.label(),
                reason: format!(
                    "{MOST_BUILDS} versions were built, and none of them fits the others; name versions"
                ),
                detail: String::new(),
            });
        }
        self.reporter.phase(&format!("fetching the source code of {}", package.label()), 0, 0);
        let code = fetch::fetch(self, package, number).await?;
        let system = wheel::inspect(self, package, &code).await?;
        let environment = self.build_environment(system.requires.clone()).await?;
        let home = self.home(package, &code.identity, &environment.key);
        if let Some(built) = kept(&home) {
            return Ok(built);
        }
        self.reporter.phase(&format!("building {} from source", package.label()), 0, 0);
        let outcome = match wheel::build(self, package, &code, &system, &environment, false).await? {
            Outcome::More(more) => {
                let environment = self.build_environment([system.requires.clone(), more].concat()).await?;
                wheel::build(self, package, &code, &system, &environment, true).await?
            }
            outcome @ Outcome::Wheel { .. } => outcome,
        };
        match outcome {
            Outcome::Wheel { about, file } => keep(&home, *about, &file)
                .map_err(|error| EnvironmentError::storage("a built wheel could not be kept", &error)),
            Outcome::More(_) => Err(EnvironmentError::BuildFailed {
                package: package.label(),
                reason: "it asks for more requirements a second time".to_owned(),
                detail: String::new(),
            }),
        }
    }

    /// An environment with these requirements, all of them from wheels.
    async fn build_environment(
        &self,
        requirements: Vec<Requirement>,
    ) -> Result<Environment, EnvironmentError> {
        let script = &self.request.tool_uv;
        let request = EnvironmentRequest {
            requirements,
            tool_uv: ToolUv {
                indexes: script.indexes.clone(),
                index_url: script.index_url.clone(),
                extra_index_urls: script.extra_index_urls.clone(),
                find_links: script.find_links.clone(),
                exclude_newer: script.exclude_newer.clone(),
                exclude_newer_package: script.exclude_newer_package.clone(),
                constraints: script.build_constraints.clone(),
                no_build: Closed { all: Some(true), packages: Vec::new() },
                ..ToolUv::default()
            },
            ..EnvironmentRequest::default()
        };
        let environment = self.environments.build_environment(self.interpreter.clone(), request);
        environment.await.map_err(|error| match error {
            EnvironmentError::NoWheel { package, python, .. } => EnvironmentError::NoWheel {
                package,
                python,
                setting: "the rule that build requirements come as wheels".to_owned(),
            },
            other => other,
        })
    }

    /// Where a build's result is kept. The key holds everything that went into it, apart from the network.
    fn home(&self, package: &SourcePackage, identity: &str, environment: &str) -> PathBuf {
        let parts = format!(
            "{}\n{identity}\n{:?}\n{environment}\n{}\n{}",
            package.name,
            package.subdirectory,
            self.runner.index.identity(),
            self.request.tool_uv.to_uv_toml(),
        );
        self.built.join(&*environment_key(self.interpreter, &parts))
    }
}
