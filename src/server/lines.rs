//! Bytes to lines, with a limit. Knows nothing of JSON beyond "one message a line".

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes asked for at a time.
const CHUNK: usize = 64 << 10;
/// Bytes kept of the start of an over-long line.
const HEAD: usize = 4 << 10;
/// Bytes kept of its end.
const TAIL: usize = 512;

/// One line of input, without its line feed.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// All of it.
    Whole(Vec<u8>),
    /// It was longer than the limit: its first and its last bytes.
    TooLong {
        /// The first bytes.
        head: Vec<u8>,
        /// The last bytes.
        tail: Vec<u8>,
    },
}

/// A reader that gives lines and never holds more than one of them. Dropping the future of [`Lines::next`] loses
/// nothing.
pub struct Lines<R> {
    input: R,
    limit: usize,
    /// What was read and not yet given out.
    buffer: Vec<u8>,
    /// How much of the buffer is known to hold no line feed.
    searched: usize,
    /// The start and the latest bytes of an over-long line that is being skipped.
    skipping: Option<(Vec<u8>, Vec<u8>)>,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines of at most `limit` bytes.
    pub fn new(input: R, limit: usize) -> Self {
        Self { input, limit, buffer: Vec::new(), searched: 0, skipping: None, ended: false }
    }

    /// The next line; `None` at the end of input. An unfinished last line counts as a line.
    pub async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.split() {
                return Ok(Some(line));
            }
            if self.ended {
                return Ok(self.rest());
            }
            self.buffer.reserve(CHUNK);
            if self.input.read_buf(&mut self.buffer).await? == 0 {
                self.ended = true;
            }
        }
    }

    /// Takes a line from the buffer, or moves an over-long beginning out of it.
    fn split(&mut self) -> Option<Line> {
        let found = self.buffer[self.searched..].iter().position(|&byte| byte == b'\n');
        if let Some(offset) = found {
            let end = self.searched + offset;
            let rest = self.buffer.split_off(end + 1);
            let mut line = std::mem::replace(&mut self.buffer, rest);
            line.truncate(end);
            self.searched = 0;
            return Some(self.finish(line));
        }
        self.searched = self.buffer.len();
        if self.skipping.is_some() || self.buffer.len() > self.limit {
            let part = std::mem::take(&mut self.buffer);
            self.searched = 0;
            self.skip(&part);
        }
        None
    }

    /// What is left when the input has ended.
    fn rest(&mut self) -> Option<Line> {
        let line = std::mem::take(&mut self.buffer);
        self.searched = 0;
        (!line.is_empty() || self.skipping.is_some()).then(|| self.finish(line))
    }

    /// Makes the line out of its last part.
    fn finish(&mut self, part: Vec<u8>) -> Line {
        if self.skipping.is_none() && part.len() <= self.limit {
            return Line::Whole(part);
        }
        self.skip(&part);
        let (head, tail) = self.skipping.take().unwrap_or_default();
        Line::TooLong { head, tail }
    }

    fn skip(&mut self, part: &[u8]) {
        let (_, tail) =
            self.skipping.get_or_insert_with(|| (part[..part.len().min(HEAD)].to_vec(), Vec::new()));
        tail.extend_from_slice(&part[part.len().saturating_sub(TAIL)..]);
        let surplus = tail.len().saturating_sub(TAIL);
        tail.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(input: &[u8], limit: usize) -> Vec<Line> {
        let mut lines = Lines::new(input, limit);
        let mut found = Vec::new();
        while let Ok(Some(line)) = lines.next().await {
            found.push(line);
        }
        found
    }

    fn whole(text: &str) -> Line {
        Line::Whole(text.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn lines_are_split_and_the_last_needs_no_line_feed() {
        assert_eq!(all(b"a\n\nbc\r\nd", 10).await, [whole("a"), whole(""), whole("bc\r"), whole("d")]);
        assert_eq!(all(b"", 10).await, []);
        assert_eq!(all(b"a\n", 10).await, [whole("a")]);
    }

    #[tokio::test]
    async fn the_limit_is_exact_and_the_next_line_survives() {
        assert_eq!(all(b"0123456789\nx\n", 10).await, [whole("0123456789"), whole("x")]);
        let long = all(b"0123456789A\nx\n", 10).await;
        assert_eq!(long[0], Line::TooLong { head: b"0123456789A".to_vec(), tail: b"0123456789A".to_vec() });
        assert_eq!(long[1], whole("x"));
    }

    #[tokio::test]
    async fn an_overlong_line_keeps_its_ends_and_little_memory() {
        let mut input = b"start".to_vec();
        input.extend(vec![b'.'; 1 << 20]);
        input.extend(b"end\nnext\n");
        let mut lines = Lines::new(&input[..], 1000);
        let Ok(Some(Line::TooLong { head, tail })) = lines.next().await else { panic!("taken as a line") };
        assert!(head.starts_with(b"start") && head.len() <= HEAD);
        assert!(tail.ends_with(b"end") && tail.len() == TAIL);
        assert!(lines.buffer.capacity() <= 4 * CHUNK, "{} bytes held", lines.buffer.capacity());
        assert_eq!(lines.next().await.ok().flatten(), Some(whole("next")));
    }

    #[tokio::test]
    async fn an_overlong_line_without_an_end_is_still_a_line() {
        let lines = all(&[b'x'; 50], 10).await;
        assert!(matches!(&lines[..], [Line::TooLong { .. }]), "{lines:?}");
    }
}
