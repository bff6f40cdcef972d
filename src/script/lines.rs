//! Lines as Python counts them.
//!
//! A line ends at `\n`, `\r\n` or a lone `\r`, because the interpreter reads source files that way: a traceback and
//! this room must mean the same line. Nothing else ends a line, whatever `str.splitlines` does: not U+2028, U+0085,
//! a form feed or a vertical tab.

/// A line of the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Counted from 1.
    pub number: u32,
    /// Where it starts, in bytes from the start of the script.
    pub start: usize,
    /// Its text without the line end.
    pub text: &'a str,
}

/// Iterates over the lines of a text from some line start on.
#[derive(Debug, Clone)]
pub struct Lines<'a> {
    source: &'a str,
    at: usize,
    number: u32,
}

impl<'a> Lines<'a> {
    /// Lines from byte `at`, which is where line `number` starts.
    #[must_use]
    pub fn from(source: &'a str, at: usize, number: u32) -> Self {
        Self { source, at, number }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        let rest = self.source.get(self.at..)?;
        if rest.is_empty() {
            return None;
        }
        let length = rest.find(['\n', '\r']).unwrap_or(rest.len());
        let line = Line { number: self.number, start: self.at, text: &rest[..length] };
        self.at += length + line_end_length(rest.as_bytes(), length);
        self.number = self.number.saturating_add(1);
        Some(line)
    }
}

/// Bytes of the line end at `at`: 0 where there is none, 2 for `\r\n`.
#[must_use]
pub fn line_end_length(bytes: &[u8], at: usize) -> usize {
    match (bytes.get(at), bytes.get(at + 1)) {
        (Some(b'\r'), Some(b'\n')) => 2,
        (Some(b'\n' | b'\r'), _) => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_three_line_ends_of_python_end_a_line() {
        let source = "a\r\nb\rc\n\nd\u{2028}\u{85}\u{b}\u{c}e";
        let lines: Vec<_> = Lines::from(source, 0, 1).map(|line| (line.number, line.text)).collect();
        assert_eq!(lines, [(1, "a"), (2, "b"), (3, "c"), (4, ""), (5, "d\u{2028}\u{85}\u{b}\u{c}e")]);
    }
}
