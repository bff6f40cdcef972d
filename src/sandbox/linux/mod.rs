//! The native backend: sandboxes made of the kernel's own means, by a launcher process of this program.
//!
//! It lowers a specification to a launch plan and starts a launcher with it. It knows nothing of scripts,
//! environments or MCP; the launcher knows nothing but the plan.

mod ahead;
pub mod broker;
mod confined;
mod diagnosis;
mod ends;
mod events;
mod groups;
pub mod host;
mod launchers;
pub mod lower;
mod mode;
mod observe;
mod outbound;
pub mod plan;
mod private_folder;
mod probe;
mod spawn;
mod users;
mod waiting;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use super::facts::{Backend, Facts, LayerState, LayerStatus, Part, Refusal, Tier};
use super::spec::{Access, Limits, MountSource, Role, SandboxSpec};
use super::{BoxFuture, Control, Outcome, Running, Sandbox, StartError, WaitError, Waiting};
use crate::seccomp::folder::OwnPolicy;
use ahead::{Ahead, HostMounts, Kind, Laid};
use groups::Groups;
use host::HostLayout;
use launchers::Launchers;
use mode::Mode;
use plan::{Groundwork, Identity, LaunchPlan, ProcessLimit, Supervision, WatchPlan};
use private_folder::PrivateFolder;
use users::{User, Users};
use waiting::{Terms, Waiter};

/// By how many processes the kernel's own limit is above that of a control group.
const BEHIND_A_GROUP: u64 = 16;

/// The native backend on this machine.
pub struct LinuxSandbox {
    launchers: Launchers,
    /// The next sandbox's ground.
    ahead: Ahead,
    host: HostLayout,
    users: Users,
    mode: Mode,
    /// Where control groups for runs are made, or why they cannot be.
    groups: Result<Groups, String>,
    facts: Facts,
    /// Why there is no full tier.
    shortfall: Option<Refusal>,
    /// Why the server cannot connect for runs, where it cannot.
    outbound: Result<(), String>,
    /// The user's own system-call policy, where there is one.
    policy: Option<Arc<OwnPolicy>>,
}

impl LinuxSandbox {
    /// No isolation: the same supervision and limits, and `unconfined` in every report.
    pub fn unconfined() -> Self {
        let supervision = if rustix::process::geteuid().is_root() {
            Supervision::Subreaper
        } else {
            confined::supervision(probe::landlock_abi())
        };
        let mut sandbox = Self::with(Mode::Unconfined(supervision));
        sandbox.facts = Facts { backend: Backend::None, tier: Ok(Tier::None), layers: Vec::new() };
        sandbox
    }

    fn with(mode: Mode) -> Self {
        let refusal = Refusal { reason: "not probed yet".to_owned(), remedy: String::new() };
        let facts = Facts { backend: Backend::Native, tier: Err(refusal), layers: Vec::new() };
        Self {
            launchers: Launchers::open(),
            ahead: Ahead::default(),
            host: HostLayout::gather(),
            users: Users::default(),
            mode,
            groups: Groups::find(),
            facts,
            shortfall: None,
            outbound: Err("there is no network namespace in this tier".to_owned()),
            policy: None,
        }
    }

    /// Starts a launcher with the plan for this specification, which may be changed.
    async fn launch(
        &self,
        spec: &SandboxSpec,
        mut change: impl FnMut(LaunchPlan) -> Result<LaunchPlan, StartError>,
    ) -> Result<(Running, Option<User>), StartError> {
        if let Some(laid) = self.ahead.take(Kind::of(spec)) {
            match self.go_on(laid, spec, &mut change).await {
                Ok(launched) => return Ok(launched),
                Err(error) => tracing::debug!(%error, "ground that was laid ahead was lost"),
            }
        }
        let user = self.user(spec.role)?;
        let id = user.as_ref().map(|user| user.id);
        own_writable_mounts(spec, id)?;
        let Some(folder) = self.private_folder(spec, id)? else {
            let plan = change(self.plan(spec, None, id)?)?;
            return Ok((spawn::start(&self.launchers, &plan, spec).await?, user));
        };
        let placed = folder.place(spec);
        let plan = change(self.plan(&placed, Some(&folder), id)?)?;
        let work_dir = std::fs::File::open(folder.work())
            .map_err(|source| StartError::Io { context: "opening the work directory", source })?;
        let mut running = spawn::start(&self.launchers, &plan, &placed).await?;
        // From here on the supervisor removes it: it outlives a server that is killed.
        folder.release();
        running.work_dir = Some(work_dir.into());
        running.layers.extend(self.absent_layers());
        Ok((running, user))
    }

    /// Goes on from ground that was laid ahead. Nothing of the program has been executed when this fails.
    async fn go_on(
        &self,
        laid: Laid,
        spec: &SandboxSpec,
        change: &mut impl FnMut(LaunchPlan) -> Result<LaunchPlan, StartError>,
    ) -> Result<(Running, Option<User>), StartError> {
        let Laid { begun, groundwork, user, .. } = laid;
        let id = user.as_ref().map(|user| user.id);
        own_writable_mounts(spec, id)?;
        let plan = LaunchPlan { groups: groundwork.groups.clone(), ..self.plan(spec, None, id)? };
        let rest = groundwork.rest_of(change(plan)?);
        let rest = rest.ok_or_else(|| StartError::Unsupported("it was laid for another one".to_owned()))?;
        Ok((spawn::go_on(begun, &rest, spec).await?, user))
    }

