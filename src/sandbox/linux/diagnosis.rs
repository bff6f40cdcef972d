//! Why a sandbox of a better tier cannot be built here, and what to do: a pure function of what was observed.

use super::super::facts::Refusal;

/// What was seen of this machine after a sandbox could not be built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Where building failed: the launcher's stage.
    pub stage: String,
    /// What failed in it.
    pub detail: String,
    /// The kernel's answer.
    pub errno: Option<i32>,
    /// Release of the kernel, such as `6.8.0-31-generic`.
    pub release: String,
    /// Value of `kernel.apparmor_restrict_unprivileged_userns`, where the kernel has it (Ubuntu's has).
    pub apparmor_restriction: Option<u64>,
    /// Name of the `AppArmor` profile that this process runs under, where it is confined by one.
    pub apparmor_profile: Option<String>,
    /// Value of `kernel.unprivileged_userns_clone`, where the kernel has it (Debian's has).
    pub unprivileged_clone: Option<u64>,
    /// Value of `user.max_user_namespaces`.
    pub max_user_namespaces: Option<u64>,
    /// Capabilities that root needs here and has not; empty for an ordinary user.
    pub lacking: Vec<&'static str>,
    /// Whether this is root of a user namespace that has no user for root to become.
    pub alone: bool,
    /// Filters of system calls that this process was started under.
    pub filters: u64,
    /// The container engine around this process, as far as it shows itself.
    pub container: Option<&'static str>,
    /// Landlock's ABI, or the error number that asking for it gave.
    pub landlock: Option<Result<u8, i32>>,
}

impl Observed {
    fn failed_with(&self, errno: i32) -> bool {
        self.errno == Some(errno)
    }

    fn denied(&self) -> bool {
        self.failed_with(libc::EPERM) || self.failed_with(libc::EACCES)
    }
}

fn refusal(reason: impl Into<String>, remedy: impl Into<String>) -> Refusal {
    Refusal { reason: reason.into(), remedy: remedy.into() }
}

/// Why there is no full tier.
pub fn without_namespaces(seen: &Observed) -> Refusal {
    if is_wsl_1(&seen.release) {
        return refusal(
            "this is WSL 1, which has no Linux kernel",
            "Convert the distribution to WSL 2: wsl --set-version NAME 2",
        );
    }
    if is_alone(seen) {
        return refusal("root of this user namespace has no other user to become", AS_A_USER);
    }
    if seen.stage == "mounts" {
        return mounts(seen);
    }
    if seen.stage == "self-test" {
        return refusal(
            format!("a sandbox was built but did not hold ({})", seen.detail),
            "Please report this with the output of uname -a",
        );
    }
    switched_off(seen).or_else(|| powerless(seen)).or_else(|| guarded(seen)).unwrap_or_else(|| {
        refusal(
            format!("namespaces are refused ({}: {})", seen.stage, seen.detail),
            "Allow this program to make user namespaces",
        )
    })
}

/// Settings by which user namespaces are switched off for everybody.
fn switched_off(seen: &Observed) -> Option<Refusal> {
    if seen.max_user_namespaces == Some(0) {
        return Some(refusal(
            "user namespaces are switched off (user.max_user_namespaces is 0)",
            "As root: sysctl -w user.max_user_namespaces=15000, and the same in /etc/sysctl.d to keep it",
        ));
    }
    if seen.failed_with(libc::ENOSPC) {
        let limit = seen.max_user_namespaces.map(|limit| format!(" of {limit}")).unwrap_or_default();
        return Some(refusal(
            format!("the limit{limit} of user namespaces is reached, or they are nested too deep"),
            "As root: sysctl -w user.max_user_namespaces=15000, or start this program outside of nested containers",
        ));
    }
    if seen.unprivileged_clone == Some(0) && seen.denied() {
        return Some(refusal(
            "user namespaces are kept for root (kernel.unprivileged_userns_clone is 0)",
            "As root: sysctl -w kernel.unprivileged_userns_clone=1, and the same in /etc/sysctl.d to keep it",
        ));
    }
    if seen.failed_with(libc::ENOSYS) || seen.failed_with(libc::EINVAL) {
        return Some(refusal(
            format!("the kernel {} is built without some of the namespaces", seen.release),
            "Use a kernel with CONFIG_USER_NS and the other namespaces",
        ));
    }
    None
}

/// Root that may not do what a server of root does: it never runs a script as itself instead.
fn powerless(seen: &Observed) -> Option<Refusal> {
    if seen.lacking.is_empty() || !seen.denied() {
        return None;
    }
    let lacks = format!("root lacks {} here", seen.lacking.join(", "));
    if seen.filters == 0 {
        return Some(refusal(lacks, AS_A_USER));
    }
    Some(refusal(
        format!("{}, and {lacks}", filtered(seen)),
        format!("{UNFILTERED}, and with --user 1000:1000, so that no root is needed"),
    ))
}

