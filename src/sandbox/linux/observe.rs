//! Looks at what decides whether this machine lets a sandbox be built; `diagnosis` makes words of it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::LazyLock;

use super::diagnosis::{self, Observed};
use super::groups::{self, Groups};
use super::lower::SCOPES_SINCE;
use super::mode::Caller;
use super::users::Users;
use crate::launcher::sys;
use crate::sandbox::StartError;
use crate::sandbox::facts::{CONTROL_GROUPS, LayerState, Part, Refusal};

/// What a server of root becomes another user and builds a sandbox with: numbers and names of `capabilities(7)`.
const NEEDED_BY_ROOT: [(u32, &str); 4] =
    [(0, "CAP_CHOWN"), (6, "CAP_SETGID"), (7, "CAP_SETUID"), (21, "CAP_SYS_ADMIN")];

/// What is seen after this failure.
pub fn after(error: &StartError) -> Observed {
    let mut seen = machine();
    match error {
        StartError::Stage { stage, detail, errno } => {
            (seen.stage, seen.detail, seen.errno) = (stage.clone(), detail.clone(), *errno);
        }
        other => {
            (seen.stage, seen.detail) = ("start".to_owned(), other.to_string());
            if let StartError::Io { source, .. } = other {
                seen.errno = source.raw_os_error();
            }
        }
    }
    seen
}

/// Who runs this program. Files of the process file system belong to the machine's root, and show as another user's
/// where that has no number: in a container's own user namespace. Where nothing is shown the worse is taken.
pub fn caller() -> Caller {
    if !rustix::process::geteuid().is_root() {
        return Caller::User;
    }
    let owner = fs::metadata("/proc/version").map_or(0, |about| about.uid());
    if owner == 0 { Caller::Root } else { Caller::ContainerRoot }
}

/// What sandboxes are made of, as this machine has it; `shortfall` is why there are no namespaces.
pub fn parts(shortfall: Option<&Refusal>, groups: &Result<Groups, String>) -> Vec<Part> {
    let namespaces = shortfall
        .map_or_else(|| Part::there("namespaces", None), |refusal| Part::missing("namespaces", refusal));
    vec![namespaces, landlock_part(), filter_part(), groups_part(groups)]
}

fn landlock_part() -> Part {
    const NAME: &str = "landlock";
    let seen = machine();
    match seen.landlock {
        Some(Ok(abi)) if abi < SCOPES_SINCE => Part {
            name: NAME,
            state: LayerState::Partial(format!("ABI {abi}, without scopes for signals and abstract sockets")),
            remedy: Some("Use Linux 6.12 or newer".to_owned()),
        },
        Some(Ok(abi)) => Part::there(NAME, Some(format!("ABI {abi}"))),
        _ => Part::missing(NAME, &diagnosis::without_landlock(&seen)),
    }
}

fn filter_part() -> Part {
    const NAME: &str = "seccomp";
    match text("/proc/sys/kernel/seccomp/actions_avail") {
        Some(actions) if actions.split(' ').any(|action| action == "user_notif") => Part::there(NAME, None),
        Some(_) => Part {
            name: NAME,
            state: LayerState::Partial("nobody can be asked about a call".to_owned()),
            remedy: Some("Use Linux 5.9 or newer".to_owned()),
        },
        None => Part {
            name: NAME,
            state: LayerState::Absent("the kernel does not tell of filters".to_owned()),
            remedy: Some("Use a kernel with CONFIG_SECCOMP_FILTER".to_owned()),
        },
    }
}

fn groups_part(groups: &Result<Groups, String>) -> Part {
    match groups {
        Ok(groups) => Part::there(CONTROL_GROUPS, Some(groups.in_words())),
        Err(reason) => Part {
            name: CONTROL_GROUPS,
            state: LayerState::Partial(format!(
                "{reason}: memory and processes are watched instead, processor time cannot be limited"
            )),
            remedy: Some(groups::REMEDY.to_owned()),
        },
    }
}

