//! Which backend serves: chosen once, at start. An explicit choice never becomes another, and a run never steps down.

use std::sync::Arc;

use super::facts::{Backend, Facts, Refusal, Tier};
use super::{BoxFuture, Running, Sandbox, SandboxSpec, StartError};

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
}

/// Looks for what the backend can do here, and compares it with what is required.
pub async fn select(backend: Backend, required: Option<Tier>) -> Result<Arc<dyn Sandbox>, SelectError> {
    #[cfg(native)]
    let sandbox = build(backend).await;
    #[cfg(not(native))]
    let sandbox = build(backend);
    let facts = sandbox.facts();
    let Some(required) = required else {
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

#[cfg(native)]
async fn build(backend: Backend) -> Arc<dyn Sandbox> {
    match backend {
        Backend::Native => Arc::new(super::linux::LinuxSandbox::probe().await),
        Backend::Docker => Arc::new(Missing::docker()),
        Backend::None => Arc::new(super::none::Unconfined::new()),
    }
}

#[cfg(not(native))]
fn build(backend: Backend) -> Arc<dyn Sandbox> {
    Arc::new(match backend {
        Backend::Docker => Missing::docker(),
        Backend::Native | Backend::None => Missing {
            facts: Facts {
                backend,
                tier: Err(Refusal {
                    reason: format!("the {backend} backend is not part of this build"),
                    remedy: "Use a build for Linux with the `native` feature".to_owned(),
                }),
                layers: Vec::new(),
            },
        },
    })
}

/// A backend that cannot be used, and says why.
struct Missing {
    facts: Facts,
}

impl Missing {
    fn docker() -> Self {
        let refusal = Refusal {
            reason: "the docker backend is not part of this build".to_owned(),
            remedy: "Use --sandbox-backend native on Linux".to_owned(),
        };
        Self { facts: Facts { backend: Backend::Docker, tier: Err(refusal), layers: Vec::new() } }
    }

    fn error(&self) -> StartError {
        let Refusal { reason, remedy } = self.facts.tier.clone().expect_err("built with a refusal");
        StartError::Unavailable { reason, remedy }
    }
}

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
    use super::*;

    #[tokio::test]
    async fn a_backend_that_is_missing_is_never_replaced() {
        let sandbox = select(Backend::Docker, None).await.expect("the server starts and says why");
        assert_eq!(sandbox.facts().backend, Backend::Docker);
        assert!(sandbox.facts().tier.is_err());
        let error = select(Backend::Docker, Some(Tier::Docker)).await.err().expect("it cannot be met");
        assert!(error.to_string().contains("--require-sandbox docker cannot be met"), "{error}");
    }
}
