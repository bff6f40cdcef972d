//! Reading what a program prints: as it comes, with bounded memory, whatever it prints.

use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::sync::watch;

use super::report::Captured;
use super::request::{Progress, ProgressSink};
use crate::sandbox::OutputStream;

/// Bytes of one read. A pipe may hold more; it is read in pieces that a processor keeps near.
const CHUNK: usize = 128 << 10;

/// Bytes at the end of a piece among which its last line is looked for: looking at all of them would take longer than
/// reading them.
const LOOKED_AT: usize = 4 << 10;

/// How long a stream may stay open after every process of the run is gone. Only a process that nobody could end
/// makes this matter.
const AFTER_THE_END: Duration = Duration::from_millis(200);

/// Reads a stream to its end, or until shortly after the run has ended.
pub async fn capture(
    mut stream: OutputStream,
    limit: usize,
    mut ended: watch::Receiver<bool>,
    progress: Option<ProgressSink>,
) -> Captured {
    let mut kept = Kept { bytes: Vec::new(), limit, total: 0 };
    // Not filled with zeros: most programs print far less.
    let mut chunk = Vec::with_capacity(CHUNK);
    let late = async {
        // An error means that the run's side is gone: the same as its end.
        let _ = ended.wait_for(|ended| *ended).await;
        tokio::time::sleep(AFTER_THE_END).await;
    };
    tokio::pin!(late);
    loop {
        tokio::select! {
            biased;
            read = stream.read_buf(&mut chunk) => match read {
                Ok(0) | Err(_) => break,
                Ok(_) => {
                    kept.take(&chunk);
                    if let (Some(progress), Some(line)) = (&progress, last_line(&chunk)) {
                        progress(Progress::line(&String::from_utf8_lossy(line)));
                    }
                    chunk.clear();
                }
            },
            () = &mut late => break,
        }
    }
    kept.finish()
}

struct Kept {
    bytes: Vec<u8>,
    limit: usize,
    total: u64,
}

impl Kept {
    fn take(&mut self, chunk: &[u8]) {
        self.total += chunk.len() as u64;
        // A few bytes more than the limit, so that the cut can be made between characters.
        let room = (self.limit + 4).saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }

    fn finish(self) -> Captured {
        let text = match String::from_utf8(self.bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        let cut = self.total > self.limit as u64 || text.len() > self.limit;
        let text = if cut { text[..text.floor_char_boundary(self.limit)].to_owned() } else { text };
        Captured { text, total_bytes: self.total, truncated: cut }
    }
}

/// The last complete line of a chunk, for people who wait. Progress bars end theirs with a carriage return.
fn last_line(chunk: &[u8]) -> Option<&[u8]> {
    let chunk = &chunk[chunk.len().saturating_sub(LOOKED_AT)..];
    let ends = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let end = chunk.iter().rposition(ends)?;
    chunk[..end].rsplit(ends).find(|line| !line.trim_ascii().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn captured(bytes: &'static [u8], limit: usize) -> Captured {
        let (_ended, receiver) = watch::channel(false);
        capture(Box::new(bytes), limit, receiver, None).await
    }

    #[tokio::test]
    async fn short_output_is_kept_whole() {
        let all = captured(b"one\ntwo\n", 8).await;
        assert_eq!((all.text.as_str(), all.total_bytes, all.truncated), ("one\ntwo\n", 8, false));
    }

    #[tokio::test]
    async fn the_cut_is_between_characters() {
        let cut = captured("äöü".as_bytes(), 3).await;
        assert_eq!((cut.text.as_str(), cut.total_bytes, cut.truncated), ("ä", 6, true));
    }

    #[tokio::test]
    async fn bytes_that_are_no_text_are_replaced_and_the_limit_holds() {
        let odd = captured(b"\xff\xffok", 100).await;
        assert_eq!((odd.text.as_str(), odd.truncated), ("\u{fffd}\u{fffd}ok", false));
        // Each replacement takes three bytes.
        let many = captured(b"\xff\xff\xff\xff", 4).await;
        assert_eq!((many.text.as_str(), many.truncated), ("\u{fffd}", true));
    }

    #[tokio::test]
    async fn an_open_stream_cannot_hold_a_run_that_has_ended() {
        let (_open, stream) = tokio::io::duplex(64);
        let (ended, receiver) = watch::channel(false);
        ended.send_replace(true);
        assert_eq!(capture(Box::new(stream), 100, receiver, None).await, Captured::default());
    }

    #[test]
    fn progress_shows_the_last_complete_line() {
        let last_line =
            |chunk: &[u8]| super::last_line(chunk).map(|line| String::from_utf8_lossy(line).into_owned());
        assert_eq!(last_line(b"one\ntwo\nthr").as_deref(), Some("two"));
        assert_eq!(last_line(b"\r 10%\r 20%").as_deref(), Some(" 10%"));
        assert_eq!(last_line(b"\r\n\n"), None);
        assert_eq!(last_line(b"no end"), None);
        let long = [&[b'x'; 2 * LOOKED_AT][..], b"\nlast\n"].concat();
        assert_eq!(last_line(&long).as_deref(), Some("last"));
        assert_eq!(
            last_line(b"one\x07\r\n").map(|line| Progress::line(&line)),
            Some(Progress::Output("one".into()))
        );
    }
}
