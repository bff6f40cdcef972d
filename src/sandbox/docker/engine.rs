//! What the engine is, and exactly why one cannot be used.

use std::time::Duration;

use serde::Deserialize;

use super::ANSWER;
use super::client::{Client, ClientError};
use crate::sandbox::facts::Refusal;
use crate::seccomp::Arch;
use crate::seccomp::docker::Unknown;

/// An engine that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Its own name for itself; another one for each engine.
    pub id: String,
    /// Its version.
    pub version: String,
    /// The architecture of its containers.
    pub arch: Arch,
}

/// An image that the engine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its digest in hexadecimal digits, without the name of the method that some engines put before it.
    pub id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Info {
    #[serde(rename = "ID", default)]
    id: String,
    #[serde(rename = "OSType", default)]
    os: String,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    server_version: String,
    server_errors: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ImageInfo {
    id: String,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
}

impl Engine {
    /// Asks the engine that the user's own `docker` would talk to.
    pub async fn ask(client: &Client) -> Result<Self, Refusal> {
        let text = match client.output(&["info", "--format", "{{json .}}"], ANSWER).await {
            Ok(text) => text,
            Err(error) => return Err(silent(client, &error).await),
        };
        match Self::unreached(&text) {
            Some(said) => Err(silent(client, &ClientError::Refused(said)).await),
            None => Self::parse(&text),
        }
    }

    /// What an older client says where no engine answers: it does not fail, and describes itself alone.
    fn unreached(text: &str) -> Option<String> {
        let info: Info = serde_json::from_str(text).ok()?;
        info.server_errors?.into_iter().next().filter(|_| info.os.is_empty())
    }

    fn parse(text: &str) -> Result<Self, Refusal> {
        let strange = |what: &str| Refusal {
            reason: format!("the container engine answered something unexpected ({what})"),
            remedy: "Update Docker, and see what `docker info` says".to_owned(),
        };
        let info: Info = serde_json::from_str(text).map_err(|error| strange(&error.to_string()))?;
        if info.os != "linux" {
            return Err(Refusal {
                reason: format!("the container engine runs {} containers", info.os),
                remedy: "Switch it to Linux containers".to_owned(),
            });
        }
        let arch = arch(&info.architecture).ok_or_else(|| Refusal {
            reason: format!("the container engine runs on {}", info.architecture),
            remedy: "Use an engine on x86_64 or aarch64: there is no system-call policy for others"
                .to_owned(),
        })?;
        Ok(Self { id: info.id, version: info.server_version, arch })
    }

    /// How this engine has to be told that unknown system calls are unknown.
    pub fn unknown_calls(&self) -> Unknown {
        let major = self.version.split('.').next().and_then(|number| number.parse::<u32>().ok());
        if major.is_some_and(|major| major >= 23) { Unknown::ByDefault } else { Unknown::Named }
    }

    /// Looks for an image; `None` where the engine has none of this name.
    pub async fn image(&self, client: &Client, name: &str) -> Result<Option<Image>, Refusal> {
        let text = match client.output(&["image", "inspect", "--format", "{{json .}}", name], ANSWER).await {
            Ok(text) => text,
            Err(ClientError::Refused(_)) => return Ok(None),
            Err(error) => return Err(silent(client, &error).await),
        };
        self.read_image(name, &text).map(Some)
    }

    fn read_image(&self, name: &str, text: &str) -> Result<Image, Refusal> {
        let info: ImageInfo = serde_json::from_str(text.trim()).map_err(|error| Refusal {
            reason: format!("the engine's description of the image {name} cannot be read ({error})"),
            remedy: "Make it again with `image build`".to_owned(),
        })?;
        if arch(&info.architecture) != Some(self.arch) || info.os != "linux" {
            return Err(Refusal {
                reason: format!(
                    "the image {name} is for {} {}, and the engine runs on {}",
                    info.os, info.architecture, self.arch
                ),
                remedy: "Make one for this engine with `image build`, or name another with --docker-image"
                    .to_owned(),
            });
        }
        let id = info.id.strip_prefix("sha256:").unwrap_or(&info.id).to_owned();
        Ok(Image { id })
    }
}

fn arch(name: &str) -> Option<Arch> {
    match name {
        "x86_64" | "amd64" => Some(Arch::X86_64),
        "aarch64" | "arm64" => Some(Arch::Aarch64),
        _ => None,
    }
}

/// There is no client.
pub fn not_installed() -> Refusal {
    Refusal {
        reason: "Docker is not installed: there is no `docker` on PATH".to_owned(),
        remedy: "Install Docker, OrbStack, colima or another engine with the docker command".to_owned(),
    }
}

/// Why the engine does not answer: its socket tells more than the client's words.
async fn silent(client: &Client, error: &ClientError) -> Refusal {
    let refusal = |reason: String, remedy: &str| Refusal { reason, remedy: remedy.to_owned() };
    match error {
        ClientError::Start(error) => {
            return refusal(
                format!("the docker client could not be started ({error})"),
                "Install Docker anew",
            );
        }
        ClientError::Slow(limit) => {
            let reason = format!("the container engine gave no answer within {} seconds", limit.as_secs());
            return refusal(reason, "Restart the engine, and see what `docker info` says");
        }
        ClientError::Refused(_) => {}
    }
    let Some(endpoint) = endpoint(client).await else {
        return refusal(
            format!("the container engine does not answer ({error})"),
            "See what `docker info` says",
        );
    };
    let start = "Start it: Docker Desktop, `colima start`, or `sudo systemctl start docker`";
    match knock(&endpoint).await {
        Some(std::io::ErrorKind::PermissionDenied) => refusal(
            format!("this user has no permission for the container engine's socket {endpoint}"),
            "Add the user to the group that owns it and log in again, or use a rootless engine",
        ),
        Some(std::io::ErrorKind::NotFound) => {
            refusal(format!("the container engine is not running: there is no {endpoint}"), start)
        }
        Some(_) => {
            refusal(format!("the container engine is not running: nobody answers at {endpoint}"), start)
        }
        None => refusal(
            format!("the container engine at {endpoint} does not answer ({error})"),
            "See what `docker info` says",
        ),
    }
}

/// Where the client looks for the engine.
async fn endpoint(client: &Client) -> Option<String> {
    if let Ok(host) = std::env::var("DOCKER_HOST")
        && !host.is_empty()
    {
        return Some(host);
    }
    let format = "{{.Endpoints.docker.Host}}";
    let text =
        client.output(&["context", "inspect", "--format", format], Duration::from_secs(5)).await.ok()?;
    Some(text.trim().to_owned()).filter(|host| !host.is_empty())
}

/// What is wrong with a local socket; `None` where nothing is, or where it is not local.
#[cfg(unix)]
async fn knock(endpoint: &str) -> Option<std::io::ErrorKind> {
    let path = endpoint.strip_prefix("unix://")?;
    tokio::net::UnixStream::connect(path).await.err().map(|error| error.kind())
}

#[cfg(not(unix))]
async fn knock(_: &str) -> Option<std::io::ErrorKind> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        Engine::parse(text).expect_err("refused").reason
    }

    #[test]
    fn an_older_client_without_an_engine_is_understood() {
        let alone = r#"{"ID":"","OSType":"","ServerErrors":["Cannot connect to the Docker daemon"]}"#;
        assert_eq!(Engine::unreached(alone).as_deref(), Some("Cannot connect to the Docker daemon"));
        for other in [r#"{"ID":"A","OSType":"linux","ServerErrors":null}"#, r#"{"OSType":"windows"}"#, "?"] {
            assert_eq!(Engine::unreached(other), None, "{other}");
        }
    }

    #[test]
    fn the_engine_s_description_is_read() {
        let text =
            r#"{"ID":"A:B","OSType":"linux","Architecture":"aarch64","ServerVersion":"27.1","Extra":1}"#;
        let engine = Engine::parse(text).expect("read");
        assert_eq!(
            (engine.arch, engine.version.as_str(), engine.id.as_str()),
            (Arch::Aarch64, "27.1", "A:B")
        );
        assert!(refusal(r#"{"OSType":"windows"}"#).contains("windows containers"));
        assert!(refusal(r#"{"OSType":"linux","Architecture":"riscv64"}"#).contains("riscv64"));
        assert!(refusal("no JSON").contains("unexpected"));
    }

    #[test]
    fn an_image_is_the_same_however_an_engine_writes_its_number() {
        let engine = Engine { id: String::new(), version: String::new(), arch: Arch::X86_64 };
        let image = |id: &str| {
            let text = format!(r#"{{"Id":"{id}","Architecture":"amd64","Os":"linux","More":[]}}"#);
            engine.read_image("x", &text).expect("read")
        };
        // Docker writes the method before it, Podman does not.
        assert_eq!(image("sha256:0123abcd"), image("0123abcd"));
        assert_eq!(image("0123abcd").id, "0123abcd");
        let text = r#"{"Id":"0","Architecture":"arm64","Os":"linux"}"#;
        assert!(engine.read_image("x", text).expect_err("refused").reason.contains("is for linux arm64"));
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_socket_tells_why_nobody_answers() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("engine.sock");
        let endpoint = format!("unix://{}", path.display());
        assert_eq!(knock(&endpoint).await, Some(std::io::ErrorKind::NotFound));
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("bound");
        assert_eq!(knock(&endpoint).await, None);
        drop(listener);
        assert_eq!(knock(&endpoint).await, Some(std::io::ErrorKind::ConnectionRefused));
        assert_eq!(knock("tcp://192.0.2.1:2375").await, None);
    }
}
