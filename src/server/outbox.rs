//! Lines on their way out: in order, counted, written by one task. Knows nothing of what they say.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::ServerJsonRpcMessage;
use serde::Serialize;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// How long a reader may take nothing at all while the server is ending, before it is given up.
const STALL: Duration = Duration::from_secs(2);

enum Item {
    Line(Vec<u8>),
    End,
}

/// The near end: lines go in without waiting, and whoever makes many looks at [`Outbox::below`] first.
#[derive(Clone)]
pub struct Outbox(Arc<Shared>);

struct Shared {
    queue: mpsc::UnboundedSender<Item>,
    /// Bytes that are queued and not yet written.
    backlog: watch::Sender<usize>,
    /// The writer has ended.
    done: CancellationToken,
}

/// An outbox and the task that empties it into `output`. Where the output breaks, `broken` is cancelled.
pub fn open<W>(
    output: W,
    broken: CancellationToken,
) -> (Outbox, impl Future<Output = io::Result<()>> + Send + 'static)
where
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (queue, lines) = mpsc::unbounded_channel();
    let outbox =
        Outbox(Arc::new(Shared { queue, backlog: watch::Sender::new(0), done: CancellationToken::new() }));
    (outbox.clone(), outbox.write_all(lines, output, broken))
}

impl Outbox {
    /// Queues one message. Lost where the output is broken.
    pub fn send(&self, message: &ServerJsonRpcMessage) {
        self.push(message);
    }

    /// Queues an error reply; rmcp's own type would leave out an id that is not known, and `null` has to stand there.
    pub fn refuse(&self, refusal: &super::message::Refusal) {
        #[derive(Serialize)]
        struct Line<'a> {
            jsonrpc: &'static str,
            id: Option<&'a rmcp::model::RequestId>,
            error: &'a rmcp::model::ErrorData,
        }
        self.push(&Line { jsonrpc: "2.0", id: refusal.id.as_ref(), error: &refusal.error });
    }

    fn push(&self, message: &impl Serialize) {
        let mut line = Vec::with_capacity(256);
        let mut json = serde_json::Serializer::with_formatter(&mut line, OneLine);
        if let Err(error) = message.serialize(&mut json) {
            tracing::error!(%error, "a message could not be written as JSON");
            return;
        }
        line.push(b'\n');
        let length = line.len();
        self.0.backlog.send_modify(|bytes| *bytes += length);
        if self.0.queue.send(Item::Line(line)).is_err() {
            self.written(length);
        }
    }

    /// Waits until at most `limit` bytes are queued. Returns at once where the output is broken.
    pub async fn below(&self, limit: usize) {
        let mut backlog = self.0.backlog.subscribe();
        tokio::select! {
            _ = backlog.wait_for(|bytes| *bytes <= limit) => {}
            () = self.0.done.cancelled() => {}
        }
    }

    /// Bytes that are queued and not yet written.
    pub fn backlog(&self) -> usize {
        *self.0.backlog.borrow()
    }

    /// Waits until everything is written, as long as the reader takes something now and then.
    pub async fn finish(&self) {
        let mut backlog = self.0.backlog.subscribe();
        let _ended_already = self.0.queue.send(Item::End);
        loop {
            tokio::select! {
                () = self.0.done.cancelled() => return,
                moved = tokio::time::timeout(STALL, backlog.changed()) => if moved.is_err() {
                    tracing::warn!("standard output is not read; giving up {} bytes", self.backlog());
                    self.0.done.cancel();
                    return;
                }
            }
        }
    }

    fn written(&self, bytes: usize) {
        self.0.backlog.send_modify(|backlog| *backlog = backlog.saturating_sub(bytes));
    }

    async fn write_all<W>(
        self,
        mut lines: mpsc::UnboundedReceiver<Item>,
        mut output: W,
        broken: CancellationToken,
    ) -> io::Result<()>
    where
        W: AsyncWrite + Unpin,
    {
        let done = self.0.done.clone();
        let ended = tokio::select! {
            ended = self.write_lines(&mut lines, &mut output) => ended,
            () = done.cancelled() => Ok(()),
        };
        lines.close();
        done.cancel();
        match ended {
            Ok(()) => Ok(()),
            Err(error) => {
                broken.cancel();
                // A client that has gone away is an ordinary end.
                if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) }
            }
        }
    }

    async fn write_lines<W>(
        &self,
        lines: &mut mpsc::UnboundedReceiver<Item>,
        output: &mut W,
    ) -> io::Result<()>
    where
        W: AsyncWrite + Unpin,
    {
        while let Some(Item::Line(line)) = lines.recv().await {
            let mut rest = &line[..];
            while !rest.is_empty() {
                let taken = output.write(rest).await?;
                if taken == 0 {
                    return Err(io::ErrorKind::WriteZero.into());
                }
                rest = &rest[taken..];
                self.written(taken);
            }
            if lines.is_empty() {
                output.flush().await?;
            }
        }
        output.flush().await
    }
}

