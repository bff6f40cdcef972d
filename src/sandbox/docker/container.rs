//! One container, from start to end: the client that is attached to it, frames in and out.
//!
//! Whatever happens, three things end a container: a frame that says so, the end of its input, and where neither helps
//! the engine itself.

use std::process::ExitStatus as ClientStatus;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::alive::{Alive, Containers};
use super::client::{self, Client};
use super::enforced;
use super::frame::{self, End, Frame, FrameError};
use super::plan::{DockerPlan, Identity};
use super::returned::Returned;
use super::{ANSWER, REMOVAL};
use crate::sandbox::spec::Limits;
use crate::sandbox::{
    BoxFuture, Control, ExitStatus, LayerStatus, LeftFile, LimitHit, Outcome, Running, StartError, WaitError,
};

/// Bytes between the container's output and who reads it.
const BUFFER: usize = 256 << 10;

/// How long a container may take to obey before the engine is asked to end it.
const OBEYS: Duration = Duration::from_millis(1200);

/// Bytes kept of what the client itself says.
const CLIENT_WORDS: u64 = 16 << 10;

/// A container whose program was started.
pub struct Started {
    attached: Attached,
    stdin: ChildStdin,
    output: BufReader<ChildStdout>,
    words: JoinHandle<String>,
    layers: Vec<LayerStatus>,
    plan: DockerPlan,
}

