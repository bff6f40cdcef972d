//! The Docker backend: each sandbox is a container of the engine that the user's own `docker` talks to.
//!
//! A specification becomes a plan (`plan`), the plan a command line of the engine's client (`client`), and the container's
//! first process (`init.py`) reports by frames (`frame`) what the engine really enforced (`enforced`) before it starts the
//! program. `engine` and `image` say exactly what is missing; `place` knows whose containers are whose.
//!
//! Invariant: it knows nothing of scripts, packages or MCP, mounts no path of the host, touches no container of another
//! program, and compiles wherever the standard library does.

mod alive;
pub mod client;
mod container;
mod enforced;
pub mod engine;
mod frame;
pub mod host_files;
pub mod image;
mod network;
pub mod place;
pub mod plan;
mod ready;
mod returned;
mod volumes;
mod waiting;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::facts::{Backend, Facts, Part, Refusal, Tier};
use super::spec::{Network, Role, SandboxSpec, WORK_DIR};
use super::volumes::Volumes;
use super::{BoxFuture, LayerState, LayerStatus, Running, Sandbox, StartError, Waiting};
use crate::seccomp::{self, folder::OwnPolicy};
use alive::Containers;
use client::{Client, ClientError};
use container::Started;
use engine::Engine;
use host_files::HostFiles;
use image::Source;
use network::OwnNetwork;
use place::Place;
use plan::{DockerPlan, Identity};
use ready::Ready;
use volumes::Passing;
use waiting::Waiter;

/// The longest that the engine may take for a short answer.
const ANSWER: Duration = Duration::from_secs(15);
/// The longest that it may take to remove something.
const REMOVAL: Duration = Duration::from_secs(30);

/// What the user said about containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DockerOptions {
    /// The image, where the user names one.
    pub image: Option<String>,
    /// Folder for this user's own few files; `None` is a temporary one.
    pub folder: Option<PathBuf>,
}

/// What happens where the engine does not have the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingImage {
    /// It is made in the background; calls wait for it.
    Make,
    /// The backend cannot be used.
    Refuse,
}

/// The Docker backend on this machine.
pub struct DockerSandbox {
    facts: Facts,
    image: String,
    usable: Option<Arc<Usable>>,
    /// Why this machine's own means are not used, where containers took their place, and which of them there are.
    shortfall: Option<Refusal>,
    parts: Vec<Part>,
}

/// What there is once an engine has answered.
struct Usable {
    client: Client,
    engine: Engine,
    place: Place,
    /// The place's folder, where nobody named one.
    _temporary: Option<tempfile::TempDir>,
    profiles: Profiles,
    containers: Containers,
    network: OwnNetwork,
    passing: Passing,
    ready: Ready,
}

/// Files with the system-call policies, for the engine's client.
struct Profiles {
    run: PathBuf,
    build: PathBuf,
    prepare: PathBuf,
}

impl DockerSandbox {
    /// Looks for the client, the engine and the image. Where only the image is missing, it can be made in the
    /// background.
    pub async fn probe(options: &DockerOptions, missing: MissingImage) -> Self {
        Self::probe_with(options, missing, None).await
    }

    /// The same with the user's own system-call policy in place of the embedded one, where there is one.
    pub async fn probe_with(
        options: &DockerOptions,
        missing: MissingImage,
        policy: Option<&OwnPolicy>,
    ) -> Self {
        let image = options.image.clone().unwrap_or_else(image::default_name);
        let (tier, usable) = match Usable::find(options, &image, missing, policy).await {
            Ok(usable) => (Ok(Tier::Docker), Some(Arc::new(usable))),
            Err(refusal) => (Err(refusal), None),
        };
        if let Some(usable) = &usable {
            let usable = Arc::clone(usable);
            tokio::spawn(async move {
                match usable.place.sweep(&usable.client).await {
                    Ok(0) => {}
                    Ok(count) => tracing::info!(count, "containers of a server that was killed were removed"),
                    Err(error) => tracing::warn!("left containers could not be looked for: {error}"),
                }
            });
        }
        let layers = if tier.is_ok() { promised(policy) } else { Vec::new() };
        Self {
            facts: Facts { backend: Backend::Docker, tier, layers },
            image,
            usable,
            shortfall: None,
            parts: Vec::new(),
        }
    }

