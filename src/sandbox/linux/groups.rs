//! Control groups: where this server may make some, and what a run's are to be.
//!
//! Version 1 as root has a tree for each controller; in version 2 everything is in one, in which a user has at most
//! the subtree that was delegated. Groups are made beside the server's own, never around it, but for a server that is
//! alone in its group.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::lower::OWN_PROCESSES;
use super::plan::{Group, GroupCounter, GroupPlan, GroupSetting, MissingSetting};
use crate::sandbox::LimitHit;
use crate::sandbox::spec::Limits;

/// What the names of run groups begin with; the server's process id and a number follow.
const PREFIX: &str = "mcp-python-";

/// Name of the group into which a server moves that is alone in its own, so that it may divide that.
const SERVER: &str = "mcp-python-server";

/// What to do where groups cannot be made.
pub const REMEDY: &str = "Start the server by systemd-run --user --scope -p Delegate=yes, or as root";

/// The file of version 2 with the controllers that the groups below have.
const HANDED_DOWN: &str = "cgroup.subtree_control";

/// Length of a period of processor time, in microseconds: the kernel's own default.
const PERIOD_US: u64 = 100_000;

/// Places where groups for runs can be made.
#[derive(Debug)]
pub enum Groups {
    /// Version 1: a folder for each controller.
    First {
        /// For memory.
        memory: PathBuf,
        /// For numbers of processes.
        pids: PathBuf,
        /// For processor time, where there is one.
        cpu: Option<PathBuf>,
    },
    /// Version 2.
    Second(PathBuf),
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Groups {
    /// Looks for a place, or tells why there is none. Removes what killed servers left there.
    pub fn find() -> Result<Self, String> {
        let own =
            fs::read_to_string("/proc/self/cgroup").map_err(|error| format!("/proc/self/cgroup: {error}"))?;
        let mounts = fs::read_to_string("/proc/self/mountinfo")
            .map_err(|error| format!("the list of mounts: {error}"))?;
        let found =
            first(&own, &mounts).or_else(|one| second(&own, &mounts).map_err(|two| format!("{two}; {one}")));
        let groups = found?;
        groups.folders().for_each(sweep);
        Ok(groups)
    }

    fn folders(&self) -> impl Iterator<Item = &Path> {
        let (one, two, three) = match self {
            Self::First { memory, pids, cpu } => (memory, Some(pids), cpu.as_ref()),
            Self::Second(folder) => (folder, None, None),
        };
        [Some(one), two, three].into_iter().flatten().map(PathBuf::as_path)
    }

    /// Which version, and where it is.
    pub fn in_words(&self) -> String {
        let processors = if self.limit_processors() { "" } else { ", without processor time" };
        match self {
            Self::First { .. } => format!("version 1{processors}"),
            Self::Second(folder) => format!("version 2, below {}{processors}", folder.display()),
        }
    }

    /// Whether processor time can be limited.
    pub fn limit_processors(&self) -> bool {
        match self {
            Self::First { cpu, .. } => cpu.is_some(),
            // What is handed down; the folder itself may have more.
            Self::Second(folder) => has_word(&folder.join(HANDED_DOWN), "cpu"),
        }
    }

    /// New groups for a run with these limits.
    pub fn plan(&self, limits: &Limits) -> GroupPlan {
        let name = format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        match self {
            Self::First { memory, pids, cpu } => {
                let cpu = cpu.as_ref().zip(limits.cpu_percent);
                let cpu = cpu.map(|(folder, percent)| {
                    let settings = vec![
                        needed("cpu.cfs_period_us", PERIOD_US.to_string()),
                        needed("cpu.cfs_quota_us", quota(percent).to_string()),
                    ];
                    Group { path: folder.join(&name), settings, counters: Vec::new() }
                });
                let groups = [first_memory(memory.join(&name), limits), only_pids(pids.join(&name), limits)];
                GroupPlan { groups: groups.into_iter().chain(cpu).collect() }
            }
            Self::Second(folder) => GroupPlan { groups: vec![second_all(folder.join(name), limits)] },
        }
    }
}

fn needed(file: &str, value: String) -> GroupSetting {
    GroupSetting { file: file.to_owned(), value, missing: MissingSetting::Fails }
}

/// Swap may not be compiled in, or not be counted; then it is not limited either.
fn swap(file: &str, value: String) -> GroupSetting {
    GroupSetting { file: file.to_owned(), value, missing: MissingSetting::IsHarmless }
}

fn counter(file: &str, key: &str, limit: LimitHit) -> GroupCounter {
    GroupCounter { file: file.to_owned(), key: key.to_owned(), limit }
}

fn quota(percent: u32) -> u64 {
    u64::from(percent) * PERIOD_US / 100
}

fn first_memory(path: PathBuf, limits: &Limits) -> Group {
    let bytes = limits.memory.to_string();
    Group {
        path,
        settings: vec![
            needed("memory.limit_in_bytes", bytes.clone()),
            swap("memory.memsw.limit_in_bytes", bytes),
        ],
        counters: vec![counter("memory.oom_control", "oom_kill", LimitHit::Memory(limits.memory))],
    }
}

fn only_pids(path: PathBuf, limits: &Limits) -> Group {
    Group { path, settings: vec![max_pids(limits)], counters: vec![pids_counter(limits)] }
}

fn max_pids(limits: &Limits) -> GroupSetting {
    needed("pids.max", (limits.processes + OWN_PROCESSES).to_string())
}

fn pids_counter(limits: &Limits) -> GroupCounter {
    counter("pids.events", "max", LimitHit::Processes(limits.processes))
}

fn second_all(path: PathBuf, limits: &Limits) -> Group {
    let mut settings = vec![
        needed("memory.max", limits.memory.to_string()),
        swap("memory.swap.max", "0".to_owned()),
        max_pids(limits),
    ];
    settings.extend(
        limits.cpu_percent.map(|percent| needed("cpu.max", format!("{} {PERIOD_US}", quota(percent)))),
    );
    let memory = counter("memory.events", "oom_kill", LimitHit::Memory(limits.memory));
    Group { path, settings, counters: vec![memory, pids_counter(limits)] }
}

/// The server's own groups of version 1, where it may make others in them.
fn first(own: &str, mounts: &str) -> Result<Groups, String> {
    let folder = |controller: &str| {
        let path = own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let controllers = fields.next()?;
            let path = fields.next()?;
            controllers.split(',').any(|name| name == controller).then_some(path)
        });
        let path = path.ok_or_else(|| format!("no group of version 1 for {controller}"))?;
        let wanted = |mount: &Mount<'_>| {
            mount.kind == "cgroup" && mount.options.split(',').any(|name| name == controller)
        };
        let folder = place(path, mounts, wanted)
            .ok_or_else(|| format!("the controller {controller} is not mounted"))?;
        writable(&folder).map(|()| folder)
    };
    Ok(Groups::First { memory: folder("memory")?, pids: folder("pids")?, cpu: folder("cpu").ok() })
}

