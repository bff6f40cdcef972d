//! The scripts, from the text files beside: a line `=== name [flags]`, then the script.
//!
//! Flags: `sandbox` (a direct start sees another machine: compared within sandboxes only), `no-newline`, `bom`, `crlf`,
//! `cr`, `mixed` (line ends), `nul`, `formfeed`, `ctrlz` (stand for every `@`), `times=N` (the body repeated),
//! `first=LINE`, `then=LINE` (around it), `line=N` (a long list after it), `string=N` (a long string after it).

/// One script.
pub struct Case {
    pub name: String,
    pub script: String,
    /// Whether a direct start has to do the same.
    pub portable: bool,
}

const FILES: [(&str, &str); 6] = [
    ("identity", include_str!("cases/identity.txt")),
    ("tracebacks", include_str!("cases/tracebacks.txt")),
    ("syntax", include_str!("cases/syntax.txt")),
    ("encodings", include_str!("cases/encodings.txt")),
    ("ends", include_str!("cases/ends.txt")),
    ("programs", include_str!("cases/programs.txt")),
];

/// All of them.
pub fn all() -> Vec<Case> {
    FILES
        .iter()
        .flat_map(|(file, text)| text.split("=== ").skip(1).map(move |part| case(file, part)))
        .collect()
}

fn case(file: &str, part: &str) -> Case {
    let (header, body) = part.split_once('\n').expect("a header and a body");
    let (name, flags) = match header.split_once(" [") {
        Some((name, flags)) => (name, flags.strip_suffix(']').expect("flags end")),
        None => (header, ""),
    };
    let script = flagged(flags).fold(body.to_owned(), |text, flag| apply(&text, flag));
    let portable = !flagged(flags).any(|flag| flag == "sandbox");
    Case { name: format!("{file}/{name}"), script, portable }
}

/// Flags, where the text after `first=` and `then=` may hold blanks.
fn flagged(flags: &str) -> impl Iterator<Item = &str> {
    let mut rest = flags;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let takes_all = rest.starts_with("first=") || rest.starts_with("then=");
        let blank = rest.find(' ').filter(|_| !takes_all);
        let end = blank.unwrap_or(rest.len());
        let (flag, after) = rest.split_at(end);
        rest = after.trim_start();
        Some(flag)
    })
}

fn apply(text: &str, flag: &str) -> String {
    let trimmed = text.trim_end_matches('\n');
    let count = |number: &str| number.parse::<usize>().expect("a number");
    match flag.split_once('=').unwrap_or((flag, "")) {
        ("sandbox", _) => text.to_owned(),
        ("no-newline", _) => trimmed.to_owned(),
        ("bom", _) => format!("\u{feff}{text}"),
        ("crlf", _) => text.replace('\n', "\r\n"),
        ("cr", _) => text.replace('\n', "\r"),
        ("mixed", _) => text.replacen('\n', "\r\n", 1),
        ("nul", _) => text.replace('@', "\0"),
        ("formfeed", _) => text.replace('@', "\u{c}"),
        ("ctrlz", _) => text.replace('@', "\u{1a}"),
        ("times", number) => text.repeat(count(number)),
        ("first", line) => format!("{line}\n{text}"),
        ("then", line) => format!("{text}{line}\n"),
        ("line", number) => format!("{trimmed} [{}]\nprint(len(x))\n", "1,".repeat(count(number) / 2)),
        ("string", number) => format!("{trimmed} '{}'\nprint(len(x))\n", "y".repeat(count(number))),
        (unknown, _) => panic!("no such flag: {unknown}"),
    }
}
