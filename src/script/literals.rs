//! Where comments start, and where text that looks like a comment sits inside a string literal.
//!
//! A scanner at the level of Python's own tokenizer: string literals with every prefix, triple quotes, formatted and
//! template strings with nested replacement fields (quotes may be reused inside, as from Python 3.12 on), comments and
//! continued lines. It never fails: where the source is not valid Python it recovers as the tokenizer would, at the
//! end of the line. Must never know: what a metadata block is.

use super::lines::line_end_length;

/// A comment with nothing but white space before it on its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comment<'a> {
    /// Line of the script, from 1.
    pub line: u32,
    /// Where its line starts, in bytes.
    pub line_start: usize,
    /// The whole line up to its end, indentation included.
    pub text: &'a str,
}

/// Every whole-line comment of `source` that `wanted` picks, in order. `wanted` sees the comment from its `#` on.
pub fn comments(source: &str, wanted: impl Fn(&str) -> bool) -> Vec<Comment<'_>> {
    let start = if source.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut scanner = Scanner {
        source,
        bytes: source.as_bytes(),
        at: start,
        line: 1,
        line_start: start,
        blank_so_far: true,
        open: Vec::new(),
        found: Vec::new(),
        wanted,
    };
    while scanner.at < scanner.bytes.len() {
        match scanner.open.last() {
            None | Some(Open::Field { .. }) => scanner.code(),
            Some(&Open::Text(literal)) => scanner.text(literal),
            Some(&Open::FormatSpec { of }) => scanner.format_spec(of),
        }
    }
    scanner.found
}

/// A string literal that is being read.
#[derive(Clone, Copy)]
struct Literal {
    quote: u8,
    length: QuoteLength,
    fields: Fields,
}

#[derive(Clone, Copy, PartialEq)]
enum QuoteLength {
    Single,
    Triple,
}

/// Whether braces in the literal hold code.
#[derive(Clone, Copy, PartialEq)]
enum Fields {
    None,
    Replaced,
}

/// What the scanner is inside of, innermost last.
#[derive(Clone, Copy)]
enum Open {
    Text(Literal),
    /// A replacement field of that literal, with the number of brackets open in it.
    Field {
        of: Literal,
        brackets: u32,
    },
    /// The part of a replacement field after its colon.
    FormatSpec {
        of: Literal,
    },
}

/// Deepest nesting that is followed. Python itself gives up at 150 nested strings and 200 brackets.
const MAX_DEPTH: usize = 1_000;

struct Scanner<'a, W> {
    source: &'a str,
    bytes: &'a [u8],
    at: usize,
    line: u32,
    line_start: usize,
    blank_so_far: bool,
    open: Vec<Open>,
    found: Vec<Comment<'a>>,
    wanted: W,
}

impl<W: Fn(&str) -> bool> Scanner<'_, W> {
    fn code(&mut self) {
        let byte = self.bytes[self.at];
        match byte {
            b'\n' | b'\r' => return self.end_line(),
            b'#' => return self.comment(),
            b'"' | b'\'' => return self.open_literal(byte),
            b' ' | b'\t' | b'\x0c' => {}
            _ => self.blank_so_far = false,
        }
        self.at += 1;
        if let Some(Open::Field { of, brackets }) = self.open.last_mut() {
            let of = *of;
            match byte {
                b'(' | b'[' | b'{' => *brackets += 1,
                b'}' if *brackets == 0 => drop(self.open.pop()),
                b')' | b']' | b'}' => *brackets = brackets.saturating_sub(1),
                b':' if *brackets == 0 => {
                    self.open.pop();
                    self.push(Open::FormatSpec { of });
                }
                _ => {}
            }
        }
    }

    fn comment(&mut self) {
        let rest = &self.source[self.at..];
        let length = rest.find(['\n', '\r']).unwrap_or(rest.len());
        if self.blank_so_far && (self.wanted)(&rest[..length]) {
            let text = &self.source[self.line_start..self.at + length];
            self.found.push(Comment { line: self.line, line_start: self.line_start, text });
        }
        self.at += length;
    }

    fn open_literal(&mut self, quote: u8) {
        let triple = self.bytes[self.at..].starts_with(&[quote; 3]);
        let length = if triple { QuoteLength::Triple } else { QuoteLength::Single };
        let fields = if has_fields(&self.bytes[..self.at]) { Fields::Replaced } else { Fields::None };
        self.blank_so_far = false;
        self.at += if triple { 3 } else { 1 };
        self.push(Open::Text(Literal { quote, length, fields }));
    }

    fn text(&mut self, literal: Literal) {
        let byte = self.bytes[self.at];
        let next = self.bytes.get(self.at + 1).copied();
        match byte {
            b'\\' => self.escape(literal),
            b'\n' | b'\r' => {
                if literal.length == QuoteLength::Single {
                    self.open.pop();
                }
                self.end_line();
            }
            b'{' if literal.fields == Fields::Replaced && next == Some(b'{') => self.at += 2,
            b'{' if literal.fields == Fields::Replaced => {
                self.at += 1;
                self.push(Open::Field { of: literal, brackets: 0 });
            }
            _ if self.closes(literal) => {
                self.at += if literal.length == QuoteLength::Triple { 3 } else { 1 };
                self.open.pop();
            }
            _ => self.at += 1,
        }
    }

    /// A backslash keeps the next character from ending the literal, in raw literals too. It does not keep a brace
    /// from opening a field.
    fn escape(&mut self, literal: Literal) {
        self.at += 1;
        match self.bytes.get(self.at) {
            Some(b'\n' | b'\r') => self.end_line(),
            Some(b'{' | b'}') if literal.fields == Fields::Replaced => {}
            Some(_) => self.at += 1,
            None => {}
        }
    }

    fn format_spec(&mut self, literal: Literal) {
        match self.bytes[self.at] {
            b'{' => {
                self.at += 1;
                self.push(Open::Field { of: literal, brackets: 0 });
            }
            b'}' => {
                self.at += 1;
                self.open.pop();
            }
            b'\n' | b'\r' => {
                if literal.length == QuoteLength::Single {
                    self.leave_literal();
                }
                self.end_line();
            }
            _ if self.closes(literal) => self.leave_literal(),
            _ => self.at += 1,
        }
    }

    /// Drops the format specification and whatever it sits in, up to the literal, whose end is then seen as such.
    fn leave_literal(&mut self) {
        while let Some(open) = self.open.pop() {
            if let Open::Text(literal) = open {
                if self.closes(literal) {
                    self.open.push(open);
                }
                return;
            }
        }
    }

    fn push(&mut self, open: Open) {
        if self.open.len() < MAX_DEPTH {
            self.open.push(open);
        }
    }

    fn closes(&self, literal: Literal) -> bool {
        match literal.length {
            QuoteLength::Single => self.bytes[self.at] == literal.quote,
            QuoteLength::Triple => self.bytes[self.at..].starts_with(&[literal.quote; 3]),
        }
    }

    fn end_line(&mut self) {
        self.at += line_end_length(self.bytes, self.at);
        self.line = self.line.saturating_add(1);
        self.line_start = self.at;
        self.blank_so_far = true;
    }
}