/// Starts the plan's container and the program in it.
pub async fn start(
    client: &Client,
    containers: &Containers,
    plan: DockerPlan,
    identity: &Identity,
) -> Result<Started, StartError> {
    let failed = |source| StartError::Io { context: "starting the docker client", source };
    let mut child = client.spawn(&plan.arguments(identity)).map_err(failed)?;
    let (Some(mut stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(failed(std::io::Error::other("it has no pipes")));
    };
    let words = tokio::spawn(words_of(stderr));
    let mut output = BufReader::with_capacity(BUFFER, stdout);
    // From here on whatever ends this function ends the container.
    let mut attached = Attached {
        client: client.clone(),
        name: identity.name.clone(),
        containers: containers.clone(),
        child: Some((child, containers.begin())),
    };
    let start = frame::start(&plan.program);
    let write = async {
        // Where the container is gone its output tells more than this.
        let _ = stdin.write_all(&start).await;
        let _ = stdin.flush().await;
        stdin
    };
    let (stdin, begun) = tokio::join!(write, begin(&mut output, &plan));
    match begun {
        Ok(layers) => Ok(Started { attached, stdin, output, words, layers, plan }),
        Err(Begin::Refused(error)) => Err(error),
        Err(Begin::Closed) => {
            drop(stdin);
            let status = attached.ended().await;
            Err(no_container(status, &words.await.unwrap_or_default()))
        }
    }
}

/// What the client itself says, up to a bound.
async fn words_of(mut stderr: ChildStderr) -> String {
    let mut bytes = Vec::new();
    let _ = (&mut stderr).take(CLIENT_WORDS).read_to_end(&mut bytes).await;
    let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Why no program was started.
enum Begin {
    Refused(StartError),
    Closed,
}

/// The first frames: what is enforced, and whether the program was started.
async fn begin(output: &mut BufReader<ChildStdout>, plan: &DockerPlan) -> Result<Vec<LayerStatus>, Begin> {
    let stage = |stage: &str, detail: String| Begin::Refused(super::failed(stage, detail));
    let mut layers = None;
    loop {
        match (Frame::read(output).await, layers.take()) {
            (Ok(Frame::Enforced(facts)), None) => {
                layers = Some(enforced::check(&facts, plan).map_err(Begin::Refused)?);
            }
            (Ok(Frame::Started(facts)), Some(mut layers)) => {
                layers.push(enforced::landlock(&facts));
                return Ok(layers);
            }
            (Ok(Frame::Failed(reason)), _) if reason.is_empty() => {
                return Err(Begin::Refused(StartError::ProgramMissing(plan.program.path.clone())));
            }
            (Ok(Frame::Failed(reason)), _) => return Err(stage("starting the program", reason)),
            (Err(FrameError::Closed(_)), _) => return Err(Begin::Closed),
            (other, _) => {
                let detail = format!("the image's first process said something unexpected ({other:?})");
                return Err(stage("container", detail));
            }
        }
    }
}

/// The engine made no container, or one that ended before it said anything.
fn no_container(status: Option<ClientStatus>, words: &str) -> StartError {
    let detail = client::reason(words).unwrap_or_else(|| match status {
        Some(status) => format!("the docker client ended with {status}"),
        None => "the docker client gave no answer".to_owned(),
    });
    super::failed("container", detail)
}

impl Started {
    /// Whether the container is still there.
    pub fn is_alive(&mut self) -> bool {
        let child = self.attached.child.as_mut();
        child.is_some_and(|(child, _)| matches!(child.try_wait(), Ok(None)))
    }

    /// Goes on with the program, after these bytes for the container.
    pub fn run(self, first: Vec<u8>) -> Running {
        let Self { attached, stdin, output, words, layers, plan } = self;
        let (stdout, stdout_end) = tokio::io::duplex(BUFFER);
        let (stderr, stderr_end) = tokio::io::duplex(BUFFER);
        let (orders, receive) = mpsc::unbounded_channel();
        let (tell, end) = watch::channel(None);
        let _ = orders.send(Order::Send(first));
        #[cfg(unix)]
        let (channel, theirs) = channel(plan.program.channel);
        #[cfg(unix)]
        let sink = theirs.map(|theirs| {
            let (from, to) = theirs.into_split();
            tokio::spawn(pump(from, orders.clone()));
            to
        });
        #[cfg(not(unix))]
        let sink: Option<tokio::io::DuplexStream> = None;
        let containers = attached.containers.clone();
        tokio::spawn(obey(stdin, receive, end.clone(), attached));
        let limits = plan.limits;
        let (returned, script) = (Returned::new(&plan), Script::of(&plan));
        let passing = Passing { output, stdout, stderr, channel: sink, returned, script };
        tokio::spawn(async move {
            let (last, script) = passing.pass_on().await;
            tell.send_replace(Some(ended(last, script, &limits, words).await));
        });
        Running {
            stdout: Box::new(stdout_end),
            stderr: Box::new(stderr_end),
            #[cfg(unix)]
            channel,
            #[cfg(unix)]
            work_dir: None,
            layers,
            control: Box::new(ContainerControl { orders, end, containers, killed: false }),
        }
    }
}

/// How it ended, from the last frame or from what came instead.
async fn ended(
    last: Result<(End, Vec<LeftFile>), FrameError>,
    script: Script,
    limits: &Limits,
    words: JoinHandle<String>,
) -> Ended {
    match last {
        Ok((end, left)) => Ended::Told(outcome(&end, limits), left),
        Err(FrameError::Malformed) => Ended::Lost("it sent something that is no frame".to_owned()),
        Err(FrameError::File(reason)) => Ended::Lost(reason),
        Err(FrameError::Closed(_)) => {
            let reason = match client::reason(&words.await.unwrap_or_default()) {
                Some(reason) => format!("the engine ended it: {reason}"),
                None => "its container was ended from outside".to_owned(),
            };
            match script {
                Script::Coming => Ended::NotBegun(reason),
                Script::There => Ended::Lost(reason),
            }
        }
    }
}

#[cfg(unix)]
fn channel(wanted: bool) -> (Option<tokio::net::UnixStream>, Option<tokio::net::UnixStream>) {
    match wanted.then(tokio::net::UnixStream::pair) {
        Some(Ok((ours, theirs))) => (Some(ours), Some(theirs)),
        _ => (None, None),
    }
}

/// Carries the caller's bytes for the private channel to the container.
#[cfg(unix)]
async fn pump(mut from: impl AsyncRead + Unpin, orders: mpsc::UnboundedSender<Order>) {
    let mut chunk = vec![0; 32 << 10];
    while let Ok(size @ 1..) = from.read(&mut chunk).await {
        if orders.send(Order::Send(frame::channel(&chunk[..size]))).is_err() {
            return;
        }
    }
}

/// Where the program's script is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Script {
    /// The program waits for it.
    Coming,
    /// The program has it, or never waited.
    There,
}

impl Script {
    fn of(plan: &DockerPlan) -> Self {
        if plan.program.waits_for.is_some() { Self::Coming } else { Self::There }
    }
}

/// The container's frames on their way to who reads them.
struct Passing<W, C> {
    output: BufReader<ChildStdout>,
    stdout: W,
    stderr: W,
    channel: Option<C>,
    returned: Returned,
    script: Script,
}

impl<W: AsyncWrite + Unpin, C: AsyncWrite + Unpin> Passing<W, C> {
    /// Hands them over, until the last. Tells where the script was then.
    async fn pass_on(mut self) -> (Result<(End, Vec<LeftFile>), FrameError>, Script) {
        (self.until_the_last().await, self.script)
    }

    async fn until_the_last(&mut self) -> Result<(End, Vec<LeftFile>), FrameError> {
        loop {
            // Where nobody reads any more the rest is dropped, so that the program can end.
            match Frame::read(&mut self.output).await? {
                Frame::Taken => self.script = Script::There,
                Frame::Stdout(bytes) => drop(self.stdout.write_all(&bytes).await),
                Frame::Stderr(bytes) => drop(self.stderr.write_all(&bytes).await),
                Frame::Channel(bytes) if bytes.is_empty() => self.channel = None,
                Frame::Channel(bytes) => {
                    if let Some(channel) = &mut self.channel {
                        let _ = channel.write_all(&bytes).await;
                    }
                }
                Frame::Left(path, size) => self.returned.left(path, size).await?,
                Frame::Changed(path) => self.returned.begin(path).await?,
                Frame::Piece(bytes) => self.returned.write(&bytes).await?,
                Frame::Ended(end) => return Ok((end, self.returned.all().await?)),
                Frame::Enforced(_) | Frame::Started(_) | Frame::Failed(_) => {
                    return Err(FrameError::Malformed);
                }
            }
        }
    }
}

/// What a container is told.
enum Order {
    /// Ends every process.
    Kill,
    /// Passes whole frames on.
    Send(Vec<u8>),
}

/// Passes orders on until the program has ended or nobody gives any more; then nothing of the container is left.
async fn obey(
    mut stdin: ChildStdin,
    mut orders: mpsc::UnboundedReceiver<Order>,
    mut end: watch::Receiver<Option<Ended>>,
    attached: Attached,
) {
    loop {
        let order = tokio::select! {
            order = orders.recv() => order,
            () = attached.containers.closing() => None,
            _ = end.wait_for(Option::is_some) => None,
        };
        match order {
            Some(Order::Send(bytes)) => {
                // Where the container is gone everybody is told by its end.
                let _ = stdin.write_all(&bytes).await;
                let _ = stdin.flush().await;
            }
            Some(Order::Kill) => {
                let _ = tokio::time::timeout(OBEYS, stdin.write_all(&frame::KILL)).await;
                let _ = tokio::time::timeout(OBEYS, end.wait_for(Option::is_some)).await;
                break;
            }
            None => break,
        }
    }
    drop(stdin);
    attached.finish().await;
}

/// How it ended, for everyone who asks.
#[derive(Clone, Debug)]
enum Ended {
    Told(Outcome, Vec<LeftFile>),
    /// Before it had its script.
    NotBegun(String),
    Lost(String),
}

fn outcome(end: &End, limits: &Limits) -> Outcome {
    let failed = end.status != ExitStatus::Exited(0);
    let limit = if end.out_of_memory > 0 {
        Some(LimitHit::Memory(limits.memory))
    } else if end.full_disk > 0 && failed {
        Some(LimitHit::Disk(limits.disk))
    } else if end.too_many_processes > 0 && failed {
        Some(LimitHit::Processes(limits.processes))
    } else {
        None
    };
    Outcome { status: end.status, limit, usage: end.usage }
}

struct ContainerControl {
    orders: mpsc::UnboundedSender<Order>,
    end: watch::Receiver<Option<Ended>>,
    containers: Containers,
    killed: bool,
}

impl Control for ContainerControl {
    fn wait(&mut self) -> BoxFuture<'_, Result<Outcome, WaitError>> {
        Box::pin(async {
            let end = self.end.wait_for(Option::is_some).await.map(|end| end.clone());
            match end {
                Ok(Some(Ended::Told(outcome, _))) => Ok(outcome),
                Ok(Some(Ended::Lost(_) | Ended::NotBegun(_))) if self.killed => Err(WaitError::Killed),
                // The server ends: nobody acts on the answer any more.
                Ok(Some(Ended::Lost(_) | Ended::NotBegun(_))) if self.containers.is_closing() => {
                    std::future::pending().await
                }
                Ok(Some(Ended::NotBegun(reason))) => Err(WaitError::NotBegun(reason)),
                Ok(Some(Ended::Lost(reason))) => Err(WaitError::Lost(reason)),
                Ok(None) | Err(_) => Err(WaitError::Lost("its supervisor ended".to_owned())),
            }
        })
    }

    fn left_files(&self) -> Vec<LeftFile> {
        match &*self.end.borrow() {
            Some(Ended::Told(_, left)) => left.clone(),
            _ => Vec::new(),
        }
    }

    fn kill(&mut self) {
        self.killed = true;
        // Where nobody receives it, everything has ended.
        let _ = self.orders.send(Order::Kill);
    }
}

