//! Limits on the date of publication: of two, the earlier one holds. Pure but for the clock, which spans are counted from.

use crate::script::tool_uv::{ExcludeNewer, ToolUv};

/// Moves every limit of a script that is later than the user's back to that.
pub fn keep_to(limit: &str, script: &mut ToolUv) {
    let now = i64::try_from(super::service::now()).unwrap_or_default();
    let user = ExcludeNewer::Limit(limit.to_owned());
    let later = |own: &ExcludeNewer| match own {
        ExcludeNewer::Off => true,
        ExcludeNewer::Limit(own) => match (seconds(own, now), seconds(limit, now)) {
            (Some(own), Some(limit)) => own > limit,
            // What cannot be compared is the user's to say.
            _ => true,
        },
    };
    if script.exclude_newer.as_ref().is_some_and(later) {
        script.exclude_newer = None;
    }
    for own in script.exclude_newer_package.values_mut().filter(|own| later(own)) {
        *own = user.clone();
    }
}

/// Seconds since 1970 of a date, a time or a span before now.
fn seconds(text: &str, now: i64) -> Option<i64> {
    let text = text.trim();
    if let Some(date) = text.get(..10).and_then(date) {
        let rest = &text[10..];
        // A date alone includes its day, as uv reads it.
        return if rest.is_empty() { Some(date + DAY) } else { Some(date + time(rest.get(1..)?)?) };
    }
    span(text).map(|span| now - span)
}

const DAY: i64 = 86_400;

fn date(text: &str) -> Option<i64> {
    let mut parts = text.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days from the civil calendar, with years that begin in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = days + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(days * DAY)
}

/// `00:00:00.5+02:00`, in seconds with the offset taken off.
fn time(text: &str) -> Option<i64> {
    let at = text.find(['Z', 'z', '+', '-'])?;
    let clock = |text: &str| -> Option<i64> {
        let parts = text.split(':').map(|part| part.split('.').next()?.parse::<i64>().ok());
        parts.zip([3600, 60, 1]).try_fold(0, |sum, (part, unit)| Some(sum + part? * unit))
    };
    let offset = match &text[at..=at] {
        "+" => clock(&text[at + 1..])?,
        "-" => -clock(&text[at + 1..])?,
        _ => 0,
    };
    Some(clock(&text[..at])? - offset)
}

/// `7 days`, `P1WT2H`.
fn span(text: &str) -> Option<i64> {
    let upper = text.to_ascii_uppercase();
    let (iso, mut in_time) = (upper.starts_with('P'), false);
    let (mut total, mut number) = (0_i64, None::<i64>);
    for letter in upper.trim_start_matches('P').chars() {
        if let Some(digit) = letter.to_digit(10) {
            number = Some(number.unwrap_or(0).checked_mul(10)? + i64::from(digit));
        } else if letter == 'T' && iso {
            in_time = true;
        } else if letter.is_ascii_alphabetic() {
            let unit = match letter {
                'W' => 7 * DAY,
                'D' => DAY,
                'H' => 3600,
                'M' if in_time || !iso => 60,
                'S' if in_time => 1,
                _ => return None,
            };
            total += number.take()?.checked_mul(unit)?;
            if !iso {
                break;
            }
        }
    }
    (total > 0 || upper.contains('0')).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_compared_whatever_their_form() {
        let now = 1_700_000_000;
        assert_eq!(seconds("2023-11-14T22:13:20Z", now), Some(now));
        assert_eq!(seconds("2023-11-15T00:13:20.5+02:00", now), Some(now));
        assert_eq!(seconds("2023-11-13", now), seconds("2023-11-14T00:00:00Z", now));
        assert_eq!(
            (seconds("2 days", now), seconds("P1DT24H", now)),
            (Some(now - 2 * DAY), Some(now - 2 * DAY))
        );
        assert_eq!((seconds("90m", now), seconds("1 week", now)), (Some(now - 5400), Some(now - 7 * DAY)));
        assert_eq!(seconds("soon", now), None);
    }

    #[test]
    fn a_script_goes_further_back_and_never_nearer() {
        let limit = |text: &str| Some(ExcludeNewer::Limit(text.to_owned()));
        for (own, kept) in [
            (limit("2020-01-01"), limit("2020-01-01")),
            (limit("2025-01-01"), None),
            (Some(ExcludeNewer::Off), None),
            (None, None),
        ] {
            let mut script = ToolUv { exclude_newer: own, ..ToolUv::default() };
            script.exclude_newer_package = [("six".to_owned(), ExcludeNewer::Off)].into();
            keep_to("2022-01-01", &mut script);
            assert_eq!(script.exclude_newer, kept);
            assert_eq!(script.exclude_newer_package["six"], ExcludeNewer::Limit("2022-01-01".to_owned()));
        }
    }
}
