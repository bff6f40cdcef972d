//! Finds the `script` block of PEP 723.
//!
//! The grammar is that of the reference expression in the inline script metadata specification: an opening line
//! `# /// TYPE`, one or more lines that are `#` or start with `# `, and a closing line `# ///`, all at column 0. The
//! content runs as far as it can, so of several closing lines in one run of comment lines the last counts, and two
//! blocks without a line between them are read as one. A block inside a string literal is none.
//!
//! Must never know: what the content means.

use super::lines::{Line, Lines};
use super::literals::{self, Comment};
use super::problem::{ProblemKind, Problems, quoted};

/// Largest content of a block, in bytes. A thousand requirements with hashes take about a tenth of it.
pub const MAX_BLOCK_BYTES: usize = 1024 * 1024;

const CLOSING: &str = "# ///";

/// A place in the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Line of the script, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

/// The `script` block of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    opening: u32,
    closing: u32,
    toml: String,
    /// For each content line: where it starts in `toml`, and how many columns the comment sign took.
    starts: Vec<(usize, u32)>,
}

impl Block {
    /// Line of the opening line.
    #[must_use]
    pub fn opening(&self) -> u32 {
        self.opening
    }

    /// Line of the closing line.
    #[must_use]
    pub fn closing(&self) -> u32 {
        self.closing
    }

    /// The content without comment signs.
    #[must_use]
    pub fn toml(&self) -> &str {
        &self.toml
    }

    /// The place in the script of a byte of [`toml`](Self::toml).
    #[must_use]
    pub fn position(&self, offset: usize) -> Position {
        let index = self.starts.partition_point(|(start, _)| *start <= offset).saturating_sub(1);
        let (start, sign) = self.starts.get(index).copied().unwrap_or((0, 0));
        let before = self.toml.get(start..offset).map_or(0, |text| text.chars().count());
        let line = self.opening + 1 + u32::try_from(index).unwrap_or(u32::MAX - self.opening - 1);
        Position { line, column: sign + 1 + u32::try_from(before).unwrap_or(u32::MAX - sign - 1) }
    }

    fn new(opening: u32, content: &[Line<'_>]) -> Self {
        let mut toml = String::new();
        let mut starts = Vec::with_capacity(content.len());
        for line in content {
            let text = line.text.strip_prefix("# ").unwrap_or_else(|| &line.text[1..]);
            starts.push((toml.len(), u32::from(line.text.starts_with("# ")) + 1));
            toml.push_str(text);
            toml.push('\n');
        }
        let closing = content.last().map_or(opening, |line| line.number) + 1;
        Self { opening, closing, toml, starts }
    }
}

/// Finds the `script` block; more than one, an unclosed one and near misses are reported.
pub fn find(source: &str, problems: &mut Problems) -> Option<Block> {
    if !source.contains("///") {
        return None;
    }
    let candidates = literals::comments(source, looks_like_tag);
    let mut blocks: Vec<Block> = Vec::new();
    let mut resume = 0;
    for candidate in candidates {
        if candidate.line_start < resume {
            continue;
        }
        let Some(kind) = block_type(candidate.text) else {
            report_near_miss(&candidate, problems);
            continue;
        };
        if kind != "script" && kind.eq_ignore_ascii_case("script") {
            report_near_miss(&candidate, problems);
        }
        let run = Run::after(source, &candidate);
        match run.closing() {
            Closing::At(index) => {
                resume = run.lines[index].start + CLOSING.len();
                if kind == "script" {
                    blocks.push(Block::new(candidate.line, &run.lines[..index]));
                }
            }
            Closing::AtOnce => resume = run.lines[0].start + CLOSING.len(),
            Closing::Missing => {
                resume = run.end;
                if kind == "script" {
                    report_unclosed(&candidate, &run, problems);
                }
            }
        }
    }
    for extra in blocks.iter().skip(1) {
        report_second(blocks[0].opening, extra, problems);
    }
    blocks.into_iter().next().filter(|block| fits(block, problems))
}

/// The comment lines right after an opening line.
struct Run<'a> {
    lines: Vec<Line<'a>>,
    /// Byte after the last of them.
    end: usize,
}

impl<'a> Run<'a> {
    fn after(source: &'a str, opening: &Comment<'_>) -> Self {
        let following = Lines::from(source, opening.line_start, opening.line).skip(1);
        let lines: Vec<_> = following.take_while(|line| is_content(line.text)).collect();
        let end =
            lines.last().map_or(opening.line_start + opening.text.len(), |line| line.start + line.text.len());
        Self { lines, end }
    }

    fn closing(&self) -> Closing {
        match self.lines.iter().rposition(|line| line.text == CLOSING) {
            Some(0) => Closing::AtOnce,
            Some(index) => Closing::At(index),
            None => Closing::Missing,
        }
    }
}

/// Where a run closes its block.
enum Closing {
    /// At the line with this index, the last that can.
    At(usize),
    /// Right after the opening line: the reference expression finds no block there, and nothing is lost.
    AtOnce,
    /// Nowhere.
    Missing,
}

fn is_content(text: &str) -> bool {
    text == "#" || text.starts_with("# ")
}

/// The type named by an opening line; `None` for any other line.
fn block_type(line: &str) -> Option<&str> {
    let kind = line.strip_prefix("# /// ")?;
    let is_type = !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_type.then_some(kind)
}

/// Whether a comment is a tag or a misspelling of one.
fn looks_like_tag(comment: &str) -> bool {
    comment.trim_start_matches(['#', ' ', '\t']).starts_with("///")
}

