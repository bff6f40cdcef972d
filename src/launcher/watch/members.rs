//! The processes of a run, and what each holds.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};

use crate::launcher::sys;

/// Threads of the sandbox itself that may be among those that are seen.
pub const OWN: u64 = 2;

/// Above this number threads are counted in every fifth sweep only: reading a process's state takes 5 us.
const MANY: usize = 64;

/// Where the run's processes are seen.
pub enum View {
    /// A process file system that shows nothing but the run; process 1 is its supervisor.
    Namespace(OwnedFd),
    /// The machine's: the run is what descends from this process.
    Descendants(OwnedFd, i32),
}

impl View {
    /// The machine's process file system, for what descends from this process.
    pub fn descendants() -> rustix::io::Result<Self> {
        let proc =
            rustix::fs::open("/proc", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self::Descendants(proc, rustix::process::getpid().as_raw_nonzero().get()))
    }

    pub fn proc(&self) -> &OwnedFd {
        match self {
            Self::Namespace(proc) | Self::Descendants(proc, _) => proc,
        }
    }

    fn read(&self, pid: i32, name: &str) -> Option<String> {
        let file = self.open(pid, name)?;
        let mut text = Vec::new();
        let mut chunk = [0_u8; 4096];
        loop {
            match rustix::io::read(&file, &mut chunk) {
                Ok(0) => return String::from_utf8(text).ok(),
                Ok(size) => text.extend_from_slice(&chunk[..size]),
                Err(_) => return None,
            }
        }
    }

    fn open(&self, pid: i32, name: &str) -> Option<OwnedFd> {
        let path = format!("{pid}/{name}");
        rustix::fs::openat(self.proc(), path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
    }
}

/// Sweeps after which all processes of the machine are looked at anew: twice to ten times a second.
const FORGET: u64 = 5;

/// One process.
struct Member {
    /// Kept open: reading it again costs a microsecond, opening it three.
    figures: Option<OwnedFd>,
    threads: u64,
}

/// The processes that are known.
pub struct Members {
    view: View,
    known: HashMap<i32, Member>,
    /// Processes of the machine that are not the run's.
    others: HashSet<i32>,
    sweeps: u64,
}

impl Members {
    pub fn new(view: View) -> Self {
        Self { view, known: HashMap::new(), others: HashSet::new(), sweeps: 0 }
    }

    pub fn view(&self) -> &View {
        &self.view
    }

    pub fn pids(&self) -> impl Iterator<Item = i32> {
        self.known.keys().copied()
    }

    /// Looks for new processes and forgets those that are gone.
    pub fn refresh(&mut self) {
        self.sweeps += 1;
        let present = self.listed();
        self.known.retain(|pid, _| present.contains(pid));
        self.others.retain(|pid| present.contains(pid));
        if self.sweeps.is_multiple_of(FORGET) {
            // A number may have passed to a process of the run between two looks.
            self.others.clear();
        }
        let mut unknown: Vec<i32> = present.into_iter().filter(|pid| !self.is_known(*pid)).collect();
        // A parent usually has the smaller number; whose parent is not known yet is looked at again.
        unknown.sort_unstable();
        for pid in unknown {
            self.meet(pid);
        }
        if self.known.len() <= MANY || self.sweeps.is_multiple_of(5) {
            for (pid, member) in &mut self.known {
                if let Some(state) = state(&self.view, *pid) {
                    member.threads = state.threads;
                }
            }
        }
    }

    fn is_known(&self, pid: i32) -> bool {
        self.known.contains_key(&pid) || self.others.contains(&pid)
    }