/// A folder of version 2 in which groups with limits can be made: the server's own, where it is alone in it, or the
/// one above.
fn second(own: &str, mounts: &str) -> Result<Groups, String> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::")).ok_or("no group of version 2")?;
    let folder = place(path, mounts, |mount| mount.kind == "cgroup2").ok_or("version 2 is not mounted")?;
    let inside = divide(&folder).map(|()| folder.clone());
    let found = inside.or_else(|inside| {
        let above = folder.parent().filter(|_| path != "/").ok_or_else(|| inside.clone())?;
        writable(&above.join("cgroup.procs"))
            .and_then(|()| writable(above))
            .and_then(|()| has_controllers(above))
            .map(|()| above.to_owned())
            .map_err(|above| format!("{inside}; {above}"))
    });
    found.map(Groups::Second)
}

/// Makes a server's own group divisible: the server moves into a group in it, and the controllers are handed down.
fn divide(folder: &Path) -> Result<(), String> {
    let said = |path: &Path, error: &io::Error| format!("{}: {error}", path.display());
    let members = folder.join("cgroup.procs");
    writable(folder)?;
    let alone = || {
        let text = fs::read_to_string(&members).map_err(|error| said(&members, &error))?;
        let own = std::process::id().to_string();
        if text.lines().all(|pid| pid == own) {
            Ok(())
        } else {
            Err(format!("{} has other processes", folder.display()))
        }
    };
    alone()?;
    let server = folder.join(SERVER);
    match fs::create_dir(&server) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(said(&server, &error)),
        _ => {}
    }
    let inner = server.join("cgroup.procs");
    fs::write(&inner, "0").map_err(|error| said(&inner, &error))?;
    let control = folder.join(HANDED_DOWN);
    // Processor time is not delegated everywhere; it is needed only where it is limited.
    let _ = fs::write(&control, "+cpu");
    let handed = fs::write(&control, "+memory +pids").map_err(|error| said(&control, &error));
    if handed.is_err() {
        let _ = fs::write(&members, "0");
        let _ = fs::remove_dir(&server);
    }
    handed
}

