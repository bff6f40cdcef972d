//! What this machine has at most of what a run can be limited to: no limit may promise more.

#[cfg(target_os = "linux")]
use std::path::Path;
use std::sync::LazyLock;

use super::limit::Bytes;
use super::spec::Limits;

/// The most of each. `None` where it cannot be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Memory, in bytes.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u64>,
    /// Descriptors of one process.
    pub open_files: Option<u64>,
    /// Processors.
    pub processors: Option<u64>,
}

/// Memory at one moment, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// All there is.
    pub total: u64,
    /// What a program could still have.
    pub available: u64,
}

/// The least with which Python starts, in bytes.
const LEAST_MEMORY: u64 = 32 << 20;
/// The least space for a script and what it writes, in bytes.
const LEAST_DISK: u64 = 1 << 20;
/// The least number of descriptors with which Python starts.
const LEAST_OPEN_FILES: u64 = 16;

/// Where control groups are.
#[cfg(target_os = "linux")]
const GROUPS: &str = "/sys/fs/cgroup";

/// What a container sees there of its memory, by version 2 and 1: the limit, the use, the figures, and the name of the
/// one that counts files which can be dropped. The group that a container takes for the root has the container's limit;
/// elsewhere the root has none.
#[cfg(target_os = "linux")]
const CONTAINER_MEMORY: [[&str; 4]; 2] = [
    ["memory.max", "memory.current", "memory.stat", "inactive_file"],
    [
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_inactive_file",
    ],
];

/// This machine, looked at once.
pub static THIS: LazyLock<Machine> = LazyLock::new(Machine::look);

/// Memory of one run where nobody says anything: 2 GiB, or three quarters of what a smaller machine has. As a flag takes it.
pub static DEFAULT_MEMORY: LazyLock<String> = LazyLock::new(|| THIS.default_of(2 << 10, (3, 4)));

/// Space of one run where nobody says anything: 1 GiB, or half of the memory of a smaller machine. As a flag takes it.
pub static DEFAULT_DISK: LazyLock<String> = LazyLock::new(|| THIS.default_of(1 << 10, (1, 2)));

/// Open files of one process where nobody says anything: 1024, or what this process may have where that is less.
pub static DEFAULT_OPEN_FILES: LazyLock<u64> =
    LazyLock::new(|| THIS.open_files.unwrap_or(u64::MAX).min(1024));

impl Machine {
    /// This many MiB, or a share of the memory where that is less.
    fn default_of(&self, mebibytes: u64, (part, of): (u64, u64)) -> String {
        match self.memory.map(|memory| (memory >> 20) * part / of) {
            Some(share) if share < mebibytes => format!("{}M", share.max(LEAST_MEMORY >> 20)),
            _ => format!("{}G", mebibytes >> 10),
        }
    }

    fn look() -> Self {
        let processors = std::thread::available_parallelism().map(|number| number.get() as u64).ok();
        Self { processors, ..Self::of_the_system() }
    }

