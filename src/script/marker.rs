//! Environment markers: the part of a requirement after `;`.
//!
//! Parsed here and not by the requirement library (`pep508_rs`), which turns markers into decision diagrams that it
//! keeps for the life of the process: a server that reads scripts of strangers would grow with each of them, and some
//! markers make the library panic or take seconds. Nothing is evaluated here; the installer gets the canonical text.
//!
//! Canonical means: the variable first, current names, single quotes, operands sorted and none twice. Two markers are
//! the same when their canonical texts are.

use std::fmt;

use pep440_rs::{Version, VersionSpecifier};

/// Most comparisons in a marker. Published packages use a handful, the longest lists of platforms about ten.
const MAX_COMPARISONS: usize = 64;
/// Deepest brackets in a marker.
const MAX_DEPTH: usize = 16;
/// Longest number in a version. Twenty digits no longer fit the arithmetic of the version library.
pub const MAX_DIGITS: usize = 18;

/// The variables, with the names of the withdrawn PEP 345 that the standard still lists.
const VARIABLES: [(&str, &str); 17] = [
    ("os_name", "os_name"),
    ("sys_platform", "sys_platform"),
    ("platform_machine", "platform_machine"),
    ("platform_python_implementation", "platform_python_implementation"),
    ("platform_release", "platform_release"),
    ("platform_system", "platform_system"),
    ("platform_version", "platform_version"),
    ("implementation_name", "implementation_name"),
    ("python_version", "python_version"),
    ("python_full_version", "python_full_version"),
    ("implementation_version", "implementation_version"),
    ("extra", "extra"),
    ("os.name", "os_name"),
    ("sys.platform", "sys_platform"),
    ("platform.version", "platform_version"),
    ("platform.machine", "platform_machine"),
    ("platform.python_implementation", "platform_python_implementation"),
];

/// The variables whose values are versions.
const VERSIONS: [&str; 3] = ["python_version", "python_full_version", "implementation_version"];

/// A marker in canonical form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Marker(Expression);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Expression {
    /// The text of one comparison.
    Comparison(String),
    All(Vec<Expression>),
    Any(Vec<Expression>),
}

impl Marker {
    /// Parses the text after `;`. The error says what is wrong in a few words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let tokens = tokens(text)?;
        let comparisons =
            tokens.iter().filter(|token| matches!(token, Token::Operator(_) | Token::Word("in"))).count();
        if comparisons > MAX_COMPARISONS {
            return Err(format!("it has {comparisons} comparisons and may have {MAX_COMPARISONS}"));
        }
        let mut parser = Parser { tokens: &tokens, depth: 0 };
        let expression = parser.any()?;
        match parser.tokens.first() {
            None => Ok(Self(expression)),
            Some(token) => Err(format!("`and`, `or` or the end is expected before `{}`", token.text())),
        }
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Comparison(text) => out.write_str(text),
            Self::Any(operands) => join(out, operands, " or "),
            Self::All(operands) => join(out, operands, " and "),
        }
    }
}

