//! The native backend: sandboxes made of the kernel's own means, by a launcher process of this program.
//!
//! It lowers a specification to a launch plan and starts a launcher with it. It knows nothing of scripts,
//! environments or MCP; the launcher knows nothing but the plan.

pub mod host;
pub mod lower;
pub mod plan;
mod spawn;
mod users;
mod waiting;

use std::path::{Path, PathBuf};

use super::facts::{Backend, Facts, LayerStatus, Refusal, Tier};
use super::spec::{Access, Command, Limits, MountSource, Network, Role, SandboxSpec};
use super::{BoxFuture, Control, Outcome, Running, Sandbox, StartError, WaitError, Waiting};
use host::HostLayout;
use plan::{Identity, LaunchPlan, Program};
use spawn::Executable;
use users::{User, Users};
use waiting::{Terms, Waiter};

/// The native backend on this machine.
pub struct LinuxSandbox {
    executable: Executable,
    host: HostLayout,
    users: Users,
    mode: Mode,
    facts: Facts,
}

/// How sandboxes are built here: chosen once, at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// An ordinary user: a user namespace that owns the rest.
    OwnUser,
    /// Root: an unused user for each run, in a user namespace of its own.
    Unused,
    /// Root, where user namespaces are refused.
    UnusedUnmapped,
    /// No isolation: only supervision.
    Unconfined,
}

