//! Starting a launcher and talking to it: the only place of this program where a process is started for a sandbox.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::net::RecvFlags;
use rustix::process::Signal;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use super::broker::Broker;
use super::ends::{End, Ends};
use super::events;
use super::launchers::{Launcher, Launchers};
use super::plan::{Groundwork, LaunchPlan, Supervision};
use crate::launcher::status::{MESSAGE_LIMIT, Message, frame};
use crate::launcher::sys::rights;
use crate::sandbox::spec::{Limits, SandboxSpec};
use crate::sandbox::{
    BoxFuture, Control, ExitStatus, LayerStatus, LimitHit, Outcome, Running, StartError, Usage, WaitError,
};

fn io_error(context: &'static str) -> impl Fn(io::Error) -> StartError {
    move |source| StartError::Io { context, source }
}

/// Starts a launcher, hands it the plan and waits until every layer stands.
pub async fn start(
    launchers: &Launchers,
    plan: &LaunchPlan,
    spec: &SandboxSpec,
) -> Result<Running, StartError> {
    Ok(running(launch(launchers, plan, spec).await?))
}

/// The same, going on from what was done ahead. Nothing of the program has been executed when this fails.
pub async fn go_on(ahead: Begun, rest: &LaunchPlan, spec: &SandboxSpec) -> Result<Running, StartError> {
    Ok(running(ahead.finish(rest, spec).await?))
}

fn running(launched: Launched) -> Running {
    let link = launched.link;
    let control = Box::new(NativeControl { link, killed: false });
    Running {
        stdout: Box::new(launched.stdout),
        stderr: Box::new(launched.stderr),
        channel: launched.channel,
        work_dir: launched.work_dir,
        layers: launched.layers,
        control,
    }
}

/// Carries out a plan whose program is the self-test. Returns the layers, once each of them has refused what it
/// has to.
pub async fn self_test(
    launchers: &Launchers,
    plan: &LaunchPlan,
    spec: &SandboxSpec,
) -> Result<Vec<LayerStatus>, StartError> {
    let launched = launch(launchers, plan, spec).await?;
    let mut control = NativeControl { link: launched.link, killed: false };
    let failed = |detail: String| StartError::Stage { stage: "self-test".to_owned(), detail, errno: None };
    control.wait().await.map_err(|error| failed(error.to_string()))?;
    match control.link.breaches.take() {
        Some(breaches) if breaches.is_empty() => Ok(launched.layers),
        Some(breaches) => Err(failed(format!("not refused: {}", breaches.join(", ")))),
        None => Err(failed("it told nothing".to_owned())),
    }
}

/// A launcher that has carried its plan out.
struct Launched {
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
    channel: Option<UnixStream>,
    work_dir: Option<OwnedFd>,
    layers: Vec<LayerStatus>,
    link: Link,
}

async fn launch(
    launchers: &Launchers,
    plan: &LaunchPlan,
    spec: &SandboxSpec,
) -> Result<Launched, StartError> {
    Begun::start(launchers, &Groundwork::least(plan), spec.limits)?.finish(plan, spec).await
}

/// A launcher that has been told what comes before the plan.
pub struct Begun {
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
    link: Link,
    /// Words that were heard before their time.
    heard: Vec<Heard>,
}

/// A message, with the descriptor that came along.
type Heard = (Message, Option<OwnedFd>);

impl Begun {
    fn start(launchers: &Launchers, groundwork: &Groundwork, limits: Limits) -> Result<Self, StartError> {
        let Launcher { socket, stdout, stderr } = launchers.start()?;
        let link = Link::new(socket, Ending::of(groundwork), limits, launchers.ends.clone());
        if link.ending == Ending::Monitor {
            let beside = link
                .socket
                .as_fd()
                .try_clone_to_owned()
                .map_err(io_error("keeping the launcher's socket"))?;
            link.ends.add(End::Monitor(beside.into()));
        }
        // It fits into an empty socket's buffer, or the launcher is gone, which is seen later.
        let bytes = frame(groundwork);
        let sent =
            rights::send(&link.socket, &bytes, &[]).map_err(io_error("handing over the ground's plan"))?;
        if sent < bytes.len() {
            return Err(io_error("handing over the ground's plan")(io::ErrorKind::WriteZero.into()));
        }
        Ok(Self { stdout, stderr, link, heard: Vec::new() })
    }

