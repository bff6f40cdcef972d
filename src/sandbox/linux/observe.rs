//! Looks at what decides whether this machine lets a sandbox be built; `diagnosis` makes words of it.

use std::fs;
use std::path::Path;

use super::diagnosis::Observed;
use crate::launcher::sys;
use crate::sandbox::StartError;

/// What is seen after this failure.
pub fn after(error: &StartError) -> Observed {
    let mut seen = machine();
    match error {
        StartError::Stage { stage, detail, errno } => {
            (seen.stage, seen.detail, seen.errno) = (stage.clone(), detail.clone(), *errno);
        }
        other => (seen.stage, seen.detail) = ("start".to_owned(), other.to_string()),
    }
    seen
}

fn machine() -> Observed {
    Observed {
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

/// Number of filters, from a process's status; an older kernel tells only that there are some.
fn filters(status: &str) -> u64 {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<u64>().ok()
    };
    field("Seccomp_filters:").unwrap_or_else(|| u64::from(field("Seccomp:") == Some(2)))
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
    fn filters_are_counted_where_the_kernel_tells() {
        assert_eq!(filters("Seccomp:\t2\nSeccomp_filters:\t3\n"), 3);
        assert_eq!(filters("Seccomp:\t2\n"), 1);
        assert_eq!(filters("Seccomp:\t0\nSeccomp_filters:\t0\n"), 0);
    }
}
