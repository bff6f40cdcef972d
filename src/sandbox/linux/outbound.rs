//! Whether the server can connect for runs on this machine: found out once, at start, by having it make a connection
//! and refuse another.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use super::plan::Program;
use super::spawn;
use super::{LinuxSandbox, broker};
use crate::sandbox::StartError;
use crate::sandbox::facts::{LayerState, LayerStatus};
use crate::sandbox::spec::{Command, Limits, Network, Role, SandboxSpec, WORK_DIR};

/// How long the test may take: a thousand times what it does, for machines that are emulated or overloaded.
const TAKES: Duration = Duration::from_secs(20);

/// Why the server cannot connect for runs, in words that follow "network namespace:".
pub async fn try_once(sandbox: &LinuxSandbox) -> Result<(), String> {
    broker::guard()?;
    let failed = |error: std::io::Error| format!("the test could not be prepared: {error}");
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed);
    let (allowed, refused) = (bind()?, bind()?);
    let port = |listener: &TcpListener| listener.local_addr().map(|address| address.port()).map_err(failed);
    let (allowed_port, refused_port) = (port(&allowed)?, port(&refused)?);
    allowed.set_nonblocking(true).map_err(failed)?;
    let greeter = tokio::net::TcpListener::from_std(allowed).map_err(failed)?;
    let greet = async {
        if let Ok(mut stream) = greeter.accept().await.and_then(|(stream, _)| stream.into_std()) {
            let _ = stream.write_all(b".");
        }
        std::future::pending::<()>().await;
    };
    let test = tokio::time::timeout(TAKES, test(sandbox, allowed_port, refused_port));
    tokio::select! {
        result = test => result.unwrap_or_else(|_| Err("the server's connection was never made".to_owned())),
        () = greet => Ok(()),
    }
}

/// The one port is an exception as a proxy on this machine is, which the user has named; the other is not.
async fn test(sandbox: &LinuxSandbox, allowed: u16, refused: u16) -> Result<(), String> {
    let proxy = ("http_proxy".to_owned(), format!("http://127.0.0.1:{allowed}"));
    let spec = SandboxSpec {
        role: Role::Run,
        command: Command {
            program: "/".into(),
            args: Vec::new(),
            env: BTreeMap::from([proxy]),
            cwd: WORK_DIR.into(),
        },
        mounts: Vec::new(),
        files: Vec::new(),
        network: Network::Outbound,
        named_servers: Vec::new(),
        limits: Limits::default(),
        channel: false,
    };
    let words = |error: StartError| match error {
        StartError::Stage { detail, .. } => format!("a connection out of it was tried and failed: {detail}"),
        other => format!("a connection out of it was tried and failed: {other}"),
    };
    let user = sandbox.user(spec.role).map_err(words)?;
    let mut plan = sandbox.plan(&spec, None, user.as_ref().map(|user| user.id)).map_err(words)?;
    plan.program = Program::ConnectTest { allowed, refused };
    spawn::self_test(&sandbox.launchers, &plan, &spec).await.map(drop).map_err(words)
}

/// The layers of runs whose network is the host's for this reason.
pub fn without_network_namespace(mut layers: Vec<LayerStatus>, reason: &str) -> Vec<LayerStatus> {
    for layer in layers.iter_mut().filter(|layer| layer.name == "network namespace") {
        layer.state = LayerState::Absent(reason.to_owned());
    }
    layers
}
