//! The image that containers are made of: built by the user's engine from the Dockerfile in this program, or the one
//! that `--docker-image` names. No other image is ever pulled.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::client::{self, Client};

/// How the image is made. Nothing but this text goes to the engine: there is no build context.
pub const DOCKERFILE: &str = include_str!("../../../profiles/Dockerfile");

/// Downloads of some 100 MB over a slow line.
const BUILD: Duration = Duration::from_mins(20);

/// The image's name where the user named none: another one for every Dockerfile, so that a new release does not run
/// in an old image.
pub fn default_name() -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(DOCKERFILE.as_bytes());
    let short = digest.iter().take(5).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    format!("mcp-python-exec-sandbox:{short:010x}")
}

/// Where an image comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The Dockerfile, with these further versions of Python.
    Dockerfile {
        /// Versions such as `3.12`, beside the image's own.
        pythons: Vec<String>,
    },
    /// A registry, as the user named it.
    Registry,
}

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The client could not be started.
    #[error("the docker client could not be started: {0}")]
    Start(#[from] std::io::Error),
    /// It took too long.
    #[error("it was not finished within {} minutes", .0.as_secs() / 60)]
    Slow(Duration),
    /// The engine said no.
    #[error("{0}")]
    Refused(String),
}

/// Makes or pulls the image. Every line that the engine says goes to `progress`.
pub async fn make(
    client: &Client,
    name: &str,
    source: &Source,
    progress: &(dyn Fn(&str) + Send + Sync),
) -> Result<(), ImageError> {
    let pythons;
    let (args, input) = match source {
        Source::Dockerfile { pythons: versions } => {
            pythons = format!("PYTHONS={}", versions.join(" "));
            (vec!["build", "--tag", name, "--build-arg", &pythons, "-"], DOCKERFILE)
        }
        Source::Registry => (vec!["pull", name], ""),
    };
    tokio::time::timeout(BUILD, follow(client, &args, input, progress))
        .await
        .map_err(|_| ImageError::Slow(BUILD))?
}

async fn follow(
    client: &Client,
    args: &[&str],
    input: &str,
    progress: &(dyn Fn(&str) + Send + Sync),
) -> Result<(), ImageError> {
    let mut child = client.spawn(args)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A client that does not want it has its reason, which it tells.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (_, said) = tokio::join!(lines(stdout, progress), lines(stderr, progress));
    let status = child.wait().await?;
    if status.success() {
        return Ok(());
    }
    Err(ImageError::Refused(client::reason(&said).unwrap_or_else(|| format!("docker ended with {status}"))))
}

/// Passes lines on, and gives the last few together.
async fn lines(
    stream: Option<impl tokio::io::AsyncRead + Unpin>,
    progress: &(dyn Fn(&str) + Send + Sync),
) -> String {
    let mut last = std::collections::VecDeque::new();
    let Some(stream) = stream else { return String::new() };
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let line: String = line.chars().filter(|c| !c.is_control()).take(400).collect();
        if line.trim().is_empty() {
            continue;
        }
        progress(&line);
        last.push_back(line);
        if last.len() > 20 {
            last.pop_front();
        }
    }
    Vec::from(last).join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_follows_the_dockerfile_and_names_no_registry() {
        let name = default_name();
        assert!(name.starts_with("mcp-python-exec-sandbox:") && !name.contains('/'), "{name}");
        assert!(DOCKERFILE.contains("USER sandbox") && DOCKERFILE.contains("ARG PYTHONS"));
    }
}