fn join(out: &mut fmt::Formatter<'_>, operands: &[Expression], word: &str) -> fmt::Result {
    for (at, operand) in operands.iter().enumerate() {
        if at > 0 {
            out.write_str(word)?;
        }
        match operand {
            Expression::Any(_) => write!(out, "({operand})")?,
            _ => write!(out, "{operand}")?,
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Token<'a> {
    Open,
    Close,
    Quoted(&'a str),
    Word(&'a str),
    Operator(&'a str),
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Open => "(",
            Self::Close => ")",
            Self::Quoted(text) | Self::Word(text) | Self::Operator(text) => text,
        }
    }
}

struct Parser<'t, 'a> {
    tokens: &'t [Token<'a>],
    depth: usize,
}

impl<'a> Parser<'_, 'a> {
    fn next(&mut self) -> Option<Token<'a>> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(*first)
    }

    fn takes(&mut self, wanted: Token<'_>) -> bool {
        let matches = self.tokens.first() == Some(&wanted);
        if matches {
            self.tokens = &self.tokens[1..];
        }
        matches
    }

    fn any(&mut self) -> Result<Expression, String> {
        let mut operands = vec![self.all()?];
        while self.takes(Token::Word("or")) {
            operands.push(self.all()?);
        }
        let flat = operands.into_iter().flat_map(|operand| match operand {
            Expression::Any(inner) => inner,
            other => vec![other],
        });
        Ok(canonical(flat.collect(), Expression::Any))
    }

    fn all(&mut self) -> Result<Expression, String> {
        let mut operands = vec![self.single()?];
        while self.takes(Token::Word("and")) {
            operands.push(self.single()?);
        }
        let flat = operands.into_iter().flat_map(|operand| match operand {
            Expression::All(inner) => inner,
            other => vec![other],
        });
        Ok(canonical(flat.collect(), Expression::All))
    }

    fn single(&mut self) -> Result<Expression, String> {
        if !self.takes(Token::Open) {
            return self.comparison();
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("its brackets are nested more than {MAX_DEPTH} deep"));
        }
        let inside = self.any()?;
        self.depth -= 1;
        if self.takes(Token::Close) { Ok(inside) } else { Err("a `(` is never closed".to_owned()) }
    }

    fn comparison(&mut self) -> Result<Expression, String> {
        let left = self.operand()?;
        let operator = match self.next() {
            Some(Token::Operator(operator)) => operator,
            Some(Token::Word("in")) => "in",
            Some(Token::Word("not")) if self.takes(Token::Word("in")) => "not in",
            _ => return Err("a comparison like `python_version >= '3.12'` is expected".to_owned()),
        };
        let right = self.operand()?;
        let text = match (left, right) {
            (Operand::Variable(name), Operand::Value(value)) => compare(name, operator, value)?,
            (Operand::Value(value), Operand::Variable(name)) if operator.ends_with("in") => {
                contains(name, operator, value)?
            }
            (Operand::Value(value), Operand::Variable(name)) => compare(name, mirrored(operator), value)?,
            _ => {
                return Err(
                    "a comparison has a variable on one side and a quoted value on the other".to_owned()
                );
            }
        };
        Ok(Expression::Comparison(text))
    }

    fn operand(&mut self) -> Result<Operand<'a>, String> {
        match self.next() {
            Some(Token::Quoted(value)) => Ok(Operand::Value(value)),
            Some(Token::Word(word)) => {
                let known = VARIABLES.iter().find(|(name, _)| *name == word).map(|(_, name)| *name);
                known
                    .map(Operand::Variable)
                    .ok_or_else(|| format!("`{word}` is not a variable; values are quoted"))
            }
            Some(token) => Err(format!("a variable or a quoted value is expected, not `{}`", token.text())),
            None => Err("it ends where a variable or a quoted value is expected".to_owned()),
        }
    }
}

