//! Finds the real uv. A shim (a script that a version manager puts on PATH) costs more than a hundred milliseconds
//! at each start, so it is followed once to the executable behind it.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::data_dir::DataDir;
use super::super::failure::EnvironmentError;
use super::super::host::HostEnv;
use super::super::index::IndexSettings;
use super::super::tool;
use super::{MINIMUM, Uv, UvVersion, fetch};

/// A cold disk is slow; a hanging shim must not hang the server.
const ANSWER: Duration = Duration::from_secs(10);

/// Looks for uv.
#[derive(Debug)]
pub struct Finder<'a> {
    /// As the user named it; a bare `uv` means everywhere.
    pub named: Option<&'a Path>,
    /// The user's environment.
    pub env: &'a HostEnv,
    /// Where a uv of our own is kept.
    pub data: &'a DataDir,
    /// The user's package indexes, from one of which uv is fetched.
    pub index: &'a IndexSettings,
}

impl Finder<'_> {
    /// The uv to use: the named one; else the first usable one on PATH, beside this executable, in the usual
    /// folders, in the data folder, in a Python on PATH; else one that is fetched with pip.
    pub async fn find(&self) -> Result<Uv, EnvironmentError> {
        if let Some(named) = self.named.filter(|named| *named != Path::new("uv")) {
            return self.named_one(named).await;
        }
        let mut tried = Vec::new();
        for candidate in self.candidates() {
            match self.check(&candidate).await {
                Ok(uv) => return Ok(uv),
                Err(reason) => tried.push(format!("{}: {reason}", candidate.display())),
            }
        }
        if let Some(uv) = self.inside_python().await {
            return Ok(uv);
        }
        let tried = if tried.is_empty() { "not on PATH".to_owned() } else { tried.join("; ") };
        fetch::with_pip(self, tried).await
    }

    async fn named_one(&self, named: &Path) -> Result<Uv, EnvironmentError> {
        let bad = |reason: String| EnvironmentError::BadUv { path: named.display().to_string(), reason };
        let path = if named.components().count() > 1 {
            std::path::absolute(named).map_err(|error| bad(error.to_string()))?
        } else {
            let folders = self.env.search_path();
            folders
                .iter()
                .map(|folder| folder.join(named))
                .find(|path| is_file(path))
                .ok_or_else(|| bad("it is not on PATH".to_owned()))?
        };
        self.check(&path).await.map_err(bad)
    }

    /// Places where uv may be, best first.
    fn candidates(&self) -> Vec<PathBuf> {
        let mut folders = self.env.search_path();
        if let Some(own) = std::env::current_exe().ok().as_deref().and_then(Path::parent) {
            folders.push(own.to_owned());
        }
        if let Some(home) = self.env.home() {
            folders.extend([home.join(".local/bin"), home.join(".cargo/bin")]);
        }
        folders.push(self.data.uv().join("bin"));
        let mut found: Vec<PathBuf> = Vec::new();
        for path in folders.into_iter().map(|folder| folder.join("uv")).filter(|path| is_file(path)) {
            if !found.contains(&path) {
                found.push(path);
            }
        }
        found
    }

    /// Checks one candidate, following it when it is a shim.
    pub(super) async fn check(&self, path: &Path) -> Result<Uv, String> {
        let real = path.canonicalize().map_err(|error| error.to_string())?;
        let is_uv = real.file_name().is_some_and(|name| name.to_string_lossy().starts_with("uv"));
        let real = if is_uv && !is_script(&real) { real } else { self.behind_shim(path).await? };
        let output = tool::run(&real, &["--version", "--no-config"], &self.plain_env(), ANSWER)
            .await
            .map_err(|error| error.to_string())?;
        let version = UvVersion::parse(&output.stdout).ok_or("it does not answer like uv")?;
        if version < MINIMUM {
            return Err(format!("version {version} is older than {MINIMUM}"));
        }
        Ok(Uv { path: real, version, note: None })
    }

    /// The executable behind a shim: uv tells its own path to the programs that it starts.
    async fn behind_shim(&self, shim: &Path) -> Result<PathBuf, String> {
        if let Some(path) = Self::in_pyenv(shim) {
            return Ok(path);
        }
        let args =
            ["run", "--no-project", "--no-config", "--offline", "--no-python-downloads", "printenv", "UV"];
        let output =
            tool::run(shim, &args, &self.plain_env(), ANSWER).await.map_err(|error| error.to_string())?;
        let path = PathBuf::from(output.stdout.trim());
        let real = path.canonicalize().map_err(|_| "it is a script and does not lead to uv".to_owned())?;
        if is_script(&real) {
            return Err("it is a script that leads to another one".to_owned());
        }
        Ok(real)
    }

    /// pyenv's shims stand for `versions/*/bin`; asking pyenv itself takes longer than looking.
    fn in_pyenv(shim: &Path) -> Option<PathBuf> {
        let root = shim.parent().filter(|folder| folder.ends_with("shims"))?.parent()?;
        let mut versions: Vec<PathBuf> =
            std::fs::read_dir(root.join("versions")).ok()?.flatten().map(|entry| entry.path()).collect();
        versions.sort();
        versions
            .iter()
            .rev()
            .filter_map(|version| version.join("bin/uv").canonicalize().ok())
            .find(|path| is_file(path) && !is_script(path))
    }

    /// The uv of a Python package that is not on PATH.
    async fn inside_python(&self) -> Option<Uv> {
        let folders = self.env.search_path();
        let python = folders.iter().map(|folder| folder.join("python3")).find(|path| is_file(path))?;
        let args = ["-I", "-c", "import uv; print(uv.find_uv_bin())"];
        let output = tool::run(&python, &args, &self.plain_env(), ANSWER).await.ok()?;
        let path = PathBuf::from(output.stdout.trim());
        if output.success && path.is_absolute() { self.check(&path).await.ok() } else { None }
    }

    /// The little that a version manager's shim needs; nothing that changes what uv or Python does.
    pub(super) fn plain_env(&self) -> BTreeMap<String, String> {
        ["HOME", "PATH", "PYENV_ROOT", "ASDF_DATA_DIR", "MISE_DATA_DIR", "TMPDIR"]
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), self.env.get(name)?.to_owned())))
            .collect()
    }
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file())
}

