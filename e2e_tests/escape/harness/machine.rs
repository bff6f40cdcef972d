//! What this machine lacks, looked up on it: where a control cannot work, a property says so by one of these.

use std::fs;

use super::ground::User;

/// Why this user gets no user namespace on this machine, where a setting says so.
pub fn refuses_namespaces(user: &User) -> Option<String> {
    let is = |setting: &str, value: &str| {
        fs::read_to_string(format!("/proc/sys/{setting}")).is_ok_and(|text| text.trim() == value)
    };
    if is("user/max_user_namespaces", "0") {
        return Some("user.max_user_namespaces is 0".to_owned());
    }
    let for_users =
        [("kernel/unprivileged_userns_clone", "0"), ("kernel/apparmor_restrict_unprivileged_userns", "1")];
    for_users
        .into_iter()
        .find(|(setting, value)| !user.is_root && is(setting, value))
        .map(|(setting, value)| format!("{setting} is {value}"))
}

/// Why the kernel cannot do what a module of this name does, where it cannot: none of the module's functions is in the
/// kernel, and the module cannot be loaded.
pub fn lacks_module(name: &str, function: &str) -> Option<String> {
    let symbols = fs::read_to_string("/proc/kallsyms").ok()?;
    // Without its symbols nothing can be told.
    if symbols.is_empty() || symbols.lines().any(|line| line.split_whitespace().nth(2) == Some(function)) {
        return None;
    }
    let loader = fs::read_to_string("/proc/sys/kernel/modprobe").unwrap_or_default();
    if !fs::exists(loader.trim()).unwrap_or(true) {
        return Some(format!(
            "{name} is not in this kernel, and nothing loads modules (kernel.modprobe is {:?})",
            loader.trim()
        ));
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let list = fs::read_to_string(format!("/lib/modules/{}/modules.dep", release.trim())).unwrap_or_default();
    let file = format!("/{name}.ko");
    (!list.contains(&file)).then(|| format!("{name} is neither in this kernel nor among its modules"))
}
