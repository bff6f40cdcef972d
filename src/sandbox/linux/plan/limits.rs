//! Limits of a run: what the kernel enforces for each process, for the whole in a control group, and what a watcher
//! enforces where there is no group.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::sandbox::LimitHit;

/// Kernel limits of each process. `None` leaves the inherited one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Private writable memory of one process, stacks of threads included, in bytes (`RLIMIT_DATA`).
    pub data: Option<u64>,
    /// Processes and threads (`RLIMIT_NPROC`).
    pub processes: Option<ProcessLimit>,
    /// Descriptors (`RLIMIT_NOFILE`).
    pub open_files: Option<u64>,
    /// Size of one file, in bytes (`RLIMIT_FSIZE`).
    pub file_size: Option<u64>,
    /// How far everything else goes first (`nice(2)`), for work in the background.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub niceness: Option<u8>,
}

/// The kernel counts the processes and threads of a user, whatever run they belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessLimit {
    /// The run's user has nothing but the run.
    Whole(u64),
    /// So many more than the user has when the run starts, and up to as many again as that: a bound for what happens
    /// between two looks of the watcher, which is exact.
    Beside(u64),
}

/// Control groups that are made for one run, joined, and removed when it has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupPlan {
    /// One in version 2, one for each controller in version 1.
    pub groups: Vec<Group>,
}

/// One control group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its folder.
    pub path: PathBuf,
    /// Files that are written before anything joins it.
    pub settings: Vec<GroupSetting>,
    /// Files that tell, in the end, whether a limit was reached.
    pub counters: Vec<GroupCounter>,
}

/// A file of a control group and what is written to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSetting {
    /// Its name.
    pub file: String,
    /// The value.
    pub value: String,
    /// What it means that the kernel has no such file.
    pub missing: MissingSetting,
}

/// What it means that the kernel has no such setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissingSetting {
    /// The limit would not hold.
    Fails,
    /// What it limits does not exist either.
    IsHarmless,
}

/// A number in a file of a control group that is above zero once a limit was reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupCounter {
    /// The file's name.
    pub file: String,
    /// The word before the number.
    pub key: String,
    /// What was reached.
    pub limit: LimitHit,
}

/// Limits of the whole run that its supervisor watches over, where nothing else enforces them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchPlan {
    /// Memory of all processes and files in memory together, in bytes.
    pub memory: Option<u64>,
    /// A folder in memory whose files count as well, where they lie in no file system of the run's own.
    pub memory_folder: Option<PathBuf>,
    /// Processes and threads.
    pub processes: Option<u64>,
    /// Files below these folders of the host together, and how many bytes they may take.
    pub disk: Option<(Vec<PathBuf>, u64)>,
}