    /// Has this part of a plan carried out and waits until that is done.
    pub async fn ahead(
        launchers: &Launchers,
        groundwork: &Groundwork,
        limits: Limits,
    ) -> Result<Self, StartError> {
        let mut begun = Self::start(launchers, groundwork, limits)?;
        let (mut is_done, mut can_be_killed) = (false, begun.link.ending == Ending::Monitor);
        while !(is_done && can_be_killed) {
            match begun.link.heard().await? {
                (Message::Grounded, _) => is_done = true,
                (Message::Failed(failure), _) => return Err(stage_error(failure)),
                heard => {
                    can_be_killed |= heard.0 == Message::Supervisor;
                    begun.heard.push(heard);
                }
            }
        }
        Ok(begun)
    }

    /// Whether the launcher is still there.
    pub fn lives(&self) -> bool {
        events::so_far(self.link.socket.as_fd(), PollFlags::RDHUP) == Ok(PollFlags::empty())
    }

    async fn finish(self, rest: &LaunchPlan, spec: &SandboxSpec) -> Result<Launched, StartError> {
        let Self { stdout, stderr, mut link, heard } = self;
        link.broker = Broker::for_run(spec);
        let (channel, channel_end) = channel(spec)?;
        let mut conversation = Conversation { link: &mut link, work_dir: None, ready: None };
        let sent = conversation.send_plan(rest, spec, channel_end).await;
        // Where the launcher failed early, its own words say more than the broken pipe.
        let layers = match (sent, conversation.until_ready(heard).await) {
            (_, Err(told @ StartError::Stage { .. })) | (Ok(()), Err(told)) => return Err(told),
            (Err(error), _) => return Err(error),
            (Ok(()), Ok(layers)) => layers,
        };
        let work_dir = conversation.work_dir.take();
        Ok(Launched { stdout, stderr, channel, work_dir, layers, link })
    }
}

fn channel(spec: &SandboxSpec) -> Result<(Option<UnixStream>, Option<OwnedFd>), StartError> {
    if !spec.channel {
        return Ok((None, None));
    }
    let (ours, theirs) = StdUnixStream::pair().map_err(io_error("making a channel"))?;
    ours.set_nonblocking(true).map_err(io_error("preparing the channel"))?;
    let ours = UnixStream::from_std(ours).map_err(io_error("preparing the channel"))?;
    Ok((Some(ours), Some(theirs.into())))
}

/// The server's side of one launcher. Dropping it ends the run.
struct Link {
    socket: UnixStream,
    /// The run's first process; readable when every process of the run is gone.
    pidfd: Option<AsyncFd<OwnedFd>>,
    ending: Ending,
    /// Where its end is known, until it has come.
    ends: Ends,
    limits: Limits,
    /// A limit that the run has reached.
    limit: Option<LimitHit>,
    /// The last word of a run, which may come while its start is still being told.
    ended: Option<Outcome>,
    /// Connects for the run, where its network is private.
    broker: Option<Broker>,
    /// What a self-test found.
    breaches: Option<Vec<String>>,
    /// Bytes of a message that has not arrived whole.
    unread: Vec<u8>,
    /// Descriptors that came along, in the order of the messages that they belong to.
    descriptors: VecDeque<OwnedFd>,
}

/// Who ends a run when the server wants it. A closed socket is a signal to each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The run's process 1, which can be killed.
    Init,
    /// A monitor, which has to live to end the run.
    Monitor,
}

impl Ending {
    fn of(groundwork: &Groundwork) -> Self {
        match groundwork.supervision {
            Supervision::ProcessNamespace => Self::Init,
            Supervision::ScopeMonitor | Supervision::Subreaper => Self::Monitor,
        }
    }
}

impl Link {
    fn new(socket: UnixStream, ending: Ending, limits: Limits, ends: Ends) -> Self {
        Self {
            socket,
            pidfd: None,
            ending,
            ends,
            limits,
            limit: None,
            ended: None,
            broker: None,
            breaches: None,
            unread: Vec::new(),
            descriptors: VecDeque::new(),
        }
    }

    fn kill(&mut self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
        if self.ending == Ending::Monitor {
            return;
        }
        // Before the run's first process is known, the closed socket ends the launcher.
        if let Some(pidfd) = &self.pidfd {
            let _ = rustix::process::pidfd_send_signal(pidfd.get_ref(), Signal::KILL);
        }
    }