fn machine() -> Observed {
    Observed {
        alone: rustix::process::geteuid().is_root()
            && !maps_unused(&text("/proc/self/uid_map").unwrap_or_default()),
        lacking: lacking(&fs::read_to_string("/proc/self/status").unwrap_or_default()),
        release: text("/proc/sys/kernel/osrelease").unwrap_or_default(),
        apparmor_restriction: number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        apparmor_profile: apparmor_profile(),
        unprivileged_clone: number("/proc/sys/kernel/unprivileged_userns_clone"),
        max_user_namespaces: number("/proc/sys/user/max_user_namespaces"),
        filters: filters(&fs::read_to_string("/proc/self/status").unwrap_or_default()),
        container: container(),
        landlock: Some(sys::landlock_abi().map_err(|error| error.raw_os_error().unwrap_or(libc::ENOSYS))),
        ..Observed::default()
    }
}

fn text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim_matches(['\0', '\n', ' ']).to_owned())
}

fn number(path: &str) -> Option<u64> {
    text(path)?.parse().ok()
}

/// The profile's name without its mode. Other security modules answer in the same file, in other words.
fn apparmor_profile() -> Option<String> {
    if !Path::new("/sys/module/apparmor").exists() {
        return None;
    }
    let label = text("/proc/self/attr/apparmor/current").or_else(|| text("/proc/self/attr/current"))?;
    let name = label.split(" (").next().unwrap_or_default().to_owned();
    (!name.is_empty() && name != "unconfined").then_some(name)
}

/// Whether the kernel's limit of processes counts those of a user namespace alone, as since Linux 5.14.
pub fn processes_are_counted_by_namespace() -> bool {
    static COUNTED: LazyLock<bool> = LazyLock::new(|| {
        text("/proc/sys/kernel/osrelease")
            .as_deref()
            .and_then(version)
            .is_none_or(|version| version >= (5, 14))
    });
    *COUNTED
}

/// Major and minor number of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers =
        release.split(|letter: char| !letter.is_ascii_digit()).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// Number of filters, from a process's status; an older kernel tells only that there are some.
fn filters(status: &str) -> u64 {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<u64>().ok()
    };
    field("Seccomp_filters:").unwrap_or_else(|| u64::from(field("Seccomp:") == Some(2)))
}

/// Whether the unused users have numbers in this map of a user namespace: first inside, first outside, how many.
fn maps_unused(map: &str) -> bool {
    let wanted = u64::from(Users::prepare());
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map_while(|number| number.parse::<u64>().ok());
        let (first, count) = (numbers.next(), numbers.nth(1));
        first.zip(count).is_some_and(|(first, count)| (first..first + count).contains(&wanted))
    })
}

/// Capabilities that a server of root needs and has not, by name.
fn lacking(status: &str) -> Vec<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok()).unwrap_or(u64::MAX);
    NEEDED_BY_ROOT
        .into_iter()
        .filter(|(number, _)| effective >> number & 1 == 0)
        .map(|(_, name)| name)
        .collect()
}

fn container() -> Option<&'static str> {
    let signs = [("/.dockerenv", "Docker"), ("/run/.containerenv", "Podman")];
    let found = signs.into_iter().find(|(sign, _)| Path::new(sign).exists()).map(|(_, engine)| engine);
    let kubernetes = std::env::var_os("KUBERNETES_SERVICE_HOST").map(|_| "Kubernetes");
    found.or(kubernetes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_of_a_container_has_no_unused_user() {
        assert!(maps_unused("         0          0 4294967295\n"));
        assert!(!maps_unused("0 1000 1\n1 100000 65536\n"));
        assert!(!maps_unused(""));
    }

    #[test]
    fn a_kernel_s_version_is_read() {
        assert_eq!(version("5.10.0-46-cloud-amd64"), Some((5, 10)));
        assert_eq!(version("6.18.44"), Some((6, 18)));
        assert_eq!(version("none"), None);
    }

    #[test]
    fn filters_are_counted_where_the_kernel_tells() {
        assert_eq!(filters("Seccomp:\t2\nSeccomp_filters:\t3\n"), 3);
        assert_eq!(filters("Seccomp:\t2\n"), 1);
        assert_eq!(filters("Seccomp:\t0\nSeccomp_filters:\t0\n"), 0);
    }
}
