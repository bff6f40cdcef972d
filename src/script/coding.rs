//! The declared encoding of a script's source. Pure.

/// How many lines Python looks at.
const LINES: usize = 2;

/// Whether Python reads this source as UTF-8 without changing over to another decoder: no declaration in the first two
/// lines, or one that Python's tokenizer takes for UTF-8 by its name alone. In doubt the answer is no.
pub fn reads_as_utf8(source: &str) -> bool {
    lines(source).take(LINES).filter_map(declared).all(|name| is_utf8(&name))
}

fn lines(source: &str) -> impl Iterator<Item = &str> {
    source.strip_prefix('\u{feff}').unwrap_or(source).split(['\n', '\r'])
}

/// The encoding that a line declares: in a comment, `coding`, a colon or an equals sign, a name.
fn declared(line: &str) -> Option<String> {
    let comment = line.trim_start_matches([' ', '\t', '\u{c}']).strip_prefix('#')?;
    comment.match_indices("coding").find_map(|(at, word)| {
        let rest = comment[at + word.len()..].strip_prefix([':', '='])?;
        let name: String = rest
            .trim_start_matches([' ', '\t'])
            .chars()
            .take_while(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(*letter))
            .collect();
        (!name.is_empty()).then_some(name)
    })
}

/// The names that the tokenizer itself knows, in any case and with either dash; `utf8` is not among them.
fn is_utf8(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('_', "-");
    name == "utf-8" || name.starts_with("utf-8-")
}

#[cfg(test)]
mod tests {
    use super::reads_as_utf8;

    #[test]
    fn most_scripts_declare_nothing_or_utf8() {
        for source in [
            "",
            "print(1)",
            "# -*- coding: utf-8 -*-\n",
            "#!/usr/bin/python\n# vim: set fileencoding=UTF_8 :\n",
            "\u{feff}# coding: utf-8-unix\n",
            "\n\n# coding: latin-1\n",
            "x = 'coding: latin-1'\n",
            "# about coding\n",
        ] {
            assert!(reads_as_utf8(source), "{source:?}");
        }
    }

    #[test]
    fn other_decoders_are_seen() {
        for source in [
            "# coding: latin-1\n",
            "# coding: utf8\n",
            "#!/usr/bin/python\n \x0c# coding=cp1252\n",
            "\r# coding: koi8-r",
            "# coding coding: utf-16\n",
        ] {
            assert!(!reads_as_utf8(source), "{source:?}");
        }
    }
}
