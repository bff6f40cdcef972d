//! What the backend's sandboxes can start: asked once for each set of programs, by one sandbox, and remembered in the
//! data folder.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::super::data_dir::DataDir;
use super::super::failure::EnvironmentError;
use super::super::files::write_atomically;
use super::super::index::hex;
use super::super::interpreters::{Interpreter, QUESTION, interpreter_without_mounts};
use super::super::job::Runner;
use super::super::uv::{MINIMUM, Uv, UvVersion};
use crate::sandbox::spec::{Command, Limits, Network, Role, SandboxSpec, WORK_DIR};
use crate::sandbox::volumes::Programs;

/// Starts every interpreter and uv once and prints what they say of themselves.
const LOOK: &str = r#"
import glob, json, os, subprocess, sys
question, uv, patterns = sys.argv[1], sys.argv[2], sys.argv[3:]
def say(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
real = [os.path.realpath(path) for pattern in patterns for path in sorted(glob.glob(pattern))
        if os.path.basename(path).rpartition(".")[2].isdigit()]
found = {path: say(path, "-I", "-S", "-c", question) for path in dict.fromkeys(real)}
json.dump({"uv": say(uv, "--version", "--no-config"), "interpreters": found}, sys.stdout)
"#;

#[derive(Deserialize)]
struct Answer {
    uv: String,
    interpreters: BTreeMap<String, String>,
}

/// The programs that there are.
#[derive(Clone, Debug)]
pub struct Found {
    /// Interpreters, newest first.
    pub interpreters: Vec<Interpreter>,
    /// uv, where it can be used.
    pub uv: Option<Uv>,
}

/// The same, as it is kept on disk.
#[derive(Serialize, Deserialize)]
struct Kept {
    interpreters: Vec<Interpreter>,
    uv: Option<String>,
}

/// What is known already.
#[derive(Debug, Default)]
pub struct Known(Mutex<Option<(String, Arc<Found>)>>);

impl Known {
    /// What these programs are.
    pub async fn find(
        &self,
        runner: &Runner,
        data: &DataDir,
        programs: Programs,
    ) -> Result<Arc<Found>, EnvironmentError> {
        let mut known = self.0.lock().await;
        if let Some((identity, found)) = &*known
            && *identity == programs.identity
        {
            return Ok(Arc::clone(found));
        }
        let file = data.root().join(format!("programs-{}.json", short(&programs.identity)));
        let kept = match std::fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok()) {
            Some(kept) => kept,
            None => ask(runner, &programs).await?,
        };
        if let Err(error) = serde_json::to_vec(&kept)
            .map_err(std::io::Error::other)
            .and_then(|text| write_atomically(&file, &text))
        {
            tracing::debug!(%error, "the list of programs could not be kept");
        }
        let uv = kept.uv.as_deref().and_then(UvVersion::parse).filter(|version| *version >= MINIMUM);
        let uv = uv.map(|version| Uv { path: programs.uv.clone(), version, note: None });
        let found = Arc::new(Found { interpreters: kept.interpreters, uv });
        *known = Some((programs.identity, Arc::clone(&found)));
        Ok(found)
    }
}

async fn ask(runner: &Runner, programs: &Programs) -> Result<Kept, EnvironmentError> {
    let uv = programs.uv.to_string_lossy().into_owned();
    let mut args = ["-I", "-S", "-c", LOOK, QUESTION].map(str::to_owned).to_vec();
    args.push(uv);
    args.extend(programs.interpreters.iter().cloned());
    let spec = SandboxSpec {
        role: Role::Run,
        command: Command {
            program: programs.python.clone(),
            args,
            env: BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]),
            cwd: WORK_DIR.into(),
        },
        mounts: Vec::new(),
        files: Vec::new(),
        network: Network::None,
        named_servers: Vec::new(),
        limits: Limits::default(),
        channel: false,
    };
    let output = runner.run(spec).await?;
    let answer: Answer = serde_json::from_str(&output.stdout).map_err(|_| {
        let said = output.stderr.lines().last().unwrap_or("nothing").to_owned();
        EnvironmentError::NotReady(format!("the image's Python does not tell what there is: {said}"))
    })?;
    let fingerprint = short(&programs.identity);
    let mut interpreters: Vec<Interpreter> = answer
        .interpreters
        .values()
        .filter_map(|text| interpreter_without_mounts(text, &fingerprint).ok())
        .collect();
    if interpreters.is_empty() {
        let said = output.stderr.lines().last().unwrap_or("none of them answers").to_owned();
        return Err(EnvironmentError::NotReady(format!("the image has no Python that can be used: {said}")));
    }
    interpreters.sort_by_key(|interpreter| std::cmp::Reverse((!interpreter.prerelease, interpreter.numbers)));
    interpreters.dedup_by(|a, b| a.executable == b.executable);
    Ok(Kept { interpreters, uv: Some(answer.uv).filter(|text| !text.is_empty()) })
}

/// A name for files from an identity.
pub fn short(identity: &str) -> String {
    use sha2::{Digest, Sha256};
    hex(&Sha256::digest(Path::new(identity).as_os_str().as_encoded_bytes()))[..16].to_owned()
}