/// A client that is attached to a container. Dropping it ends both in the background.
struct Attached {
    client: Client,
    name: String,
    containers: Containers,
    child: Option<(Child, Alive)>,
}

impl Attached {
    /// Waits for the client's end once the container's input is closed.
    async fn ended(&mut self) -> Option<ClientStatus> {
        let (child, _) = self.child.as_mut()?;
        let status = tokio::time::timeout(OBEYS, child.wait()).await.ok()?.ok();
        if status.is_some() {
            self.child = None;
        }
        status
    }

    /// Ends the container, in order where it obeys, and the client.
    async fn finish(mut self) {
        if let Some(child) = self.child.take() {
            finish(&self.client, &self.name, child).await;
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let Some(child) = self.child.take() else { return };
        let (client, name) = (self.client.clone(), self.name.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { finish(&client, &name, child).await });
        }
    }
}

/// The client ends when the engine has removed the container.
async fn finish(client: &Client, name: &str, (mut child, _alive): (Child, Alive)) {
    if tokio::time::timeout(OBEYS, child.wait()).await.is_ok() {
        return;
    }
    // It did not obey, or the engine is slow.
    if let Err(error) = client.output(&["rm", "--force", "--volumes", name], REMOVAL).await {
        tracing::warn!("the container {name} could not be removed: {error}");
    }
    if tokio::time::timeout(ANSWER, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}