    /// The same, for where another backend was to be used and cannot be.
    #[must_use]
    pub fn in_place_of(self, other: &dyn Sandbox) -> Self {
        Self { shortfall: other.facts().tier.clone().err(), parts: other.parts(), ..self }
    }

    fn usable(&self) -> Result<&Arc<Usable>, StartError> {
        let refused = |refusal: &Refusal| StartError::Unavailable {
            reason: refusal.reason.clone(),
            remedy: refusal.remedy.clone(),
        };
        match (&self.usable, &self.facts.tier) {
            (Some(usable), _) => Ok(usable),
            (None, Err(refusal)) => Err(refused(refusal)),
            (None, Ok(_)) => Err(StartError::Unsupported("the engine is not there".to_owned())),
        }
    }
}

/// Which engine there is and whether it has the image, or exactly why none can be used. Nothing is made or started.
pub async fn look(options: &DockerOptions) -> Result<String, Refusal> {
    let client = Client::find().ok_or_else(engine::not_installed)?;
    let engine = Engine::ask(&client).await?;
    let image = options.image.clone().unwrap_or_else(image::default_name);
    let has = match engine.image(&client, &image).await? {
        Some(_) => "is there",
        None => "is not there yet",
    };
    Ok(format!("engine {} for {}, the image {image} {has}", engine.version, engine.arch))
}

/// A step that failed, with the engine's words.
fn failed(stage: &str, detail: impl Into<String>) -> StartError {
    StartError::Stage { stage: stage.to_owned(), detail: detail.into(), errno: None }
}

/// Layers of every container; each one reports anew which of them hold.
fn promised(own: Option<&OwnPolicy>) -> Vec<LayerStatus> {
    let names = [
        "container",
        "read-only root",
        "user without rights",
        "no capabilities",
        "no new privileges",
        "seccomp",
        "network",
        "memory limit",
        "process limit",
        "landlock",
    ];
    let policy = own.map(|own| format!("policy of {}", own.folder().display()));
    let layer = |name: &str| {
        let detail = policy.clone().filter(|_| name == "seccomp");
        LayerStatus { name: name.to_owned(), state: LayerState::Enforced(detail) }
    };
    names.map(layer).into()
}

impl Usable {
    async fn find(
        options: &DockerOptions,
        image: &str,
        missing: MissingImage,
        policy: Option<&OwnPolicy>,
    ) -> Result<Self, Refusal> {
        let client = Client::find().ok_or_else(engine::not_installed)?;
        let engine = Engine::ask(&client).await?;
        let found = engine.image(&client, image).await?;
        if found.is_none() && missing == MissingImage::Refuse {
            return Err(ready::no_image(image));
        }
        let unwritable = |folder: &Path, error: io::Error| Refusal {
            reason: format!("{} cannot be written ({error})", folder.display()),
            remedy: "Name a folder with --data-dir".to_owned(),
        };
        let (folder, temporary) = if let Some(folder) = &options.folder {
            (folder.clone(), None)
        } else {
            let made = tempfile::tempdir().map_err(|error| unwritable(&std::env::temp_dir(), error))?;
            (made.path().to_owned(), Some(made))
        };
        let unwritable = |error| unwritable(&folder, error);
        let place = Place::open(&folder).map_err(unwritable)?;
        let profiles = Profiles::write(&place, &engine, policy).map_err(unwritable)?;
        let source = match options.image {
            Some(_) => Source::Registry,
            None => Source::Dockerfile { pythons: Vec::new() },
        };
        let ready = Ready::new(&client, &engine, image, source, found);
        let (containers, network, passing) = (Containers::new(), OwnNetwork::default(), Passing::default());
        Ok(Self {
            client,
            engine,
            place,
            _temporary: temporary,
            profiles,
            containers,
            network,
            passing,
            ready,
        })
    }

    /// Starts a container and the program in it; gives the image too.
    async fn start(
        &self,
        spec: &SandboxSpec,
        waits_for: Option<PathBuf>,
    ) -> Result<(Started, String), StartError> {
        let image = self.ready.image(&|_| {}).await?;
        let mut plan: DockerPlan = plan::lower(spec, &image.id, &HostFiles::read(spec)?)?;
        plan.program.waits_for = waits_for;
        let network = self.network_for(spec).await?;
        let mut result = self.start_container(spec, plan.clone(), network.clone()).await;
        if let (Err(StartError::Stage { detail, .. }), Some(used)) = (&result, &network)
            && self.network.is_gone(used, detail).await
        {
            result = self.start_container(spec, plan, self.network_for(spec).await?).await;
        }
        match result {
            Ok(started) => Ok((started, image.id)),
            Err(error @ StartError::Stage { .. }) => Err(self.ready.explain(&image, error).await),
            Err(error) => Err(error),
        }
    }

