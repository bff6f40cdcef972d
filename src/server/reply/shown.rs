//! Captured streams as a result shows them: cut to the limit that the user set, and then to what clients take.

use crate::execution::output::OutputFile;
use crate::execution::report::Captured;
use crate::workspace::path::WorkPath;

/// What the texts of one result may take together: characters as JSON writes them, and bytes of those that are not ASCII,
/// since a model reads about as many tokens. Clients cut results of 50,000 characters or 25,000 tokens; markers, notes and
/// fields need the rest.
pub const WIDTH: usize = 40_000;
/// What the words between head and tail take at most.
const GAP: usize = 60;

/// Both streams of a result as it shows them.
pub struct Streams {
    pub stdout: Shown,
    pub stderr: Shown,
}

/// Together they are cut to about `limit` bytes, and then to head and tail where that is still more than clients take.
pub fn streams(stdout: &Captured, stderr: &Captured, limit: usize) -> Streams {
    streams_within(stdout, stderr, limit, WIDTH)
}

/// The same where they may take no more than `room` together.
pub fn streams_within(stdout: &Captured, stderr: &Captured, limit: usize, room: usize) -> Streams {
    let (out_share, err_share) = shares(limit, stdout.text.len(), stderr.text.len());
    let (mut out, mut err) = (Shown::new(stdout, out_share), Shown::new(stderr, err_share));
    let (out_share, err_share) = shares(room, width(&out.text), width(&err.text));
    out.narrow(out_share);
    err.narrow(err_share);
    Streams { stdout: out, stderr: err }
}

impl Streams {
    /// Those of which the middle is not shown, as files that can be read.
    pub fn files(&self) -> Vec<OutputFile> {
        let named = [("stdout", &self.stdout), ("stderr", &self.stderr)];
        named.into_iter().filter_map(|(name, shown)| file(name, &shown.whole.as_ref()?.0)).collect()
    }

    /// What is missing of them, and where it is.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        self.stdout.notes("stdout").chain(self.stderr.notes("stderr"))
    }
}

/// A text that a result does not show whole, as a file that can be read.
pub fn file(name: &str, text: &str) -> Option<OutputFile> {
    let path = WorkPath::file(&file_of(name)).ok()?;
    Some(OutputFile { path, size: text.len() as u64, content: Some(text.as_bytes().into()) })
}

fn file_of(name: &str) -> String {
    format!("{name}.txt")
}

/// Head and tail of a text that is wider than `share`, and the bytes between them that are left out: two thirds of what
/// stays are its head.
pub fn narrowed(text: &str, share: usize) -> Option<(String, usize)> {
    if width(text) <= share {
        return None;
    }
    let room = share.saturating_sub(GAP);
    let head = fitting(text.chars(), room * 2 / 3);
    let tail = text.len() - fitting(text[head..].chars().rev(), room / 3);
    let out = tail - head;
    Some((format!("{}\n... [{out} bytes left out] ...\n{}", &text[..head], &text[tail..]), out))
}

/// Bytes at the start of a text that a result can show.
pub fn showable(text: &str) -> usize {
    fitting(text.chars(), WIDTH)
}

/// A stream as it is shown.
pub struct Shown {
    pub text: String,
    pub total: u64,
    /// Whether more was written than the limit.
    cut: bool,
    /// Bytes that are left of them.
    kept: usize,
    /// What it was before its middle was left out, and how many bytes that took away.
    whole: Option<(String, usize)>,
}

impl Shown {
    fn new(stream: &Captured, share: usize) -> Self {
        let total = stream.total_bytes;
        let cut = stream.truncated || stream.text.len() > share;
        if !cut {
            return Self { text: stream.text.clone(), total, cut, kept: stream.text.len(), whole: None };
        }
        let marker = marker(share);
        let end = stream.text.floor_char_boundary(share.saturating_sub(marker.len()));
        Self { text: format!("{}{marker}", &stream.text[..end]), total, cut, kept: end, whole: None }
    }

    /// Leaves the middle out where the text is wider than `share`.
    fn narrow(&mut self, share: usize) {
        if let Some((text, out)) = narrowed(&self.text, share) {
            self.whole = Some((std::mem::replace(&mut self.text, text), out));
        }
    }

    /// Whether anything is missing.
    pub fn lacks(&self) -> bool {
        self.cut || self.whole.is_some()
    }

