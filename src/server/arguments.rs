//! Arguments of tool calls: shapes are taken liberally where only one thing can be meant, and refused by name where not.
//! Pure.

use rmcp::model::JsonObject;
use serde_json::Value;

use crate::environment::{PythonVersion, python::PythonVersionError};

/// Bounds of a timeout, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Seconds {
    /// For a call that names none.
    pub default: u64,
    /// At most.
    pub max: u64,
}

/// An argument that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// The tool has no such argument.
    #[error("unknown argument `{name}`; {tool} takes {known}")]
    Unknown {
        /// The argument.
        name: String,
        /// The tool.
        tool: &'static str,
        /// What it takes.
        known: String,
    },
    /// It has to be there.
    #[error("the argument `{0}` is missing")]
    Missing(&'static str),
    /// It has another type.
    #[error("`{name}` must be {wanted}, not {got}")]
    Type {
        /// The argument.
        name: &'static str,
        /// What it should be.
        wanted: &'static str,
        /// What it was.
        got: String,
    },
    /// One string stands where a list of them belongs.
    #[error("`{name}` must be a list of strings, not one string; write {fix}")]
    BareString {
        /// The argument.
        name: &'static str,
        /// How to write it.
        fix: String,
    },
    /// A number of seconds outside the range.
    #[error("`{name}` must be a whole number of seconds from 1 to {max}, not {got}")]
    Seconds {
        /// The argument.
        name: &'static str,
        /// The largest value.
        max: u64,
        /// What it was.
        got: String,
    },
    /// Not a version.
    #[error("`{name}`: {source}")]
    Version {
        /// The argument.
        name: &'static str,
        /// Why.
        source: PythonVersionError,
    },
}

/// The arguments of one call; each of them is known to the tool.
pub struct Arguments<'a> {
    values: JsonObject,
    known: &'a [&'static str],
}