    /// Lays the ground for a sandbox of this kind.
    async fn lay(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        let kind = Kind::of(spec);
        let Some(mounts) = HostMounts::now().filter(|_| !self.ahead.has(kind)) else { return Ok(()) };
        let user = self.user(spec.role)?;
        let bare = SandboxSpec { mounts: Vec::new(), files: Vec::new(), ..spec.clone() };
        let groundwork = Groundwork::ahead_of(self.plan(&bare, None, user.as_ref().map(|user| user.id))?);
        let begun = spawn::Begun::ahead(&self.launchers, &groundwork, spec.limits).await?;
        self.ahead.put(Laid { kind, begun, groundwork, user, mounts });
        Ok(())
    }

    /// Starts a program whose script comes later.
    async fn launch_waiting(&self, spec: &SandboxSpec, script: &Path) -> Result<Waiter, StartError> {
        self.usable()?;
        let without =
            || StartError::Unsupported("without a work directory of its own no program waits".to_owned());
        if !matches!(self.mode, Mode::Full(..)) {
            return Err(without());
        }
        // Before the host's files are read for the plan: what changes meanwhile makes it unfit.
        let terms = Terms::now(script, &spec.mounts);
        let mut identity = None;
        let launched = self.launch(spec, |plan| {
            identity = plan.isolation.as_ref().map(|isolation| isolation.identity);
            lower::waiting(plan, script)
        });
        let (running, user) = launched.await?;
        Waiter::ready(with_user(running, user), terms, identity.ok_or_else(without)?).await
    }

    fn usable(&self) -> Result<(), StartError> {
        let unavailable = |refusal: &Refusal| {
            let (reason, remedy) = (refusal.reason.clone(), refusal.remedy.clone());
            StartError::Unavailable { reason, remedy }
        };
        self.facts.tier.as_ref().map(drop).map_err(unavailable)
    }

    fn user(&self, role: Role) -> Result<Option<User>, StartError> {
        if !self.mode.takes_user(rustix::process::geteuid().is_root()) {
            return Ok(None);
        }
        let none =
            || StartError::Unsupported("no unused user is left; close some sandboxes first".to_owned());
        self.users.take(role).map(Some).ok_or_else(none)
    }

    /// The run's folder on the host, where it has no root of its own.
    fn private_folder(
        &self,
        spec: &SandboxSpec,
        owner: Option<u32>,
    ) -> Result<Option<PrivateFolder>, StartError> {
        if matches!(self.mode, Mode::Full(..)) {
            return Ok(None);
        }
        PrivateFolder::create(spec, owner)
            .map(Some)
            .map_err(|source| StartError::Io { context: "making a temporary folder", source })
    }

    fn plan(
        &self,
        spec: &SandboxSpec,
        folder: Option<&PrivateFolder>,
        user: Option<u32>,
    ) -> Result<LaunchPlan, StartError> {
        let imagined = PrivateFolder::imagined();
        let folder = folder.unwrap_or(&imagined);
        let path = folder.path();
        let mut plan = match self.mode {
            Mode::Full(way, proc) => {
                lower::full(spec, &self.host, way.identity(user.unwrap_or_default()), proc)
            }
            Mode::Confined { abi } => {
                let (host, shared_memory) = (&self.host, folder.shared_memory());
                let ground = confined::Ground { host, folder: path, shared_memory, drop_to: user, abi };
                confined::plan(spec, &ground)
            }
            Mode::Unconfined(supervision) => {
                let folders = vec![path.to_owned(), folder.shared_memory().to_owned()];
                Ok(lower::unconfined(spec, supervision, folders))
            }
        }?;
        if let Some(own) = &self.policy {
            plan.seccomp = plan.seccomp.map(|policy| policy.replaced_by(own));
        }
        self.limit_run(&mut plan, &spec.limits, folder);
        Ok(plan)
    }

    /// Adds what limits the whole run: control groups where they can be had, else the supervisor's watch.
    fn limit_run(&self, plan: &mut LaunchPlan, limits: &Limits, folder: &PrivateFolder) {
        let mut watch = WatchPlan::default();
        if let Ok(groups) = &self.groups {
            plan.groups = Some(groups.plan(limits));
            // The group is exact and tells that it was reached: the kernel's limit stands behind it.
            plan.limits.processes = match plan.limits.processes {
                Some(ProcessLimit::Whole(number)) => Some(ProcessLimit::Whole(number + BEHIND_A_GROUP)),
                _ => None,
            };
        } else {
            watch.memory = Some(limits.memory);
            watch.processes = Some(limits.processes);
            let own =
                plan.isolation.as_ref().is_some_and(|isolation| isolation.identity == Identity::OwnUser);
            if own && !observe::processes_are_counted_by_namespace() {
                // Every process of the user counts against the run: the watch is what is exact.
                plan.limits.processes = Some(ProcessLimit::Beside(limits.processes));
            }
        }
        if watch.memory.is_some() && plan.isolation.is_none() {
            watch.memory_folder = Some(folder.shared_memory().to_owned());
        }
        if plan.isolation.is_none() {
            watch.disk = Some((folder.inner().to_vec(), limits.disk));
        }
        plan.watch = (watch != WatchPlan::default()).then_some(watch);
    }

