//! The way out of a run's private network: the server connects, and hands the connected socket in.
//!
//! The run's filter stops each connect(2) and asks here. Local sockets and loopback are carried out by the kernel,
//! inside. For an address outside, the broker looks at the policy, makes a socket of its own in the host's network,
//! connects it, puts it in the place of the script's socket and answers. Names are resolved through `names`.
//!
//! As the kernel lets one listener answer for a process, it also makes plain files in memory, sealed against execution.
//!
//! It knows addresses and sockets, of a specification its network and proxies, and nothing of plans or launchers.
//!
//! # What a hostile script can change while it is asked about
//!
//! *Its memory.* The address is read once, and only this copy is judged and connected to.
//!
//! *Its descriptors.* The broker works on a duplicate of the socket: what it has looked at is what it connects or lets
//! listen. The kernel is told to go on only for what is not TCP: a local socket or one for datagrams, inside. Going on, it looks
//! memory and descriptor up again, and may then find a TCP socket there and another address. So no TCP connection
//! that a script makes by itself may lead anywhere. Two guards see to that, each enough alone, and where neither is to be had the
//! network is not offered:
//! - Landlock (from ABI 4) refuses the run every connect(2) of a TCP socket, on the kernel's copy of the address. The
//!   broker is outside of it, and connects the script's own sockets inside their network as well.
//! - A packet filter on the handed-in socket passes what comes from its peer's address and port, and cannot be taken
//!   off. Connected anew to the host's loopback the socket sends a first segment and hears no answer. (For root, and
//!   on kernels before 2026: newer ones want a capability.)
//!
//! *What it was handed.* A socket of the host's network could do more than talk to its peer. Disconnected, it could be
//! connected anew (see above), or listen (asked about, and refused: EINVAL) or take a port of the host (its own is
//! held by number, so bind(2) gives EINVAL). Data along with the first segment would connect unseen (refused by the filter
//! for system calls). Only TCP is handed in: from a socket for datagrams one could send to anybody.
//!
//! *Itself.* A thread that is gone or was interrupted is noticed (the call's number is not valid any more) before what
//! was read of it is used, and answers to it are lost. A process id that was used again in between is noticed the
//! same way. A descriptor that was closed or replaced in between is replaced by the socket all the same, which is the
//! script's affair.
//!
//! *Its number.* Calls that wait are bounded for each run; beyond that they queue in the kernel, where each is a blocked
//! thread of the run. All brokers share one thread, apart from the server's, and take turns; what can block has another.
//! The broker ends with the run, and with it all that waits.

pub mod address;
mod call;
pub mod names;
mod socket;
mod sys;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

use address::Policy;
use call::Next;

use crate::launcher::sys::notify::{self, Call};
use crate::sandbox::spec::{Network, SandboxSpec};

/// Calls of one run that wait for a connection at the same time. Each holds one descriptor of the server.
const WAITING: usize = 128;

/// Connections inside one run's network that are made at the same time. Each has a thread, for as long as a server of the
/// script's own lets it wait.
const INSIDE: usize = 32;

/// Threads for such connections of all runs together.
const THREADS: usize = 1024;

/// The brokers' thread, started with the first one: a run that connects without end must not slow the server down.
static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();

/// The broker of one run. It ends when this is dropped.
pub struct Broker {
    policy: Arc<Policy>,
    tasks: Vec<AbortHandle>,
}

impl Broker {
    /// A broker for a run, where its specification asks for one. It has nothing to do yet.
    pub fn for_run(spec: &SandboxSpec) -> Option<Self> {
        let policy = || Arc::new(policy(&spec.command.env, &spec.named_servers));
        (spec.network == Network::Outbound).then(|| Self { policy: policy(), tasks: Vec::new() })
    }

    /// Answers the calls that wait on this descriptor, which the run's filter came with.
    pub fn listen(&mut self, listener: OwnedFd) -> io::Result<()> {
        let policy = Arc::clone(&self.policy);
        self.start(async move { serve(listener, &policy).await })
    }

    /// Serves the name server at this place of the host's list on a socket inside.
    pub fn serve_names(&mut self, socket: OwnedFd, place: usize) -> io::Result<()> {
        self.start(names::serve(socket.into(), place))
    }

