//! The keeper: where a run has control groups, the server's child stays outside of them. It makes them, starts the
//! process that joins them and carries the plan out, and removes them when that has ended, whatever became of the
//! server.

use std::fs;
use std::io;
use std::path::Path;

use super::Early;
use super::stage::{Failed, enforced_with};
use super::status::Message;
use super::sys::{self, Forked};
use crate::sandbox::LimitHit;
use crate::sandbox::facts::LayerStatus;
use crate::sandbox::linux::plan::{Group, GroupCounter, GroupPlan, MissingSetting};

const STAGE: &str = "control group";

/// The file that moves a process into a group, and lists those in it.
const MEMBERS: &str = "cgroup.procs";

/// How often the removal of a group is tried: the kernel may still be taking its last process apart.
const REMOVAL_TRIES: u32 = 1000;

/// How often the kernel has ended a process of a group for want of memory. It chooses one of them; the run's supervisor,
/// which looks at this, ends the others.
pub struct EndedForMemory {
    /// Opened before the run's own root, in which there are no control groups.
    file: fs::File,
    counter: GroupCounter,
}

impl EndedForMemory {
    fn of(plan: &GroupPlan) -> Result<Vec<Self>, Failed> {
        let with_path =
            |group: &Group, counter: &GroupCounter| (group.path.join(&counter.file), counter.clone());
        plan.groups
            .iter()
            .flat_map(|group| group.counters.iter().map(move |counter| with_path(group, counter)))
            .filter(|(_, counter)| matches!(counter.limit, LimitHit::Memory(_)))
            .map(|(path, counter)| {
                let file = fs::File::open(&path).map_err(failed(&path))?;
                Ok(Self { file, counter })
            })
            .collect()
    }

    /// The limit, where it has happened.
    pub fn hit(&self) -> Option<LimitHit> {
        let mut text = [0_u8; 4096];
        let size = rustix::io::pread(&self.file, &mut text, 0).ok()?;
        hit(std::str::from_utf8(&text[..size]).ok()?, &self.counter)
    }
}

/// Makes the plan's groups, if it has any. Returns in the process that goes on, which has joined them, with the layer;
/// the keeper itself does not return.
pub fn start(early: &mut Early) -> Result<Option<LayerStatus>, Failed> {
    let Some(plan) = early.groundwork.groups.clone() else { return Ok(None) };
    if let Err(failed) = make(&plan) {
        remove(&plan);
        return Err(failed);
    }
    early.ended_for_memory = EndedForMemory::of(&plan).inspect_err(|_| remove(&plan))?;
    early.clock.mark("groups");
    // SAFETY: the launcher has a single thread.
    match unsafe { sys::fork() }.map_err(|error| Failed::io(STAGE, "fork", &error))? {
        Forked::Child => {
            join(&plan)?;
            early.clock.mark("joined");
            Ok(Some(enforced_with(STAGE, format!("{} of its own", plan.groups.len()))))
        }
        Forked::Parent(_) => keep(early, &plan),
    }
}

fn keep(early: &Early, plan: &GroupPlan) -> ! {
    let _ = super::silence(&[1, 2]);
    while sys::wait_for_child() {}
    for hit in hits(plan) {
        // Where the server is gone there is nobody to tell.
        let _ = early.reporter.send(&Message::Limit(hit), None);
    }
    remove(plan);
    sys::exit_now(0)
}

fn make(plan: &GroupPlan) -> Result<(), Failed> {
    for group in &plan.groups {
        fs::create_dir(&group.path).map_err(failed(&group.path))?;
        for setting in &group.settings {
            let path = group.path.join(&setting.file);
            match fs::write(&path, &setting.value) {
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound
                        && setting.missing == MissingSetting::IsHarmless => {}
                written => written.map_err(failed(&path))?,
            }
        }
    }
    Ok(())
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> Failed + use<'_> {
    move |error| Failed::io(STAGE, path.display().to_string(), &error)
}

fn join(plan: &GroupPlan) -> Result<(), Failed> {
    for group in &plan.groups {
        let members = group.path.join(MEMBERS);
        // The writer itself.
        fs::write(&members, "0").map_err(failed(&members))?;
    }
    Ok(())
}

fn hits(plan: &GroupPlan) -> Vec<LimitHit> {
    plan.groups.iter().flat_map(hits_of).collect()
}

fn hits_of(group: &Group) -> impl Iterator<Item = LimitHit> {
    group
        .counters
        .iter()
        .filter_map(|counter| hit(&fs::read_to_string(group.path.join(&counter.file)).ok()?, counter))
}

/// The counter's limit, where its line in this file does not say 0.
fn hit(text: &str, counter: &GroupCounter) -> Option<LimitHit> {
    let number = text.lines().find_map(|line| line.strip_prefix(counter.key.as_str())?.strip_prefix(' '))?;
    (number.trim() != "0").then_some(counter.limit)
}

/// Removes the groups. One that cannot be removed is left to the next start of a server.
fn remove(plan: &GroupPlan) {
    for group in &plan.groups {
        for _ in 0..REMOVAL_TRIES {
            match fs::remove_dir(&group.path) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => std::thread::yield_now(),
                _ => break,
            }
        }
    }
}