    fn listed(&self) -> HashSet<i32> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(folder) = rustix::fs::openat(self.view.proc(), ".", flags, Mode::empty()) else {
            return HashSet::new();
        };
        let Ok(entries) = rustix::fs::Dir::new(folder) else { return HashSet::new() };
        let names = entries.flatten().filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok());
        names.collect()
    }

    fn meet(&mut self, pid: i32) {
        let Some(state) = state(&self.view, pid) else { return };
        let ours = match &self.view {
            View::Namespace(_) => pid != 1,
            View::Descendants(_, root) => state.parent == *root || self.known.contains_key(&state.parent),
        };
        if ours {
            let figures = self.view.open(pid, "statm");
            self.known.insert(pid, Member { figures, threads: state.threads });
        } else if state.parent == 0 || self.others.contains(&state.parent) {
            self.others.insert(pid);
        }
    }

    /// Threads of all processes.
    pub fn threads(&self) -> u64 {
        self.known.values().map(|member| member.threads).sum()
    }

    /// Memory of each process that no file stands behind, added up: never less than what all hold together.
    pub fn private_bytes(&self) -> u64 {
        self.known.iter().map(|(pid, member)| self.private_bytes_of(*pid, member)).sum()
    }

    fn private_bytes_of(&self, pid: i32, member: &Member) -> u64 {
        let mut text = [0_u8; 128];
        let size = match &member.figures {
            Some(file) => rustix::io::pread(file, &mut text, 0).unwrap_or(0),
            None => {
                self.view.open(pid, "statm").map_or(0, |file| rustix::io::read(&file, &mut text).unwrap_or(0))
            }
        };
        let text = std::str::from_utf8(&text[..size]).unwrap_or_default();
        let mut pages = text.split(' ').skip(1).map(|number| number.parse::<u64>().unwrap_or(0));
        let (resident, shared) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
        resident.saturating_sub(shared) * sys::page_size()
    }

    /// The same, with pages that several processes share counted once.
    pub fn proportional_bytes(&self) -> u64 {
        self.known
            .iter()
            .map(|(pid, member)| {
                let exact = self.view.read(*pid, "smaps_rollup").and_then(|text| proportional(&text));
                // A process may close itself to such looks; then it counts in full.
                exact.unwrap_or_else(|| self.private_bytes_of(*pid, member))
            })
            .sum()
    }
}

/// Proportional anonymous memory in bytes; all of it on kernels that do not tell it apart.
fn proportional(rollup: &str) -> Option<u64> {
    let field = |name: &str| {
        let line = rollup.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    field("Pss_Anon:").or_else(|| field("Pss:")).map(|kilobytes| kilobytes << 10)
}

/// What a process's state tells.
struct State {
    parent: i32,
    threads: u64,
}

fn state(view: &View, pid: i32) -> Option<State> {
    parse(&view.read(pid, "stat")?)
}

/// Parent and number of threads: the second and the eighteenth field after the name, which stands in parentheses and
/// may hold anything.
fn parse(stat: &str) -> Option<State> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let threads = fields.nth(15)?.parse().ok()?;
    Some(State { parent, threads })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_chose_its_name_is_read() {
        let stat = "12 (a) R 1 (b) S 7 12 12 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 33 0 99 1000 50";
        let state = parse(stat).expect("read");
        assert_eq!((state.parent, state.threads), (7, 33));
    }

    #[test]
    fn shared_pages_count_by_their_share() {
        let rollup = "0-1 ---p 0 0 0 [rollup]\nRss: 900 kB\nPss: 500 kB\nPss_Anon:  300 kB\n";
        assert_eq!(proportional(rollup), Some(300 << 10));
        assert_eq!(proportional("Pss: 5 kB\n"), Some(5 << 10));
    }

    #[test]
    fn a_process_that_is_seen_before_its_parent_is_found() {
        use std::io::BufRead;
        let mut members = Members::new(View::descendants().expect("processes are shown"));
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "sleep 60 & echo $!; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("started");
        let mut line = String::new();
        std::io::BufReader::new(shell.stdout.take().expect("piped")).read_line(&mut line).expect("it tells");
        let grandchild: i32 = line.trim().parse().expect("a number");
        members.meet(grandchild);
        members.refresh();
        let found = members.known.contains_key(&grandchild);
        let pid = rustix::process::Pid::from_raw(grandchild).expect("a number");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("ended");
        shell.wait().expect("ended");
        assert!(found);
    }

    #[test]
    fn descendants_are_told_from_others() {
        let mut members = Members::new(View::descendants().expect("processes are shown"));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("started");
        members.refresh();
        let found: Vec<i32> = members.pids().collect();
        assert!(found.contains(&i32::try_from(child.id()).expect("an id")), "{found:?}");
        assert!(!found.contains(&1));
        // Its number was another program's before.
        let number = i32::try_from(child.id()).expect("an id");
        members.known.remove(&number);
        members.others.insert(number);
        (0..FORGET).for_each(|_| members.refresh());
        assert!(members.known.contains_key(&number));
        child.kill().and_then(|()| child.wait()).expect("ended");
        members.refresh();
        assert!(!members.pids().any(|pid| u32::try_from(pid) == Ok(child.id())));
    }
}