/// What to do where root is of no use.
const AS_A_USER: &str = "Start this program as an ordinary user, in a container with --user 1000:1000";

/// What to do where a container's filter is in the way.
const UNFILTERED: &str =
    "Start the container with --security-opt seccomp=unconfined (this program brings a filter of its own)";

fn filtered(seen: &Observed) -> String {
    let whose = seen.container.map_or("from outside".to_owned(), |engine| format!("of {engine}"));
    format!("a system-call filter {whose} refuses user namespaces")
}

/// Guards that refuse them to this program.
fn guarded(seen: &Observed) -> Option<Refusal> {
    if !seen.denied() {
        return None;
    }
    if seen.apparmor_restriction.is_some_and(|value| value > 0) && seen.container.is_none() {
        return Some(refusal(
            "AppArmor keeps user namespaces for programs with a profile \
             (kernel.apparmor_restrict_unprivileged_userns is 1)",
            "Load the profile that comes with this program (profiles/apparmor): copy it to /etc/apparmor.d and run \
             apparmor_parser -r on it, as root",
        ));
    }
    if seen.filters > 0 {
        return Some(refusal(filtered(seen), format!("{UNFILTERED}, or start this program outside of it")));
    }
    let profile = seen.apparmor_profile.as_ref()?;
    Some(refusal(
        format!("the AppArmor profile {profile} refuses user namespaces"),
        format!("Add `userns,` to the profile {profile}, or load profiles/apparmor"),
    ))
}

fn mounts(seen: &Observed) -> Refusal {
    let what = format!("mounting is refused ({})", seen.detail);
    match (&seen.apparmor_profile, seen.container) {
        (Some(profile), Some(_)) if seen.denied() => refusal(
            format!("{what}; the AppArmor profile {profile} does that"),
            "Start the container with --security-opt apparmor=unconfined as well",
        ),
        (None, Some(_)) if seen.denied() => refusal(
            format!("{what}; the container around this program does that"),
            "Start the container with --security-opt label=disable --security-opt systempaths=unconfined",
        ),
        _ if seen.denied() && seen.apparmor_restriction.is_some_and(|value| value > 0) => {
            guarded(seen).unwrap_or_else(|| refusal(what, "Load profiles/apparmor"))
        }
        _ => refusal(what, "Look at the path that is named: it has to exist, without symbolic links"),
    }
}

/// Why there is no confined tier either.
pub fn without_landlock(seen: &Observed) -> Refusal {
    match seen.landlock {
        Some(Err(libc::EOPNOTSUPP)) => refusal(
            "Landlock is not switched on",
            "Add landlock to the lsm= parameter of the kernel's command line and boot again",
        ),
        Some(Err(libc::EPERM | libc::EACCES)) => refusal(
            "a system-call filter from outside refuses Landlock",
            "Update the container engine: newer default profiles allow Landlock",
        ),
        Some(Err(_)) => refusal(
            format!("the kernel {} has no Landlock", seen.release),
            "Use Linux 5.13 or newer with Landlock",
        ),
        _ if cannot_become_another(seen) => {
            refusal(format!("root cannot become another user here ({})", seen.detail), AS_A_USER)
        }
        _ => refusal(
            format!("confinement without namespaces failed ({}: {})", seen.stage, seen.detail),
            "Please report this with the output of uname -a",
        ),
    }
}

/// Before a run root gives its folder to the unused user, then becomes it.
fn cannot_become_another(seen: &Observed) -> bool {
    let powerless = seen.denied() && !seen.lacking.is_empty();
    seen.stage == "identity" || (seen.stage == "start" && (powerless || is_alone(seen)))
}

/// A number that means nobody is no owner and no user.
fn is_alone(seen: &Observed) -> bool {
    seen.alone && seen.failed_with(libc::EINVAL)
}

/// Both together: no tier at all.
pub fn nothing(full: &Refusal, confined: &Refusal) -> Refusal {
    refusal(
        format!("{}, and {}", full.reason, confined.reason),
        format!("{}. Or: {}", full.remedy, confined.remedy),
    )
}