    fn start(&mut self, task: impl Future<Output = io::Result<()>> + Send + 'static) -> io::Result<()> {
        let runtime = RUNTIME.get_or_init(runtime).as_ref();
        let runtime =
            runtime.ok_or_else(|| io::Error::other("no thread for connections could be started"))?;
        let task = runtime.spawn(async move {
            if let Err(error) = task.await {
                tracing::warn!("a sandbox has lost its network: {error}");
            }
        });
        self.tasks.push(task.abort_handle());
        Ok(())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Whether sockets that are handed in can be guarded here, or why not.
pub fn guard() -> Result<(), String> {
    match socket::guard() {
        Ok(()) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => Err("sockets that are handed into it cannot be \
             guarded: the kernel has no rules for ports (Landlock ABI 4) and keeps socket filters from ordinary users"
            .to_owned()),
        Err(error) => Err(format!("sockets that are handed into it cannot be guarded: {error}")),
    }
}

fn runtime() -> Option<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(THREADS)
        .thread_name("connections")
        .enable_all()
        .build()
        .ok()
}

async fn serve(listener: OwnedFd, policy: &Policy) -> io::Result<()> {
    let listener = Arc::new(sys::watched(listener, Interest::READABLE)?);
    let room = Arc::new(Semaphore::new(WAITING));
    let threads = Arc::new(Semaphore::new(INSIDE));
    let mut waiting = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return Ok(()) };
        let Some(notification) = next(&listener).await? else { return Ok(()) };
        while waiting.try_join_next().is_some() {}
        match call::begin(&listener, &notification, policy) {
            Next::Wait(connecting) => {
                let listener = Arc::clone(&listener);
                waiting.spawn(async move {
                    let next = connecting.finish(&listener, notification.id).await;
                    let _ = reply(&listener, &notification, &next);
                    drop(place);
                });
            }
            Next::Inside(inside) => {
                let (listener, threads) = (Arc::clone(&listener), Arc::clone(&threads));
                waiting.spawn(async move {
                    let turn = threads.acquire_owned().await;
                    let carried_out = tokio::task::spawn_blocking(move || {
                        let _ = reply(&listener, &notification, &inside.carry_out());
                        drop(turn);
                    });
                    let _ = carried_out.await;
                    drop(place);
                });
            }
            next => reply(&listener, &notification, &next)?,
        }
        tokio::task::yield_now().await;
    }
}

fn reply(listener: &AsyncFd<OwnedFd>, notification: &Call, next: &Next) -> io::Result<()> {
    match next {
        Next::Reply(reply) => Ok(notify::answer(listener, notification.id, *reply)?),
        Next::Gone | Next::Wait(_) | Next::Inside(_) => Ok(()),
    }
}

/// The next call that waits; `None` when no process of the run is left.
async fn next(listener: &AsyncFd<OwnedFd>) -> io::Result<Option<Call>> {
    loop {
        let mut ready = listener.readable().await?;
        let events = pending(listener)?;
        if events.contains(PollFlags::IN) {
            match notify::receive(listener) {
                Ok(notification) => return Ok(Some(notification)),
                // Its thread has ended in between.
                Err(Errno::NOENT | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        } else if events.intersects(PollFlags::HUP | PollFlags::ERR) {
            return Ok(None);
        } else {
            ready.clear_ready();
        }
    }
}

/// What there is to do now. Receiving would block where there is nothing.
fn pending(listener: &AsyncFd<OwnedFd>) -> io::Result<PollFlags> {
    let mut watched = [PollFd::new(listener, PollFlags::IN)];
    match rustix::event::poll(&mut watched, Some(&Timespec::default())) {
        Ok(_) => Ok(watched[0].revents()),
        Err(rustix::io::Errno::INTR) => Ok(PollFlags::empty()),
        Err(error) => Err(error.into()),
    }
}

/// The policy for a run with these variables: proxies on this machine that the user has set are what a script is meant
/// to use, and so are servers that the user names otherwise.
fn policy<'a>(variables: impl IntoIterator<Item = (&'a String, &'a String)>, named: &[SocketAddr]) -> Policy {
    let proxies = variables.into_iter().filter(|(name, _)| is_proxy(name));
    let proxies = proxies.flat_map(|(_, value)| local_servers(value));
    Policy::new(proxies.chain(named.iter().copied()).collect(), names::of_host())
}

fn is_proxy(name: &str) -> bool {
    ["http_proxy", "https_proxy", "all_proxy"].iter().any(|proxy| name.eq_ignore_ascii_case(proxy))
}

/// The addresses of a proxy that is named by number or as `localhost`. Any other name is resolved by the script, and
/// judged as an address then.
fn local_servers(url: &str) -> Vec<SocketAddr> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let default = match scheme {
        "https" => 443,
        scheme if scheme.starts_with("socks") => 1080,
        _ => 80,
    };
    let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
        Some((host, port)) => (host, port.parse().ok()),
        None => (authority, Some(default)),
    };
    let Some(port) = port else { return Vec::new() };
    let ips: &[&str] = if host.eq_ignore_ascii_case("localhost") { &["127.0.0.1", "::1"] } else { &[host] };
    let parse = |ip: &&str| ip.trim_matches(['[', ']']).parse().ok();
    ips.iter().filter_map(parse).map(|ip| SocketAddr::new(ip, port)).collect()
}

#[cfg(test)]
mod tests;
