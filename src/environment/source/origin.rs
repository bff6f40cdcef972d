//! Which packages have to be built, and where their source code is: from requirements and from lock files. Pure.

use crate::environment::failure::EnvironmentError;
use crate::environment::request::EnvironmentRequest;
use crate::script::Requirement;
use crate::script::tool_uv::{GitReference, Location, Source};

/// A package of which only the source code is at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePackage {
    /// Normalised name.
    pub name: String,
    /// Its version, where that is known before the build.
    pub version: Option<String>,
    /// Where the code is.
    pub origin: Origin,
    /// Folder of the package in it.
    pub subdirectory: Option<String>,
}

/// Where source code is fetched from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An archive.
    Archive {
        /// Its address.
        url: String,
        /// What it has to be, in hexadecimal, where that is known.
        sha256: Option<String>,
    },
    /// A git repository.
    Git {
        /// Its address.
        url: String,
        /// Branch, tag or commit; the default branch where absent.
        reference: Option<String>,
    },
}

/// One requirement, taken apart as far as a build needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Name and extras.
    head: String,
    /// With its semicolon; empty where there is none.
    marker: String,
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// An index; the requirement as it stands.
    Index(String),
    /// A wheel at an address.
    Wheel(String),
    /// Source code at an address.
    Source(SourcePackage),
}

impl Demand {
    /// The requirements of a request, those with an address among its sources included.
    pub fn all(request: &EnvironmentRequest) -> Result<Vec<Self>, EnvironmentError> {
        let mut requirements: Vec<&Requirement> = request.requirements.iter().collect();
        requirements.sort();
        requirements.dedup();
        requirements.into_iter().map(|requirement| Self::of(requirement, request)).collect()
    }

    fn of(requirement: &Requirement, request: &EnvironmentRequest) -> Result<Self, EnvironmentError> {
        let text = requirement.as_str();
        let (body, marker) = match text.split_once(" ; ") {
            Some((body, marker)) => (body, format!(" ; {marker}")),
            None => (text, String::new()),
        };
        let head = match body.split_once(']') {
            Some((head, _)) if body[requirement.name().len()..].starts_with('[') => format!("{head}]"),
            _ => requirement.name().to_owned(),
        };
        let place = match (requirement.url(), request.tool_uv.sources.get(requirement.name())) {
            (Some(url), _) => at_address(requirement.name(), url.as_str()),
            (None, Some(sources)) => {
                from_sources(requirement.name(), sources)?.unwrap_or_else(|| Place::Index(text.to_owned()))
            }
            (None, None) => Place::Index(text.to_owned()),
        };
        Ok(Self { head, marker, place })
    }

    /// What has to be built before versions can be chosen.
    pub fn source(&self) -> Option<&SourcePackage> {
        match &self.place {
            Place::Source(package) => Some(package),
            Place::Index(_) | Place::Wheel(_) => None,
        }
    }

    /// The requirement for uv, with the address of the wheel that was built where one was.
    pub fn text(&self, built: Option<&str>) -> String {
        match (&self.place, built) {
            (Place::Index(text), _) => text.clone(),
            (Place::Wheel(url), _) => format!("{} @ {url}{}", self.head, self.marker),
            (Place::Source(_), Some(wheel)) => format!("{} @ {wheel}{}", self.head, self.marker),
            (Place::Source(package), None) => format!("{} @ {}{}", self.head, package.address(), self.marker),
        }
    }
}

impl SourcePackage {
    /// Name and version, for people.
    pub fn label(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {version}", self.name),
            None => self.name.clone(),
        }
    }

    /// Where the code is, for people.
    pub fn address(&self) -> String {
        match &self.origin {
            Origin::Archive { url, .. } => url.clone(),
            Origin::Git { url, reference: Some(reference) } => format!("git+{url}@{reference}"),
            Origin::Git { url, reference: None } => format!("git+{url}"),
        }
    }
}

/// The one address among a package's sources, where it has one.
fn from_sources(name: &str, sources: &[Source]) -> Result<Option<Place>, EnvironmentError> {
    if sources.iter().all(|source| matches!(source.location, Location::Index(_))) {
        return Ok(None);
    }
    let [Source { location, marker: None }] = sources else {
        return Err(EnvironmentError::Refused(format!(
            "the `git` and `url` sources of {name} have markers; write the address and the marker in the requirement \
             instead: `{name} @ https://… ; sys_platform == 'linux'`"
        )));
    };
    let package = |origin, subdirectory: &Option<String>| {
        let subdirectory = subdirectory.clone();
        Place::Source(SourcePackage { name: name.to_owned(), version: None, origin, subdirectory })
    };
    Ok(match location {
        Location::Index(_) => None,
        Location::Url { url, .. } if is_wheel(url) => Some(Place::Wheel(url.clone())),
        Location::Url { url, subdirectory } => {
            let sha256 = fragment(url, "sha256");
            Some(package(Origin::Archive { url: without_fragment(url), sha256 }, subdirectory))
        }
        Location::Git { url, reference, subdirectory } => {
            let reference = reference.as_ref().map(|reference| match reference {
                GitReference::Rev(name) | GitReference::Tag(name) | GitReference::Branch(name) => {
                    name.clone()
                }
            });
            Some(package(Origin::Git { url: without_fragment(url), reference }, subdirectory))
        }
    })
}

