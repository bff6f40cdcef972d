//! What of this machine every sandbox sees: system folders, a short list under /etc, devices. Gathered once at
//! start, refreshed where name resolution may change while the server runs.

use std::fs;
use std::path::{Path, PathBuf};

use super::plan::{Cover, MaskedEntry};
use crate::sandbox::spec::{HOME_DIR, USER_NAME};

/// The host as sandboxes see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostLayout {
    /// Folders of the system, and links between them.
    pub system: Vec<SystemEntry>,
    /// Entries of /etc.
    pub etc: Vec<EtcEntry>,
    /// Device nodes that exist here.
    pub devices: Vec<String>,
    /// Files that are shown in place of /proc/sys.
    pub kernel_settings: Vec<EtcEntry>,
    /// Files of /proc that an assembled one shows.
    pub proc_files: Vec<PathBuf>,
    /// Kernel-wide entries of /proc that exist here.
    pub proc_masked: Vec<MaskedEntry>,
}

/// A folder of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SystemEntry {
    /// A real folder.
    Folder(PathBuf),
    /// A link, such as /lib to usr/lib.
    Link {
        /// Where.
        path: PathBuf,
        /// What it points to.
        to: PathBuf,
    },
}

/// An entry of /etc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtcEntry {
    /// A small file, copied.
    Text {
        /// Absolute path.
        path: PathBuf,
        /// Its content.
        text: String,
    },
    /// A file or folder that is bound from where it really lies.
    Bind {
        /// Real path on the host.
        source: PathBuf,
        /// Absolute path inside.
        path: PathBuf,
        /// Whether it is a folder.
        directory: bool,
    },
    /// A link into a system folder.
    Link {
        /// Absolute path.
        path: PathBuf,
        /// What it points to.
        to: PathBuf,
    },
}

/// Folders that hold programs, libraries and their data, and nothing of a user. `/nix/store` and `/gnu/store` are
/// where whole systems live on NixOS and Guix.
const SYSTEM: [&str; 12] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/run/current-system/sw",
    "/System",
    "/opt/homebrew",
];

/// What programs read under /etc and that says nothing of the user: loader, alternatives, certificates (never the
/// folder with private keys beside them), services, time zone, media types, fonts.
const ETC: [&str; 25] = [
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "ssl/certs",
    "ssl/cert.pem",
    "ssl/openssl.cnf",
    "pki/tls/certs",
    "pki/tls/cert.pem",
    "pki/tls/openssl.cnf",
    "pki/ca-trust/extracted",
    "ca-certificates",
    "crypto-policies",
    "services",
    "protocols",
    "host.conf",
    "gai.conf",
    "localtime",
    "timezone",
    "mime.types",
    "fonts",
    "os-release",
    "lsb-release",
    "magic",
    "terminfo",
];

/// What begins the names of folders under /etc in which Debian keeps start-up files of its own Python.
const ETC_PYTHON: &str = "python3";

/// Devices without state of the machine.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// Entries of /proc that ordinary programs read: the processes, and figures that `sysinfo(2)` and friends tell too.
const PROC_SHOWN: [&str; 16] = [
    "self",
    "thread-self",
    "cpuinfo",
    "meminfo",
    "stat",
    "uptime",
    "loadavg",
    "filesystems",
    "version",
    "mounts",
    "net",
    "vmstat",
    "swaps",
    "diskstats",
    "partitions",
    "devices",
];

/// Files of /proc that say nothing of other processes and that programs ask for: shown by bind mounts where no fresh
/// /proc can be had.
const PROC_FILES: [&str; 7] = ["cpuinfo", "meminfo", "stat", "uptime", "loadavg", "filesystems", "version"];

/// Where the root keeps what is shown in place of /proc/sys.
const PROC_SYS: &str = "/.covers/sys";

/// Settings that libraries read to choose a strategy, and that say nothing that `uname(2)`, `sysconf(3)` or a failing
/// call would not: all others are covered.
const PROC_SYS_SHOWN: [&str; 9] = [
    "kernel/osrelease",
    "kernel/ostype",
    "kernel/version",
    "kernel/pid_max",
    "kernel/cap_last_cap",
    "kernel/ngroups_max",
    "vm/overcommit_memory",
    "vm/max_map_count",
    "fs/pipe-max-size",
];

/// Files up to this size are copied into the root: cheaper than a mount of their own. Bytes.
const COPY_LIMIT: u64 = 4096;

impl HostLayout {
    /// Looks at this machine.
    pub fn gather() -> Self {
        let system = SYSTEM.iter().filter_map(|path| system_entry(Path::new(path))).collect();
        let etc = ETC.iter().map(|name| Path::new("/etc").join(name)).chain(python_folders());
        let etc = etc.filter_map(|path| etc_entry(&path)).collect();
        let devices = DEVICES
            .iter()
            .filter(|name| Path::new("/dev").join(name).exists())
            .map(|&name| name.to_owned())
            .collect();
        let proc_files = PROC_FILES.map(|name| Path::new("/proc").join(name));
        let proc_files = proc_files.into_iter().filter(|path| path.is_file()).collect();
        let (kernel_settings, proc_masked) = (kernel_settings(), proc_masked());
        Self { system, etc, devices, kernel_settings, proc_files, proc_masked }
    }

