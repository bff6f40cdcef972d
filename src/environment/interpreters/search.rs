//! Where interpreters may be. Looks at names only; starts nothing.

use std::path::{Path, PathBuf};

use super::super::host::HostEnv;

/// An executable that may be a Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The real path.
    pub path: PathBuf,
    /// The minor version that its name or folder tells, where one does.
    pub minor: Option<u8>,
}

/// Minor versions that are looked for by name.
const MINORS: std::ops::RangeInclusive<u8> = 9..=20;

/// Everything that looks like a Python 3: PATH first, then the folders of pyenv, uv, asdf and mise, the system's,
/// and last `extra`, whose entries hold one installation each. Each real file stands once.
pub fn candidates(env: &HostEnv, extra: &[PathBuf]) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    let mut folders = env.search_path();
    folders.extend(["/usr/local/bin", "/usr/bin"].map(PathBuf::from));
    for folder in &folders {
        look_in(folder, &mut found);
    }
    for versions in version_folders(env).iter().chain(extra) {
        let mut installations: Vec<PathBuf> =
            std::fs::read_dir(versions).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        installations.sort();
        for installation in installations.iter().rev() {
            look_in(&installation.join("bin"), &mut found);
        }
    }
    found
}

/// Folders that hold one installation in each entry. A folder of shims on PATH tells where its manager keeps them,
/// whatever HOME is.
fn version_folders(env: &HostEnv) -> Vec<PathBuf> {
    let path = env.search_path();
    let managers =
        path.iter().filter(|folder| folder.ends_with("shims")).filter_map(|folder| folder.parent());
    let shims = managers.flat_map(|root| [root.join("versions"), root.join("installs/python")]);
    let pyenv = env.xdg("PYENV_ROOT", ".pyenv").map(|root| root.join("versions"));
    let uv = env.path("UV_PYTHON_INSTALL_DIR");
    let uv = uv.or_else(|| Some(env.xdg("XDG_DATA_HOME", ".local/share")?.join("uv/python")));
    let asdf = env.xdg("ASDF_DATA_DIR", ".asdf").map(|root| root.join("installs/python"));
    let mise = env.xdg("MISE_DATA_DIR", ".local/share/mise").map(|root| root.join("installs/python"));
    [pyenv, uv, asdf, mise].into_iter().flatten().chain(shims).collect()
}

fn look_in(folder: &Path, found: &mut Vec<Candidate>) {
    let numbered = MINORS.map(|minor| (format!("python3.{minor}"), Some(minor)));
    let plain = ["python3", "python"].map(|name| (name.to_owned(), None));
    for (name, minor) in numbered.chain(plain) {
        let Ok(path) = folder.join(name).canonicalize() else { continue };
        if found.iter().any(|candidate| candidate.path == path) || !path.is_file() {
            continue;
        }
        if super::super::uv::is_script(&path) {
            continue;
        }
        let minor = minor.or_else(|| minor_of(&path));
        found.push(Candidate { path, minor });
    }
}

/// `/usr/bin/python3.11` tells 11.
fn minor_of(path: &Path) -> Option<u8> {
    path.file_name()?.to_str()?.strip_prefix("python3.")?.parse().ok()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_passed_over_and_every_file_stands_once() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let home = place.path().canonicalize().expect("there");
        let bin = home.join(".pyenv/versions/3.13.1/bin");
        let shims = home.join(".pyenv/shims");
        std::fs::create_dir_all(&bin).expect("made");
        std::fs::create_dir_all(&shims).expect("made");
        std::fs::write(bin.join("python3.13"), b"\x7fELF").expect("written");
        std::os::unix::fs::symlink("python3.13", bin.join("python3")).expect("linked");
        std::fs::write(shims.join("python3.13"), b"#!/bin/sh\n").expect("written");
        let env = HostEnv::from_iter([
            ("HOME", home.to_str().expect("UTF-8")),
            ("PATH", shims.to_str().expect("UTF-8")),
        ]);
        let own: Vec<Candidate> =
            candidates(&env, &[]).into_iter().filter(|candidate| candidate.path.starts_with(&home)).collect();
        assert_eq!(own, [Candidate { path: bin.join("python3.13"), minor: Some(13) }]);
    }
}