fn has_controllers(folder: &Path) -> Result<(), String> {
    let control = folder.join(HANDED_DOWN);
    if !has_word(&control, "cpu") {
        let _ = fs::write(&control, "+cpu");
    }
    if has_word(&control, "memory") && has_word(&control, "pids") {
        return Ok(());
    }
    fs::write(&control, "+memory +pids").map_err(|error| format!("{}: {error}", control.display()))
}

fn has_word(file: &Path, word: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.split_whitespace().any(|found| found == word))
}

fn writable(path: &Path) -> Result<(), String> {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK)
        .map_err(|error| format!("{}: {}", path.display(), io::Error::from(error)))
}

/// One line of mountinfo, as far as it matters here.
struct Mount<'a> {
    root: &'a str,
    place: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (front, back) = line.split_once(" - ")?;
        let mut front = front.split(' ').skip(3);
        let mut back = back.split(' ');
        let (root, place) = (front.next()?, front.next()?);
        Some(Self { root, place, kind: back.next()?, options: back.nth(1)? })
    }
}

/// The folder of a group, by the mount that shows it.
fn place(group: &str, mounts: &str, wanted: impl Fn(&Mount<'_>) -> bool) -> Option<PathBuf> {
    mounts.lines().filter_map(Mount::parse).filter(|mount| wanted(mount)).find_map(|mount| {
        let below = Path::new(group).strip_prefix(mount.root).ok()?;
        let folder = Path::new(mount.place).join(below);
        folder.is_dir().then_some(folder)
    })
}

/// Removes groups of servers that are gone. One in which anything lives cannot be removed.
fn sweep(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let server =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok());
        let gone = |pid: i32| {
            rustix::process::Pid::from_raw(pid)
                .is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
        };
        if server.is_some_and(gone) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_become_settings_of_both_versions() {
        let limits = Limits { memory: 1 << 30, processes: 10, cpu_percent: Some(150), ..Limits::default() };
        let second = Groups::Second("/g".into()).plan(&limits);
        let values: Vec<(&str, &str)> = second.groups[0]
            .settings
            .iter()
            .map(|setting| (setting.file.as_str(), setting.value.as_str()))
            .collect();
        assert_eq!(
            values,
            [
                ("memory.max", "1073741824"),
                ("memory.swap.max", "0"),
                ("pids.max", "13"),
                ("cpu.max", "150000 100000")
            ]
        );
        let first = Groups::First { memory: "/m".into(), pids: "/p".into(), cpu: Some("/c".into()) };
        let plan = first.plan(&limits);
        assert_eq!(plan.groups.len(), 3);
        assert_eq!(plan.groups[2].settings[1].value, "150000");
        let names: Vec<_> = plan.groups.iter().map(|group| group.path.file_name()).collect();
        assert!(names.iter().all(|name| *name == names[0]));
        assert_ne!(first.plan(&limits).groups[0].path, plan.groups[0].path);
    }

    #[test]
    fn a_group_is_found_below_the_mount_that_shows_it() {
        let mounts = "30 25 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n\
                      31 30 0:27 /docker/abc / rw - cgroup cgroup rw,memory\n";
        let wanted = |mount: &Mount<'_>| mount.kind == "cgroup" && mount.options.contains("memory");
        assert_eq!(place("/docker/abc/usr", mounts, wanted), Some("/usr".into()));
        assert_eq!(place("/other", mounts, wanted), None);
    }
}