fn at_address(name: &str, address: &str) -> Place {
    if is_wheel(address) {
        return Place::Wheel(address.to_owned());
    }
    let bare = without_fragment(address);
    let origin = match bare.strip_prefix("git+") {
        Some(url) => {
            let (url, reference) = split_revision(url);
            Origin::Git { url, reference }
        }
        None => Origin::Archive { url: bare, sha256: fragment(address, "sha256") },
    };
    let subdirectory = fragment(address, "subdirectory");
    Place::Source(SourcePackage { name: name.to_owned(), version: None, origin, subdirectory })
}

/// `https://host/repo.git@rev`: an `@` in the path, not that of a user name.
fn split_revision(url: &str) -> (String, Option<String>) {
    let path = url.find("://").and_then(|at| url[at + 3..].find('/').map(|slash| at + 3 + slash));
    match path.and_then(|path| url[path..].rfind('@').map(|at| path + at)) {
        Some(at) => (url[..at].to_owned(), Some(url[at + 1..].to_owned())),
        None => (url.to_owned(), None),
    }
}

fn is_wheel(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    path.len() > 4 && path[path.len() - 4..].eq_ignore_ascii_case(".whl")
}

fn without_fragment(url: &str) -> String {
    url.split('#').next().unwrap_or_default().to_owned()
}

fn fragment(url: &str, key: &str) -> Option<String> {
    let (_, fragment) = url.split_once('#')?;
    fragment.split('&').find_map(|part| Some(part.strip_prefix(key)?.strip_prefix('=')?.to_owned()))
}

/// The packages of a lock file that are to be had as source code only: those of these names.
pub fn in_lock_file(
    lock_file: &toml::Table,
    names: &std::collections::BTreeSet<String>,
) -> Vec<SourcePackage> {
    let packages = lock_file.get("packages").and_then(toml::Value::as_array);
    packages.into_iter().flatten().filter_map(|package| from_lock(package, names)).collect()
}

fn from_lock(package: &toml::Value, names: &std::collections::BTreeSet<String>) -> Option<SourcePackage> {
    let name = package.get("name")?.as_str().filter(|name| names.contains(*name))?;
    let archive = package.get("sdist")?;
    let sha256 = archive.get("hashes").and_then(|hashes| Some(hashes.get("sha256")?.as_str()?.to_owned()));
    let version = package.get("version").and_then(|version| Some(version.as_str()?.to_owned()));
    let origin = Origin::Archive { url: archive.get("url")?.as_str()?.to_owned(), sha256 };
    Some(SourcePackage { name: name.to_owned(), version, origin, subdirectory: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(text: &str) -> Demand {
        let requirements = vec![Requirement::parse(text).expect("a requirement")];
        let request = EnvironmentRequest { requirements, ..EnvironmentRequest::default() };
        Demand::all(&request).expect("taken").remove(0)
    }

    #[test]
    fn a_wheel_is_taken_as_it_is_and_source_code_is_replaced_by_what_was_built() {
        let wheel = demand("a @ https://h/a-1-py3-none-any.whl#sha256=00");
        assert_eq!(
            (wheel.source(), wheel.text(None)),
            (None, "a @ https://h/a-1-py3-none-any.whl#sha256=00".into())
        );
        let git = demand("A[x] @ git+https://h/r.git@v1#subdirectory=p ; python_version < '4'");
        let package = git.source().expect("source code");
        let origin = Origin::Git { url: "https://h/r.git".into(), reference: Some("v1".into()) };
        assert_eq!((&package.origin, package.subdirectory.as_deref()), (&origin, Some("p")));
        let text = git.text(Some("file:///b/a.whl"));
        assert!(text.starts_with("a[x] @ file:///b/a.whl ; python_version"), "{text}");
        let archive = demand("a @ https://h/a.tar.gz#sha256=ab");
        let origin = Origin::Archive { url: "https://h/a.tar.gz".into(), sha256: Some("ab".into()) };
        assert_eq!(archive.source().map(|package| package.origin.clone()), Some(origin));
        assert_eq!(demand("six>=1").text(None), "six>=1");
    }

    #[test]
    fn a_lock_file_tells_where_the_code_is() {
        let text = "[[packages]]\nname = \"a\"\nversion = \"2\"\nsdist = { url = \"https://h/a.tar.gz\", hashes = { sha256 = \
                    \"ab\" } }\n[[packages]]\nname = \"b\"\nsdist = { url = \"https://h/b.tar.gz\" }\n";
        let found = in_lock_file(&toml::from_str(text).expect("TOML"), &["a".to_owned()].into());
        assert_eq!(found.iter().map(SourcePackage::label).collect::<Vec<_>>(), ["a 2"]);
    }
}
