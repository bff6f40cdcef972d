//! The process's own standard input and output, and its signals, for a server that must not hang at its end.
//!
//! tokio's `stdin` reads in a thread that cannot be interrupted, and keeps a runtime from shutting down. Clients connect
//! by pipes or sockets, and those can be waited for; only for terminals and files does the thread remain.

use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

/// A stream of bytes in.
pub type Input = Pin<Box<dyn AsyncRead + Send>>;
/// A stream of bytes out.
pub type Output = Pin<Box<dyn AsyncWrite + Send>>;

/// Standard input. Where it is a terminal or a file, a thread of the runtime waits for it: the program then has to end
/// by `Runtime::shutdown_background` or `process::exit`. Must be called within a runtime.
pub fn stdin() -> Input {
    #[cfg(unix)]
    match unix::input() {
        Ok(Some(input)) => return input,
        Ok(None) => {}
        Err(error) => tracing::debug!(%error, "standard input cannot be waited for; a thread reads it"),
    }
    Box::pin(tokio::io::stdin())
}

/// Standard output. Must be called within a runtime.
pub fn stdout() -> Output {
    #[cfg(unix)]
    match unix::output() {
        Ok(Some(output)) => return output,
        Ok(None) => {}
        Err(error) => tracing::debug!(%error, "standard output cannot be waited for; a thread writes it"),
    }
    Box::pin(tokio::io::stdout())
}

/// Completes when the process is asked to end: by SIGTERM, SIGINT or SIGHUP, or by Ctrl-C where there are no signals.
pub async fn terminated() -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
        Ok(())
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

#[cfg(unix)]
mod unix {
    use std::fs::File;
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::os::unix::fs::FileTypeExt;

    use tokio::net::UnixStream;
    use tokio::net::unix::pipe;

    use super::{Input, Output};

    /// What can be waited for.
    enum Kind {
        Pipe(OwnedFd),
        Socket(UnixStream),
        Other,
    }

    fn kind(descriptor: BorrowedFd<'_>) -> io::Result<Kind> {
        let file = File::from(descriptor.try_clone_to_owned()?);
        let kind = file.metadata()?.file_type();
        if kind.is_fifo() {
            Ok(Kind::Pipe(file.into()))
        } else if kind.is_socket() {
            let socket = std::os::unix::net::UnixStream::from(OwnedFd::from(file));
            socket.set_nonblocking(true)?;
            Ok(Kind::Socket(UnixStream::from_std(socket)?))
        } else {
            Ok(Kind::Other)
        }
    }

    /// Opening the pipe anew keeps the change to non-blocking from whoever shares the descriptor; where that is not
    /// possible, it is shared.
    pub fn input() -> io::Result<Option<Input>> {
        Ok(match kind(io::stdin().as_fd())? {
            Kind::Pipe(descriptor) => {
                let own = pipe::OpenOptions::new().open_receiver("/dev/fd/0");
                Some(Box::pin(own.or_else(|_| pipe::Receiver::from_owned_fd(descriptor))?))
            }
            Kind::Socket(socket) => Some(Box::pin(socket)),
            Kind::Other => None,
        })
    }

    /// As for the input.
    pub fn output() -> io::Result<Option<Output>> {
        Ok(match kind(io::stdout().as_fd())? {
            Kind::Pipe(descriptor) => {
                let own = pipe::OpenOptions::new().open_sender("/dev/fd/1");
                Some(Box::pin(own.or_else(|_| pipe::Sender::from_owned_fd(descriptor))?))
            }
            Kind::Socket(socket) => Some(Box::pin(socket)),
            Kind::Other => None,
        })
    }
}
