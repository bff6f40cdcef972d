//! `config show`: every setting, as a configuration file that says the same, and where each value comes from.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use super::print;
use crate::cli::config_file::usual;
use crate::cli::sources::{Setting, Shape};
use crate::environment::HostEnv;

/// Prints what the server would work with.
pub fn show(settings: &[Setting], file: Option<&Path>) -> ExitCode {
    let file = match (file, usual(&HostEnv::capture())) {
        (Some(file), _) => format!("# {}\n", file.display()),
        (None, Some(usual)) => format!("# there is no {}\n", usual.display()),
        (None, None) => String::new(),
    };
    print(&format!("{file}{}", listed(settings)))
}

fn listed(settings: &[Setting]) -> String {
    let lines: Vec<_> = settings.iter().map(|setting| (line(setting), &setting.origin)).collect();
    let width = lines.iter().map(|(line, _)| line.chars().count()).filter(|width| *width < 50).max();
    lines.iter().fold(String::new(), |mut text, (line, origin)| {
        let _ = writeln!(text, "{line:width$}  # {origin}", width = width.unwrap_or_default());
        text
    })
}

/// The setting in TOML; one without a value as a comment.
fn line(Setting { name, value, .. }: &Setting) -> String {
    match value {
        Shape::One(None) => format!("# {name} ="),
        Shape::One(Some(value)) => format!("{name} = {}", quoted(value)),
        Shape::Switch(on) => format!("{name} = {on}"),
        Shape::Many(values) => {
            let values: Vec<_> =
                values.iter().map(|value| toml::Value::from(value.as_str()).to_string()).collect();
            format!("{name} = [{}]", values.join(", "))
        }
    }
}

/// A whole number as it is, all else as a text.
fn quoted(value: &str) -> String {
    match value.parse::<u64>() {
        Ok(number) if number.to_string() == value => value.to_owned(),
        _ => toml::Value::from(value).to_string(),
    }
}
