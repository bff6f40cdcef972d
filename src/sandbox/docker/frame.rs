//! Frames between this program and the first process of a container. Pure.
//!
//! A frame is one byte for its kind, four for its length with the highest first, and its content. `init.py` is the
//! other end.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::plan::Program;
use crate::sandbox::{ExitStatus, Usage};

/// The largest content of a frame that is taken from a container, in bytes: one read of `init.py`.
const LARGEST: usize = 64 << 10;

/// What a container says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// What is enforced, a fact on each line. The first frame.
    Enforced(String),
    /// The program was started; with the Landlock ABI, and why there is none where it is 0.
    Started(String),
    /// The program could not be started, and why; no words where there is no such program.
    Failed(String),
    /// The script has come to the program that waited for it.
    Taken,
    /// Standard output.
    Stdout(Vec<u8>),
    /// Standard error.
    Stderr(Vec<u8>),
    /// Bytes of the private channel; none says that the program closed it.
    Channel(Vec<u8>),
    /// A file that the program changed, by its path; its content follows.
    Changed(PathBuf),
    /// The next piece of that file.
    Piece(Vec<u8>),
    /// A file that the program left to be shown, by its path and size; its content follows unless it is too large.
    Left(PathBuf, u64),
    /// The program has ended and everything that it started is gone. The last frame.
    Ended(End),
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Exit code or signal.
    pub status: ExitStatus,
    /// What it used.
    pub usage: Usage,
    /// Processes that the kernel ended for lack of memory.
    pub out_of_memory: u64,
    /// Processes that could not be started for their number.
    pub too_many_processes: u64,
    /// 1 where a writable folder was full, as far as was seen.
    pub full_disk: u64,
}

/// What came instead of a frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The stream is over.
    #[error("the stream ended")]
    Closed(#[from] std::io::Error),
    /// A changed file could not be taken.
    #[error("{0}")]
    File(String),
    /// No frame of ours.
    #[error("a frame that cannot be read")]
    Malformed,
}

impl Frame {
    /// Reads the next one.
    pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<Self, FrameError> {
        let mut head = [0; 5];
        stream.read_exact(&mut head).await?;
        let [kind, length @ ..] = head;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > LARGEST {
            return Err(FrameError::Malformed);
        }
        let mut content = vec![0; length];
        stream.read_exact(&mut content).await?;
        Self::decode(kind, content)
    }

    fn decode(kind: u8, content: Vec<u8>) -> Result<Self, FrameError> {
        let text = |content: Vec<u8>| String::from_utf8_lossy(&content).into_owned();
        Ok(match kind {
            b'R' => Self::Enforced(text(content)),
            b'S' => Self::Started(text(content)),
            b'E' => Self::Failed(text(content)),
            b'T' => Self::Taken,
            b'O' => Self::Stdout(content),
            b'X' => Self::Stderr(content),
            b'C' => Self::Channel(content),
            b'N' => Self::Changed(text(content).into()),
            b'B' => Self::Piece(content),
            b'L' => Self::left(&text(content)).ok_or(FrameError::Malformed)?,
            b'D' => Self::Ended(End::parse(&text(content)).ok_or(FrameError::Malformed)?),
            _ => return Err(FrameError::Malformed),
        })
    }
}

impl Frame {
    fn left(text: &str) -> Option<Self> {
        let (size, path) = text.split_once(' ')?;
        Some(Self::Left(path.into(), size.parse().ok()?))
    }
}

impl End {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let how = words.next()?;
        let number: i32 = words.next()?.parse().ok()?;
        let status = match how {
            "exit" => ExitStatus::Exited(number),
            "signal" => ExitStatus::Signaled(number),
            _ => return None,
        };
        let mut numbers = words.map(|word| word.parse::<u64>().ok());
        let usage = Usage { cpu: Duration::from_micros(numbers.next()??), peak_memory: numbers.next()?? };
        let mut number = || numbers.next().flatten();
        Some(Self {
            status,
            usage,
            out_of_memory: number()?,
            too_many_processes: number()?,
            full_disk: number()?,
        })
    }
}

/// Ends every process of the program.
pub const KILL: [u8; 5] = [b'K', 0, 0, 0, 0];

/// Bytes for the private channel.
pub fn channel(content: &[u8]) -> Vec<u8> {
    frame(b'C', content)
}

/// What starts a program: the header, and a frame for each file.
pub fn start(program: &Program) -> Vec<u8> {
    let mut fields: Vec<&str> = Vec::new();
    let (path, folder) = (text(&program.path), text(&program.folder));
    let returned = &program.returned;
    let lengths =
        [program.args.len(), program.env.len(), program.files.len(), program.writable.len(), returned.len()];
    let counts = lengths.map(|length| length.to_string());
    let writable: Vec<_> = program.writable.iter().map(|path| text(path)).collect();
    let returned: Vec<_> = returned.iter().map(|path| text(path)).collect();
    let env: Vec<String> = program.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let files: Vec<_> = program.files.iter().map(|file| text(&file.path)).collect();
    let script = program.waits_for.as_deref().map(text).unwrap_or_default();
    fields.extend([&*path, &*folder, if program.channel { "channel" } else { "" }, &*script]);
    fields.push(&counts[0]);
    fields.extend(program.args.iter().map(String::as_str));
    fields.push(&counts[1]);
    fields.extend(env.iter().map(String::as_str));
    fields.push(&counts[2]);
    fields.extend(files.iter().map(AsRef::as_ref));
    fields.push(&counts[3]);
    fields.extend(writable.iter().map(AsRef::as_ref));
    fields.push(&counts[4]);
    fields.extend(returned.iter().map(AsRef::as_ref));
    let mut bytes = frame(b'H', fields.join("\0").as_bytes());
    for file in &program.files {
        bytes.extend(self::file(&file.content));
    }
    bytes
}

/// The content of a file.
pub fn file(content: &[u8]) -> Vec<u8> {
    frame(b'F', content)
}

fn text(path: &Path) -> std::borrow::Cow<'_, str> {
    path.to_string_lossy()
}

fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).expect("calls are limited to 16 MiB");
    let mut bytes = Vec::with_capacity(content.len() + 5);
    bytes.push(kind);
    bytes.extend(length.to_be_bytes());
    bytes.extend(content);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_are_read_one_after_the_other() {
        let mut stream: &[u8] = b"R\0\0\0\x05uid 1S\0\0\0\0O\0\0\0\x02hiD\0\0\0\x17exit 3 1500 4096 0 0 0\n";
        assert_eq!(Frame::read(&mut stream).await.expect("read"), Frame::Enforced("uid 1".into()));
        assert_eq!(Frame::read(&mut stream).await.expect("read"), Frame::Started(String::new()));
        assert_eq!(Frame::read(&mut stream).await.expect("read"), Frame::Stdout(b"hi".to_vec()));
        assert!(
            matches!(Frame::read(&mut stream).await, Err(FrameError::Malformed)),
            "a line's end is no number"
        );
        let end = End::parse("signal 9 1500 4096 1 0 1").expect("read");
        assert_eq!((end.status, end.out_of_memory, end.full_disk), (ExitStatus::Signaled(9), 1, 1));
        assert!(matches!(Frame::read(&mut stream).await, Err(FrameError::Closed(_))));
    }

    #[tokio::test]
    async fn a_length_that_nobody_sends_is_refused_before_memory_is_taken() {
        let mut stream: &[u8] = b"O\xff\xff\xff\xff";
        assert!(matches!(Frame::read(&mut stream).await, Err(FrameError::Malformed)));
    }
}
