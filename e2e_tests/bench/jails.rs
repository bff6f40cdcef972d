//! Other sandboxes with options that match ours as far as theirs reach: every namespace but the network's, a root of
//! read-only binds, private writable folders, fresh `/proc` and `/dev`. Neither has a filter or Landlock here.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::setting::Setting;

/// Folders of the system that exist here and are no links, and the links.
fn system() -> (Vec<&'static str>, Vec<(&'static str, PathBuf)>) {
    let all = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
    let folders = all.into_iter().filter(|path| Path::new(path).is_dir() && !Path::new(path).is_symlink());
    let links = all.into_iter().filter_map(|path| Some((path, std::fs::read_link(path).ok()?)));
    (folders.collect(), links.collect())
}

/// What the interpreter needs besides: its own prefix and the environment.
fn prefixes(setting: &Setting) -> Vec<PathBuf> {
    let prefix = |python: &Path| python.parent().and_then(Path::parent).map(Path::to_owned);
    let all = [prefix(&setting.python), prefix(&setting.env_python)].into_iter().flatten();
    all.filter(|path| !path.starts_with("/usr")).collect()
}

/// Where the script is inside, as in our own sandbox.
const SCRIPT: &str = "/work/script.py";

const ETC: [&str; 12] = [
    "ld.so.cache",
    "alternatives",
    "ssl/certs",
    "services",
    "protocols",
    "localtime",
    "mime.types",
    "os-release",
    "hosts",
    "resolv.conf",
    "passwd",
    "group",
];

fn etc() -> impl Iterator<Item = PathBuf> {
    ETC.iter().map(|name| Path::new("/etc").join(name)).filter(|path| path.exists())
}

/// A program in the path.
pub fn find(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    found.ok_or_else(|| format!("{name} is not installed"))
}

/// `bwrap OPTIONS PROGRAM`; a script is bound to [`SCRIPT`].
pub fn bwrap(setting: &Setting, program: &[&Path], script: Option<&Path>) -> Result<Vec<OsString>, String> {
    let mut words: Vec<OsString> = vec![find("bwrap")?.into()];
    let fixed = "--unshare-user --unshare-ipc --unshare-pid --unshare-uts --unshare-cgroup --hostname sandbox \
                 --uid 1000 --gid 1000 --die-with-parent --new-session --clearenv --setenv PATH /usr/bin:/bin \
                 --setenv LANG C.UTF-8 --setenv HOME /home/sandbox";
    words.extend(fixed.split_whitespace().map(OsString::from));
    let mut add = |parts: &[&Path]| words.extend(parts.iter().map(|part| part.as_os_str().to_owned()));
    let (folders, links) = system();
    for folder in folders {
        add(&[Path::new("--ro-bind"), Path::new(folder), Path::new(folder)]);
    }
    for (path, to) in links {
        add(&[Path::new("--symlink"), &to, Path::new(path)]);
    }
    for path in etc().chain(prefixes(setting)) {
        add(&[Path::new("--ro-bind"), &path, &path]);
    }
    let fresh = [("--proc", "/proc"), ("--dev", "/dev"), ("--tmpfs", "/tmp"), ("--tmpfs", "/work")];
    for (option, place) in fresh.into_iter().chain([("--tmpfs", "/home/sandbox"), ("--tmpfs", "/dev/shm")]) {
        add(&[Path::new(option), Path::new(place)]);
    }
    if let Some(script) = script {
        add(&[Path::new("--ro-bind"), script, Path::new(SCRIPT)]);
    }
    add(&[Path::new("--chdir"), Path::new("/work")]);
    add(program);
    if script.is_some() {
        add(&[Path::new(SCRIPT)]);
    }
    Ok(words)
}

/// `nsjail OPTIONS -- PROGRAM`.
pub fn nsjail(setting: &Setting, program: &[&Path], script: Option<&Path>) -> Result<Vec<OsString>, String> {
    let mut words: Vec<OsString> = vec![find("nsjail")?.into()];
    let fixed = "-Mo -Q --disable_clone_newnet --keep_caps=false -H sandbox -D /work -E PATH=/usr/bin:/bin \
                 -E LANG=C.UTF-8 -T /tmp -T /work -T /dev/shm -m none:/proc:proc:ro \
                 -R /dev/null -R /dev/urandom --rlimit_as inf";
    words.extend(fixed.split_whitespace().map(OsString::from));
    let (folders, links) = system();
    let bound = folders.into_iter().map(PathBuf::from).chain(etc()).chain(prefixes(setting));
    for path in bound {
        words.extend(["-R".into(), path.into_os_string()]);
    }
    for (path, to) in links {
        words.extend(["-s".into(), format!("{}:{path}", to.display()).into()]);
    }
    if let Some(script) = script {
        words.extend(["-R".into(), format!("{}:{SCRIPT}", script.display()).into()]);
    }
    words.push("--".into());
    words.extend(program.iter().map(|part| part.as_os_str().to_owned()));
    words.extend(script.map(|_| SCRIPT.into()));
    Ok(words)
}
