//! Files of the host that a specification shows read-only: certificates that the user named. No path of the host is
//! mounted into a container: the engine may be on another machine, and its users on this one may differ. The files
//! are copied into the container's memory instead, and the variables that name them are changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::sandbox::spec::{InlineFile, MountSource, SandboxSpec};

/// Where they lie inside.
pub const FOLDER: &str = "/run/host-files";

/// A bundle of certificates has some 200 KB; more than this is a mistake.
const LARGEST: u64 = 4 << 20;

/// One file of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFile {
    /// Its path on the host.
    pub source: PathBuf,
    /// Its path inside.
    pub target: PathBuf,
    /// What is in it; `None` for a folder and for what cannot be read: variables that name it are left out.
    pub content: Option<Arc<[u8]>>,
}

impl HostFile {
    /// The file as one that is written into the container.
    pub fn inline(&self) -> Option<InlineFile> {
        let content = self.content.clone()?;
        Some(InlineFile { path: self.target.clone(), content })
    }
}

/// Reads the files that the specification shows.
pub fn read(spec: &SandboxSpec) -> Vec<HostFile> {
    let mut files: Vec<HostFile> = Vec::new();
    for mount in &spec.mounts {
        let MountSource::Host(source) = &mount.source else { continue };
        if files.iter().any(|file| file.source == *source) {
            continue;
        }
        let name = source.file_name().unwrap_or_default().to_string_lossy();
        let target = Path::new(FOLDER).join(format!("{}-{name}", files.len()));
        files.push(HostFile { source: source.clone(), target, content: content(source) });
    }
    files
}

fn content(path: &Path) -> Option<Arc<[u8]>> {
    let meta = path.metadata().ok()?;
    if !meta.is_file() || meta.len() > LARGEST {
        return None;
    }
    std::fs::read(path).ok().map(Arc::from)
}

/// Changes the variables that name such a file, and leaves out those that name one which is not shown.
pub fn redirect(env: &mut BTreeMap<String, String>, files: &[HostFile]) {
    env.retain(|_, value| {
        let named: Vec<PathBuf> = std::env::split_paths(value).collect();
        if !named.iter().any(|path| files.iter().any(|file| file.source == *path)) {
            return true;
        }
        let shown = named.iter().filter_map(|path| match files.iter().find(|file| file.source == *path) {
            Some(file) => file.content.is_some().then(|| file.target.clone()),
            None => Some(path.clone()),
        });
        let shown: Vec<String> = shown.map(|path| path.to_string_lossy().into_owned()).collect();
        *value = shown.join(":");
        !value.is_empty()
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_follow_the_files_and_those_of_folders_are_left_out() {
        let file = |source: &str, content: Option<&[u8]>| HostFile {
            source: source.into(),
            target: Path::new(FOLDER).join("0-ca.pem"),
            content: content.map(Arc::from),
        };
        let files = [file("/etc/ca.pem", Some(b"x")), file("/etc/certs", None)];
        let mut env: BTreeMap<String, String> =
            [("SSL_CERT_FILE", "/etc/ca.pem"), ("SSL_CERT_DIR", "/etc/certs"), ("PATH", "/usr/bin:/bin")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into();
        redirect(&mut env, &files);
        assert_eq!(env.get("SSL_CERT_FILE").map(String::as_str), Some("/run/host-files/0-ca.pem"));
        assert_eq!(env.get("SSL_CERT_DIR"), None);
        assert_eq!(env["PATH"], "/usr/bin:/bin");
    }
}
