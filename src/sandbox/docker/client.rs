//! The engine's own client, `docker`, as a program.
//!
//! The client rather than a crate that speaks the engine's protocol: contexts, `DOCKER_HOST` with ssh and TLS, Docker
//! Desktop, colima, `OrbStack` and rootless engines work exactly as in the user's own shell, an error is the one that the
//! user finds when trying by hand, and some forty crates stay out. It costs a process of some 20 ms beside the 300 that
//! the engine takes for a container.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// Bytes kept of what the client prints.
const OUTPUT_LIMIT: u64 = 1 << 20;

/// Folders that a program started from a desktop does not have on its PATH.
const USUAL: [&str; 5] = [
    "/usr/local/bin",
    "/usr/bin",
    "/opt/homebrew/bin",
    "/snap/bin",
    "/Applications/Docker.app/Contents/Resources/bin",
];
/// The same, below the home folder.
const USUAL_AT_HOME: [&str; 3] = [".docker/bin", ".orbstack/bin", ".rd/bin"];

/// The engine's client.
#[derive(Clone, Debug)]
pub struct Client {
    program: PathBuf,
}

/// Why the client gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// It could not be started or read.
    #[error("the docker client could not be started: {0}")]
    Start(#[from] std::io::Error),
    /// It took too long and was ended.
    #[error("the engine gave no answer within {} s", .0.as_secs())]
    Slow(Duration),
    /// It said no.
    #[error("{0}")]
    Refused(String),
}

impl Client {
    /// Looks for the client on PATH and in the folders where installers put it.
    pub fn find() -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let at_home = home.iter().flat_map(|home| USUAL_AT_HOME.iter().map(move |folder| home.join(folder)));
        let name = format!("docker{}", std::env::consts::EXE_SUFFIX);
        std::env::split_paths(&path)
            .chain(USUAL.iter().map(PathBuf::from))
            .chain(at_home)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(&name))
            .find(|file| file.is_file())
            .map(|program| Self { program })
    }

    /// A client at a known place, for tests.
    pub fn at(program: impl AsRef<Path>) -> Self {
        Self { program: program.as_ref().to_owned() }
    }

    /// Runs one command to its end. It is ended when the time is over or the future dropped.
    pub async fn output(&self, args: &[&str], limit: Duration) -> Result<String, ClientError> {
        self.feed(args, &[], limit).await
    }

    /// The same with something on standard input.
    pub async fn feed(&self, args: &[&str], input: &[u8], limit: Duration) -> Result<String, ClientError> {
        let mut child = self.spawn(args)?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let write = async {
            if let Some(mut stdin) = stdin {
                // A client that does not want it has its reason, which it tells.
                let _ = stdin.write_all(input).await;
            }
        };
        let work = async {
            let ((), stdout, stderr) = tokio::join!(write, read(stdout), read(stderr));
            child.wait().await.map(|status| (status, stdout, stderr))
        };
        let (status, stdout, stderr) =
            tokio::time::timeout(limit, work).await.map_err(|_| ClientError::Slow(limit))??;
        if status.success() {
            return Ok(stdout);
        }
        Err(ClientError::Refused(reason(&stderr).unwrap_or_else(|| format!("docker ended with {status}"))))
    }

    /// Starts the client with all three streams piped. A signal from the terminal does not reach it: what it started
    /// is ended in order.
    pub fn spawn(&self, args: &[impl AsRef<str>]) -> std::io::Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(args.iter().map(AsRef::as_ref));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        command.spawn()
    }
}

async fn read(stream: Option<impl tokio::io::AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        let _ = (&mut stream).take(OUTPUT_LIMIT).read_to_end(&mut bytes).await;
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The client's last words, without its own name in front and without the hint at its help.
pub fn reason(stderr: &str) -> Option<String> {
    let lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let telling = lines.filter(|line| !line.starts_with("See 'docker") && !line.starts_with("Run 'docker"));
    let last = telling.rev().find(|line| !line.starts_with("WARNING:"))?;
    let last = last.strip_prefix("docker: ").unwrap_or(last);
    let last = last.strip_prefix("Error response from daemon: ").unwrap_or(last);
    Some(last.trim_end_matches('.').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_last_line_that_tells_something() {
        let stderr = "WARNING: no swap limit\ndocker: Error response from daemon: No such image: x:latest.\n\
                      See 'docker run --help'.\n";
        assert_eq!(reason(stderr).as_deref(), Some("No such image: x:latest"));
        assert_eq!(reason("WARNING: no swap limit\n"), None);
    }
}