    /// What the tier lacks as a whole, for reports.
    fn absent_layers(&self) -> Option<LayerStatus> {
        let what = "refused here: host name, process ids and whether a file exists are visible";
        let absent =
            || LayerStatus { name: "namespaces".to_owned(), state: LayerState::Absent(what.to_owned()) };
        matches!(self.mode, Mode::Confined { .. }).then(absent)
    }
}

/// As root, what a stage may write has to belong to the user that it becomes.
fn own_writable_mounts(spec: &SandboxSpec, user: Option<u32>) -> Result<(), StartError> {
    let Some(id) = user else { return Ok(()) };
    for mount in spec.mounts.iter().filter(|mount| mount.access == Access::ReadWrite) {
        if let MountSource::Host(path) = &mount.source {
            std::os::unix::fs::lchown(path, Some(id), Some(id)).map_err(|source| StartError::Io {
                context: "handing a folder to the sandbox's user",
                source,
            })?;
        }
    }
    Ok(())
}

/// Whether any user can read what lies at a path. What is not there is nobody's obstacle.
fn is_open_to_all(path: &Path) -> bool {
    let allows = |path: &Path, bits: u32| {
        std::fs::metadata(path).map_or(true, |found| found.permissions().mode() & bits == bits)
    };
    let (readable, passable) = (0o004, 0o001);
    allows(path, readable) && path.ancestors().skip(1).all(|folder| allows(folder, passable))
}

impl Sandbox for LinuxSandbox {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn outbound(&self) -> Result<(), String> {
        self.outbound.clone()
    }

    fn shortfall(&self) -> Option<&Refusal> {
        self.shortfall.as_ref()
    }

    fn parts(&self) -> Vec<Part> {
        observe::parts(self.shortfall.as_ref(), &self.groups)
    }

    fn carries(&self, limits: &Limits) -> Result<(), Refusal> {
        let missing = match &self.groups {
            _ if limits.cpu_percent.is_none() => return Ok(()),
            Ok(groups) if groups.limit_processors() => return Ok(()),
            Ok(_) => "the control groups here do not divide processor time",
            Err(reason) => reason,
        };
        Err(Refusal {
            reason: format!("--cpu-limit needs a control group ({missing})"),
            remedy: format!("{}, or without --cpu-limit", groups::REMEDY),
        })
    }

    fn reaches(&self, path: &Path) -> bool {
        let becomes_another =
            matches!(self.mode, Mode::Confined { .. }) && rustix::process::geteuid().is_root();
        !becomes_another || is_open_to_all(path)
    }

    fn explain(&self, spec: &SandboxSpec) -> Result<String, StartError> {
        let user = self.user(spec.role)?;
        let id = user.as_ref().map(|user| user.id);
        let plan = match self.mode {
            Mode::Full(..) => self.plan(spec, None, id),
            _ => self.plan(&PrivateFolder::imagined().place(spec), None, id),
        };
        serde_json::to_string_pretty(&plan?).map_err(|error| StartError::Unsupported(error.to_string()))
    }

    fn get_ahead<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if !matches!(self.mode, Mode::Full(..)) || self.usable().is_err() {
                return;
            }
            if let Err(error) = self.lay(spec).await {
                tracing::debug!(%error, "no ground is laid ahead");
            }
        })
    }

    fn fall_back(&self) {
        self.ahead.clear();
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.ahead.clear();
        Box::pin(self.launchers.ends.close())
    }

    fn start<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Running, StartError>> {
        Box::pin(async move {
            self.usable()?;
            let (running, user) = self.launch(spec, Ok).await?;
            Ok(with_user(running, user))
        })
    }

    fn start_waiting<'a>(
        &'a self,
        spec: &'a SandboxSpec,
        script: &'a Path,
    ) -> BoxFuture<'a, Result<Box<dyn Waiting>, StartError>> {
        Box::pin(async move {
            let waiter = self.launch_waiting(spec, script).await?;
            Ok(Box::new(waiter) as Box<dyn Waiting>)
        })
    }
}

fn with_user(mut running: Running, user: Option<User>) -> Running {
    if let Some(user) = user {
        running.control = Box::new(WithUser { control: running.control, _user: user });
    }
    running
}

/// Keeps a run's user taken until every process of the run is gone.
struct WithUser {
    control: Box<dyn Control>,
    _user: User,
}

impl Control for WithUser {
    fn wait(&mut self) -> BoxFuture<'_, Result<Outcome, WaitError>> {
        self.control.wait()
    }

    fn begins(&mut self) {
        self.control.begins();
    }

    fn kill(&mut self) {
        self.control.kill();
    }
}