    #[cfg(target_os = "linux")]
    fn of_the_system() -> Self {
        let info = rustix::system::sysinfo();
        let whole = info.totalram.saturating_mul(u64::from(info.mem_unit.max(1)));
        let container = Memory::of_container(Path::new(GROUPS), whole);
        Self {
            memory: Some(container.map_or(whole, |container| container.total)),
            processes: number(Path::new("/proc/sys/kernel/threads-max")),
            open_files: rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum,
            processors: None,
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn of_the_system() -> Self {
        Self::default()
    }

    /// Whether limits make sense here; says what to do where one does not.
    pub fn allows(&self, limits: &Limits) -> Result<(), String> {
        // What a machine has is no round number.
        let bytes =
            |number: u64| Bytes(if number >> 20 == 0 { number } else { number >> 20 << 20 }).to_string();
        let plain = |number: u64| number.to_string();
        let machine = |most: Option<u64>| most.map(|most| (most, "this machine has"));
        let own = |most: Option<u64>| most.map(|most| (most, "this process may have (`ulimit -Hn`)"));
        within("--memory-limit", limits.memory, LEAST_MEMORY, machine(self.memory), bytes)?;
        // The files of a run lie in memory wherever it has a file system of its own.
        within("--disk-limit", limits.disk, LEAST_DISK, machine(self.memory), bytes)?;
        within("--max-processes", limits.processes, 1, machine(self.processes), plain)?;
        within("--max-open-files", limits.open_files, LEAST_OPEN_FILES, own(self.open_files), plain)?;
        let percent = limits.cpu_percent.map_or(100, u64::from);
        let most = self.processors.map(|number| number * 100);
        let processors = |percent: u64| format!("{}.{:02} processors", percent / 100, percent % 100);
        within("--cpu-limit", percent, 1, machine(most), processors)
    }
}

impl Memory {
    /// Of the machine, and of the container that this process is in, where that has less. Nothing where it cannot be told.
    #[cfg(target_os = "linux")]
    pub fn now() -> Vec<Self> {
        let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| Self::of_machine(&text));
        let Some(machine) = machine else { return Vec::new() };
        let container = Self::of_container(Path::new(GROUPS), machine.total);
        [machine].into_iter().chain(container).collect()
    }

    /// Where it cannot be told.
    #[cfg(not(target_os = "linux"))]
    pub fn now() -> Vec<Self> {
        Vec::new()
    }

    #[cfg(target_os = "linux")]
    fn of_machine(meminfo: &str) -> Option<Self> {
        let bytes = |name| Some(field(meminfo, name)? << 10);
        Some(Self { total: bytes("MemTotal:")?, available: bytes("MemAvailable:")? })
    }

    #[cfg(target_os = "linux")]
    fn of_container(groups: &Path, machine: u64) -> Option<Self> {
        let limited = |[limit, used, figures, files]: &[&str; 4]| {
            let total = number(&groups.join(limit)).filter(|&limit| limit < machine)?;
            let figures = std::fs::read_to_string(groups.join(figures)).unwrap_or_default();
            // Without knowing what is in use nothing can be called scarce.
            let used = number(&groups.join(used)).unwrap_or_default();
            let kept = used.saturating_sub(field(&figures, files).unwrap_or_default());
            Some(Self { total, available: total.saturating_sub(kept) })
        };
        CONTAINER_MEMORY.iter().find_map(limited)
    }
}

/// The number in a file of the kernel.
#[cfg(target_os = "linux")]
fn number(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The number behind a name, on the line that begins with it.
#[cfg(target_os = "linux")]
fn field(text: &str, name: &str) -> Option<u64> {
    let mut words = text
        .lines()
        .map(str::split_whitespace)
        .find_map(|mut words| (words.next() == Some(name)).then_some(words))?;
    words.next()?.parse().ok()
}

fn within(
    flag: &str,
    value: u64,
    least: u64,
    most: Option<(u64, &str)>,
    words: impl Fn(u64) -> String,
) -> Result<(), String> {
    if value < least {
        return Err(format!(
            "{flag}: {} is too little to run anything; use at least {}",
            words(value),
            words(least)
        ));
    }
    match most.filter(|(most, _)| value > *most) {
        Some((most, whose)) => {
            Err(format!("{flag}: {} is more than {whose}; use at most {}", words(value), words(most)))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_fit_an_ordinary_machine() {
        let machine = Machine {
            memory: Some(4 << 30),
            processes: Some(30_000),
            open_files: Some(1024),
            processors: Some(1),
        };
        assert_eq!(machine.allows(&Limits::default()), Ok(()));
        assert_eq!(Machine::default().allows(&Limits::default()), Ok(()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_container_s_memory_is_its_own() {
        let machine = "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 100 kB\n";
        let (total, available) = (1000 << 10, 100 << 10);
        assert_eq!(Memory::of_machine(machine), Some(Memory { total, available }));
        assert_eq!(Memory::of_machine(""), None);
        for [limit, used, figures, files] in CONTAINER_MEMORY {
            let groups = tempfile::tempdir().expect("a folder");
            std::fs::create_dir(groups.path().join("memory")).expect("made");
            let write =
                |name: &str, text: &str| std::fs::write(groups.path().join(name), text).expect("written");
            let seen = || Memory::of_container(groups.path(), 8000);
            assert_eq!(seen(), None);
            write(limit, "max\n");
            assert_eq!(seen(), None);
            // What version 1 says where there is no limit.
            write(limit, "9223372036854771712\n");
            assert_eq!(seen(), None);
            write(limit, "1000\n");
            assert_eq!(seen(), Some(Memory { total: 1000, available: 1000 }));
            write(used, "900\n");
            assert_eq!(seen(), Some(Memory { total: 1000, available: 100 }));
            write(figures, &format!("cache 5\n{files}_more 7\n{files} 300\n"));
            assert_eq!(seen(), Some(Memory { total: 1000, available: 400 }));
        }
    }

    #[test]
    fn defaults_give_way_on_a_small_machine() {
        let small = Machine { memory: Some(1000 << 20), ..Machine::default() };
        assert_eq!(
            (small.default_of(2 << 10, (3, 4)), small.default_of(1 << 10, (1, 2))),
            ("750M".into(), "500M".into())
        );
        let large = Machine { memory: Some(4 << 30), ..Machine::default() };
        assert_eq!(
            (large.default_of(2 << 10, (3, 4)), large.default_of(1 << 10, (1, 2))),
            ("2G".into(), "1G".into())
        );
        assert_eq!(Machine::default().default_of(2 << 10, (3, 4)), "2G");
    }

    #[test]
    fn what_the_machine_does_not_have_is_refused_with_the_most_that_it_has() {
        let machine = Machine { memory: Some(8 << 30), processors: Some(2), ..Machine::default() };
        let refused = |limits: Limits| machine.allows(&limits).expect_err("it was taken");
        let wide = refused(Limits { memory: 9 << 30, ..Limits::default() });
        assert_eq!(wide, "--memory-limit: 9 GiB is more than this machine has; use at most 8 GiB");
        let few = Machine { open_files: Some(64), ..Machine::default() };
        assert_eq!(
            few.allows(&Limits::default()).expect_err("it was taken"),
            "--max-open-files: 1024 is more than this process may have (`ulimit -Hn`); use at most 64"
        );
        let fast = refused(Limits { cpu_percent: Some(250), ..Limits::default() });
        assert_eq!(
            fast,
            "--cpu-limit: 2.50 processors is more than this machine has; use at most 2.00 processors"
        );
        let small = refused(Limits { memory: 1 << 20, ..Limits::default() });
        assert!(small.contains("too little") && small.contains("at least 32 MiB"), "{small}");
    }
}
