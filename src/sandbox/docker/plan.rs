//! The plan of a container: what the engine is asked for, in full, as data.
//!
//! Pure. It is what `run --explain` prints and what snapshots compare; nothing is decided after it. It knows the words
//! of a container engine's command line and nothing of how it is started.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde::Serialize;

use super::host_files::{self, HostFiles};
use super::network;
use crate::sandbox::StartError;
use crate::sandbox::spec::{
    Access, HOME_DIR, InlineFile, Limits, Mount, MountSource, Network, Role, SandboxSpec, USER_ID, WORK_DIR,
};

/// Processor time of work in the background, where an ordinary container has 1024: as little as `nice` 19 gives.
const BACKGROUND_SHARES: &str = "15";

/// The interpreter in the image that runs the container's first process.
pub const PYTHON: &str = "/usr/local/bin/python3";

/// The container's first process. It travels with each container, so image and program cannot disagree.
const INIT: &str = concat!(include_str!("confine.py"), "\n", include_str!("init.py"));

/// Labels by which containers and volumes of this program are found again.
pub const LABEL_PLACE: &str = "mcp-python-exec-sandbox.place";
/// Which server a container belongs to.
pub const LABEL_SERVER: &str = "mcp-python-exec-sandbox.server";

/// Host name inside every container.
const HOST_NAME: &str = "sandbox";

/// Writable folders in memory, with their permission bits and owner.
const SCRATCH: [(&str, &str); 4] = [
    (WORK_DIR, "mode=0755,uid=1000,gid=1000"),
    (HOME_DIR, "mode=0755,uid=1000,gid=1000"),
    ("/tmp", "mode=1777"),
    ("/var/tmp", "mode=1777"),
];

/// Processes of the container's own that count against the limit: its first one.
const OWN_PROCESSES: u64 = 1;

/// The engine's client fills these from the user's configuration, passwords included, unless they are given.
const PROXIES: [&str; 5] = ["HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY"];

/// Everything that one container is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DockerPlan {
    /// The image, by name.
    pub image: String,
    /// Which system-call policy it gets.
    pub role: Role,
    /// User and group inside.
    pub user: String,
    /// Reach of the network: a bridge on which containers do not see each other, or none.
    pub network: Network,
    /// Limits. All writable folders are in memory, each at most as large as the disk limit, and count as memory too.
    pub limits: Limits,
    /// Writable folders in memory: path and options.
    pub scratch: BTreeMap<String, String>,
    /// Volumes. No folder of the host is visible.
    pub volumes: Vec<Volume>,
    /// What is started inside, once the first process has seen that all of this holds.
    pub program: Program,
}

/// A volume of the engine and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// Absolute path inside.
    pub target: PathBuf,
    /// Whether the container may change it.
    pub access: Access,
}

/// What the first process starts. It is told on its standard input, so that no part of it, secrets included, stands
/// in the engine's records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Program {
    /// Absolute path inside.
    pub path: PathBuf,
    /// Arguments after the program's name.
    pub args: Vec<String>,
    /// The whole environment.
    #[serde(serialize_with = "names_only")]
    pub env: BTreeMap<String, String>,
    /// Working folder.
    pub folder: PathBuf,
    /// Files that are written first, by absolute path.
    pub files: Vec<InlineFile>,
    /// Folders that it may write.
    pub writable: Vec<PathBuf>,
    /// Folders of which changed files are copied back to the host at its end.
    pub returned: Vec<PathBuf>,
    /// Whether it gets a private channel on descriptor 3.
    pub channel: bool,
    /// The script that it waits for, where that comes later.
    pub waits_for: Option<PathBuf>,
}

fn names_only<S: serde::Serializer>(env: &BTreeMap<String, String>, out: S) -> Result<S::Ok, S::Error> {
    out.collect_seq(env.keys())
}

/// Which container it is: everything that differs from one start to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Name of the container.
    pub name: String,
    /// Whose it is.
    pub place: String,
    /// Which server started it.
    pub server: String,
    /// File with the system-call policy.
    pub profile: PathBuf,
    /// The network of containers that have one; `None` is the engine's default.
    pub network: Option<String>,
}

/// The plan for a specification.
pub fn lower(spec: &SandboxSpec, image: &str, host: &HostFiles) -> Result<DockerPlan, StartError> {
    if spec.network == Network::Outbound {
        let reason = "containers use the engine's network or none: no server connects for them";
        return Err(StartError::Unsupported(reason.to_owned()));
    }
    let command = &spec.command;
    let (mut args, mut env) = (command.args.clone(), command.env.clone());
    host.redirect_args(&mut args);
    host.redirect_env(&mut env);
    let mut files = spec.files.iter().map(placed).collect::<Result<Vec<_>, _>>()?;
    files.extend(host.contents());
    let volumes = volumes(spec);
    let returned: Vec<PathBuf> = written(host).collect();
    let own = SCRATCH.iter().map(|(path, _)| PathBuf::from(path));
    let written = volumes.iter().filter(|volume| volume.access == Access::ReadWrite);
    let written = written.map(|volume| volume.target.clone());
    let program = Program {
        path: command.program.clone(),
        args,
        env,
        folder: command.cwd.clone(),
        files,
        writable: own.chain(written).chain(returned.iter().cloned()).collect(),
        returned,
        channel: spec.channel,
        waits_for: None,
    };
    Ok(DockerPlan {
        image: image.to_owned(),
        role: spec.role,
        user: format!("{USER_ID}:{USER_ID}"),
        network: spec.network,
        limits: spec.limits,
        scratch: scratch(spec.limits.disk, host),
        volumes,
        program,
    })
}