    fn notes(&self, name: &str) -> impl Iterator<Item = String> {
        let shown = if self.whole.is_some() { "were kept" } else { "are shown" };
        let cut =
            self.cut.then(|| format!("{name}: the first {} of {} bytes {shown}", self.kept, self.total));
        let middle = self.whole.as_ref().map(|(_, out)| {
            format!("{name}: {out} bytes of its middle are left out; {} has them", file_of(name))
        });
        cut.into_iter().chain(middle)
    }
}

/// How much each of two streams may show so that both fit into `limit`: each has a right to half of it, and what one
/// leaves the other may take.
fn shares(limit: usize, out: usize, err: usize) -> (usize, usize) {
    let half = limit / 2;
    if out + err <= limit {
        (limit, limit)
    } else if err <= half {
        (limit - err, limit)
    } else if out <= half {
        (limit, limit - out)
    } else {
        (half, half)
    }
}

/// What a text takes; see [`WIDTH`].
pub fn width(text: &str) -> usize {
    text.chars().map(written).sum()
}

fn written(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..'\u{20}' | '\u{2028}' | '\u{2029}' => 6,
        other => other.len_utf8(),
    }
}

/// Bytes of the characters that come first and fit into `room`.
fn fitting(characters: impl Iterator<Item = char>, mut room: usize) -> usize {
    let fits = characters.take_while(|character| {
        let left = room.checked_sub(written(*character));
        room = left.unwrap_or(room);
        left.is_some()
    });
    fits.map(char::len_utf8).sum()
}

/// What a cut stream ends with. It counts towards the limit.
fn marker(share: usize) -> String {
    match share / 1024 {
        0 => format!("\n... [truncated at {share} bytes]"),
        kilobytes => format!("\n... [truncated at {kilobytes}KB]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(text: String) -> Captured {
        Captured { total_bytes: text.len() as u64, text, truncated: false }
    }

    #[test]
    fn streams_share_the_limit_and_a_small_one_is_left_whole() {
        assert_eq!(shares(100, 40, 60), (100, 100));
        assert_eq!(shares(100, 100, 10), (90, 100));
        assert_eq!(shares(100, 10, 100), (100, 90));
        assert_eq!(shares(100, 100, 100), (50, 50));
        assert_eq!(shares(100, 100, 0), (100, 100));
    }

    #[test]
    fn a_cut_stream_fills_its_share_to_a_character() {
        let stream = Captured { text: "\u{e4}".repeat(1024), total_bytes: 9000, truncated: true };
        let shown = Shown::new(&stream, 2048);
        assert!(shown.text.ends_with("\u{e4}\n... [truncated at 2KB]"));
        assert!((2046..=2048).contains(&shown.text.len()), "{}", shown.text.len());
        let notes: Vec<_> = shown.notes("stdout").collect();
        assert_eq!(notes, ["stdout: the first 2024 of 9000 bytes are shown"]);
    }

    #[test]
    fn whatever_is_printed_stays_within_what_clients_take() {
        for piece in ["x", "\n", "\"\\", "\u{1}", "\u{2588}", "\u{1f40d}"] {
            let stream = captured(piece.repeat(100_000 / piece.len()));
            let both = streams(&stream, &stream, 1 << 20);
            let files = both.files();
            let Streams { stdout: out, stderr: err } = both;
            let length = serde_json::json!([out.text, err.text]).to_string().len();
            assert!((30_000..=WIDTH + 20).contains(&length), "{piece:?}: {length}");
            assert!(out.text.starts_with(piece) && out.text.ends_with(piece), "{piece:?}");
            assert!(files.iter().all(|file| file.content.as_deref() == Some(stream.text.as_bytes())));
            assert_eq!(files.len(), 2);
        }
        let both = streams(&captured("x".repeat(39_000)), &captured(String::new()), 1 << 20);
        assert!(!both.stdout.lacks() && !both.stderr.lacks() && both.files().is_empty());
    }

    #[test]
    fn head_and_tail_stay_and_what_is_between_is_counted() {
        let lines: Vec<_> = (0..20_000).map(|number| format!("line {number}")).collect();
        let out = streams(&captured(lines.join("\n")), &captured(String::new()), 1 << 20).stdout;
        assert!(out.text.starts_with("line 0\nline 1\n") && out.text.ends_with("line 19998\nline 19999"));
        let (head, rest) = out.text.split_once("\n... [").expect("a gap");
        let (number, tail) = rest.split_once(" bytes left out] ...\n").expect("a number");
        assert_eq!(Ok(lines.join("\n").len() - head.len() - tail.len()), number.parse());
    }
}