fn report_near_miss(comment: &Comment<'_>, problems: &mut Problems) {
    let rest = comment.text.trim_start_matches(['#', ' ', '\t', '\x0c', '/']);
    if rest.trim().eq_ignore_ascii_case("script") {
        let message = format!(
            "{} is not read as the start of a metadata block: write exactly `# /// script` at the start of the \
             line, with nothing after it",
            quoted(comment.text)
        );
        problems.warning(Some(comment.line), ProblemKind::MisspelledBlock, message);
    }
}

fn report_unclosed(opening: &Comment<'_>, run: &Run<'_>, problems: &mut Problems) {
    let almost = run.lines.iter().find(|line| line.text.trim_start_matches('#').trim() == "///");
    let remedy = match almost {
        Some(line) => format!("line {} must be exactly `# ///`, with nothing after it", line.number),
        None => {
            "add a line that is exactly `# ///` after the last metadata line, with no line that lacks a `#` \
                 in between"
                .to_owned()
        }
    };
    let message = format!("the metadata block opened on line {} is never closed: {remedy}", opening.line);
    problems.error(Some(opening.line), ProblemKind::UnclosedBlock, message);
}

fn report_second(first: u32, extra: &Block, problems: &mut Problems) {
    let message = format!(
        "there are two `script` blocks, on line {first} and on line {}: keep one and move everything into it",
        extra.opening
    );
    problems.error(Some(extra.opening), ProblemKind::DuplicateBlock, message);
}

fn fits(block: &Block, problems: &mut Problems) -> bool {
    let fits = block.toml.len() <= MAX_BLOCK_BYTES;
    if !fits {
        let message = format!("the metadata block is longer than {} KiB: shorten it", MAX_BLOCK_BYTES / 1024);
        problems.error(Some(block.opening), ProblemKind::TooLarge, message);
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str) -> (Option<Block>, Vec<String>) {
        let mut problems = Problems::default();
        let block = find(source, &mut problems);
        (block, problems.into_sorted().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn line_ends_and_byte_order_mark_do_not_hide_a_block() {
        let source = "# /// script\n# a = 1\n#\n# b = 2\n# ///\nprint(1)\n";
        for variant in [
            source.to_owned(),
            source.replace('\n', "\r\n"),
            source.replace('\n', "\r"),
            format!("\u{feff}{source}"),
            format!("\u{feff}{}", source.replace('\n', "\r\n")),
            source.replace("print(1)\n", "").trim_end().to_owned(),
        ] {
            let (block, problems) = check(&variant);
            assert_eq!(block.as_ref().map(Block::toml), Some("a = 1\n\nb = 2\n"), "{variant:?}");
            assert_eq!(block.map(|block| (block.opening(), block.closing())), Some((1, 5)), "{variant:?}");
            assert!(problems.is_empty(), "{problems:?}");
        }
    }

    #[test]
    fn positions_are_those_of_the_script() {
        let (block, _) = check("import os\n\n# /// script\n#\n# é = 1\n# ///\n");
        let block = block.expect("a block");
        assert_eq!(block.position(0), Position { line: 4, column: 2 });
        assert_eq!(block.position(1), Position { line: 5, column: 3 });
        assert_eq!(block.position(3), Position { line: 5, column: 4 });
    }

    #[test]
    fn blocks_in_literals_are_none() {
        let inside = "# /// script\n# dependencies = [\"six\"]\n# ///\n";
        for source in [
            format!("\"\"\"\n{inside}\"\"\"\n"),
            format!("x = rf'''\n{inside}'''\n"),
            format!("x = b'''\n{inside}'''\n"),
            format!("x = 'a\\\n{inside}"),
        ] {
            let (block, problems) = check(&source);
            let continued = source.contains("\\\n");
            assert!(block.is_none(), "{source:?}");
            assert!(problems.is_empty() || continued, "{problems:?}");
        }
        let (block, _) = check(&format!("'''\n{inside}'''\n{}", inside.replace("six", "attrs")));
        assert_eq!(block.map(|block| block.opening()), Some(6));
    }

    #[test]
    fn unclosed_and_doubled_blocks_name_their_lines() {
        let (block, problems) = check("# /// script\n# a = 1\n\nprint(1)\n");
        assert!(block.is_none());
        assert!(problems[0].contains("opened on line 1 is never closed"), "{problems:?}");

        let (_, problems) = check("# /// script\n# a = 1\n# /// \n");
        assert!(problems[0].contains("line 3 must be exactly"), "{problems:?}");

        let one = "# /// script\n# a = 1\n# ///\n";
        let (_, problems) = check(&format!("{one}\n{one}"));
        assert!(problems[0].contains("on line 1 and on line 5"), "{problems:?}");
    }

    #[test]
    fn near_misses_are_told() {
        for opening in [
            "#/// script",
            "# /// script ",
            "## /// script",
            "  # /// script",
            "# ///script",
            "# /// Script",
            "# /// script\t",
        ] {
            let (block, problems) = check(&format!("{opening}\n# a = 1\n# ///\n"));
            assert!(block.is_none());
            assert!(
                problems.first().is_some_and(|problem| problem.contains("exactly")),
                "{opening:?} {problems:?}"
            );
        }
        let (_, problems) = check("# /// script\n# ///\n# /// script\n# a\n");
        assert!(problems.first().is_some_and(|problem| problem.starts_with("line 3: ")), "{problems:?}");
        for source in ["# //////\n# /// some words\n", "# /// scripts\n# a\n# ///\n", "# /// script\n# ///\n"]
        {
            assert_eq!(check(source).1, Vec::<String>::new(), "{source:?}");
        }
    }

    #[test]
    fn many_openings_take_linear_time() {
        let (block, problems) = check(&"# /// script\n".repeat(200_000));
        assert!(block.is_none());
        assert_eq!(problems.len(), 1);
    }
}