    fn hear(&mut self, message: Message) {
        match message {
            Message::SelfTest { breaches } => self.breaches = Some(breaches),
            Message::Limit(hit) => self.limit = self.limit.or(Some(hit)),
            other => self.ended = outcome(&other).or(self.ended.take()),
        }
    }

    /// The next message before the program runs, with what came along.
    async fn heard(&mut self) -> Result<Heard, StartError> {
        let failed = io_error("hearing from the launcher");
        let Some(message) = self.message().await.map_err(&failed)? else {
            return Err(failed(io::Error::other("it ended without a word")));
        };
        let descriptor = if message.carries_descriptor() { self.descriptors.pop_front() } else { None };
        if let (Message::Supervisor, Some(pidfd)) = (&message, &descriptor) {
            self.ends.add(End::Process(pidfd.try_clone().map_err(&failed)?));
        }
        Ok((message, descriptor))
    }

    /// Hands the descriptor that came with a message to the broker.
    fn serve(&mut self, message: &Message, descriptor: Option<OwnedFd>) -> io::Result<()> {
        let (Some(broker), Some(descriptor)) = (&mut self.broker, descriptor) else {
            return Err(io::Error::other("it asks for connections that nobody makes"));
        };
        match message {
            Message::NameServer { place } => broker.serve_names(descriptor, usize::from(*place)),
            _ => broker.listen(descriptor),
        }
    }

    /// Waits until every process of the run is gone. The guard, which only waits for the same, may be a moment behind;
    /// the nursery collects it.
    async fn gone(&mut self) {
        if let Some(pidfd) = &self.pidfd {
            let _ = pidfd.readable().await;
        } else {
            self.last_words().await;
        }
    }

    /// Hears what was said until the end.
    async fn last_words(&mut self) {
        while let Ok(Some(message)) = self.message().await {
            self.hear(message);
        }
    }

    /// The limit that a failed run has reached, as it was told, or as it shows: a program that failed with nearly all the
    /// memory that one process may have was refused more.
    fn limit_of(&self, outcome: &Outcome) -> Option<LimitHit> {
        let memory = self.limits.memory;
        let full = outcome.usage.peak_memory >= memory - memory / 8;
        self.limit.or(full.then_some(LimitHit::Memory(memory)))
    }

