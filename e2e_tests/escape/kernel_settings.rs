//! Settings of the whole kernel. A process that is root outside may write them whatever namespaces it is in: bubblewrap
//! as root leaves them writable.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "kernel_settings",
    "No file of /proc, /sys or /dev through which the kernel takes orders can be written",
    r#"
for name in (
    "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/poweroff_cmd",
    "/proc/sys/vm/drop_caches", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/kernel/hostname",
    "/proc/sys/net/ipv4/ip_forward", "/proc/sys/user/max_user_namespaces", "/proc/sysrq-trigger",
    "/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/power/state",
):
    attempt(name, opened(name, os.O_WRONLY))

def anything_writable():
    found = []
    for top in ("/proc/sys", "/sys", "/proc/acpi", "/proc/bus", "/proc/irq", "/proc/fs", "/proc/tty", "/proc/scsi"):
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    # O_NONBLOCK: some files wait for a reader.
                    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))
                    return "some"
                except OSError:
                    pass
    return "none"

def own_entries():
    for name in os.listdir("/proc/self"):
        path = f"/proc/self/{name}"
        if stat.S_ISREG(os.lstat(path).st_mode):
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                return "some"
            except OSError:
                pass
    return "none"

attempt("any file there", anything_writable)
attempt("own entries of /proc", own_entries)
"#,
    &[
        case("/proc/sys/kernel/core_pattern", "EACCES", "ENOENT|EACCES|EROFS").outside_root("ok").namespaces("ENOENT|EACCES|EROFS").landlock("EACCES"),
        case("/proc/sys/kernel/modprobe", "EACCES|ENOENT", "ENOENT|EACCES|EROFS").outside_root("ok|ENOENT").namespaces("ENOENT|EACCES|EROFS").landlock("EACCES|ENOENT"),
        case("/proc/sys/kernel/poweroff_cmd", "EACCES", "ENOENT|EACCES|EROFS").outside_root("ok").namespaces("ENOENT|EACCES|EROFS").landlock("EACCES"),
        case("/proc/sys/vm/drop_caches", "EACCES", "ENOENT|EACCES|EROFS").outside_root("ok").namespaces("ENOENT|EACCES|EROFS").landlock("EACCES"),
        case("/proc/sys/fs/binfmt_misc/register", "*", "ENOENT|EACCES|EROFS").namespaces("ENOENT|EACCES|EROFS"),
        case("/proc/sys/kernel/hostname", "EACCES", "ENOENT|EACCES|EROFS").outside_root("ok").namespaces("ENOENT|EACCES|EROFS"),
        case("/proc/sys/net/ipv4/ip_forward", "EACCES", "ENOENT|EACCES|EROFS").outside_root("ok").namespaces("ENOENT|EACCES|EROFS"),
        case("/proc/sys/user/max_user_namespaces", "EACCES", "ENOENT|EACCES|EROFS").outside_root("ok|EACCES").namespaces("ENOENT|EACCES|EROFS"),
        case("/proc/sysrq-trigger", "EACCES|ENOENT", "ENOENT|EACCES|EROFS").outside_root("ok|ENOENT").namespaces("ENOENT|EACCES|EROFS"),
        case("/sys/kernel/uevent_helper", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("/sys/kernel/mm/transparent_hugepage/enabled", "EACCES|ENOENT", "ENOENT|EACCES").outside_root("ok|ENOENT|EROFS").namespaces("ENOENT"),
        case("/sys/power/state", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("any file there", "*", "none"),
        case("own entries of /proc", "some", "none"),
    ],
)
.known_as(&["CVE-2022-0811", "CVE-2025-31133", "CVE-2025-52881"]);