fn written(host: &HostFiles) -> impl Iterator<Item = PathBuf> + '_ {
    host.folders.iter().filter(|folder| folder.access == Access::ReadWrite).map(|folder| folder.path.clone())
}

/// Writable folders in memory, and those in which copies of the host's files lie.
fn scratch(size: u64, host: &HostFiles) -> BTreeMap<String, String> {
    let options = |rest: &str| format!("rw,exec,nosuid,nodev,size={size},{rest}");
    let mut scratch: BTreeMap<String, String> =
        SCRATCH.iter().map(|(path, rest)| ((*path).to_owned(), options(rest))).collect();
    let copies = host.folders.iter().map(|folder| folder.path.clone());
    let single = host.files.iter().any(|file| file.content.is_some());
    for path in copies.chain(single.then(|| host_files::FOLDER.into())) {
        scratch.insert(path.to_string_lossy().into_owned(), options("mode=0755,uid=1000,gid=1000"));
    }
    scratch
}

fn placed(file: &InlineFile) -> Result<InlineFile, StartError> {
    let plain = file.path.components().all(|part| matches!(part, Component::Normal(_)));
    if !plain || file.path.as_os_str().is_empty() {
        let path = file.path.display();
        return Err(StartError::Unsupported(format!("{path} is no plain path below the work directory")));
    }
    Ok(InlineFile { path: Path::new(WORK_DIR).join(&file.path), content: file.content.clone() })
}

fn volumes(spec: &SandboxSpec) -> Vec<Volume> {
    let volume = |mount: &Mount| match &mount.source {
        MountSource::Volume(name) => {
            Some(Volume { name: name.clone(), target: mount.target.clone(), access: mount.access })
        }
        MountSource::Host(_) => None,
    };
    let mut volumes: Vec<Volume> = spec.mounts.iter().filter_map(volume).collect();
    volumes.sort_by(|a, b| a.target.cmp(&b.target));
    volumes
}

/// What `run --explain` prints.
#[derive(Serialize)]
struct Explained<'a> {
    plan: &'a DockerPlan,
    command: Vec<String>,
}

impl DockerPlan {
    /// The plan, and the command line that it becomes, as JSON.
    pub fn explain(&self, identity: &Identity) -> Result<String, serde_json::Error> {
        let mut command = vec!["docker".to_owned()];
        command.extend(self.arguments(identity));
        serde_json::to_string_pretty(&Explained { plan: self, command })
    }

    /// The arguments of the engine's client.
    pub fn arguments(&self, identity: &Identity) -> Vec<String> {
        let Limits { memory, processes, open_files, disk, cpu_percent, niceness } = self.limits;
        let mut args = Arguments(Vec::new());
        args.flags(&["run", "--rm", "--interactive", "--sig-proxy=false"]);
        args.option("--pull", "never");
        args.option("--name", &identity.name);
        args.option("--label", format!("{LABEL_PLACE}={}", identity.place));
        args.option("--label", format!("{LABEL_SERVER}={}", identity.server));
        args.option("--log-driver", "none");
        if niceness > 0 {
            args.option("--cpu-shares", BACKGROUND_SHARES);
        }
        args.option("--hostname", HOST_NAME);
        args.option("--user", &self.user);
        args.flags(&["--read-only"]);
        args.option("--cap-drop", "ALL");
        args.option("--security-opt", "no-new-privileges");
        args.option("--security-opt", format!("seccomp={}", identity.profile.display()));
        args.network(self.network, identity.network.as_deref());
        args.option("--ipc", "private");
        args.option("--memory", memory.to_string());
        // The same again: no swap beside it.
        args.option("--memory-swap", memory.to_string());
        args.option("--pids-limit", (processes + OWN_PROCESSES).to_string());
        if let Some(percent) = cpu_percent {
            args.option("--cpus", format!("{}.{:02}", percent / 100, percent % 100));
        }
        args.option("--ulimit", format!("nofile={open_files}:{open_files}"));
        args.option("--ulimit", "core=0:0");
        args.option("--shm-size", disk.to_string());
        for (path, options) in &self.scratch {
            args.option("--tmpfs", format!("{path}:{options}"));
        }
        for Volume { name, target, access } in &self.volumes {
            let read_only = if *access == Access::ReadOnly { ",readonly" } else { "" };
            args.option("--mount", format!("type=volume,src={name},dst={}{read_only}", target.display()));
        }
        for name in PROXIES {
            args.option("--env", format!("{name}="));
            args.option("--env", format!("{}=", name.to_ascii_lowercase()));
        }
        args.option("--workdir", WORK_DIR);
        args.option("--entrypoint", PYTHON);
        args.0.push(self.image.clone());
        args.flags(&["-I", "-S", "-c", INIT]);
        args.0
    }
}

struct Arguments(Vec<String>);

impl Arguments {
    fn flags(&mut self, flags: &[&str]) {
        self.0.extend(flags.iter().map(|flag| (*flag).to_owned()));
    }

    fn network(&mut self, asked: Network, own: Option<&str>) {
        match (asked, own) {
            (Network::None, _) => self.option("--network", "none"),
            (Network::Host | Network::Outbound, None) => {}
            (Network::Host | Network::Outbound, Some(own)) => {
                self.option("--network", own);
                for address in network::CLOSED {
                    self.option("--link-local-ip", address);
                }
            }
        }
    }

    fn option(&mut self, name: &str, value: impl Into<String>) {
        self.0.extend([name.to_owned(), value.into()]);
    }
}
