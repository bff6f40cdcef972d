//! A run's own folder on the host, where the run has no root of its own: the folders inside, `work`, `home` and `tmp`,
//! take the place of the sandbox's.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use crate::launcher::cleanup;
use crate::sandbox::spec::{HOME_DIR, SandboxSpec, WORK_DIR};

/// What the names of run folders begin with.
const PREFIX: &str = "mcp-python-";

/// Where the C library keeps named semaphores and shared memory, in memory.
const SHARED_MEMORY: &str = "/dev/shm";

/// Temporary files, in a specification.
const TEMPORARY: &str = "/tmp";

/// A folder that was made for one run.
#[derive(Debug)]
pub struct PrivateFolder {
    path: PathBuf,
    /// Where the run's named semaphores and shared memory are kept.
    shared_memory: PathBuf,
    keeper: Keeper,
}

/// Who removes the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeper {
    /// This value, when it is dropped.
    Server,
    /// The run's supervisor, or nobody where nothing was made.
    Other,
}

impl PrivateFolder {
    /// Makes the folder with the specification's files in it. It belongs to `owner`, where one is named, and nobody else
    /// may enter it.
    pub fn create(spec: &SandboxSpec, owner: Option<u32>) -> io::Result<Self> {
        let builder = || {
            let mut builder = tempfile::Builder::new();
            builder.prefix(PREFIX).permissions(fs::Permissions::from_mode(0o700));
            builder
        };
        let path = builder().tempdir()?.keep();
        let in_memory = builder().tempdir_in(SHARED_MEMORY).ok().map(tempfile::TempDir::keep);
        let shared_memory = in_memory.unwrap_or_else(|| path.join("shared-memory"));
        let this = Self { path, shared_memory, keeper: Keeper::Server };
        this.fill(spec)?;
        if let Some(owner) = owner {
            hand_over(&this.path, owner)?;
            hand_over(&this.shared_memory, owner)?;
        }
        Ok(this)
    }

    /// A stand-in for printing a plan: nothing is made.
    pub fn imagined() -> Self {
        let name = format!("{PREFIX}RUN");
        let shared_memory = Path::new(SHARED_MEMORY).join(&name);
        Self { path: std::env::temp_dir().join(name), shared_memory, keeper: Keeper::Other }
    }

    /// Leaves the folders to the run's supervisor.
    pub fn release(mut self) {
        self.keeper = Keeper::Other;
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the run's named semaphores and shared memory are kept: in memory, where the machine has a place for that.
    pub fn shared_memory(&self) -> &Path {
        &self.shared_memory
    }

    /// The work directory in it.
    pub fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    /// The folders in it that the run may write.
    pub fn inner(&self) -> [PathBuf; 3] {
        [self.work(), self.home(), self.temporary()]
    }

    fn home(&self) -> PathBuf {
        self.path.join("home")
    }

    fn temporary(&self) -> PathBuf {
        self.path.join("tmp")
    }

    fn fill(&self, spec: &SandboxSpec) -> io::Result<()> {
        let beside = (!self.shared_memory.exists()).then(|| self.shared_memory.clone());
        for folder in self.inner().into_iter().chain(beside) {
            fs::DirBuilder::new().mode(0o700).create(folder)?;
        }
        for file in &spec.files {
            let path = self.work().join(&file.path);
            fs::create_dir_all(path.parent().unwrap_or(&self.path))?;
            fs::write(path, &file.content)?;
        }
        Ok(())
    }

    /// The specification with this folder's paths in place of the sandbox's. Of temporary files only a variable that
    /// names their folder is changed: other paths below it may be mounts. What is shown of the host stays where it is,
    /// also where the host has a folder of the same name as the sandbox's.
    pub fn place(&self, spec: &SandboxSpec) -> SandboxSpec {
        let is_shown =
            |text: &str| spec.mounts.iter().any(|mount| Path::new(text).starts_with(&mount.target));
        let moved = |text: &str| if is_shown(text) { text.to_owned() } else { self.moved(text) };
        let moved_path = |path: &Path| PathBuf::from(moved(&path.to_string_lossy()));
        let mut placed = spec.clone();
        placed.files.clear();
        placed.command.program = moved_path(&spec.command.program);
        placed.command.cwd = moved_path(&spec.command.cwd);
        placed.command.args = spec.command.args.iter().map(|arg| moved(arg)).collect();
        for value in placed.command.env.values_mut() {
            *value = moved(value);
        }
        let temporary = self.temporary().display().to_string();
        let named = placed.command.env.entry("TMPDIR".to_owned()).or_insert_with(|| TEMPORARY.to_owned());
        if named == TEMPORARY {
            *named = temporary;
        }
        placed
    }

    fn moved(&self, text: &str) -> String {
        for (name, place) in [(WORK_DIR, self.work()), (HOME_DIR, self.home())] {
            match text.strip_prefix(name) {
                Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                    return format!("{}{rest}", place.display());
                }
                _ => {}
            }
        }
        text.to_owned()
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        if self.keeper == Keeper::Server {
            cleanup::remove_folder(&self.shared_memory);
            cleanup::remove_folder(&self.path);
        }
    }
}

fn hand_over(path: &Path, owner: u32) -> io::Result<()> {
    lchown(path, Some(owner), Some(owner))?;
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            hand_over(&entry?.path(), owner)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::spec::{Command, InlineFile, Limits, Mount, Network, Role};

    fn spec() -> SandboxSpec {
        SandboxSpec {
            role: Role::Run,
            command: Command {
                program: "/usr/bin/python3".into(),
                args: vec!["/work/script.py".into(), "/workshop".into(), "/tmp/data".into()],
                env: [("HOME".to_owned(), HOME_DIR.to_owned())].into(),
                cwd: WORK_DIR.into(),
            },
            mounts: vec![],
            files: vec![InlineFile { path: "script.py".into(), content: b"pass"[..].into() }],
            network: Network::Host,
            named_servers: vec![],
            limits: Limits::default(),
            channel: false,
        }
    }

    #[test]
    fn what_the_host_has_below_a_folder_of_the_same_name_stays_where_it_is() {
        let environment = format!("{HOME_DIR}/.cache/environments/1");
        let mut spec = spec();
        spec.command.program = format!("{environment}/bin/python").into();
        spec.command.env.insert("PATH".to_owned(), format!("{environment}/bin:/usr/bin"));
        spec.mounts.push(Mount::read_only(environment.clone()));
        let folder = PrivateFolder::create(&spec, None).expect("a private folder");
        let placed = folder.place(&spec).command;
        assert_eq!(placed.program, spec.command.program);
        assert_eq!(placed.env["PATH"], spec.command.env["PATH"]);
        assert_eq!(placed.env["HOME"], folder.home().display().to_string());
        assert_eq!(placed.cwd, folder.work());
    }

    #[test]
    fn the_sandbox_folders_stand_for_those_in_the_private_one() {
        let spec = spec();
        let folder = PrivateFolder::create(&spec, None).expect("a private folder");
        let placed = folder.place(&spec);
        let script = folder.work().join("script.py");
        assert_eq!(
            placed.command.args,
            [script.display().to_string(), "/workshop".into(), "/tmp/data".into()]
        );
        assert_eq!(placed.command.env["HOME"], folder.home().display().to_string());
        assert_eq!(placed.command.env["TMPDIR"], folder.temporary().display().to_string());
        assert_eq!(placed.command.program, Path::new("/usr/bin/python3"));
        assert_eq!(fs::read(script).expect("the script is there"), b"pass");
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
    }
}