/// Compact JSON in which no character can pass for the end of a line: several readers split at U+0085, U+2028 and
/// U+2029, which JSON lets stand in strings.
struct OneLine;

impl serde_json::ser::Formatter for OneLine {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        const ENDINGS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];
        let mut rest = fragment;
        while let Some(at) = rest.find(ENDINGS) {
            let ending = rest[at..].chars().next().unwrap_or_default();
            out.write_all(&rest.as_bytes()[..at])?;
            write!(out, "\\u{:04x}", u32::from(ending))?;
            rest = &rest[at + ending.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::message::Refusal;
    use rmcp::model::{ErrorData, RequestId};
    use tokio::io::AsyncReadExt;

    fn refusal(text: &str) -> Refusal {
        Refusal { id: Some(RequestId::Number(1)), error: ErrorData::parse_error(text.to_owned(), None) }
    }

    #[tokio::test]
    async fn a_line_stays_a_line_and_an_unknown_id_is_null() {
        let (near, mut far) = tokio::io::duplex(1 << 16);
        let (outbox, writer) = open(near, CancellationToken::new());
        let writer = tokio::spawn(writer);
        outbox.refuse(&Refusal { id: None, ..refusal("a\u{2028}b\u{85}c\nd\u{e4}") });
        outbox.finish().await;
        assert!(matches!(writer.await, Ok(Ok(()))));
        drop(outbox);
        let mut text = String::new();
        assert!(far.read_to_string(&mut text).await.is_ok());
        assert_eq!(
            text,
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"a\\u2028b\\u0085c\\nd\u{e4}\"}}\n"
        );
    }

    #[tokio::test]
    async fn the_backlog_is_counted_and_waited_for() {
        let (near, mut far) = tokio::io::duplex(64);
        let (outbox, writer) = open(near, CancellationToken::new());
        let writer = tokio::spawn(writer);
        for _ in 0..10 {
            outbox.refuse(&refusal(&"x".repeat(1000)));
        }
        assert!(outbox.backlog() > 10_000 - 64);
        let mut sink = vec![0; 8000];
        assert!(far.read_exact(&mut sink).await.is_ok());
        outbox.below(3000).await;
        assert!(outbox.backlog() <= 3000);
        drop(far);
        outbox.below(0).await;
        assert!(matches!(writer.await, Ok(Ok(()))), "a reader that went away is no error");
    }

    #[tokio::test]
    async fn a_broken_output_is_told() {
        let (near, far) = tokio::io::duplex(64);
        let broken = CancellationToken::new();
        let (outbox, writer) = open(near, broken.clone());
        let writer = tokio::spawn(writer);
        drop(far);
        outbox.refuse(&refusal("nobody reads this"));
        broken.cancelled().await;
        outbox.refuse(&refusal("nor this"));
        outbox.finish().await;
        assert!(writer.await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_is_given_up() {
        let (near, _far) = tokio::io::duplex(64);
        let (outbox, writer) = open(near, CancellationToken::new());
        let writer = tokio::spawn(writer);
        outbox.refuse(&refusal(&"x".repeat(1000)));
        let before = tokio::time::Instant::now();
        outbox.finish().await;
        assert!(before.elapsed() >= STALL);
        assert!(writer.await.is_ok());
    }
}
