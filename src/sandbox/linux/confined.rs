//! From a specification to the plan of the confined tier: no namespace, so Landlock and the system-call filter do
//! what mounts do elsewhere. Pure: the host comes in as data, and paths are those of the host already.

use std::path::{Path, PathBuf};

use super::host::{EtcEntry, HostLayout, SystemEntry};
use super::lower::{SCOPES_SINCE, exec, resource_limits};
use super::plan::{
    DeputyPlan, FileRules, LandlockPlan, LaunchPlan, PolicyTier, PortRule, ProcessLimit, Program,
    ResourceLimits, Scopes, SeccompPlan, SignalGuard, SocketPolicy, Supervision,
};
use crate::sandbox::StartError;
use crate::sandbox::spec::{Access, MountSource, Network, Role, SandboxSpec};

/// First Landlock ABI that guards sockets by path.
const PATH_SOCKETS_SINCE: u8 = 9;

/// Processes of the sandbox itself that run as the run's user: the monitor.
const OWN_PROCESSES: u64 = 1;

/// Entries of a process's own folder that programs read. The folder `net` shows the host's connections and is left
/// out, and so is `task`, which has one for each thread.
const OWN_PROC: [&str; 23] = [
    "attr",
    "auxv",
    "cgroup",
    "cmdline",
    "comm",
    "environ",
    "fd",
    "fdinfo",
    "io",
    "limits",
    "loginuid",
    "maps",
    "mountinfo",
    "mounts",
    "oom_score",
    "oom_score_adj",
    "schedstat",
    "smaps",
    "smaps_rollup",
    "stat",
    "statm",
    "status",
    "wchan",
];

/// Kernel-wide files of the process file system: the figures that programs ask for to choose a strategy, as the full
/// tier shows them.
const MACHINE_PROC: [&str; 21] = [
    "cpuinfo",
    "meminfo",
    "stat",
    "uptime",
    "loadavg",
    "filesystems",
    "version",
    "vmstat",
    "swaps",
    "diskstats",
    "partitions",
    "devices",
    "sys/kernel/osrelease",
    "sys/kernel/ostype",
    "sys/kernel/version",
    "sys/kernel/pid_max",
    "sys/kernel/cap_last_cap",
    "sys/kernel/ngroups_max",
    "sys/vm/overcommit_memory",
    "sys/vm/max_map_count",
    "sys/fs/pipe-max-size",
];

/// Files by which programs find users, hosts and services: the host's own, as none can be put in their place.
const NAMES: [&str; 6] =
    ["/etc/passwd", "/etc/group", "/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf"];

/// What this machine and this run bring to the plan.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    /// The host.
    pub host: &'a HostLayout,
    /// The run's own folder, in which `work`, `home` and `tmp` lie.
    pub folder: &'a Path,
    /// The folder for its named semaphores and shared memory.
    pub shared_memory: &'a Path,
    /// The unused user that the run becomes, where the server is root.
    pub drop_to: Option<u32>,
    /// Landlock's ABI.
    pub abi: u8,
}

/// The plan of the confined tier.
pub fn plan(spec: &SandboxSpec, ground: &Ground<'_>) -> Result<LaunchPlan, StartError> {
    let limits = resource_limits(&spec.limits, OWN_PROCESSES);
    let shared = Some(ProcessLimit::Beside(spec.limits.processes));
    let processes = if ground.drop_to.is_some() { limits.processes } else { shared };
    let off = spec.network == Network::None;
    let landlock = LandlockPlan {
        files: Some(files(spec, ground)?),
        ports: if off { PortRule::Refused } else { PortRule::Untouched },
        scopes: Scopes::All,
        minimum_abi: 1,
    };
    let sockets = sockets(off, ground.abi);
    Ok(LaunchPlan {
        isolation: None,
        drop_to: ground.drop_to,
        supervision: supervision(ground.abi),
        remove_after: vec![ground.folder.to_owned(), ground.shared_memory.to_owned()],
        groups: None,
        watch: None,
        limits: ResourceLimits { processes, ..limits },
        landlock: Some(landlock),
        seccomp: Some(SeccompPlan::Embedded(spec.role, PolicyTier::Confined(sockets))),
        deputy: deputy(spec.role, ground),
        program: Program::Execute(exec(spec)),
        contents: Vec::new(),
    })
}

