//! Which backend serves: chosen once, at start. An explicit choice never becomes another, and a run never steps down.
//! Where nobody chose and this system's own means give no sandbox, a container engine that answers takes their place, and
//! that is said; no isolation at all is never taken for anybody.

use std::sync::Arc;

use super::Sandbox;
use super::docker::{DockerOptions, DockerSandbox, MissingImage};
use super::facts::{Backend, Tier};
#[cfg(not(native))]
use super::facts::{Facts, Refusal};
use super::spec::Network;
#[cfg(not(native))]
use super::{BoxFuture, Running, SandboxSpec, StartError};
use crate::seccomp::folder::OwnPolicy;

/// Why this program does not start.
#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    /// The sandbox promises less than was required.
    #[error(
        "--require-sandbox {required} cannot be met: the {backend} backend gives {offered} here. {remedy}"
    )]
    TooLittle {
        /// The tier that was required.
        required: Tier,
        /// The backend that was chosen.
        backend: Backend,
        /// The tier it gives, or why it gives none.
        offered: String,
        /// What to do.
        remedy: String,
    },
    /// A policy for a backend that filters nothing.
    #[error("--seccomp-policy does nothing with --sandbox-backend none; leave one of the two out")]
    PolicyUnused,
    /// The server cannot connect for scripts here.
    #[error("--network outbound cannot be had: {reason}. Choose --network host or --network none")]
    Outbound {
        /// Why not.
        reason: String,
    },
}

/// Who made a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Nobody: it is what holds where nothing is said.
    Default,
    /// The user.
    User,
}

/// The network of scripts: what the user asked for, or what is best here. A choice never becomes another.
pub fn network(sandbox: &dyn Sandbox, asked: Network, choice: Choice) -> Result<Network, SelectError> {
    let usable = sandbox.facts().tier.is_ok();
    match (asked, sandbox.outbound(), choice) {
        (Network::Outbound, Err(reason), Choice::User) if usable => Err(SelectError::Outbound { reason }),
        (Network::Outbound, Err(reason), Choice::Default) if usable => {
            tracing::info!("scripts share this machine's network: {reason}");
            Ok(Network::Host)
        }
        _ => Ok(asked),
    }
}

/// What was asked of the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The backend.
    pub backend: Backend,
    /// Who chose it.
    pub choice: Choice,
    /// The lowest tier that is accepted.
    pub required: Option<Tier>,
}

/// Looks for what the backend can do here, and compares it with what is required. The user's own system-call policy
/// stands in place of the embedded one, where there is one.
pub async fn select(
    asked: Asked,
    docker: &DockerOptions,
    policy: Option<Arc<OwnPolicy>>,
) -> Result<Arc<dyn Sandbox>, SelectError> {
    if policy.is_some() && asked.backend == Backend::None {
        return Err(SelectError::PolicyUnused);
    }
    // What is promised at start must hold at start.
    let missing = if asked.required.is_some() { MissingImage::Refuse } else { MissingImage::Make };
    let mut sandbox = build(asked.backend, docker, missing, policy.clone()).await;
    let unusable = sandbox.facts().tier.is_err();
    if asked.backend == Backend::Native && asked.choice == Choice::Default && unusable {
        let containers = DockerSandbox::probe_with(docker, missing, policy.as_deref()).await;
        if containers.facts().tier.is_ok() {
            sandbox = Arc::new(containers.in_place_of(sandbox.as_ref()));
        }
    }
    let facts = sandbox.facts();
    let Some(required) = asked.required else {
        tell(sandbox.as_ref());
        return Ok(sandbox);
    };
    let (offered, remedy) = match &facts.tier {
        Ok(tier) if *tier >= required => return Ok(sandbox),
        Ok(tier) => match sandbox.shortfall() {
            Some(better) => (format!("{tier} ({})", better.reason), better.remedy.clone()),
            None => (tier.to_string(), "Require less, or choose another --sandbox-backend".to_owned()),
        },
        Err(refusal) => (format!("nothing ({})", refusal.reason), refusal.remedy.clone()),
    };
    Err(SelectError::TooLittle { required, backend: facts.backend, offered, remedy })
}