impl<'a> Arguments<'a> {
    /// Refuses arguments that the tool does not know.
    pub fn new(
        tool: &'static str,
        values: JsonObject,
        known: &'a [&'static str],
    ) -> Result<Self, ArgumentError> {
        if let Some(name) = values.keys().find(|name| !known.contains(&name.as_str())) {
            let known = if known.is_empty() { "no arguments".to_owned() } else { known.join(", ") };
            return Err(ArgumentError::Unknown { name: shortened(name), tool, known });
        }
        Ok(Self { values, known })
    }

    /// The value, where there is one; `null` counts as absent.
    fn get(&self, name: &'static str) -> Option<&Value> {
        debug_assert!(self.known.contains(&name), "{name} is not declared");
        self.values.get(name).filter(|value| !value.is_null())
    }

    /// A string that has to be there. It is taken out, since it may be large.
    pub fn text(&mut self, name: &'static str) -> Result<String, ArgumentError> {
        match self.values.remove(name) {
            Some(Value::String(text)) => Ok(text),
            None | Some(Value::Null) => Err(ArgumentError::Missing(name)),
            Some(other) => Err(ArgumentError::Type { name, wanted: "a string", got: shown(&other) }),
        }
    }

    /// A string, where there is one.
    pub fn optional_text(&mut self, name: &'static str) -> Result<Option<String>, ArgumentError> {
        if self.get(name).is_some() { self.text(name).map(Some) } else { Ok(None) }
    }

    /// A whole number that is not negative, where there is one.
    pub fn number(&self, name: &'static str) -> Result<Option<u64>, ArgumentError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = match value {
            Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
            Value::String(text) => digits(text.trim()),
            _ => None,
        };
        let wrong = || ArgumentError::Type { name, wanted: "a whole number", got: shown(value) };
        number.map(Some).ok_or_else(wrong)
    }

    /// One string or a list of them, which has to be there.
    pub fn one_or_more(&self, name: &'static str) -> Result<Vec<String>, ArgumentError> {
        match self.get(name) {
            None => Err(ArgumentError::Missing(name)),
            Some(Value::String(text)) if !text.trim_start().starts_with('[') => Ok(vec![text.clone()]),
            Some(_) => self.list(name),
        }
    }

    /// A list of strings, empty where there is none. A string that holds a JSON list of strings is one, too.
    pub fn list(&self, name: &'static str) -> Result<Vec<String>, ArgumentError> {
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => strings(name, items),
            Some(Value::String(text)) => match serde_json::from_str(text) {
                Ok(Value::Array(items)) => strings(name, &items),
                _ => Err(ArgumentError::BareString {
                    name,
                    fix: shortened(&Value::from(vec![text.as_str()]).to_string()),
                }),
            },
            Some(other) => Err(ArgumentError::Type { name, wanted: "a list of strings", got: shown(other) }),
        }
    }

    /// Seconds from 1 to the maximum; more is lowered to it, and the second part says so.
    pub fn seconds(
        &self,
        name: &'static str,
        bounds: Seconds,
    ) -> Result<(u64, Option<String>), ArgumentError> {
        let Some(value) = self.get(name) else { return Ok((bounds.default, None)) };
        let wrong = || ArgumentError::Seconds { name, max: bounds.max, got: shown(value) };
        let seconds = match value {
            Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
            Value::String(text) => digits(text.trim()),
            _ => None,
        };
        match seconds {
            None | Some(0) => Err(wrong()),
            Some(seconds) if seconds > bounds.max => {
                Ok((bounds.max, Some(lowered(name, &shown(value), bounds.max))))
            }
            Some(seconds) => Ok((seconds, None)),
        }
    }

    /// A Python version, where one is named.
    pub fn python_version(&self, name: &'static str) -> Result<Option<PythonVersion>, ArgumentError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => {
                let version = text.parse().map_err(|_| PythonVersionError(shortened(text)));
                version.map(Some).map_err(|source| ArgumentError::Version { name, source })
            }
            // As a number 3.10 would be 3.1.
            Some(other) => {
                Err(ArgumentError::Type { name, wanted: "a string such as \"3.13\"", got: shown(other) })
            }
        }
    }
}

fn lowered(name: &str, asked: &str, max: u64) -> String {
    format!("{name} was lowered from {asked} to the maximum of {max}")
}

fn strings(name: &'static str, items: &[Value]) -> Result<Vec<String>, ArgumentError> {
    let text = |item: &Value| match item {
        Value::String(text) => Ok(text.clone()),
        other => Err(ArgumentError::Type {
            name,
            wanted: "a list of strings",
            got: format!("a list with {}", shown(other)),
        }),
    };
    items.iter().map(text).collect()
}

/// The whole, positive number that a floating-point number stands for; what is too large for `u64` becomes its largest.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(number: f64) -> Option<u64> {
    // A conversion with `as` saturates.
    (number.fract() == 0.0 && number >= 0.0).then_some(number as u64)
}

/// Digits and nothing else; what is too large for `u64` becomes its largest.
fn digits(text: &str) -> Option<u64> {
    let only_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    only_digits.then(|| text.parse().unwrap_or(u64::MAX))
}

/// A value as it came, cut to a readable length.
fn shown(value: &Value) -> String {
    shortened(&value.to_string())
}

