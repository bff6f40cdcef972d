//! The machine's devices, firmware and debugging interfaces under `/sys`, and folders of the host in general.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "sys_folder",
    "Folders of the machine that a script has no use for are not there",
    r#"
for name in ("/sys", "/sys/kernel/debug", "/sys/firmware/efi/efivars", "/boot", "/var/lib", "/var/log", "/var/spool",
             "/run", "/srv", "/opt", "/mnt", "/media", "/lost+found", "/etc/ssh", "/etc/ssl/private", "/etc/sudoers.d",
             "/etc/cron.d", "/etc/systemd"):
    attempt(name, lambda: os.listdir(name) and None)
for name in ("/etc/shadow", "/etc/gshadow", "/etc/machine-id", "/etc/fstab", "/etc/crontab", "/var/run/utmp", "/etc/mtab"):
    attempt(name, opened(name))
def accounts():
    import pwd
    return "own" if {entry.pw_name for entry in pwd.getpwall()} <= {"root", "sandbox", "nobody"} else "the host's"
attempt("accounts", accounts)
attempt("hidden names in the root", lambda: ",".join(name for name in os.listdir("/") if name.startswith(".")) or None)
"#,
    &[
        case("/sys", "ok", "ENOENT").namespaces("ENOENT").landlock("EACCES|ok"),
        case("/sys/kernel/debug", "*", "ENOENT").namespaces("ENOENT"),
        case("/sys/firmware/efi/efivars", "*", "ENOENT").namespaces("ENOENT"),
        case("/boot", "*", "ENOENT").namespaces("ENOENT"),
        case("/var/lib", "ok", "ENOENT").namespaces("ENOENT"),
        case("/var/log", "ok", "ENOENT").namespaces("ENOENT"),
        case("/var/spool", "*", "ENOENT").namespaces("ENOENT"),
        case("/run", "ok", "ENOENT").namespaces("ENOENT"),
        case("/srv", "*", "ENOENT").namespaces("ENOENT"),
        case("/opt", "*", "ENOENT|ok").namespaces("ENOENT"),
        case("/mnt", "*", "ENOENT").namespaces("ENOENT"),
        case("/media", "*", "ENOENT").namespaces("ENOENT"),
        case("/lost+found", "*", "ENOENT").namespaces("ENOENT"),
        case("/etc/ssh", "*", "ENOENT").namespaces("ENOENT"),
        case("/etc/ssl/private", "*", "ENOENT").namespaces("ENOENT"),
        case("/etc/sudoers.d", "*", "ENOENT").namespaces("ENOENT"),
        case("/etc/cron.d", "*", "ENOENT").namespaces("ENOENT"),
        case("/etc/systemd", "*", "ENOENT").namespaces("ENOENT"),
        case("/etc/shadow", "EACCES|ENOENT", "ENOENT").outside_root("ok|ENOENT").namespaces("ENOENT"),
        case("/etc/gshadow", "EACCES|ENOENT", "ENOENT").outside_root("ok|ENOENT").namespaces("ENOENT"),
        case("/etc/machine-id", "*", "ENOENT").namespaces("ENOENT"),
        case("/etc/fstab", "*", "ENOENT").namespaces("ENOENT"),
        case("/etc/crontab", "*", "ENOENT").namespaces("ENOENT"),
        case("/var/run/utmp", "*", "ENOENT").namespaces("ENOENT"),
        case("/etc/mtab", "*", "ENOENT").confined("*").namespaces("ENOENT"),
        case("accounts", "the host's", "own").confined("*").namespaces("own"),
        case("hidden names in the root", "*", "ok").confined("*").namespaces("ok"),
    ],
);