/// What the log says at start where the promise is not the full one.
fn tell(sandbox: &dyn Sandbox) {
    match &sandbox.facts().tier {
        Ok(Tier::None) => tracing::warn!("scripts run on this machine without any isolation"),
        Ok(tier) => {
            if let Some(better) = sandbox.shortfall() {
                tracing::warn!("the sandbox is {tier}: {}. {}", better.reason, better.remedy);
            }
        }
        Err(refusal) => tracing::warn!("no script can be run: {}. {}", refusal.reason, refusal.remedy),
    }
}

async fn build(
    backend: Backend,
    docker: &DockerOptions,
    missing: MissingImage,
    policy: Option<Arc<OwnPolicy>>,
) -> Arc<dyn Sandbox> {
    match backend {
        Backend::Docker => Arc::new(DockerSandbox::probe_with(docker, missing, policy.as_deref()).await),
        #[cfg(native)]
        Backend::Native => Arc::new(super::linux::LinuxSandbox::probe_with(policy).await),
        #[cfg(native)]
        Backend::None => Arc::new(super::none::Unconfined::new()),
        #[cfg(not(native))]
        Backend::Native | Backend::None => Arc::new(Missing::new(backend)),
    }
}

/// A backend that is not part of this build, and says so.
#[cfg(not(native))]
struct Missing {
    facts: Facts,
}

#[cfg(not(native))]
impl Missing {
    fn new(backend: Backend) -> Self {
        let refusal = Refusal {
            reason: format!("the {backend} backend is not part of this build"),
            remedy: "Use --sandbox-backend docker, or a build for Linux with the `native` feature".to_owned(),
        };
        Self { facts: Facts { backend, tier: Err(refusal), layers: Vec::new() } }
    }

    fn error(&self) -> StartError {
        let Refusal { reason, remedy } = self.facts.tier.clone().expect_err("built with a refusal");
        StartError::Unavailable { reason, remedy }
    }
}

#[cfg(not(native))]
impl Sandbox for Missing {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn explain(&self, _spec: &SandboxSpec) -> Result<String, StartError> {
        Err(self.error())
    }

    fn start<'a>(&'a self, _spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Running, StartError>> {
        Box::pin(std::future::ready(Err(self.error())))
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::Facts;
    use super::super::{BoxFuture, Running, SandboxSpec, StartError};
    use super::*;

    #[tokio::test]
    async fn a_network_that_was_asked_for_is_never_replaced() {
        let sandbox = Unbrokered(Facts { backend: Backend::None, tier: Ok(Tier::None), layers: Vec::new() });
        let choose = |asked, choice| network(&sandbox, asked, choice).map_err(|error| error.to_string());
        assert_eq!(choose(Network::Outbound, Choice::Default), Ok(Network::Host));
        assert_eq!(choose(Network::None, Choice::User), Ok(Network::None));
        assert_eq!(choose(Network::Host, Choice::User), Ok(Network::Host));
        let error = choose(Network::Outbound, Choice::User).expect_err("it cannot be had");
        assert_eq!(
            error,
            "--network outbound cannot be had: the none backend does not connect for scripts. Choose --network host \
             or --network none"
        );
    }

    /// A backend that says what it says where nothing else is implemented.
    struct Unbrokered(Facts);

    impl Sandbox for Unbrokered {
        fn facts(&self) -> &Facts {
            &self.0
        }

        fn explain(&self, _spec: &SandboxSpec) -> Result<String, StartError> {
            Ok(String::new())
        }

        fn start<'a>(&'a self, _spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Running, StartError>> {
            Box::pin(std::future::ready(Err(StartError::Unsupported(String::new()))))
        }
    }

    #[tokio::test]
    async fn a_backend_that_cannot_be_used_is_never_replaced() {
        let docker = DockerOptions { image: Some("no-such-image-anywhere:0".to_owned()), folder: None };
        let asked = Asked { backend: Backend::Docker, choice: Choice::User, required: Some(Tier::Docker) };
        let error = select(asked, &docker, None).await.err().expect("it cannot be met");
        assert!(error.to_string().contains("--require-sandbox docker cannot be met"), "{error}");
    }
}
