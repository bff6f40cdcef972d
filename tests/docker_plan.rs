//! Plans of containers: the surface that a reviewer signs, as snapshots, and what must hold of every plan.
//!
//! A snapshot that differs fails; `UPDATE_SNAPSHOTS=1 cargo test --test docker_plan` writes it anew, for the reviewer
//! to look at.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mcp_python_exec_sandbox::sandbox::StartError;
use mcp_python_exec_sandbox::sandbox::docker::host_files::HostFiles;
use mcp_python_exec_sandbox::sandbox::docker::plan::{DockerPlan, Identity, lower};
use mcp_python_exec_sandbox::sandbox::spec::{
    Access, Command, InlineFile, Limits, Mount, MountSource, Network, Role, SandboxSpec,
};

fn run_spec() -> SandboxSpec {
    SandboxSpec {
        role: Role::Run,
        command: Command {
            program: "/environment/bin/python".into(),
            args: vec!["/work/script.py".to_owned()],
            env: BTreeMap::from([("HOME".to_owned(), "/home/sandbox".to_owned())]),
            cwd: "/work".into(),
        },
        mounts: vec![volume("environment-1", "/environment", Access::ReadOnly)],
        files: vec![InlineFile { path: "script.py".into(), content: b"print('hello')\n"[..].into() }],
        network: Network::None,
        named_servers: Vec::new(),
        limits: Limits { cpu_percent: Some(150), ..Limits::default() },
        channel: false,
    }
}

fn volume(name: &str, target: &str, access: Access) -> Mount {
    Mount { source: MountSource::Volume(name.to_owned()), target: target.into(), access }
}

fn prepare_spec() -> SandboxSpec {
    SandboxSpec {
        role: Role::Prepare,
        mounts: vec![
            volume("packages", "/packages", Access::ReadWrite),
            volume("environment-1", "/environment", Access::ReadWrite),
        ],
        network: Network::Host,
        named_servers: Vec::new(),
        limits: Limits::default(),
        ..run_spec()
    }
}

fn identity() -> Identity {
    Identity {
        name: "mcp-python-1-1".to_owned(),
        place: "place".to_owned(),
        server: "server".to_owned(),
        profile: "/profiles/run.json".into(),
        network: Some("own".to_owned()),
    }
}

fn plan(spec: &SandboxSpec) -> DockerPlan {
    lower(spec, "sha256:1234", &HostFiles::read(spec).expect("files")).expect("it can be lowered")
}

fn assert_snapshot(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/docker").join(name);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
        std::fs::write(&path, text).expect("writable");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let at = kept.lines().zip(text.lines()).position(|(old, new)| old != new);
    assert!(kept == text, "{name} differs from line {:?}; see the head of this file", at.map(|at| at + 1));
}

/// The command line without the first process's own text, which has tests of its own.
fn command_line(plan: &DockerPlan) -> String {
    let mut args = plan.arguments(&identity());
    let init = args.pop().expect("the text");
    assert!(init.contains("def main()"), "the first process travels with the container");
    let mut text = String::new();
    for arg in args {
        let separator = if arg.starts_with("--") && !text.is_empty() { "\n" } else { " " };
        text.push_str(separator);
        text.push_str(&arg);
    }
    format!("docker{text} INIT\n")
}

#[test]
fn the_plans_are_those_that_were_reviewed() {
    for (name, spec) in [("run", run_spec()), ("prepare", prepare_spec())] {
        let plan = plan(&spec);
        let json = serde_json::to_string_pretty(&plan).expect("plain data");
        assert_snapshot(&format!("{name}.txt"), &format!("{}\n{json}\n", command_line(&plan)));
    }
}

#[test]
fn no_path_of_the_host_is_mounted() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let file = place.path().join("ca.pem");
    std::fs::write(&file, b"certificate").expect("written");
    let mut spec = run_spec();
    spec.mounts.extend([Mount::read_only(&file), Mount::read_only(place.path())]);
    let file_name = file.to_str().expect("UTF-8").to_owned();
    spec.command.env.insert("SSL_CERT_FILE".to_owned(), file_name.clone());
    spec.command.env.insert("SSL_CERT_DIR".to_owned(), place.path().to_str().expect("UTF-8").to_owned());
    let plan = plan(&spec);
    let args = plan.arguments(&identity());
    assert!(
        !args.iter().any(|arg| arg.contains(&file_name) || arg.starts_with("type=bind") || arg == "--volume")
    );
    let inside = &plan.program.env["SSL_CERT_FILE"];
    let copied = plan.program.files.iter().find(|file| file.path == Path::new(inside)).expect("it is copied");
    assert_eq!(&*copied.content, b"certificate");
    // A folder keeps its path, in the container's memory.
    let folder = place.path().to_str().expect("UTF-8");
    assert_eq!(plan.program.env["SSL_CERT_DIR"], folder);
    assert!(
        plan.scratch.contains_key(folder) && !plan.program.writable.iter().any(|path| path == place.path())
    );
    assert!(plan.program.files.iter().any(|copied| copied.path == file));
}

#[test]
fn what_a_container_cannot_do_is_refused() {
    let refused = |change: &dyn Fn(&mut SandboxSpec)| {
        let mut spec = run_spec();
        change(&mut spec);
        HostFiles::read(&spec).and_then(|host| lower(&spec, "image", &host)).expect_err("refused")
    };
    let unsupported = |error: StartError| match error {
        StartError::Unsupported(reason) => reason,
        other => panic!("{other:?}"),
    };
    let reason = unsupported(refused(&|spec| spec.mounts.push(Mount::read_write("/etc"))));
    assert!(reason.contains("/etc"), "{reason}");
    unsupported(refused(&|spec| spec.network = Network::Outbound));
    for path in ["../escape", "/etc/passwd", ""] {
        let reason = unsupported(refused(&|spec| spec.files[0].path = PathBuf::from(path)));
        assert!(reason.contains("no plain path"), "{path}: {reason}");
    }
}

#[test]
fn secrets_stand_neither_on_the_command_line_nor_in_the_printed_plan() {
    let mut spec = prepare_spec();
    spec.command.env.insert("UV_INDEX_PASSWORD".to_owned(), "hunter2".to_owned());
    spec.files[0].content = b"token hunter2"[..].into();
    let plan = plan(&spec);
    assert!(!plan.arguments(&identity()).iter().any(|arg| arg.contains("hunter2")));
    let printed = plan.explain(&identity()).expect("plain data");
    assert!(printed.contains("UV_INDEX_PASSWORD") && !printed.contains("hunter2"));
}
