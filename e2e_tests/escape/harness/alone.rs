//! One layer without the others: a plan of the full tier from which all other layers are taken, carried out by the
//! real launcher. So no layer is green on a neighbour's work.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};

use mcp_python_exec_sandbox::launcher::{self, status};
use mcp_python_exec_sandbox::sandbox::linux::host::HostLayout;
use mcp_python_exec_sandbox::sandbox::linux::lower;
use mcp_python_exec_sandbox::sandbox::linux::plan::{
    Exec, FileRules, Groundwork, Identity, LandlockPlan, LaunchPlan, PortRule, ProcSource, Program, Scopes,
    Supervision,
};
use mcp_python_exec_sandbox::sandbox::spec::{
    Command, InlineFile, Limits, Network, Role, SandboxSpec, WORK_DIR,
};

use super::ground::{Ground, Options, python};

/// A layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Namespaces and a root of its own.
    Namespaces,
    /// Access by path.
    Landlock,
    /// The system-call filter.
    Seccomp,
}

impl Layer {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Namespaces, Self::Landlock, Self::Seccomp];

    /// For reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces alone",
            Self::Landlock => "Landlock alone",
            Self::Seccomp => "seccomp alone",
        }
    }
}

/// The plan of the full tier for a script, run by the machine's own Python.
pub fn plan(ground: &Ground, script: &str) -> Result<(SandboxSpec, LaunchPlan), String> {
    let spec = SandboxSpec {
        role: Role::Run,
        command: Command {
            program: python(),
            args: vec!["-I".to_owned(), format!("{WORK_DIR}/script.py")],
            env: [("HOME".to_owned(), "/home/sandbox".to_owned())].into(),
            cwd: WORK_DIR.into(),
        },
        mounts: Vec::new(),
        files: vec![InlineFile { path: "script.py".into(), content: script.as_bytes().into() }],
        network: Network::None,
        named_servers: Vec::new(),
        limits: Limits::default(),
        channel: false,
    };
    let identity = if ground.user.is_root { Identity::Unused(0x7fff_0000) } else { Identity::OwnUser };
    let plan = lower::full(&spec, &HostLayout::gather(), identity, ProcSource::Fresh)
        .map_err(|error| error.to_string())?;
    Ok((spec, plan))
}

/// Runs a script behind one layer.
pub fn run(ground: &Ground, layer: Layer, script: &str) -> Result<Output, String> {
    let (spec, mut plan) = plan(ground, script)?;
    if layer == Layer::Namespaces {
        plan.landlock = None;
        plan.seccomp = None;
        return carry_out(ground, &spec, &plan);
    }
    // Without a root of its own the script lies in the property's folder.
    let script = ground.file(&format!("alone-{}.py", super::ground::unique()), script)?;
    let folder = ground.folder.path().to_owned();
    plan.isolation = None;
    plan.supervision = Supervision::Subreaper;
    plan.contents = Vec::new();
    plan.limits.processes = None;
    plan.program = Program::Execute(Exec {
        program: python(),
        args: vec!["-I".to_owned(), script.display().to_string()],
        env: spec.command.env.clone(),
        cwd: folder.clone(),
        channel: false,
    });
    match layer {
        Layer::Landlock => {
            plan.seccomp = None;
            plan.landlock = Some(landlock(&folder));
        }
        _ => plan.landlock = None,
    }
    carry_out(ground, &SandboxSpec { files: Vec::new(), ..spec }, &plan)
}

/// What the full tier's rules come to where the root is the machine's own.
fn landlock(folder: &Path) -> LandlockPlan {
    let system = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc"];
    let devices =
        ["/dev/ptmx", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/pts"];
    let there = |paths: &[&str]| paths.iter().map(PathBuf::from).filter(|path| path.exists()).collect();
    let mut read_write: Vec<PathBuf> = there(&devices);
    read_write.push(folder.to_owned());
    let files = FileRules {
        list: vec!["/".into()],
        read_execute: there(&system),
        read_write,
        ..FileRules::default()
    };
    LandlockPlan { files: Some(files), ports: PortRule::Untouched, scopes: Scopes::All, minimum_abi: 0 }
}

/// Starts the real launcher with a plan and waits for its end.
pub fn carry_out(ground: &Ground, spec: &SandboxSpec, plan: &LaunchPlan) -> Result<Output, String> {
    let words = |error: std::io::Error| error.to_string();
    let (asking, asked) = UnixStream::pair().map_err(words)?;
    let mut command = ground.command(&ground.binary, &Options::default());
    command.arg(launcher::NURSERY).env_clear();
    command.stdin(OwnedFd::from(asked)).stdout(Stdio::null()).stderr(Stdio::null());
    let mut nursery = command.spawn().map_err(words)?;
    drop(command);
    let (mut ours, theirs) = UnixStream::pair().map_err(words)?;
    let (mut stdout, stdout_end) = std::io::pipe().map_err(words)?;
    let (mut stderr, stderr_end) = std::io::pipe().map_err(words)?;
    ask(&asking, &[theirs.into(), stdout_end.into(), stderr_end.into()]).map_err(words)?;
    let groundwork = Groundwork::least(plan);
    let sent = ours
        .write_all(&status::frame(&groundwork))
        .and_then(|()| ours.write_all(&status::frame(plan)))
        .and_then(|()| spec.files.iter().try_for_each(|file| ours.write_all(&file.content)));
    let failed = hear(&mut ours);
    drop((ours, asking));
    // Both end with the run, and are shorter than a pipe holds.
    let mut output = Output { status: ExitStatus::default(), stdout: Vec::new(), stderr: Vec::new() };
    stdout.read_to_end(&mut output.stdout).map_err(words)?;
    stderr.read_to_end(&mut output.stderr).map_err(words)?;
    output.status = nursery.wait().map_err(words)?;
    match (failed, sent) {
        (Some(failed), _) => Err(failed),
        (None, Err(error)) => Err(error.to_string()),
        (None, Ok(())) => Ok(output),
    }
}

/// Has the nursery fork a launcher with these descriptors.
fn ask(nursery: &UnixStream, descriptors: &[OwnedFd; 3]) -> std::io::Result<()> {
    launcher::sys::rights::send(nursery, &[0], &descriptors.each_ref().map(AsFd::as_fd))?;
    Ok(())
}

/// Reads messages to their end; the failure, where one was told.
fn hear(socket: &mut UnixStream) -> Option<String> {
    loop {
        let mut length = [0; 4];
        socket.read_exact(&mut length).ok()?;
        let mut body = vec![0; u32::from_le_bytes(length) as usize];
        socket.read_exact(&mut body).ok()?;
        match serde_json::from_slice(&body).ok()? {
            status::Message::Failed(failure) => {
                return Some(format!("{}: {}", failure.stage, failure.detail));
            }
            status::Message::Exited { .. } => return None,
            _ => {}
        }
    }
}
