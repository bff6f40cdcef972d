//! Finding out, once, what this machine allows: throw-away sandboxes are built, tightest first, and forbidden acts
//! are tried in each. A way that lets one through is not used.

use std::path::PathBuf;
use std::sync::Arc;

use super::diagnosis::{self, Observed};
use super::mode::{Mode, Way, full};
use super::plan::{Outside, ProcSource, Program};
use super::{LinuxSandbox, observe, outbound, spawn};
use crate::launcher::sys;
use crate::sandbox::facts::{Backend, Facts, LayerStatus, Refusal};
use crate::sandbox::spec::{Command, Limits, Network, Role, SandboxSpec, WORK_DIR};
use crate::sandbox::{StartError, Tier};
use crate::seccomp::folder::OwnPolicy;

impl LinuxSandbox {
    /// Finds out what this machine allows and builds throw-away sandboxes to prove it.
    pub async fn probe() -> Self {
        Self::probe_with(None).await
    }

    /// The same with the user's own system-call policy, where there is one.
    pub async fn probe_with(policy: Option<Arc<OwnPolicy>>) -> Self {
        let ways = full(observe::caller());
        let mut sandbox = Self { policy, ..Self::with(Mode::Full(ways[0], ProcSource::Fresh)) };
        let mut told = None;
        for &way in ways {
            match sandbox.try_way(way).await {
                Ok(layers) => {
                    let layers = sandbox.try_connecting(layers).await;
                    return sandbox.settled(Tier::Full, layers);
                }
                // What a container's root meets on the way of its own says more than that it has no other user.
                Err(error) if way == Way::ContainerRoot => told = Some(error),
                Err(error) => told = told.or(Some(error)),
            }
        }
        let seen = told.as_ref().map(observe::after).unwrap_or_default();
        sandbox.try_confined(&seen).await
    }

    /// With a process file system of its own, and where that is refused because an outer container has covered parts of
    /// its, with one that is put together.
    async fn try_way(&mut self, way: Way) -> Result<Vec<LayerStatus>, StartError> {
        self.mode = Mode::Full(way, ProcSource::Fresh);
        let error = match self.prove().await {
            Ok(layers) => return Ok(layers),
            Err(error) => error,
        };
        if !way.identity(0).owns_namespaces() || !is_masked_proc(&error) {
            return Err(error);
        }
        self.mode = Mode::Full(way, ProcSource::Assembled);
        self.prove().await
    }

    /// One throw-away sandbox; a second one without control groups where these turn out not to be had.
    async fn prove(&mut self) -> Result<Vec<LayerStatus>, StartError> {
        match self.try_once().await {
            Err(StartError::Stage { stage, detail, .. })
                if stage == "control group" && self.groups.is_ok() =>
            {
                self.groups = Err(detail);
                self.try_once().await
            }
            proved => proved,
        }
    }

    /// Whether the server can connect for runs; where it cannot, they share the host's network by default.
    async fn try_connecting(&mut self, layers: Vec<LayerStatus>) -> Vec<LayerStatus> {
        self.outbound = outbound::try_once(self).await;
        match &self.outbound {
            Ok(()) => layers,
            Err(reason) => outbound::without_network_namespace(layers, reason),
        }
    }

    async fn try_confined(mut self, seen: &Observed) -> Self {
        let why = diagnosis::without_namespaces(seen);
        let Some(Ok(abi @ 1..)) = seen.landlock else {
            return self.unusable(&why, &diagnosis::without_landlock(seen));
        };
        self.mode = Mode::Confined { abi };
        match self.prove().await {
            Ok(layers) => {
                self.shortfall = Some(why);
                self.settled(Tier::Confined, layers)
            }
            Err(error) => self.unusable(&why, &diagnosis::without_landlock(&observe::after(&error))),
        }
    }

    fn settled(mut self, tier: Tier, mut layers: Vec<LayerStatus>) -> Self {
        layers.extend(self.absent_layers());
        self.facts = Facts { backend: Backend::Native, tier: Ok(tier), layers };
        self
    }

    fn unusable(mut self, full: &Refusal, confined: &Refusal) -> Self {
        let tier = Err(diagnosis::nothing(full, confined));
        self.shortfall = Some(full.clone());
        self.facts = Facts { backend: Backend::Native, tier, layers: Vec::new() };
        self
    }

    /// Builds a whole sandbox in which forbidden acts are tried.
    async fn try_once(&self) -> Result<Vec<LayerStatus>, StartError> {
        let spec = SandboxSpec {
            role: Role::Run,
            command: Command {
                program: "/".into(),
                args: Vec::new(),
                env: std::collections::BTreeMap::new(),
                cwd: WORK_DIR.into(),
            },
            mounts: Vec::new(),
            files: Vec::new(),
            network: Network::None,
            named_servers: Vec::new(),
            limits: Limits::default(),
            channel: false,
        };
        let user = self.user(spec.role)?;
        let id = user.as_ref().map(|user| user.id);
        let folder = self.private_folder(&spec, id)?;
        let placed = folder.as_ref().map_or_else(|| spec.clone(), |folder| folder.place(&spec));
        let mut plan = self.plan(&placed, folder.as_ref(), id)?;
        let outside = folder.as_ref().map(|folder| Outside {
            folder: folder.path().to_owned(),
            process: i32::try_from(std::process::id()).unwrap_or(i32::MAX),
        });
        plan.program = Program::SelfTest { hidden: hidden_folders(), outside };
        spawn::self_test(&self.launchers, &plan, &placed).await
    }
}

/// Whether a fresh process file system was refused, and nothing else.
fn is_masked_proc(error: &StartError) -> bool {
    matches!(error, StartError::Stage { stage, detail, errno: Some(libc::EPERM) }
        if stage == "mounts" && detail.starts_with("mounting /proc"))
}

/// Landlock's ABI, 0 where the kernel has none.
pub fn landlock_abi() -> u8 {
    sys::landlock_abi().unwrap_or(0)
}

/// Folders of the host that no sandbox shows: where this program was started and the user's home.
fn hidden_folders() -> Vec<PathBuf> {
    let system = ["/usr", "/bin", "/lib", "/etc", "/proc", "/dev", "/tmp", "/var/tmp", "/home/sandbox"];
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let candidates = std::env::current_dir().ok().into_iter().chain(home);
    candidates
        .filter(|path| path.parent().is_some() && !system.iter().any(|shown| path.starts_with(shown)))
        .collect()
}