    /// The next message. `None` when the launcher has closed its end. Nothing is lost when the future is dropped.
    async fn message(&mut self) -> io::Result<Option<Message>> {
        loop {
            if let Some(message) = self.take_frame()? {
                return Ok(Some(message));
            }
            self.socket.readable().await?;
            let mut chunk = [0; 4096];
            let received = self.socket.try_io(Interest::READABLE, || {
                let keep = |descriptor| self.descriptors.push_back(descriptor);
                rights::receive(&self.socket, &mut chunk, RecvFlags::DONTWAIT, keep)
            });
            match received {
                Ok(0) => return Ok(None),
                Ok(bytes) => self.unread.extend_from_slice(&chunk[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    fn take_frame(&mut self) -> io::Result<Option<Message>> {
        let Some((header, rest)) = self.unread.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*header);
        if length > MESSAGE_LIMIT {
            return Err(io::Error::other(format!("a message of {length} bytes")));
        }
        let Some(body) = rest.get(..length as usize) else { return Ok(None) };
        let message = serde_json::from_slice(body).map_err(io::Error::other)?;
        self.unread.drain(..4 + length as usize);
        Ok(Some(message))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.kill();
        self.ends.tidy();
    }
}

/// The exchange before the program runs.
struct Conversation<'a> {
    link: &'a mut Link,
    work_dir: Option<OwnedFd>,
    /// What stands, once all of it does.
    ready: Option<Vec<LayerStatus>>,
}

impl Conversation<'_> {
    async fn send_plan(
        &mut self,
        plan: &LaunchPlan,
        spec: &SandboxSpec,
        channel: Option<OwnedFd>,
    ) -> Result<(), StartError> {
        let failed = io_error("handing the plan to the launcher");
        let bytes = frame(plan);
        self.send_header(&bytes[..4], channel.as_ref()).map_err(&failed)?;
        drop(channel);
        self.link.socket.write_all(&bytes[4..]).await.map_err(&failed)?;
        for file in &spec.files {
            self.link.socket.write_all(&file.content).await.map_err(&failed)?;
        }
        Ok(())
    }

    /// The first bytes carry the channel. They fit into an empty socket's buffer.
    fn send_header(&self, header: &[u8], channel: Option<&OwnedFd>) -> io::Result<()> {
        let descriptors: Vec<_> = channel.iter().map(AsFd::as_fd).collect();
        let sent = rights::send(&self.link.socket, header, &descriptors)?;
        if sent == header.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// Every layer stands, and the handle that kills the run is there. The run's own processes and the guard write
    /// side by side, so the order is open.
    async fn until_ready(&mut self, heard: Vec<Heard>) -> Result<Vec<LayerStatus>, StartError> {
        for one in heard {
            self.take(one)?;
        }
        loop {
            let can_be_killed = self.link.pidfd.is_some() || self.link.ending == Ending::Monitor;
            if let Some(layers) = self.ready.take_if(|_| can_be_killed) {
                return Ok(layers);
            }
            let heard = self.link.heard().await?;
            self.take(heard)?;
        }
    }

    fn take(&mut self, (message, descriptor): Heard) -> Result<(), StartError> {
        let failed = io_error("hearing from the launcher");
        match message {
            Message::Supervisor => self.link.pidfd = descriptor.map(watched).transpose().map_err(failed)?,
            Message::Listener | Message::NameServer { .. } => {
                self.link.serve(&message, descriptor).map_err(failed)?;
            }
            Message::Root => self.work_dir = descriptor,
            Message::Ready { layers, timeline } => {
                tracing::debug!(?timeline, "sandbox ready");
                self.ready = Some(layers);
            }
            Message::Failed(failure) => return Err(stage_error(failure)),
            message => self.link.hear(message),
        }
        Ok(())
    }
}

fn watched(pidfd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is an open descriptor and stays the same one until it is dropped, which the `AsyncFd` that
    // owns it does last.
    Ok(unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) }?)
}

fn outcome(message: &Message) -> Option<Outcome> {
    let Message::Exited { code, signal, cpu_us, peak_memory } = *message else { return None };
    let status = signal.map_or(ExitStatus::Exited(code.unwrap_or(-1)), ExitStatus::Signaled);
    let usage = Usage { cpu: Duration::from_micros(cpu_us), peak_memory };
    Some(Outcome { status, limit: None, usage })
}

fn stage_error(failure: crate::launcher::status::Failure) -> StartError {
    StartError::Stage { stage: failure.stage, detail: failure.detail, errno: failure.errno }
}

/// Waits for, and kills, one run.
struct NativeControl {
    link: Link,
    killed: bool,
}

impl Control for NativeControl {
    fn wait(&mut self) -> BoxFuture<'_, Result<Outcome, WaitError>> {
        Box::pin(async move {
            let told = self.outcome().await;
            if told.is_err() || self.link.ending == Ending::Monitor {
                self.link.gone().await;
            }
            // Process 1 has collected all others before it told; its own end and that of the guard are a moment behind.
            let outcome = told?;
            if outcome.status == ExitStatus::Exited(0) {
                return Ok(outcome);
            }
            // Only now is it known whether control groups had to refuse or to end something.
            self.link.last_words().await;
            Ok(Outcome { limit: self.link.limit_of(&outcome), ..outcome })
        })
    }

    fn begins(&mut self) {
        // One byte fits into a socket that has been read; where its reader is gone, the run's end tells.
        let _ = self.link.socket.try_write(b"\n");
    }

    fn kill(&mut self) {
        self.killed = true;
        self.link.kill();
    }
}

impl NativeControl {
    async fn outcome(&mut self) -> Result<Outcome, WaitError> {
        loop {
            if let Some(ended) = self.link.ended.take() {
                return Ok(ended);
            }
            match self.link.message().await {
                Ok(Some(Message::Failed(failure))) => {
                    return Err(WaitError::Lost(format!("{}: {}", failure.stage, failure.detail)));
                }
                Ok(Some(message)) => self.link.hear(message),
                Ok(None) if self.killed => return Err(WaitError::Killed),
                Ok(None) => return Err(WaitError::Lost("its first process was killed".to_owned())),
                Err(error) => return Err(WaitError::Lost(error.to_string())),
            }
        }
    }
}
