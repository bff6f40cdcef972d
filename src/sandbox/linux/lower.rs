//! From a specification to a launch plan. Pure: the host comes in as data.

use std::path::{Path, PathBuf};

use super::broker::names;
use super::host::{EtcEntry, HostLayout, SystemEntry};
use super::plan::{
    Exec, FileRules, Identity, Isolation, LandlockPlan, LaunchPlan, PolicyTier, PortRule, ProcSource,
    ProcessLimit, Program, ResourceLimits, RootStep, Scopes, SeccompPlan, Supervision,
};
use crate::sandbox::StartError;
use crate::sandbox::spec::{Access, HOME_DIR, Limits, Mount, MountSource, Network, SandboxSpec, WORK_DIR};

/// Host name inside every sandbox.
const HOST_NAME: &str = "sandbox";

/// Writable folders, with their permission bits. All of them share one file system and its size.
const SCRATCH: [(&str, u32); 5] =
    [(WORK_DIR, 0o755), (HOME_DIR, 0o755), ("/tmp", 0o1777), ("/var/tmp", 0o1777), ("/dev/shm", 0o1777)];

/// Files and folders that the writable file system may hold: each takes about a kilobyte of kernel memory.
const SCRATCH_INODES: u64 = 256 << 10;

/// Links below /dev that programs expect.
const DEV_LINKS: [(&str, &str); 5] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/ptmx", "pts/ptmx"),
];

/// Processes and threads of the sandbox itself that count against the limit: the guard, the init and the init's second
/// thread. Without namespaces the monitor and its canary are fewer.
pub(super) const OWN_PROCESSES: u64 = 3;

/// The plan of the full tier.
pub fn full(
    spec: &SandboxSpec,
    host: &HostLayout,
    identity: Identity,
    proc: ProcSource,
) -> Result<LaunchPlan, StartError> {
    let mounts = visible_mounts(spec, host)?;
    let mut root = system_steps(host);
    root.extend(etc_steps(&host.etc));
    root.extend(etc_steps(&identity_files(identity)));
    let name_servers = (spec.network == Network::Outbound).then(|| names_inside(&mut root));
    root.extend(host.devices.iter().map(|name| RootStep::Device { name: name.clone() }));
    root.extend(DEV_LINKS.map(|(target, to)| RootStep::Symlink { target: target.into(), to: to.into() }));
    root.push(RootStep::Devpts);
    if proc == ProcSource::Fresh {
        root.extend(etc_steps(&host.kernel_settings));
    }
    root.extend(proc_steps(host, proc));
    root.extend(SCRATCH.map(|(target, mode)| RootStep::Scratch { target: target.into(), mode }));
    root.extend(mounts.iter().map(bind_step).collect::<Result<Vec<_>, _>>()?);
    for file in &spec.files {
        root.push(RootStep::Content { target: Path::new(WORK_DIR).join(inside(&file.path)?) });
    }
    let mut landlock = landlock(&root, host);
    if spec.network == Network::Outbound {
        landlock.ports = PortRule::ConnectRefused;
    }
    let isolation = Isolation {
        identity,
        private_network: spec.network != Network::Host,
        name_servers,
        host_name: HOST_NAME.to_owned(),
        scratch_bytes: spec.limits.disk,
        scratch_inodes: SCRATCH_INODES,
        root,
    };
    Ok(LaunchPlan {
        isolation: Some(isolation),
        drop_to: None,
        supervision: Supervision::ProcessNamespace,
        remove_after: Vec::new(),
        groups: None,
        watch: None,
        limits: resource_limits(&spec.limits, OWN_PROCESSES),
        landlock: Some(landlock),
        seccomp: Some(SeccompPlan::Embedded(spec.role, policy_tier(spec.network))),
        deputy: None,
        program: Program::Execute(exec(spec)),
        contents: spec.files.iter().map(|file| file.content.len() as u64).collect(),
    })
}

