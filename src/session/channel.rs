//! One end of a private channel: frames of four bytes of length, little-endian, and one JSON object, with a limit that
//! holds before anything is read.

use std::io;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::protocol::Numbered;

/// Why a channel is of no use any more.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The other end is closed.
    #[error("its main process has ended")]
    Closed,
    /// A frame over the limit.
    #[error("its driver sent {size} bytes at once, more than the {limit} that are allowed")]
    Large {
        /// The frame's bytes.
        size: usize,
        /// At most.
        limit: usize,
    },
    /// Not what was asked for.
    #[error("its driver sent something else than the answer: {0}")]
    Unexpected(String),
    /// The system refused it.
    #[error("its channel failed: {0}")]
    Io(#[from] io::Error),
}

/// What comes in while an answer is waited for.
#[derive(Debug)]
pub enum Said<T, B> {
    /// The answer.
    Answer(T),
    /// Something before it.
    Before(B),
}

/// One end of the channel.
#[derive(Debug)]
pub struct Channel<S> {
    stream: S,
    unread: Vec<u8>,
    limit: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Channel<S> {
    /// Takes a connected stream. Frames that come in have at most `limit` bytes.
    pub fn new(stream: S, limit: usize) -> Self {
        Self { stream, unread: Vec::new(), limit }
    }

    /// Sends one frame.
    pub async fn send(&mut self, message: &impl Serialize) -> Result<(), ChannelError> {
        let mut frame = vec![0; 4];
        serde_json::to_writer(&mut frame, message).map_err(io::Error::other)?;
        let length = u32::try_from(frame.len() - 4).map_err(io::Error::other)?;
        frame[..4].copy_from_slice(&length.to_le_bytes());
        self.stream.write_all(&frame).await.map_err(gone)
    }

    /// The next frame. Nothing is lost when the future is dropped.
    pub async fn receive(&mut self) -> Result<Vec<u8>, ChannelError> {
        loop {
            if let Some(header) = self.unread.first_chunk::<4>() {
                let size = u32::from_le_bytes(*header) as usize;
                if size > self.limit {
                    return Err(ChannelError::Large { size, limit: self.limit });
                }
                if self.unread.len() >= 4 + size {
                    let rest = self.unread.split_off(4 + size);
                    let mut frame = std::mem::replace(&mut self.unread, rest);
                    frame.drain(..4);
                    return Ok(frame);
                }
            }
            self.unread.reserve(16 << 10);
            if self.stream.read_buf(&mut self.unread).await.map_err(gone)? == 0 {
                return Err(ChannelError::Closed);
            }
        }
    }

    /// The answer with this number.
    pub async fn answer<T: for<'de> Deserialize<'de> + Numbered>(
        &mut self,
        id: u64,
    ) -> Result<T, ChannelError> {
        let frame = self.receive().await?;
        self.last(&frame, id)
    }

    /// The answer with this number, or something of the same number that may come before it.
    pub async fn answer_or<T, B>(&mut self, id: u64) -> Result<Said<T, B>, ChannelError>
    where
        T: for<'de> Deserialize<'de> + Numbered,
        B: for<'de> Deserialize<'de> + Numbered,
    {
        let frame = self.receive().await?;
        match serde_json::from_slice::<B>(&frame) {
            Ok(before) => numbered(before, id).map(Said::Before),
            Err(_) => self.last(&frame, id).map(Said::Answer),
        }
    }

    fn last<T: for<'de> Deserialize<'de> + Numbered>(
        &self,
        frame: &[u8],
        id: u64,
    ) -> Result<T, ChannelError> {
        let answer: T =
            serde_json::from_slice(frame).map_err(|error| ChannelError::Unexpected(error.to_string()))?;
        let answer = numbered(answer, id)?;
        // One request, one answer: what follows it was made up.
        if !self.unread.is_empty() {
            return Err(ChannelError::Unexpected("more than one answer".to_owned()));
        }
        Ok(answer)
    }
}

fn numbered<T: Numbered>(said: T, id: u64) -> Result<T, ChannelError> {
    match said.id() {
        own if own == id => Ok(said),
        other => Err(ChannelError::Unexpected(format!("an answer to request {other}, not {id}"))),
    }
}

fn gone(error: io::Error) -> ChannelError {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => ChannelError::Closed,
        _ => ChannelError::Io(error),
    }
}
