//! The network of containers that have one: a bridge of this program's own, on which containers cannot reach each other,
//! and where every link-local address leads nowhere: the addresses of clouds for metadata and credentials are the
//! container's own, and the rest of their range is on the bridge, where nobody has them.
//!
//! The bridge is made once and stays with the engine, as an image does. Where an engine has no such networks, containers
//! use its default one, and every report says so.

use tokio::sync::Mutex;

use super::client::{Client, ClientError};
use super::{ANSWER, REMOVAL};

/// The network's name.
pub const NAME: &str = "mcp-python-exec-sandbox";

/// Addresses of metadata services, which each container has itself: of most clouds, and of containers in one.
pub const CLOSED: [&str; 2] = ["169.254.169.254", "169.254.170.2"];

/// The network as the engine has it.
#[derive(Debug, Default)]
pub struct OwnNetwork(Mutex<Known>);

#[derive(Debug, Default)]
enum Known {
    #[default]
    NotAsked,
    There(String),
    NotToBeHad,
}

impl OwnNetwork {
    /// Its identifier, or `None` where the engine refuses one. It is made where it is missing. An engine that gives no
    /// answer is asked again for the next container.
    pub async fn id(&self, client: &Client) -> Result<Option<String>, ClientError> {
        let mut known = self.0.lock().await;
        if let Known::NotAsked = *known {
            *known = match find_or_make(client).await {
                Ok(id) => Known::There(id),
                Err(error @ ClientError::Refused(_)) => {
                    tracing::warn!("containers use the engine's default network: {error}");
                    Known::NotToBeHad
                }
                Err(error) => return Err(error),
            };
        }
        Ok(match &*known {
            Known::There(id) => Some(id.clone()),
            Known::NotAsked | Known::NotToBeHad => None,
        })
    }

    /// Whether the engine says that the network which a container was to have is not there any more. Then it is asked
    /// anew.
    pub async fn is_gone(&self, used: &str, reason: &str) -> bool {
        let gone = reason.contains(used) && reason.contains("not found");
        let mut known = self.0.lock().await;
        if gone && matches!(&*known, Known::There(id) if id == used) {
            *known = Known::NotAsked;
        }
        gone
    }
}

async fn find_or_make(client: &Client) -> Result<String, ClientError> {
    if let Some(id) = find(client).await? {
        return Ok(id);
    }
    let bridge =
        ["network", "create", "--driver", "bridge", "--opt", "com.docker.network.bridge.enable_icc=false"];
    let made = client.output(&[&bridge[..], &[NAME]].concat(), REMOVAL).await?;
    // Two servers may have made one each: all take the same.
    Ok(find(client).await?.unwrap_or_else(|| made.trim().to_owned()))
}

async fn find(client: &Client) -> Result<Option<String>, ClientError> {
    let filter = format!("name={NAME}");
    let args = ["network", "ls", "--no-trunc", "--filter", &filter, "--format", "{{.Name}} {{.ID}}"];
    Ok(first(&client.output(&args, ANSWER).await?))
}

/// The engine's filter takes every name that contains this one.
fn first(list: &str) -> Option<String> {
    let own = list.lines().filter_map(|line| line.split_once(' ')).filter(|(name, _)| *name == NAME);
    own.map(|(_, id)| id.trim().to_owned()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_takes_the_same_network() {
        let list = format!("{NAME}-other 0\n{NAME} 9f\n{NAME} 3a\nbridge 1\n");
        assert_eq!(first(&list).as_deref(), Some("3a"));
        assert_eq!(first("bridge 1\n"), None);
    }

    #[tokio::test]
    async fn it_is_asked_for_again_only_where_it_is_gone() {
        let network = OwnNetwork(Mutex::new(Known::There("3a".to_owned())));
        assert!(!network.is_gone("3a", "no space left").await);
        assert!(!network.is_gone("3a", "network 77 not found").await);
        assert!(network.is_gone("3a", "network 3a not found").await);
        // Another start has found the new one meanwhile; this one had the old.
        *network.0.lock().await = Known::There("4b".to_owned());
        assert!(network.is_gone("3a", "network 3a not found").await);
        assert!(matches!(&*network.0.lock().await, Known::There(id) if id == "4b"));
    }
}