    /// Files of name resolution and of the sandbox's own user, as they stand now.
    pub fn identity_files(user: u32, host_name: &str) -> Vec<EtcEntry> {
        let text = |name: &str, text: String| EtcEntry::Text { path: Path::new("/etc").join(name), text };
        let passwd = format!(
            "root:x:0:0:root:/root:/usr/sbin/nologin\n{USER_NAME}:x:{user}:{user}:{USER_NAME}:{HOME_DIR}:/bin/sh\n\
             nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
        );
        let group = format!("root:x:0:\n{USER_NAME}:x:{user}:\nnogroup:x:65534:\n");
        vec![
            text("passwd", passwd),
            text("group", group),
            text("hostname", format!("{host_name}\n")),
            text("hosts", hosts(&fs::read_to_string(HOSTS).unwrap_or_default(), host_name)),
            text("resolv.conf", fs::read_to_string(RESOLVER).unwrap_or_default()),
            // Without the host's services for users and names: their sockets are not there.
            text("nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n".to_owned()),
        ]
    }
}

const HOSTS: &str = "/etc/hosts";
const RESOLVER: &str = "/etc/resolv.conf";

/// Files of the host whose text a sandbox gets as it is at its start.
pub const COPIED: [&str; 2] = [HOSTS, RESOLVER];

/// The host's own table, with `localhost` and the sandbox's name whatever it says.
fn hosts(table: &str, host_name: &str) -> String {
    let names_localhost = table
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default())
        .any(|line| line.split_whitespace().skip(1).any(|name| name == "localhost"));
    let localhost = if names_localhost { "" } else { "127.0.0.1 localhost\n::1 localhost\n" };
    format!("{localhost}127.0.1.1 {host_name}\n{table}")
}

fn system_entry(path: &Path) -> Option<SystemEntry> {
    let kind = fs::symlink_metadata(path).ok()?.file_type();
    if kind.is_symlink() {
        return Some(SystemEntry::Link { path: path.to_owned(), to: fs::read_link(path).ok()? });
    }
    // A link above it would be followed by nobody: sources are opened without.
    let real = fs::canonicalize(path).ok()?;
    (kind.is_dir() && real == path).then(|| SystemEntry::Folder(path.to_owned()))
}

fn etc_entry(path: &Path) -> Option<EtcEntry> {
    let source = fs::canonicalize(path).ok()?;
    let path = path.to_owned();
    if source.starts_with("/usr") || source.starts_with("/nix/store") {
        return Some(EtcEntry::Link { path, to: source });
    }
    let found = fs::metadata(&source).ok()?;
    if found.is_dir() {
        return Some(EtcEntry::Bind { source, path, directory: true });
    }
    let small = found.is_file() && found.len() <= COPY_LIMIT;
    match small.then(|| fs::read_to_string(&source).ok()).flatten() {
        Some(text) => Some(EtcEntry::Text { path, text }),
        None => found.is_file().then_some(EtcEntry::Bind { source, path, directory: false }),
    }
}

/// `sitecustomize` of the system's Python may be a link into these: without them another Python starts than outside.
fn python_folders() -> Vec<PathBuf> {
    let entries = fs::read_dir("/etc").into_iter().flatten().flatten().map(|entry| entry.path());
    let is_python = |path: &PathBuf| {
        let version = path.file_name().and_then(|name| name.to_str()?.strip_prefix(ETC_PYTHON));
        version.is_some_and(|rest| rest.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit()))
    };
    let mut folders: Vec<_> = entries.filter(is_python).collect();
    folders.sort();
    folders
}

fn kernel_settings() -> Vec<EtcEntry> {
    let shown = |name: &&str| {
        let text = fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?;
        Some(EtcEntry::Text { path: Path::new(PROC_SYS).join(name), text })
    };
    PROC_SYS_SHOWN.iter().filter_map(shown).collect()
}

fn proc_masked() -> Vec<MaskedEntry> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let mut masked: Vec<MaskedEntry> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let process = name.bytes().all(|byte| byte.is_ascii_digit());
            let shown = process || PROC_SHOWN.contains(&name.as_str());
            let kind = entry.file_type().ok()?;
            let cover = match name.as_str() {
                "sys" => Cover::Folder(PROC_SYS.into()),
                _ if kind.is_dir() => Cover::Directory,
                _ => Cover::File,
            };
            (!shown && !kind.is_symlink()).then_some(MaskedEntry { name, cover })
        })
        .collect();
    masked.sort_by(|a, b| a.name.cmp(&b.name));
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn localhost_is_always_known() {
        assert!(hosts("", "box").contains("127.0.0.1 localhost"));
        assert!(hosts("# 127.0.0.1 localhost\n", "box").starts_with("127.0.0.1 localhost"));
        let known = hosts("127.0.0.1 localhost box2\n", "box");
        assert_eq!(known.matches("localhost").count(), 1);
        assert!(known.contains("127.0.1.1 box"));
    }

    #[test]
    fn private_keys_are_not_in_the_list() {
        let layout = HostLayout::gather();
        for entry in &layout.etc {
            let (EtcEntry::Text { path, .. } | EtcEntry::Bind { path, .. } | EtcEntry::Link { path, .. }) =
                entry;
            assert!(!path.starts_with("/etc/ssl/private"), "{path:?}");
            assert_ne!(path, Path::new("/etc/shadow"));
        }
        assert!(layout.system.iter().any(|entry| *entry == SystemEntry::Folder("/usr".into())));
    }
}
