//! A policy of the user's own: where it starts, and whether it is sound.
use super::{PolicyCommandError, push_line};
use crate::seccomp::folder::{self, OwnPolicy};
use crate::seccomp::{Arch, Policy, PolicyError, compile, embedded_files, embedded_text};
use std::fs;
use std::path::Path;

/// Writes the embedded policy files into a new folder, as a start for one's own.
///
/// # Errors
/// A folder that is not empty, or cannot be written.
pub fn export_folder(target: &Path) -> Result<String, PolicyCommandError> {
    let file_error = |path: &Path| {
        let path = path.to_owned();
        move |error| PolicyCommandError::File { path, error }
    };
    if fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(PolicyCommandError::NotEmpty(target.to_owned()));
    }
    let mut files = 0;
    for name in embedded_files() {
        let path = target.join(name);
        let parent = path.parent().unwrap_or(target);
        fs::create_dir_all(parent).map_err(file_error(parent))?;
        let text = embedded_text(name).map_err(file_error(&path))?;
        fs::write(&path, text).map_err(file_error(&path))?;
        files += 1;
    }
    let folder = target.display();
    Ok(format!("{files} files written to {folder}; check changes with `policy check {folder}`\n"))
}

/// Checks a policy folder, or one file that is a policy by itself.
///
/// # Errors
/// Every mistake with its line.
pub fn check(path: &Path) -> Result<String, PolicyCommandError> {
    let kind = fs::metadata(path);
    let kind = kind.map_err(|error| PolicyCommandError::File { path: path.to_owned(), error })?;
    if kind.is_dir() { check_folder(path) } else { check_file(path) }
}

fn check_folder(root: &Path) -> Result<String, PolicyCommandError> {
    let (mut text, mut problems) = (String::new(), Vec::new());
    for arch in Arch::ALL.into_iter().filter(|arch| root.join(arch.name()).is_dir()) {
        match folder::read_all(root, arch) {
            Ok(compiled) => {
                for one in compiled {
                    let of = format!("{arch} {} {}", one.role, one.tier);
                    push_line(&mut text, &sound(&of, &one.policy, one.program.len()));
                }
            }
            // A shared file is read for each architecture.
            Err(error) => {
                let new: Vec<_> = error.problems.into_iter().filter(|one| !problems.contains(one)).collect();
                problems.extend(new);
            }
        }
    }
    if !problems.is_empty() {
        return Err(PolicyCommandError::Mistakes {
            folder: root.to_owned(),
            error: PolicyError { problems },
        });
    }
    if text.is_empty() { Err(PolicyCommandError::NoArchitecture(root.to_owned())) } else { Ok(text) }
}

/// The policy of a folder, compiled for this machine, to be used in place of the embedded one.
///
/// # Errors
/// A folder that is not there or has no policy for this machine, and every mistake with its line.
pub fn load(root: &Path) -> Result<OwnPolicy, PolicyCommandError> {
    fs::read_dir(root).map_err(|error| PolicyCommandError::File { path: root.to_owned(), error })?;
    if !root.join(Arch::native().name()).is_dir() {
        return Err(PolicyCommandError::NoArchitecture(root.to_owned()));
    }
    OwnPolicy::read(root).map_err(|error| PolicyCommandError::Mistakes { folder: root.to_owned(), error })
}

/// A file in a folder named after an architecture is a policy for that one, and its includes start from the folder
/// above; any other file is one for the machine's architecture, and its includes start from its own folder.
fn check_file(path: &Path) -> Result<String, PolicyCommandError> {
    let own = parent(path);
    let own_name = own.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (root, arch, file) = match own_name.parse::<Arch>() {
        Ok(arch) => (parent(own), arch, format!("{arch}/{name}")),
        Err(_) => (own, Arch::native(), name),
    };
    let mistakes = |error| PolicyCommandError::Mistakes { folder: root.to_owned(), error };
    let policy = folder::read_layers(root, arch, &[file]).map_err(mistakes)?;
    let program = compile(&policy).map_err(mistakes)?;
    Ok(sound(&format!("{arch} {}", path.display()), &policy, program.len()) + "\n")
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn sound(what: &str, policy: &Policy, instructions: usize) -> String {
    format!("{what}: sound, {} decisions, {instructions} instructions", policy.decisions.len())
}