/// Has the resolver ask the name servers as they appear inside; tells how many there are.
fn names_inside(root: &mut [RootStep]) -> u8 {
    let resolver = Path::new("/etc/resolv.conf");
    let text = root.iter_mut().find_map(|step| match step {
        RootStep::Text { target, text } if target == resolver => Some(text),
        _ => None,
    });
    let Some(text) = text else { return 0 };
    let (inside, count) = names::configuration(text);
    *text = inside;
    count
}

fn policy_tier(network: Network) -> PolicyTier {
    match network {
        Network::Outbound => PolicyTier::Brokered,
        Network::Host | Network::None => PolicyTier::Full,
    }
}

/// Files of name resolution and of the sandbox's user, as a sandbox that is built now has them.
fn identity_files(identity: Identity) -> Vec<EtcEntry> {
    HostLayout::identity_files(identity.inside(), HOST_NAME)
}

/// A plan with a root of its own, for a program whose script comes later, through a pipe of its name.
pub fn waiting(mut plan: LaunchPlan, script: &Path) -> Result<LaunchPlan, StartError> {
    let target = Path::new(WORK_DIR).join(inside(script)?);
    if let Some(isolation) = &mut plan.isolation {
        isolation.root.push(RootStep::Fifo { target });
    }
    Ok(plan)
}

/// The plan without isolation: the host as it is, under supervision and with limits. Where the supervisor has a signal
/// scope of its own, the program gets one too, so that it cannot end its supervisor.
pub fn unconfined(spec: &SandboxSpec, supervision: Supervision, remove_after: Vec<PathBuf>) -> LaunchPlan {
    let scope = LandlockPlan {
        files: None,
        ports: PortRule::Untouched,
        scopes: Scopes::Signals,
        minimum_abi: SCOPES_SINCE,
    };
    LaunchPlan {
        isolation: None,
        drop_to: None,
        supervision,
        remove_after,
        groups: None,
        watch: None,
        limits: ResourceLimits {
            processes: Some(ProcessLimit::Beside(spec.limits.processes)),
            ..resource_limits(&spec.limits, 0)
        },
        landlock: (supervision == Supervision::ScopeMonitor).then_some(scope),
        seccomp: None,
        deputy: None,
        program: Program::Execute(exec(spec)),
        contents: Vec::new(),
    }
}

/// First Landlock ABI with scopes for signals and abstract sockets.
pub const SCOPES_SINCE: u8 = 6;

/// What a thread reserves for its stack, by the limit of stacks as it is nearly everywhere. Hardly any of it is used, but
/// the kernel counts all of it as private writable memory.
const THREAD_STACK: u64 = 8 << 20;

/// Kernel limits of each process. The stacks of all threads that a run may have come on top of its memory, so that a
/// program with many threads meets the limit of processes; memory that is really used is counted for the whole run.
pub(super) fn resource_limits(limits: &Limits, own_processes: u64) -> ResourceLimits {
    let stacks = limits.processes.saturating_mul(THREAD_STACK);
    ResourceLimits {
        data: Some(limits.memory.saturating_add(stacks)),
        processes: Some(ProcessLimit::Whole(limits.processes + own_processes)),
        open_files: Some(limits.open_files),
        file_size: Some(limits.disk),
        niceness: Some(limits.niceness).filter(|niceness| *niceness > 0),
    }
}

/// The program of a plan.
pub(super) fn exec(spec: &SandboxSpec) -> Exec {
    let command = spec.command.clone();
    Exec {
        program: command.program,
        args: command.args,
        env: command.env,
        cwd: command.cwd,
        channel: spec.channel,
    }
}

fn proc_steps(host: &HostLayout, source: ProcSource) -> Vec<RootStep> {
    if source == ProcSource::Fresh {
        return vec![RootStep::Proc { masked: host.proc_masked.clone() }];
    }
    let shown = host.proc_files.iter().map(|path| RootStep::Bind {
        source: path.clone(),
        target: path.clone(),
        access: Access::ReadOnly,
        directory: false,
    });
    let links = [("/proc/mounts", "self/mounts"), ("/proc/net", "self/net")];
    let links = links.map(|(target, to)| RootStep::Symlink { target: target.into(), to: to.into() });
    [RootStep::OwnProc].into_iter().chain(shown).chain(links).collect()
}