/// Whether a file starts like a script; what cannot be read counts as one.
pub fn is_script(path: &Path) -> bool {
    let mut start = [0; 2];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_err() || start == *b"#!"
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn script(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(path, text).expect("written");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("set");
    }

    fn data(place: &Path) -> DataDir {
        DataDir::open(Some(&place.join("data")), &HostEnv::default()).expect("opened")
    }

    #[tokio::test]
    async fn a_named_uv_that_is_none_is_an_error_that_names_it() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let data = data(place.path());
        let env = HostEnv::from_iter([("PATH", place.path().to_str().expect("UTF-8"))]);
        let fake = place.path().join("fake-uv");
        script(&fake, "#!/bin/sh\necho hello\n");
        for (named, word) in
            [("fake-uv", "fake-uv"), ("missing-uv", "not on PATH"), ("/nowhere/uv", "/nowhere/uv")]
        {
            let index = IndexSettings::default();
            let finder = Finder { named: Some(Path::new(named)), env: &env, data: &data, index: &index };
            let error = finder.find().await.expect_err("refused").to_string();
            assert!(error.contains(word) && error.contains("--uv-path"), "{error}");
        }
    }

    #[tokio::test]
    async fn an_old_uv_is_not_taken() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let data = data(place.path());
        let env = HostEnv::default();
        // An executable that is no script, so that nothing has to be followed.
        let old = place.path().join("uv-old");
        std::fs::copy("/bin/echo", &old).expect("copied");
        let index = IndexSettings::default();
        let finder = Finder { named: Some(&old), env: &env, data: &data, index: &index };
        let error = finder.find().await.expect_err("refused").to_string();
        assert!(error.contains("does not answer like uv"), "{error}");
    }

    #[test]
    fn scripts_are_told_from_executables() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let shim = place.path().join("uv");
        script(&shim, "#!/bin/sh\n");
        assert!(is_script(&shim) && is_script(Path::new("/nowhere")));
        assert!(!is_script(&std::env::current_exe().expect("this test")));
    }
}
