//! The names that policy files may use for numbers, and how a value such as `A | B | 0x10` is read.
use std::collections::BTreeMap;
use std::sync::OnceLock;

static TEXT: &str = include_str!("../../../seccomp/constants.toml");

/// The value of a name in `seccomp/constants.toml`.
///
/// # Panics
/// When that file is damaged. The build script reads it too, so such a program is never built.
#[must_use]
pub fn constant(name: &str) -> Option<u64> {
    static TABLE: OnceLock<BTreeMap<String, u64>> = OnceLock::new();
    let table =
        TABLE.get_or_init(|| toml::from_str(TEXT).expect("seccomp/constants.toml maps names to numbers"));
    table.get(name).copied()
}

/// Reads a value: names and numbers (decimal, or hexadecimal with `0x`), joined by `|`.
///
/// # Errors
/// The part that is neither a number nor a known name.
pub fn value(text: &str) -> Result<u64, String> {
    text.split('|').map(str::trim).try_fold(0, |sum, part| match number(part).or_else(|| constant(part)) {
        Some(value) => Ok(sum | value),
        None => Err(part.to_owned()),
    })
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