/// WSL 2 writes its name in small letters.
fn is_wsl_1(release: &str) -> bool {
    release.ends_with("-Microsoft")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unshare_fails(errno: i32) -> Observed {
        Observed {
            stage: "namespaces".to_owned(),
            detail: "unshare: refused".to_owned(),
            errno: Some(errno),
            release: "6.8.0-31-generic".to_owned(),
            max_user_namespaces: Some(15_000),
            landlock: Some(Ok(4)),
            ..Observed::default()
        }
    }

    fn says(refusal: &Refusal, reason: &str, remedy: &str) {
        assert!(refusal.reason.contains(reason), "{refusal:?}");
        assert!(refusal.remedy.contains(remedy), "{refusal:?}");
        assert!(!refusal.reason.ends_with('.') && !refusal.remedy.ends_with('.'));
    }

    #[test]
    fn ubuntu_names_the_profile_to_load() {
        let seen = Observed {
            detail: "writing uid_map: Permission denied".to_owned(),
            apparmor_restriction: Some(1),
            apparmor_profile: Some("unprivileged_userns".to_owned()),
            ..unshare_fails(libc::EPERM)
        };
        says(&without_namespaces(&seen), "apparmor_restrict_unprivileged_userns", "profiles/apparmor");
    }

    #[test]
    fn settings_are_named_with_the_command_that_changes_them() {
        let off = Observed { max_user_namespaces: Some(0), ..unshare_fails(libc::ENOSPC) };
        says(
            &without_namespaces(&off),
            "user.max_user_namespaces is 0",
            "sysctl -w user.max_user_namespaces=",
        );
        says(&without_namespaces(&unshare_fails(libc::ENOSPC)), "limit of 15000", "nested");
        let kept = Observed { unprivileged_clone: Some(0), ..unshare_fails(libc::EPERM) };
        says(&without_namespaces(&kept), "kept for root", "kernel.unprivileged_userns_clone=1");
    }

    #[test]
    fn a_container_is_told_from_a_profile_of_the_machine() {
        let docker = Observed { filters: 1, container: Some("Docker"), ..unshare_fails(libc::EPERM) };
        says(&without_namespaces(&docker), "filter of Docker", "seccomp=unconfined");
        // The host's AppArmor setting shows in a container too; the filter comes first there.
        let both = Observed { apparmor_restriction: Some(1), ..docker };
        says(&without_namespaces(&both), "filter of Docker", "seccomp=unconfined");
        let profile = Observed { apparmor_profile: Some("p".to_owned()), ..unshare_fails(libc::EACCES) };
        says(&without_namespaces(&profile), "profile p", "userns,");
    }

    #[test]
    fn refused_mounts_point_to_the_container() {
        let seen = Observed {
            stage: "mounts".to_owned(),
            detail: "mounting the new root: Permission denied".to_owned(),
            apparmor_profile: Some("docker-default".to_owned()),
            container: Some("Docker"),
            ..unshare_fails(libc::EACCES)
        };
        says(&without_namespaces(&seen), "docker-default", "apparmor=unconfined");
    }

    #[test]
    fn old_systems_are_told_apart() {
        let wsl = Observed { release: "4.4.0-19041-Microsoft".to_owned(), ..unshare_fails(libc::EINVAL) };
        says(&without_namespaces(&wsl), "WSL 1", "--set-version");
        let wsl_2 = Observed {
            release: "5.15.90.1-microsoft-standard-WSL2".to_owned(),
            ..unshare_fails(libc::EINVAL)
        };
        says(&without_namespaces(&wsl_2), "built without", "CONFIG_USER_NS");
    }

    #[test]
    fn landlock_is_missing_for_different_reasons() {
        let with = |answer| Observed { landlock: Some(answer), ..unshare_fails(libc::EPERM) };
        says(&without_landlock(&with(Err(libc::ENOSYS))), "has no Landlock", "5.13");
        says(&without_landlock(&with(Err(libc::EOPNOTSUPP))), "not switched on", "lsm=");
        says(&without_landlock(&with(Err(libc::EPERM))), "filter from outside", "Update the container");
        let single = Observed {
            stage: "identity".to_owned(),
            detail: "becoming user 1879048192: Invalid argument".to_owned(),
            ..unshare_fails(libc::EINVAL)
        };
        says(&without_landlock(&single), "cannot become another user", "--user 1000");
    }

    #[test]
    fn root_without_its_rights_is_told_which_it_lacks() {
        let powerless =
            Observed { lacking: vec!["CAP_CHOWN", "CAP_SYS_ADMIN"], ..unshare_fails(libc::EPERM) };
        says(&without_namespaces(&powerless), "root lacks CAP_CHOWN, CAP_SYS_ADMIN", "--user 1000:1000");
        let filtered = Observed { filters: 1, container: Some("Docker"), ..powerless.clone() };
        says(&without_namespaces(&filtered), "filter of Docker", "seccomp=unconfined");
        says(&without_namespaces(&filtered), "CAP_SYS_ADMIN", "--user 1000:1000");
        let folder = Observed {
            stage: "start".to_owned(),
            detail: "making a temporary folder: Operation not permitted".to_owned(),
            ..powerless
        };
        says(&without_landlock(&folder), "cannot become another user", "--user 1000:1000");
        let alone =
            Observed { alone: true, lacking: Vec::new(), errno: Some(libc::EINVAL), ..folder.clone() };
        says(&without_namespaces(&alone), "no other user to become", "--user 1000:1000");
        says(&without_landlock(&alone), "cannot become another user", "--user 1000:1000");
        // The same of an ordinary user has another cause, which nobody has seen yet.
        let user = Observed { lacking: Vec::new(), ..folder };
        says(&without_landlock(&user), "failed", "Please report");
    }
}