fn shortened(text: &str) -> String {
    const LONGEST: usize = 80;
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const BOUNDS: Seconds = Seconds { default: 30, max: 300 };

    fn arguments(value: &Value) -> Arguments<'static> {
        let known = &["script", "dependencies", "timeout_seconds", "python_version"];
        Arguments::new("execute_python", value.as_object().cloned().unwrap_or_default(), known)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    fn seconds(value: &Value) -> Result<(u64, Option<String>), ArgumentError> {
        arguments(&json!({ "timeout_seconds": value })).seconds("timeout_seconds", BOUNDS)
    }

    #[test]
    fn whole_seconds_are_taken_in_every_spelling() {
        for value in [json!(7), json!("7"), json!(" 7 "), json!(7.0), json!("007")] {
            assert_eq!(seconds(&value), Ok((7, None)));
        }
        assert_eq!(seconds(&json!(null)), Ok((30, None)));
        assert_eq!(arguments(&json!({})).seconds("timeout_seconds", BOUNDS), Ok((30, None)));
        assert_eq!(seconds(&json!(300)), Ok((300, None)));
    }

    #[test]
    fn more_than_the_maximum_is_lowered_and_said() {
        for value in [
            json!(301),
            json!(1_000_000_000),
            json!(1e300),
            json!("99999999999999999999999"),
            json!(u64::MAX),
        ] {
            let (taken, note) = seconds(&value).unwrap_or_else(|error| panic!("{value}: {error}"));
            assert_eq!(taken, 300);
            assert!(note.is_some_and(|note| note.contains("maximum of 300")), "{value}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_the_range() {
        let wrong = [
            json!(0),
            json!(-1),
            json!(-5),
            json!(1.5),
            json!(-0.0),
            json!(true),
            json!("30s"),
            json!("NaN"),
            json!(""),
            json!("-3"),
            json!("1.5"),
            json!([]),
            json!({}),
            json!([30]),
        ];
        for value in wrong {
            let error = seconds(&value).map(|_| ()).map_err(|error| error.to_string());
            assert!(matches!(&error, Err(text) if text.contains("1 to 300")), "{value}: {error:?}");
        }
    }

    #[test]
    fn a_list_may_come_as_json_text_but_not_as_a_bare_string() {
        let list = |value: Value| arguments(&json!({ "dependencies": value })).list("dependencies");
        assert_eq!(list(json!(null)), Ok(vec![]));
        assert_eq!(list(json!(["six", "rich>=13"])), Ok(vec!["six".into(), "rich>=13".into()]));
        assert_eq!(list(json!("[\"six\"]")), Ok(vec!["six".into()]));
        let error = list(json!("six")).map_err(|error| error.to_string());
        assert_eq!(
            error,
            Err("`dependencies` must be a list of strings, not one string; write [\"six\"]".into())
        );
        for value in [json!(7), json!({}), json!(["six", 7]), json!([null]), json!("[7]"), json!(true)] {
            let error = list(value.clone()).map(|_| ()).map_err(|error| error.to_string());
            assert!(matches!(&error, Err(text) if text.contains("list of strings")), "{value}: {error:?}");
        }
    }

    #[test]
    fn unknown_missing_and_mistyped_arguments_are_named() {
        let unknown = Arguments::new(
            "check_environment",
            json!({"verbose": 1}).as_object().cloned().unwrap_or_default(),
            &[],
        );
        assert_eq!(
            unknown.map(|_| ()).map_err(|error| error.to_string()),
            Err("unknown argument `verbose`; check_environment takes no arguments".into())
        );
        assert_eq!(arguments(&json!({})).text("script"), Err(ArgumentError::Missing("script")));
        assert_eq!(arguments(&json!({"script": null})).text("script"), Err(ArgumentError::Missing("script")));
        let error = arguments(&json!({"script": ["x".repeat(500)]}))
            .text("script")
            .map_err(|error| error.to_string());
        assert!(
            matches!(&error, Err(text) if text.starts_with("`script` must be a string") && text.len() < 200)
        );
    }

    #[test]
    fn a_version_is_a_string() {
        let version =
            |value: Value| arguments(&json!({ "python_version": value })).python_version("python_version");
        assert_eq!(version(json!("3.14")), Ok(Some(PythonVersion { major: 3, minor: 14, patch: None })));
        assert_eq!(version(json!(null)), Ok(None));
        for value in [json!(3.13), json!("2.7"), json!("latest"), json!([])] {
            let error = version(value.clone()).map(|_| ()).map_err(|error| error.to_string());
            assert!(matches!(&error, Err(text) if text.contains("3.13")), "{value}: {error:?}");
        }
    }
}
