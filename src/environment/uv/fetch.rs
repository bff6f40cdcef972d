//! Gets a uv of our own with the machine's own pip, which knows the user's index, proxy and certificates. The one
//! download that happens outside a sandbox: pip unpacks a wheel and runs nothing of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::data_dir::unique;
use super::super::failure::{EnvironmentError, trim};
use super::super::files::remove_tree;
use super::super::redact::redact;
use super::super::tool;
use super::find::{Finder, is_script};
use super::{MINIMUM, Uv};

/// A download of some 25 MB over a slow line.
const DOWNLOAD: Duration = Duration::from_mins(3);
/// Interpreters that are tried; each that has no pip answers at once.
const ATTEMPTS: usize = 6;

/// Installs uv into the data folder and checks it. `tried` says where uv was looked for before.
pub(super) async fn with_pip(finder: &Finder<'_>, tried: String) -> Result<Uv, EnvironmentError> {
    if let Some(reason) = finder.index.refusal().filter(|_| !has_own_index(finder)) {
        return Err(EnvironmentError::NoUv { tried, detail: reason.to_owned() });
    }
    let mut detail = "no Python on PATH".to_owned();
    for python in pythons(finder).into_iter().take(ATTEMPTS) {
        match install(finder, &python).await {
            Ok(uv) => return Ok(uv),
            Err(reason) => detail = format!("{}: {reason}", python.display()),
        }
    }
    Err(EnvironmentError::NoUv { tried, detail })
}

async fn install(finder: &Finder<'_>, python: &Path) -> Result<Uv, String> {
    let target = finder.data.jobs().join(format!("uv-{}", unique()));
    let wanted = format!("uv>={MINIMUM}");
    let folder = target.to_string_lossy().into_owned();
    let args = [
        "-I",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--target",
        &folder,
        &wanted,
    ];
    let output = tool::run(python, &args, &pip_env(finder), DOWNLOAD).await;
    let result = match output {
        Ok(output) if output.success => publish(&target, &finder.data.uv()),
        Ok(output) => Err(trim(&redact(&output.stderr))),
        Err(error) => Err(error.to_string()),
    };
    remove_tree(&target);
    result?;
    let mut uv = finder.check(&finder.data.uv().join("bin/uv")).await?;
    uv.note = Some(format!("uv {} was fetched with pip into {}", uv.version, finder.data.uv().display()));
    Ok(uv)
}

fn publish(target: &Path, home: &Path) -> Result<(), String> {
    remove_tree(home);
    std::fs::rename(target, home).map_err(|error| error.to_string())
}

/// pip is the user's own tool with the user's own settings, apart from what would change the interpreter. Where its
/// variables name no index, uv's settings do.
fn pip_env(finder: &Finder<'_>) -> BTreeMap<String, String> {
    let own = finder.env.iter().filter(|(name, _)| !name.starts_with("PYTHON") && !name.starts_with("LD_"));
    let mut env: BTreeMap<String, String> =
        own.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    if !has_own_index(finder) {
        env.extend(finder.index.for_pip().into_iter().map(|(name, value)| (name.to_owned(), value)));
    }
    env
}

fn has_own_index(finder: &Finder<'_>) -> bool {
    ["PIP_INDEX_URL", "PIP_NO_INDEX"].iter().any(|name| finder.env.get(name).is_some())
}

fn pythons(finder: &Finder<'_>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = super::super::interpreters::candidates(finder.env, &[])
        .into_iter()
        .map(|candidate| candidate.path)
        .filter(|path| !is_script(path))
        .collect();
    // Newest name last in the folder order; the interpreters of version managers come with pip, a system's may not.
    found.sort_by_key(|path| path.starts_with("/usr/bin"));
    found
}

#[cfg(test)]
mod tests {
    use super::super::super::data_dir::DataDir;
    use super::super::super::host::HostEnv;
    use super::super::super::index::{IndexSettings, PlainHttp};
    use super::*;

    #[tokio::test]
    async fn pip_asks_the_index_of_uvs_settings_unless_it_has_its_own_and_nobody_where_that_cannot_be_used() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let data = DataDir::open(Some(place.path()), &HostEnv::default()).expect("opened");
        let asked = |variables: &[(&str, &str)]| {
            let env: HostEnv = variables.iter().copied().collect();
            let index = IndexSettings::read(&env, &[], PlainHttp::Refused);
            let finder = Finder { named: None, env: &env, data: &data, index: &index };
            pip_env(&finder).remove("PIP_INDEX_URL")
        };
        let (uvs, pips) = ("https://uv.example/simple", "https://pip.example/simple");
        assert_eq!(asked(&[("UV_DEFAULT_INDEX", uvs)]).as_deref(), Some(uvs));
        assert_eq!(asked(&[("UV_DEFAULT_INDEX", uvs), ("PIP_INDEX_URL", pips)]).as_deref(), Some(pips));
        assert_eq!(asked(&[]), None);

        let env = HostEnv::from_iter([("UV_DEFAULT_INDEX", "http://plain.example/simple")]);
        let index = IndexSettings::read(&env, &[], PlainHttp::Refused);
        let finder = Finder { named: None, env: &env, data: &data, index: &index };
        let error = with_pip(&finder, "nowhere".to_owned()).await.expect_err("refused");
        assert!(error.detail().contains("--allow-http-index"), "{error:?}");
    }
}