fn inside(path: &Path) -> Result<&Path, StartError> {
    let plain = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    if plain && !path.as_os_str().is_empty() {
        return Ok(path);
    }
    Err(StartError::Unsupported(format!("{} is no plain path below the work directory", path.display())))
}

fn system_steps(host: &HostLayout) -> Vec<RootStep> {
    let step = |entry: &SystemEntry| match entry.clone() {
        SystemEntry::Folder(path) => {
            RootStep::Bind { source: path.clone(), target: path, access: Access::ReadOnly, directory: true }
        }
        SystemEntry::Link { path, to } => RootStep::Symlink { target: path, to },
    };
    host.system.iter().map(step).collect()
}

fn etc_steps(entries: &[EtcEntry]) -> Vec<RootStep> {
    let step = |entry: &EtcEntry| match entry.clone() {
        EtcEntry::Text { path, text } => RootStep::Text { target: path, text },
        EtcEntry::Bind { source, path, directory } => {
            RootStep::Bind { source, target: path, access: Access::ReadOnly, directory }
        }
        EtcEntry::Link { path, to } => RootStep::Symlink { target: path, to },
    };
    entries.iter().map(step).collect()
}

/// The specification's mounts without those that are shown already, outer ones first.
fn visible_mounts(spec: &SandboxSpec, host: &HostLayout) -> Result<Vec<Mount>, StartError> {
    let shown = |mount: &Mount| {
        let same =
            mount.source == MountSource::Host(mount.target.clone()) && mount.access == Access::ReadOnly;
        let in_system = |entry: &SystemEntry| matches!(entry, SystemEntry::Folder(folder) if mount.target.starts_with(folder));
        let in_etc = |entry: &EtcEntry| matches!(entry, EtcEntry::Bind { source, path, .. } if source == path && mount.target.starts_with(path));
        same && (host.system.iter().any(in_system) || host.etc.iter().any(in_etc))
    };
    let mut mounts: Vec<Mount> = spec.mounts.iter().filter(|mount| !shown(mount)).cloned().collect();
    mounts.sort_by(|a, b| a.target.cmp(&b.target));
    mounts.dedup();
    for mount in &mounts {
        if !mount.target.is_absolute() || mount.target == Path::new("/") {
            return Err(StartError::Unsupported(format!(
                "{} cannot be a mount's place",
                mount.target.display()
            )));
        }
    }
    Ok(mounts)
}

fn bind_step(mount: &Mount) -> Result<RootStep, StartError> {
    let MountSource::Host(source) = &mount.source else {
        return Err(StartError::Unsupported("a volume belongs to a container engine".to_owned()));
    };
    // Known already where it is a file; a folder is the usual case, and one that is gone is told by the launcher.
    let directory = !source.is_file();
    Ok(RootStep::Bind {
        source: source.clone(),
        target: mount.target.clone(),
        access: mount.access,
        directory,
    })
}

/// The same access as the mounts give, written down a second time as rules by path.
fn landlock(root: &[RootStep], host: &HostLayout) -> LandlockPlan {
    let mut read_execute: Vec<PathBuf> = vec!["/etc".into(), "/proc".into()];
    let mut read_write: Vec<PathBuf> = vec!["/dev/pts".into()];
    read_write.extend(host.devices.iter().map(|name| Path::new("/dev").join(name)));
    for step in root {
        match step {
            RootStep::Scratch { target, .. } | RootStep::Bind { target, access: Access::ReadWrite, .. } => {
                read_write.push(target.clone());
            }
            RootStep::Bind { target, access: Access::ReadOnly, .. } if !target.starts_with("/etc") => {
                read_execute.push(target.clone());
            }
            _ => {}
        }
    }
    let files = FileRules { list: vec!["/".into()], read_execute, read_write, ..FileRules::default() };
    LandlockPlan { files: Some(files), ports: PortRule::Untouched, scopes: Scopes::All, minimum_abi: 0 }
}
