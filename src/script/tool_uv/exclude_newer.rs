//! The date after which packages are not looked at.

use super::super::problem::{ProblemKind, quoted};
use super::super::toml_reader::{Reader, Value};

/// A limit on the date of publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExcludeNewer {
    /// A date, a time stamp or a span before now, as written.
    Limit(String),
    /// `false`: no limit, even where a wider one is set.
    Off,
}

/// Reads a limit in one of the forms that uv documents.
pub fn read(reader: &mut Reader<'_>, key: &str, value: &Value<'_>) -> Option<ExcludeNewer> {
    if value.get_ref().as_bool() == Some(false) {
        return Some(ExcludeNewer::Off);
    }
    let wanted = "a date such as `\"2025-06-01\"`, a time such as `\"2025-06-01T00:00:00Z\"` or a span such as `\"7 days\"`";
    let Some(text) = value.get_ref().as_str() else {
        reader.wrong_type(key, value, &format!("in quotes: {wanted}"));
        return None;
    };
    if is_date(text) || is_time(text) || is_span(text) {
        return Some(ExcludeNewer::Limit(text.to_owned()));
    }
    let message = format!("{} cannot be {}: it is {wanted}", quoted(key), quoted(text));
    reader.error(&value.span(), ProblemKind::InvalidValue, message);
    None
}

/// `2025-06-01`
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    number(year, 4).is_some() && in_range(number(month, 2), 1, 12) && in_range(number(day, 2), 1, 31)
}

/// RFC 3339: `2025-06-01T00:00:00Z`, with fractions or an offset.
fn is_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't', ' ']) else { return false };
    let (clock, offset) = match time.find(['Z', 'z', '+', '-']) {
        Some(at) => time.split_at(at),
        None => return false,
    };
    let zone = matches!(offset, "Z" | "z") || is_clock(&offset[1..], 2);
    let whole = match clock.split_once('.') {
        Some((whole, fraction))
            if fraction.bytes().all(|byte| byte.is_ascii_digit()) && !fraction.is_empty() =>
        {
            whole
        }
        Some(_) => return false,
        None => clock,
    };
    is_date(date) && is_clock(whole, 3) && zone
}

/// Two-digit parts separated by colons, `parts` of them.
fn is_clock(text: &str, parts: usize) -> bool {
    let numbers: Vec<_> = text.split(':').map(|part| number(part, 2)).collect();
    numbers.len() == parts && numbers.iter().all(|part| in_range(*part, 0, 60))
}

/// `7 days`, `2 weeks`, `36 hours`, or ISO 8601 as in `P7D` and `PT36H`.
fn is_span(text: &str) -> bool {
    const UNITS: [&str; 12] =
        ["day", "days", "d", "week", "weeks", "w", "hour", "hours", "h", "minute", "minutes", "m"];
    let split = |part: &str| part.find(|other: char| !other.is_ascii_digit()).unwrap_or(part.len());
    if let Some(iso) = text.strip_prefix('P') {
        let (days, hours) = iso.split_once('T').unwrap_or((iso, ""));
        let fits = |mut part: &str, units: &[u8]| {
            while !part.is_empty() {
                let at = split(part);
                if at == 0 || at > 5 || !part.as_bytes().get(at).is_some_and(|unit| units.contains(unit)) {
                    return false;
                }
                part = &part[at + 1..];
            }
            true
        };
        return iso.len() > 1 && !iso.ends_with('T') && fits(days, b"WD") && fits(hours, b"HMS");
    }
    let at = split(text);
    (1..=5).contains(&at) && UNITS.contains(&text[at..].trim_start())
}

fn number(text: &str, digits: usize) -> Option<u32> {
    let fits = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    fits.then(|| text.parse().ok()).flatten()
}

fn in_range(number: Option<u32>, least: u32, most: u32) -> bool {
    number.is_some_and(|number| (least..=most).contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documented_forms_are_told_from_others() {
        for text in [
            "2023-10-02",
            "2023-10-02T00:00:00Z",
            "2023-10-02T00:00:00.123+02:00",
            "7 days",
            "1 week",
            "36h",
            "P7D",
            "PT36H",
            "P1WT2H",
        ] {
            assert!(is_date(text) || is_time(text) || is_span(text), "{text}");
        }
        for text in [
            "",
            "soon",
            "2023",
            "2023-13-01",
            "2023-10-02T00:00",
            "P",
            "PT",
            "days",
            "7 years",
            "P7",
            "-1 day",
            "2023-10-02T00:00:00+",
            "2023-10-02T00:00:00é",
        ] {
            assert!(!(is_date(text) || is_time(text) || is_span(text)), "{text}");
        }
    }
}
