//! What this machine has at most of what a run can be limited to: no limit may promise more.

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

/// The least with which Python starts, in bytes.
const LEAST_MEMORY: u64 = 32 << 20;
/// The least space for a script and what it writes, in bytes.
const LEAST_DISK: u64 = 1 << 20;
/// The least number of descriptors with which Python starts.
const LEAST_OPEN_FILES: u64 = 16;

/// Where a container sees its memory limit, by version 2 and 1 of control groups.
#[cfg(target_os = "linux")]
const CONTAINER_LIMITS: [&str; 2] =
    ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];

/// This machine, looked at once.
pub static THIS: LazyLock<Machine> = LazyLock::new(Machine::look);

/// Memory of one run where nobody says anything: 2 GiB, or three quarters of what a smaller machine has. As a flag takes it.
pub static DEFAULT_MEMORY: LazyLock<String> = LazyLock::new(|| THIS.default_of(2 << 10, (3, 4)));

/// Space of one run where nobody says anything: 1 GiB, or half of the memory of a smaller machine. As a flag takes it.
pub static DEFAULT_DISK: LazyLock<String> = LazyLock::new(|| THIS.default_of(1 << 10, (1, 2)));

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
        let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        let info = rustix::system::sysinfo();
        let whole = info.totalram.saturating_mul(u64::from(info.mem_unit.max(1)));
        // In a container the group that it sees as the root has the container's limit; elsewhere the root has none.
        let container = CONTAINER_LIMITS.iter().find_map(|path| number(path));
        Self {
            memory: Some(container.map_or(whole, |limit| limit.min(whole))),
            processes: number("/proc/sys/kernel/threads-max"),
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
        within("--memory-limit", limits.memory, LEAST_MEMORY, self.memory, bytes)?;
        // The files of a run lie in memory wherever it has a file system of its own.
        within("--disk-limit", limits.disk, LEAST_DISK, self.memory, bytes)?;
        within("--max-processes", limits.processes, 1, self.processes, plain)?;
        within("--max-open-files", limits.open_files, LEAST_OPEN_FILES, self.open_files, plain)?;
        let percent = limits.cpu_percent.map_or(100, u64::from);
        let most = self.processors.map(|number| number * 100);
        let processors = |percent: u64| format!("{}.{:02} processors", percent / 100, percent % 100);
        within("--cpu-limit", percent, 1, most, processors)
    }
}

fn within(
    flag: &str,
    value: u64,
    least: u64,
    most: Option<u64>,
    words: impl Fn(u64) -> String,
) -> Result<(), String> {
    if value < least {
        return Err(format!(
            "{flag}: {} is too little to run anything; use at least {}",
            words(value),
            words(least)
        ));
    }
    match most.filter(|most| value > *most) {
        Some(most) => Err(format!(
            "{flag}: {} is more than this machine has; use at most {}",
            words(value),
            words(most)
        )),
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
        let fast = refused(Limits { cpu_percent: Some(250), ..Limits::default() });
        assert_eq!(
            fast,
            "--cpu-limit: 2.50 processors is more than this machine has; use at most 2.00 processors"
        );
        let small = refused(Limits { memory: 1 << 20, ..Limits::default() });
        assert!(small.contains("too little") && small.contains("at least 32 MiB"), "{small}");
    }
}
