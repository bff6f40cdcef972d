//! The engine's volumes, and the programs of the image, as they are offered to the room for environments.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::client::Client;
use super::plan::{LABEL_PLACE, PYTHON};
use super::{ANSWER, DockerSandbox, REMOVAL, failed};
use crate::sandbox::volumes::{Keep, Making, Programs, Volumes};
use crate::sandbox::{BoxFuture, StartError};

/// Volumes that go with the server, by name.
#[derive(Debug, Default)]
pub struct Passing(Mutex<BTreeSet<String>>);

impl Passing {
    fn open(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes those that are left. Their containers have ended.
    pub async fn close(&self, client: &Client) {
        let left = std::mem::take(&mut *self.open());
        if left.is_empty() {
            return;
        }
        let mut args = vec!["volume", "rm", "--force"];
        args.extend(left.iter().map(String::as_str));
        if let Err(error) = client.output(&args, REMOVAL).await {
            tracing::debug!(%error, "a volume stays until the next start");
        }
    }
}

impl Volumes for DockerSandbox {
    fn programs<'a>(&'a self, progress: Making<'a>) -> BoxFuture<'a, Result<Programs, StartError>> {
        Box::pin(async move {
            let usable = self.usable()?;
            let image = usable.ready.image(progress).await?;
            Ok(Programs {
                identity: format!("{}@{}", image.id, usable.engine.id),
                python: PYTHON.into(),
                uv: "/usr/local/bin/uv".into(),
                interpreters: [
                    "/usr/local/bin/python3.*",
                    "/opt/python/*/bin/python3.*",
                    "/usr/bin/python3.*",
                ]
                .map(str::to_owned)
                .into(),
            })
        })
    }

    fn create<'a>(&'a self, name: &'a str, keep: Keep) -> BoxFuture<'a, Result<(), StartError>> {
        Box::pin(async move {
            let usable = self.usable()?;
            if keep == Keep::UntilClosed {
                usable.passing.open().insert(name.to_owned());
            }
            let label = format!("{LABEL_PLACE}={}", usable.place.id);
            let made = usable.client.output(&["volume", "create", "--label", &label, name], ANSWER).await;
            made.map(drop).map_err(|error| failed("making a volume", error.to_string()))
        })
    }

    fn remove<'a>(&'a self, name: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let Ok(usable) = self.usable() else { return false };
            let removed = usable.client.output(&["volume", "rm", "--force", name], REMOVAL).await;
            if removed.is_ok() {
                usable.passing.open().remove(name);
            }
            removed.inspect_err(|error| tracing::debug!(%error, name, "a volume stays")).is_ok()
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<String>, StartError>> {
        Box::pin(async {
            let usable = self.usable()?;
            let filter = format!("label={LABEL_PLACE}={}", usable.place.id);
            let args = ["volume", "ls", "--quiet", "--filter", &filter];
            let list = usable
                .client
                .output(&args, ANSWER)
                .await
                .map_err(|error| failed("listing volumes", error.to_string()))?;
            Ok(list.lines().map(str::to_owned).collect())
        })
    }

    fn name(&self, purpose: &str) -> String {
        let place = self.usable().map(|usable| usable.place.id.as_str()).unwrap_or_default();
        format!("mcp-python-{place}-{purpose}")
    }
}
