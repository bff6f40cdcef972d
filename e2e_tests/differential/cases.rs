//! The scripts, from the text files beside: a line `=== name [flags]`, then the script.
//!
//! Flags: `sandbox` (a direct start sees another machine: compared within sandboxes only), `no-newline`, `bom`, `crlf`,
//! `cr`, `mixed` (line ends), `nul`, `formfeed`, `ctrlz` (stand for every `@`), `times=N` (the body repeated),
//! `first=LINE`, `then=LINE` (around it), `line=N` (a long list after it), `string=N` (a long string after it).

use std::path::Path;

/// One script.
pub struct Case {
    pub name: String,
    pub script: String,
    /// Whether a direct start has to do the same.
    pub portable: bool,
    /// Seconds that it may take.
    pub seconds: u32,
    /// Whether it imports packages, which not every machine can fetch.
    pub packages: bool,
}

/// For a script that does not say how long it may take.
const SECONDS: u32 = 60;

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
    Case { name: format!("{file}/{name}"), script, portable, seconds: SECONDS, packages: false }
}

/// Programs of the case kit: those that must work, and those about output, ends and limits. Without the kit there are none.
pub fn of_the_kit(kit: &Path) -> Vec<Case> {
    let files = ["a", "c"].iter().flat_map(|group| std::fs::read_dir(kit.join(group)).into_iter().flatten());
    let mut paths: Vec<_> = files.flatten().map(|file| file.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "py"));
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let script = std::fs::read_to_string(path).expect("a program is UTF-8 text");
        let header = |key: &str| script.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let seconds = header("# timeout_seconds:").map_or(SECONDS, |text| text.parse().expect("a number"));
        let name = path.strip_prefix(kit).expect("it lies in the kit").display().to_string();
        let packages = header("# needs:") != Some("stdlib");
        Case { name, portable: false, seconds, packages, script: script.clone() }
    };
    paths.iter().map(read).collect()
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