/// The resolver sets real permissions, and shares no memory by name: its filter asks nobody.
fn deputy(role: Role, ground: &Ground<'_>) -> Option<DeputyPlan> {
    let plan = || DeputyPlan {
        own: ground.folder.to_owned(),
        shared_memory: ground.shared_memory.to_owned(),
        signals: if ground.abi >= SCOPES_SINCE { SignalGuard::Scope } else { SignalGuard::Deputy },
    };
    (role != Role::Prepare).then(plan)
}

/// How a run without namespaces, of a user that is not root, is ended.
pub fn supervision(abi: u8) -> Supervision {
    if abi >= SCOPES_SINCE { Supervision::ScopeMonitor } else { Supervision::Subreaper }
}

fn sockets(network_is_off: bool, abi: u8) -> SocketPolicy {
    match (network_is_off, abi >= PATH_SOCKETS_SINCE) {
        (false, true) => SocketPolicy::All,
        (true, true) => SocketPolicy::Local,
        (false, false) => SocketPolicy::Internet,
        (true, false) => SocketPolicy::PairsOnly,
    }
}

fn files(spec: &SandboxSpec, ground: &Ground<'_>) -> Result<FileRules, StartError> {
    let mut rules = FileRules {
        list: vec!["/proc/self".into()],
        read: read_only_files(ground.host),
        read_execute: system_folders(ground.host),
        read_write: ["work", "home", "tmp"].map(|name| ground.folder.join(name)).into(),
    };
    rules.read_write.extend(ground.host.devices.iter().map(|name| Path::new("/dev").join(name)));
    for mount in &spec.mounts {
        let path = match &mount.source {
            MountSource::Host(path) if *path == mount.target => path.clone(),
            MountSource::Host(path) => {
                return Err(StartError::Unsupported(format!(
                    "{} cannot be shown as {} without namespaces",
                    path.display(),
                    mount.target.display()
                )));
            }
            MountSource::Volume(_) => {
                return Err(StartError::Unsupported("a volume belongs to a container engine".to_owned()));
            }
        };
        match mount.access {
            Access::ReadOnly => rules.read_execute.push(path),
            Access::ReadWrite => rules.read_write.push(path),
        }
    }
    for list in [&mut rules.read, &mut rules.read_execute, &mut rules.read_write] {
        list.sort();
        list.dedup();
    }
    Ok(rules)
}

/// Files of the process file system and of /etc. Those that are not there need no rule: the launcher passes over them.
fn read_only_files(host: &HostLayout) -> Vec<PathBuf> {
    let own = OWN_PROC.iter().map(|name| Path::new("/proc/self").join(name));
    let machine = MACHINE_PROC.iter().map(|name| Path::new("/proc").join(name));
    let etc = host.etc.iter().filter_map(etc_file).chain(NAMES.iter().map(PathBuf::from));
    own.chain(machine).chain(etc).collect()
}

fn system_folders(host: &HostLayout) -> Vec<PathBuf> {
    let folder = |entry: &SystemEntry| match entry {
        SystemEntry::Folder(path) => Some(path.clone()),
        // Landlock looks at where a link leads to, which is another folder of the list.
        SystemEntry::Link { .. } => None,
    };
    host.system.iter().filter_map(folder).collect()
}

fn etc_file(entry: &EtcEntry) -> Option<PathBuf> {
    match entry {
        EtcEntry::Text { path, .. } => Some(path.clone()),
        EtcEntry::Bind { source, .. } => Some(source.clone()),
        EtcEntry::Link { .. } => None,
    }
}
