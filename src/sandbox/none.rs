//! No isolation: the program runs on the host as the user, and every report says so. Supervision is the same as
//! elsewhere: nothing that it started outlives it.
//!
//! The sandbox's folders do not exist on the host: they stand for folders below a temporary one, which the
//! supervisor removes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::linux::LinuxSandbox;
use super::spec::{HOME_DIR, SandboxSpec, WORK_DIR};
use super::{BoxFuture, Facts, Running, Sandbox, StartError};

/// Runs programs without isolation.
pub struct Unconfined {
    supervised: LinuxSandbox,
}

impl Unconfined {
    /// Nothing has to be found out: it works wherever a process can be started.
    pub fn new() -> Self {
        Self { supervised: LinuxSandbox::unconfined() }
    }
}

impl Default for Unconfined {
    fn default() -> Self {
        Self::new()
    }
}

impl Sandbox for Unconfined {
    fn facts(&self) -> &Facts {
        self.supervised.facts()
    }

    fn explain(&self, spec: &SandboxSpec) -> Result<String, StartError> {
        self.supervised.explain(spec)
    }

    fn start<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Running, StartError>> {
        Box::pin(async move {
            let failed = |source| StartError::Io { context: "making a temporary folder", source };
            let folder = tempfile::Builder::new().prefix("mcp-python-").tempdir().map_err(failed)?;
            let placed = place(spec, folder.path()).map_err(failed)?;
            // From here on the supervisor removes it: it outlives a server that is killed.
            self.supervised.start_in(&placed, folder.keep()).await
        })
    }
}

/// Writes the files and puts the temporary folder in the place of the sandbox's own.
fn place(spec: &SandboxSpec, folder: &Path) -> io::Result<SandboxSpec> {
    let (work, home) = (folder.join("work"), folder.join("home"));
    fs::create_dir(&work)?;
    fs::create_dir(&home)?;
    for file in &spec.files {
        let path = work.join(&file.path);
        fs::create_dir_all(path.parent().unwrap_or(&work))?;
        fs::write(path, &file.content)?;
    }
    let moved = |text: &str| match (text.strip_prefix(WORK_DIR), text.strip_prefix(HOME_DIR)) {
        (Some(rest), _) if rest.is_empty() || rest.starts_with('/') => format!("{}{rest}", work.display()),
        (_, Some(rest)) if rest.is_empty() || rest.starts_with('/') => format!("{}{rest}", home.display()),
        _ => text.to_owned(),
    };
    let moved_path = |path: &Path| PathBuf::from(moved(&path.to_string_lossy()));
    let mut placed = spec.clone();
    placed.files.clear();
    placed.command.program = moved_path(&spec.command.program);
    placed.command.cwd = moved_path(&spec.command.cwd);
    placed.command.args = spec.command.args.iter().map(|arg| moved(arg)).collect();
    for value in placed.command.env.values_mut() {
        *value = moved(value);
    }
    Ok(placed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::spec::{Command, InlineFile, Limits, Network, Role};

    #[test]
    fn the_sandbox_folders_stand_for_temporary_ones() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let command = Command {
            program: "/usr/bin/python3".into(),
            args: vec!["/work/script.py".into(), "/workshop".into()],
            env: [("HOME".to_owned(), HOME_DIR.to_owned())].into(),
            cwd: WORK_DIR.into(),
        };
        let files = vec![InlineFile { path: "script.py".into(), content: b"pass"[..].into() }];
        let (role, network, limits) = (Role::Run, Network::Host, Limits::default());
        let spec = SandboxSpec { role, command, mounts: vec![], files, network, limits, channel: false };
        let placed = place(&spec, folder.path()).expect("files are written");
        let work = folder.path().join("work");
        assert_eq!(placed.command.args, [work.join("script.py").display().to_string(), "/workshop".into()]);
        assert_eq!(placed.command.env["HOME"], folder.path().join("home").display().to_string());
        assert_eq!(placed.command.program, Path::new("/usr/bin/python3"));
        assert_eq!(fs::read(work.join("script.py")).expect("the script is there"), b"pass");
    }
}
