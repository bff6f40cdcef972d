//! Checks an environment marker before the requirement parser sees it.
//!
//! The parser (`pep508_rs`) turns markers into decision diagrams that it keeps for the life of the process. It
//! recurses over brackets, can grow exponentially with the number of comparisons, and panics on some forms that its
//! grammar lets through. A marker that passes here is small and free of those.

/// Most comparisons in a marker. The longest in use on the package index has ten.
const MAX_COMPARISONS: usize = 16;
/// Deepest brackets in a marker.
const MAX_DEPTH: usize = 16;

/// The names that hold versions, so that `~=` means something.
const VERSION_NAMES: [&str; 3] = ["python_version", "python_full_version", "implementation_version"];

#[derive(Clone, Copy, PartialEq)]
enum Token<'a> {
    Open,
    Close,
    Quoted(&'a str),
    Word(&'a str),
    Operator(&'a str),
}

/// What is wrong with a marker (the text after `;`), in a few words.
pub fn check(marker: &str) -> Result<(), String> {
    let tokens = tokens(marker)?;
    let mut depth = 0_usize;
    let mut comparisons = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Open => depth += 1,
            Token::Close => depth = depth.checked_sub(1).ok_or("it closes a bracket that is not open")?,
            Token::Operator("~=") => check_compatible(&tokens, at)?,
            Token::Word(name) => check_name(name)?,
            _ => {}
        }
        comparisons += usize::from(matches!(token, Token::Operator(_) | Token::Word("in")));
        if depth > MAX_DEPTH || comparisons > MAX_COMPARISONS {
            return Err(format!("it has more than {MAX_COMPARISONS} comparisons or nested brackets"));
        }
    }
    Ok(())
}

/// The names of the withdrawn PEP 345 are not the same variables to the parser as those that replaced them.
fn check_name(name: &str) -> Result<(), String> {
    let modern = match name {
        "python_implementation" | "platform.python_implementation" => "platform_python_implementation",
        "os.name" => "os_name",
        "sys.platform" => "sys_platform",
        "platform.version" => "platform_version",
        "platform.machine" => "platform_machine",
        _ => return Ok(()),
    };
    Err(format!("`{name}` is an old name, write `{modern}`"))
}

fn check_compatible(tokens: &[Token<'_>], at: usize) -> Result<(), String> {
    let neighbours = [at.checked_sub(1).and_then(|before| tokens.get(before)), tokens.get(at + 1)];
    let compares_versions = neighbours
        .iter()
        .flatten()
        .any(|token| matches!(token, Token::Word(name) if VERSION_NAMES.contains(name)));
    if compares_versions { Ok(()) } else { Err("`~=` compares versions only".to_owned()) }
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
    // Written back with single quotes, such a value would end early.
    if value.contains(['\'', '"']) {
        return Err("a quoted value holds a quote character".to_owned());
    }
    Ok((Token::Quoted(value), value.len() + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_markers_pass() {
        for marker in [
            "python_version < '3.11'",
            " (os_name == \"nt\" or sys_platform!='darwin') and 'x' not in platform_version",
            "python_version~='3.10'",
            "'3.10' ~= python_full_version",
        ] {
            assert_eq!(check(marker), Ok(()), "{marker}");
        }
    }

    #[test]
    fn what_the_parser_cannot_bear_is_refused() {
        let many = vec!["os_name == 'a'"; MAX_COMPARISONS + 1].join(" or ");
        for marker in [
            "(".repeat(100_000),
            format!("{}os_name == 'a'{}", "(".repeat(17), ")".repeat(17)),
            many,
            "'linux' ~= sys_platform".to_owned(),
            "sys_platform ~= 'linux'".to_owned(),
            "os_name == \"x' or python_version > '3\"".to_owned(),
            "os_name == 'a' é".to_owned(),
            "os_name == 'a".to_owned(),
            "os_name == 'a')".to_owned(),
            "os.name == 'posix'".to_owned(),
        ] {
            assert!(check(&marker).is_err(), "{marker:.60}");
        }
    }
}