/// Whether the letters before a quote make a formatted or template string (`f`, `t`, with or without `r`).
fn has_fields(before: &[u8]) -> bool {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
    let letters: Vec<u8> =
        before.iter().rev().take(3).take_while(|byte| is_name(byte)).map(u8::to_ascii_lowercase).collect();
    matches!(letters.as_slice(), [b'f' | b't'] | [b'r', b'f' | b't'] | [b'f' | b't', b'r'])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines on which a comment was seen.
    fn seen(source: &str) -> Vec<u32> {
        comments(source, |_| true).iter().map(|comment| comment.line).collect()
    }

    #[test]
    fn comments_are_told_from_string_contents() {
        for (source, want) in [
            ("# a\nx = 1 # not a whole line\n  # c\n", vec![1, 3]),
            ("'''\n# a\n'''\n# b\n", vec![4]),
            ("x = rb'''\n# a\\'''\n# b'''\n# c", vec![4]),
            ("x = 'a\\\n# b'\n# c", vec![3]),
            ("x = '\n# recovered after an unterminated string", vec![2]),
            ("x = \"'''\"\n# a", vec![2]),
            ("x = ''\n# a\ny = ''''''\n# b", vec![2, 4]),
            ("x = 1 \\\n# a", vec![2]),
            ("'''never closed\n# a", vec![]),
            ("\u{feff}# a\n# b", vec![1, 2]),
            ("x = '''\r# a\r'''\r# b\r\n# c", vec![4, 5]),
        ] {
            assert_eq!(seen(source), want, "{source:?}");
        }
    }

    #[test]
    fn replacement_fields_hold_code() {
        for (source, want) in [
            ("f'''{x}\n# a\n'''\n# b", vec![4]),
            ("f'''{\n# inside a field\nx}'''\n# b", vec![2, 4]),
            ("f'''{{\n# a\n'''\n# b", vec![4]),
            ("f'{x['a']}'\n# b", vec![2]),
            ("f\"{f\"{f'''{1}\n# a\n'''}\"}\"\n# b", vec![4]),
            ("f'''{x:\n# in the specification\n}'''\n# b", vec![4]),
            ("f'{x:{y}>{z}}'\n# a", vec![2]),
            ("f'{x!r:^{w}}'; g = f'{d[1:2]}'\n# a", vec![2]),
            ("f'{x:abc'\n# a", vec![2]),
            ("f'{x:abc\n# a", vec![2]),
            ("rf'''\\{\n# code\n1}'''\n# b", vec![2, 4]),
            ("tR'''{1}\n# a\n'''\n# b", vec![4]),
            ("conf'''{\n# a\n'''\n# b", vec![4]),
            ("f'\\N{DIGIT ONE}'\n# a", vec![2]),
            ("f'{(lambda x: 1)(2)}'\n# a", vec![2]),
        ] {
            assert_eq!(seen(source), want, "{source:?}");
        }
    }

    #[test]
    fn deep_nesting_needs_no_stack() {
        let source = "f'{".repeat(200_000);
        assert_eq!(seen(&source), Vec::<u32>::new());
    }
}
