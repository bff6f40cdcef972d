//! Files that show the kernel's or the machine's memory, addresses or messages.

use crate::harness::{Property, case};

pub const PROPERTY: Property = Property::probe(
    "kernel_memory",
    "A script cannot read the kernel's memory, addresses, keys or messages",
    r#"
def read(path):
    def tried():
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return "ok" if os.read(file, 16) else "empty"
        finally:
            os.close(file)
    return tried

for name in ("kcore", "kallsyms", "keys", "key-users", "timer_list", "slabinfo", "vmallocinfo", "iomem",
             "interrupts", "config.gz", "cmdline", "modules", "locks", "sched_debug", "kpagecount"):
    attempt(name, read(f"/proc/{name}"))
for name in ("mem", "kmem", "port", "kmsg", "vda", "sda", "nvme0n1", "disk", "fb0", "kvm", "fuse", "net/tun", "vhost-vsock",
             "loop-control", "userfaultfd", "input", "snd", "dri", "hpet", "cpu", "mapper", "hugepages", "mqueue"):
    attempt(f"/dev/{name}", opened(f"/dev/{name}"))
attempt("kmsg", opened("/proc/kmsg", os.O_RDONLY | os.O_NONBLOCK))
attempt("kernel messages", lambda: syscall("syslog", 3, ctypes.create_string_buffer(64), 64))
"#,
    &[
        case("kcore", "EACCES|ENOENT", "EACCES|ENOENT").outside_root("ok|ENOENT|EPERM").namespaces("EACCES|ENOENT"),
        case("kallsyms", "ok|EACCES", "EACCES").namespaces("EACCES"),
        case("kmsg", "EACCES|EPERM", "EACCES").outside_root("*").namespaces("EACCES|EPERM"),
        case("keys", "ok|empty|ENOENT", "EACCES|ENOENT").namespaces("EACCES|ENOENT"),
        case("key-users", "ok|ENOENT", "EACCES|ENOENT").namespaces("EACCES|ENOENT"),
        case("timer_list", "*", "EACCES|ENOENT").namespaces("EACCES|ENOENT"),
        case("slabinfo", "*", "EACCES|ENOENT").namespaces("EACCES|ENOENT"),
        case("vmallocinfo", "*", "EACCES|ENOENT").namespaces("EACCES|ENOENT"),
        case("iomem", "*", "EACCES|ENOENT").namespaces("EACCES|ENOENT"),
        case("interrupts", "ok", "EACCES").namespaces("EACCES"),
        case("config.gz", "*", "EACCES|ENOENT").namespaces("EACCES|ENOENT"),
        case("cmdline", "ok", "EACCES").namespaces("EACCES"),
        case("modules", "*", "EACCES|ENOENT").namespaces("EACCES|ENOENT"),
        case("locks", "ok|empty", "EACCES").namespaces("EACCES"),
        case("sched_debug", "*", "EACCES|ENOENT").namespaces("EACCES|ENOENT"),
        case("kpagecount", "*", "EACCES|ENOENT").namespaces("EACCES|ENOENT"),
        case("/dev/mem", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("/dev/kmem", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("/dev/port", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("/dev/kmsg", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("/dev/vda", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("/dev/sda", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("/dev/nvme0n1", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("/dev/disk", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("/dev/fb0", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("/dev/kvm", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("/dev/fuse", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("/dev/net/tun", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("/dev/vhost-vsock", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("/dev/loop-control", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("/dev/userfaultfd", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("/dev/input", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("/dev/snd", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("/dev/dri", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("/dev/hpet", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("/dev/cpu", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("/dev/mapper", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("/dev/hugepages", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("/dev/mqueue", "*", "ENOENT|EACCES").namespaces("ENOENT"),
        case("kernel messages", "ok|EPERM", "EPERM").seccomp("EPERM"),
    ],
);
