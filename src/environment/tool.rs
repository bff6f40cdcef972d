//! Runs one of the machine's own tools outside a sandbox, bounded in time and output. Used for uv's version, the
//! search for interpreters and fetching uv with pip; never for anything that a script names.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt;

/// Bytes that are kept of each stream.
const OUTPUT_LIMIT: u64 = 256 * 1024;

/// What a tool left behind.
#[derive(Debug)]
pub struct ToolOutput {
    /// Whether it exited with 0.
    pub success: bool,
    /// Standard output, up to a bound.
    pub stdout: String,
    /// Standard error, up to a bound.
    pub stderr: String,
}

/// Why a tool gave no output.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// It could not be started or read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It took too long and was killed.
    #[error("no answer within {} s", .0.as_secs())]
    Slow(Duration),
}

/// Runs a tool with exactly this environment. It is killed when the time is over or the future dropped.
pub async fn run(
    program: &Path,
    args: &[&str],
    env: &BTreeMap<String, String>,
    limit: Duration,
) -> Result<ToolOutput, ToolError> {
    let mut child = tokio::process::Command::new(program)
        .args(args)
        .env_clear()
        .envs(env)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let work = async {
        let (stdout, stderr) = tokio::join!(read(out), read(err));
        let status = child.wait().await?;
        Ok(ToolOutput { success: status.success(), stdout: stdout?, stderr: stderr? })
    };
    tokio::time::timeout(limit, work).await.map_err(|_| ToolError::Slow(limit))?
}

async fn read<R: tokio::io::AsyncRead + Unpin>(stream: Option<R>) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        (&mut stream).take(OUTPUT_LIMIT).read_to_end(&mut bytes).await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