    async fn network_for(&self, spec: &SandboxSpec) -> Result<Option<String>, StartError> {
        let failed = |error: ClientError| StartError::Io {
            context: "finding the network",
            source: io::Error::other(error),
        };
        match spec.network {
            Network::None => Ok(None),
            Network::Host | Network::Outbound => self.network.id(&self.client).await.map_err(failed),
        }
    }

    async fn start_container(
        &self,
        spec: &SandboxSpec,
        plan: DockerPlan,
        network: Option<String>,
    ) -> Result<Started, StartError> {
        let identity = Identity { network, ..self.identity(spec.role) };
        container::start(&self.client, &self.containers, plan, &identity).await
    }

    fn identity(&self, role: Role) -> Identity {
        let profile = match role {
            Role::Run => &self.profiles.run,
            Role::Build => &self.profiles.build,
            Role::Prepare => &self.profiles.prepare,
        };
        Identity {
            name: self.place.container_name(),
            place: self.place.id.clone(),
            server: self.place.server.clone(),
            profile: profile.clone(),
            network: Some(network::NAME.to_owned()),
        }
    }
}

impl Profiles {
    fn write(place: &Place, engine: &Engine, own: Option<&OwnPolicy>) -> std::io::Result<Self> {
        let write = |role: seccomp::Role| {
            let tier = seccomp::Tier::Full;
            let policy = match own {
                Some(own) => seccomp::folder::read(own.folder(), engine.arch, role, tier),
                None => seccomp::embedded_policy(engine.arch, role, tier),
            };
            let policy = policy.map_err(|error| std::io::Error::other(error.to_string()))?;
            let json = seccomp::docker::export_for(&policy, engine.unknown_calls()).json;
            // Servers with different policies share the folder.
            let whose = own.map_or_else(String::new, |_| format!("-own-{:016x}", fingerprint(&json)));
            let name = format!("seccomp-{}-{}-{}{whose}.json", engine.arch, role.name(), engine.version);
            place.keep(&name, &json)
        };
        Ok(Self {
            run: write(seccomp::Role::Run)?,
            build: write(seccomp::Role::Build)?,
            prepare: write(seccomp::Role::Prepare)?,
        })
    }
}

fn fingerprint(text: &str) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    std::hash::Hash::hash(text, &mut hasher);
    std::hash::Hasher::finish(&hasher)
}

impl Sandbox for DockerSandbox {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn shortfall(&self) -> Option<&Refusal> {
        self.shortfall.as_ref()
    }

    fn parts(&self) -> Vec<Part> {
        self.parts.clone()
    }

    fn explain(&self, spec: &SandboxSpec) -> Result<String, StartError> {
        let plan = plan::lower(spec, &self.image, &HostFiles::read(spec)?)?;
        let identity = self.usable()?.identity(spec.role);
        plan.explain(&identity).map_err(|error| StartError::Unsupported(error.to_string()))
    }

    fn start<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Running, StartError>> {
        Box::pin(async move {
            let (started, _) = self.usable()?.start(spec, None).await?;
            Ok(started.run(Vec::new()))
        })
    }

    fn start_waiting<'a>(
        &'a self,
        spec: &'a SandboxSpec,
        script: &'a Path,
    ) -> BoxFuture<'a, Result<Box<dyn Waiting>, StartError>> {
        Box::pin(async move {
            let usable = self.usable()?;
            let script = Path::new(WORK_DIR).join(script);
            let (started, image) = usable.start(spec, Some(script)).await?;
            Ok(Box::new(Waiter::new(started, Arc::clone(usable), image)) as Box<dyn Waiting>)
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Some(usable) = &self.usable {
                usable.containers.close().await;
                usable.passing.close(&usable.client).await;
            }
        })
    }

    fn volumes(&self) -> Option<&dyn Volumes> {
        Some(self)
    }
}