impl LinuxSandbox {
    /// Finds out what this machine allows and builds one throw-away sandbox to prove it.
    pub async fn probe() -> Self {
        let is_root = rustix::process::geteuid().is_root();
        let candidates: &[Mode] =
            if is_root { &[Mode::Unused, Mode::UnusedUnmapped, Mode::OwnUser] } else { &[Mode::OwnUser] };
        let mut sandbox = Self::with(candidates[0]);
        let mut first_error = None;
        for &mode in candidates {
            sandbox.mode = mode;
            match sandbox.try_once().await {
                Ok(layers) => {
                    sandbox.facts = Facts { backend: Backend::Native, tier: Ok(Tier::Full), layers };
                    return sandbox;
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        let refusal = first_error.map_or_else(
            || Refusal { reason: "no way was tried".to_owned(), remedy: String::new() },
            |error| refusal(&error),
        );
        sandbox.facts = Facts { backend: Backend::Native, tier: Err(refusal), layers: Vec::new() };
        sandbox
    }

    /// No isolation: the same supervision and limits, and `unconfined` in every report.
    pub fn unconfined() -> Self {
        let mut sandbox = Self::with(Mode::Unconfined);
        sandbox.facts = Facts { backend: Backend::None, tier: Ok(Tier::None), layers: Vec::new() };
        sandbox
    }

    fn with(mode: Mode) -> Self {
        let refusal = Refusal { reason: "not probed yet".to_owned(), remedy: String::new() };
        let facts = Facts { backend: Backend::Native, tier: Err(refusal), layers: Vec::new() };
        Self {
            executable: Executable::open(),
            host: HostLayout::gather(),
            users: Users::default(),
            mode,
            facts,
        }
    }

    /// Without isolation: starts the program, and has the supervisor remove a folder after its end.
    pub async fn start_in(&self, spec: &SandboxSpec, remove_after: PathBuf) -> Result<Running, StartError> {
        let plan = lower::unconfined(spec, Some(remove_after));
        spawn::start(&self.executable, &plan, spec).await
    }

    /// Builds a whole sandbox in which forbidden acts are tried.
    async fn try_once(&self) -> Result<Vec<LayerStatus>, StartError> {
        let spec = SandboxSpec {
            role: Role::Run,
            command: Command {
                program: "/".into(),
                args: Vec::new(),
                env: std::collections::BTreeMap::new(),
                cwd: super::spec::WORK_DIR.into(),
            },
            mounts: Vec::new(),
            files: Vec::new(),
            network: Network::None,
            limits: Limits::default(),
            channel: false,
        };
        let user = self.user(spec.role)?;
        let mut plan = self.plan(&spec, user.as_ref())?;
        plan.program = Program::SelfTest { hidden: hidden_folders() };
        spawn::self_test(&self.executable, &plan, &spec).await
    }

    fn usable(&self) -> Result<(), StartError> {
        let unavailable = |Refusal { reason, remedy }: &Refusal| StartError::Unavailable {
            reason: reason.clone(),
            remedy: remedy.clone(),
        };
        self.facts.tier.as_ref().map(drop).map_err(unavailable)
    }

    async fn launch(&self, spec: &SandboxSpec) -> Result<Running, StartError> {
        self.usable()?;
        let user = self.user(spec.role)?;
        let plan = self.plan(spec, user.as_ref())?;
        self.carry_out(&plan, spec, user).await
    }

    /// Starts a program whose script comes later.
    async fn launch_waiting(&self, spec: &SandboxSpec, script: &Path) -> Result<Waiter, StartError> {
        self.usable()?;
        let user = self.user(spec.role)?;
        let identity = self.identity(user.as_ref()).ok_or_else(|| {
            StartError::Unsupported("without a work directory of its own no program waits".to_owned())
        })?;
        let terms = Terms::now(script, identity);
        let plan = lower::waiting(spec, &self.host, identity, script)?;
        Waiter::ready(self.carry_out(&plan, spec, user).await?, terms).await
    }

    async fn carry_out(
        &self,
        plan: &LaunchPlan,
        spec: &SandboxSpec,
        user: Option<User>,
    ) -> Result<Running, StartError> {
        own_writable_mounts(spec, user.as_ref())?;
        let mut running = spawn::start(&self.executable, plan, spec).await?;
        if let Some(user) = user {
            running.control = Box::new(WithUser { control: running.control, _user: user });
        }
        Ok(running)
    }

    fn user(&self, role: Role) -> Result<Option<User>, StartError> {
        match self.mode {
            Mode::OwnUser | Mode::Unconfined => Ok(None),
            Mode::Unused | Mode::UnusedUnmapped => {
                let none =
                    || StartError::Unsupported("64 sandboxes run already; close some first".to_owned());
                self.users.take(role).map(Some).ok_or_else(none)
            }
        }
    }

    fn plan(&self, spec: &SandboxSpec, user: Option<&User>) -> Result<LaunchPlan, StartError> {
        match self.identity(user) {
            Some(identity) => lower::full(spec, &self.host, identity),
            None => Ok(lower::unconfined(spec, None)),
        }
    }

    /// How a run gets a user of its own; `None` without isolation.
    fn identity(&self, user: Option<&User>) -> Option<Identity> {
        let id = user.map_or(0, |user| user.id);
        match self.mode {
            Mode::OwnUser => Some(Identity::OwnUser),
            Mode::Unused => Some(Identity::Unused(id)),
            Mode::UnusedUnmapped => Some(Identity::UnusedUnmapped(id)),
            Mode::Unconfined => None,
        }
    }
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

/// As root, what a stage may write has to belong to the user that it becomes.
fn own_writable_mounts(spec: &SandboxSpec, user: Option<&User>) -> Result<(), StartError> {
    let Some(user) = user else { return Ok(()) };
    for mount in spec.mounts.iter().filter(|mount| mount.access == Access::ReadWrite) {
        if let MountSource::Host(path) = &mount.source {
            std::os::unix::fs::lchown(path, Some(user.id), Some(user.id)).map_err(|source| {
                StartError::Io { context: "handing a folder to the sandbox's user", source }
            })?;
        }
    }
    Ok(())
}

fn refusal(error: &StartError) -> Refusal {
    Refusal {
        reason: format!("this machine does not let this program build a sandbox ({error})"),
        remedy: "Allow unprivileged user namespaces for it, or start it with --sandbox-backend none, which gives no \
                 isolation"
            .to_owned(),
    }
}

impl Sandbox for LinuxSandbox {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn explain(&self, spec: &SandboxSpec) -> Result<String, StartError> {
        let user = self.user(spec.role)?;
        let plan = self.plan(spec, user.as_ref())?;
        serde_json::to_string_pretty(&plan).map_err(|error| StartError::Unsupported(error.to_string()))
    }

    fn start<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Running, StartError>> {
        Box::pin(self.launch(spec))
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

/// Keeps a run's user taken until every process of the run is gone.
struct WithUser {
    control: Box<dyn Control>,
    _user: User,
}

impl Control for WithUser {
    fn wait(&mut self) -> BoxFuture<'_, Result<Outcome, WaitError>> {
        self.control.wait()
    }

    fn kill(&mut self) {
        self.control.kill();
    }
}