enum Operand<'a> {
    Variable(&'static str),
    Value(&'a str),
}

fn canonical(mut operands: Vec<Expression>, wrap: fn(Vec<Expression>) -> Expression) -> Expression {
    operands.sort();
    operands.dedup();
    if operands.len() == 1 { operands.remove(0) } else { wrap(operands) }
}

/// `name operator 'value'`.
fn compare(name: &str, operator: &str, value: &str) -> Result<String, String> {
    if name == "extra" {
        let extra = value
            .parse::<pep508_rs::ExtraName>()
            .map_err(|_| format!("`{value}` is not the name of an extra"))?;
        return match operator {
            "==" | "!=" => Ok(format!("extra {operator} '{extra}'")),
            _ => Err("`extra` is compared with `==` or `!=`".to_owned()),
        };
    }
    let known = matches!(operator, "==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "not in");
    if VERSIONS.contains(&name) {
        check_version(name, operator, value)?;
    } else if !known {
        return Err(format!("`{operator}` does not compare `{name}`"));
    }
    Ok(format!("{name} {operator} '{value}'"))
}

/// `'value' in name`.
fn contains(name: &str, operator: &str, value: &str) -> Result<String, String> {
    if name == "extra" || VERSIONS.contains(&name) {
        return Err(format!("`{operator} {name}` makes no sense; compare with `==`"));
    }
    Ok(format!("'{value}' {operator} {name}"))
}

fn check_version(name: &str, operator: &str, value: &str) -> Result<(), String> {
    if longest_number(value) > MAX_DIGITS {
        return Err("a number in it is too long".to_owned());
    }
    let fits = if operator.ends_with("in") {
        !value.trim().is_empty() && value.split_whitespace().all(|version| version.parse::<Version>().is_ok())
    } else {
        operator != "===" && format!("{operator}{value}").parse::<VersionSpecifier>().is_ok()
    };
    if fits { Ok(()) } else { Err(format!("`{name}` cannot be compared by `{operator} '{value}'`")) }
}

/// The operator with its sides exchanged.
fn mirrored(operator: &str) -> &str {
    match operator {
        "<" => ">",
        "<=" => ">=",
        ">" => "<",
        ">=" => "<=",
        other => other,
    }
}

/// Digits of the longest number in a text.
pub fn longest_number(text: &str) -> usize {
    text.split(|other: char| !other.is_ascii_digit()).map(str::len).max().unwrap_or(0)
}

fn tokens(marker: &str) -> Result<Vec<Token<'_>>, String> {
    let mut rest = marker.trim_start();
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '\'' | '"' => quoted_token(rest, first)?,
            '<' | '>' | '=' | '!' | '~' => {
                let length = rest.find(|other| !"<>=!~".contains(other)).unwrap_or(rest.len());
                (Token::Operator(&rest[..length]), length)
            }
            'a'..='z' | 'A'..='Z' | '_' | '.' => {
                let is_name = |other: char| other.is_ascii_alphanumeric() || matches!(other, '_' | '.');
                let length = rest.find(|other| !is_name(other)).unwrap_or(rest.len());
                (Token::Word(&rest[..length]), length)
            }
            other => return Err(format!("`{}` is unexpected there", other.escape_debug())),
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn quoted_token(rest: &str, quote: char) -> Result<(Token<'_>, usize), String> {
    let value = rest[1..].split(quote).next().unwrap_or_default();
    if value.len() + 1 == rest.len() {
        return Err("a quoted value is never closed".to_owned());
    }
    // Written back with single quotes, such a value would end early; a backslash might be taken for an escape.
    if value.contains(['\'', '"', '\\']) {
        return Err("a quoted value holds a quote or a backslash".to_owned());
    }
    Ok((Token::Quoted(value), value.len() + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        Marker::parse(text).map_or_else(|why| format!("refused: {why}"), |marker| marker.to_string())
    }

    #[test]
    fn equal_markers_have_one_text() {
        for (text, want) in [
            ("python_version<\"3.11\"", "python_version < '3.11'"),
            ("'3.11'>python_version", "python_version < '3.11'"),
            ("os.name=='nt'", "os_name == 'nt'"),
            (
                "sys_platform == 'b' or os_name == 'a' or os_name=='a'",
                "os_name == 'a' or sys_platform == 'b'",
            ),
            ("(os_name == 'a' or (os_name == 'b'))", "os_name == 'a' or os_name == 'b'"),
            (
                "(os_name == 'b' or os_name == 'a') and python_version ~= '3.1'",
                "python_version ~= '3.1' and (os_name == 'a' or os_name == 'b')",
            ),
            (
                "os_name == 'b' and os_name == 'c' or os_name == 'a'",
                "os_name == 'a' or os_name == 'b' and os_name == 'c'",
            ),
            ("'x' not in platform_version", "'x' not in platform_version"),
            ("platform_machine in 'arm64 aarch64'", "platform_machine in 'arm64 aarch64'"),
            ("python_version in '3.8 3.9'", "python_version in '3.8 3.9'"),
            ("python_version == '3.*'", "python_version == '3.*'"),
            ("extra=='A_b'", "extra == 'a-b'"),
        ] {
            assert_eq!(shown(text), want, "{text}");
            assert_eq!(shown(want), want, "stable");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let many = vec!["os_name == 'a'"; MAX_COMPARISONS + 1].join(" or ");
        for (text, want) in [
            ("", "it ends where"),
            ("python_version", "a comparison like"),
            ("python_version > ", "it ends where"),
            ("python_version > 3.8", "`3` is unexpected"),
            ("python_version > 'abc'", "cannot be compared"),
            ("python_version === '3.8'", "cannot be compared"),
            ("python_version ~= '3'", "cannot be compared"),
            ("python_version in ''", "cannot be compared"),
            ("'3' in python_version", "makes no sense"),
            ("python_version == '99999999999999999999.*'", "too long"),
            ("'linux' ~= sys_platform", "does not compare"),
            ("sys_platform === 'linux'", "does not compare"),
            ("platform == 'linux'", "not a variable"),
            ("os_name == sys_platform", "a variable on one side"),
            ("'a' == 'a'", "a variable on one side"),
            ("extra > 'a'", "`==` or `!=`"),
            ("extra == '-'", "not the name of an extra"),
            ("os_name == 'a' os_name == 'b'", "is expected before `os_name`"),
            ("os_name == 'a')", "is expected before `)`"),
            ("(os_name == 'a'", "never closed"),
            ("os_name == 'a", "never closed"),
            ("os_name == \"x' or python_version > '3\"", "holds a quote"),
            ("os_name == 'a' é", "unexpected"),
            ("not os_name == 'a'", "not a variable"),
            (&"(".repeat(100_000), "nested more than"),
            (&many, "may have 64"),
        ] {
            assert!(
                shown(text).starts_with("refused") && shown(text).contains(want),
                "{text:.60}: {}",
                shown(text)
            );
        }
    }
}
