//! What the terminal can show, if there is one. Colours and moving lines are for people: `NO_COLOR` turns the ones off,
//! and a stream that is no terminal has neither.

use std::io::IsTerminal;

/// How a report is dressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Words alone, for files and programs.
    Plain,
    /// Signs, without colours.
    Signs,
    /// Signs in colours.
    Colours,
}

/// The look for a stream.
pub fn look(stream: &impl IsTerminal) -> Look {
    look_of(moving(stream), |name| std::env::var(name).ok())
}

/// Whether a line can be drawn over and over.
pub fn moving(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

fn look_of(terminal: bool, variable: impl Fn(&str) -> Option<String>) -> Look {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
    let unicode = ["UTF-8", "UTF8"].iter().any(|name| locale.to_uppercase().contains(name));
    match (terminal && unicode, set("NO_COLOR")) {
        (false, _) => Look::Plain,
        (true, Some(_)) => Look::Signs,
        (true, None) => Look::Colours,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_whose_user_wants_them() {
        let look = |terminal, variables: &[(&str, &str)]| {
            let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
            look_of(terminal, |name| find(name).map(|(_, value)| (*value).to_owned()))
        };
        let unicode = ("LANG", "en_US.utf8");
        assert_eq!(look(true, &[unicode]), Look::Colours);
        assert_eq!(look(true, &[unicode, ("NO_COLOR", "")]), Look::Colours);
        assert_eq!(look(true, &[unicode, ("NO_COLOR", "1")]), Look::Signs);
        assert_eq!(look(true, &[unicode, ("LC_ALL", "C")]), Look::Plain);
        assert_eq!(look(false, &[unicode]), Look::Plain);
    }
}
