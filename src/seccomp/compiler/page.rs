//! A policy file being read: where its parts stand, and what its conditions mean.
use super::condition::{Condition, Test, Width};
use super::constants::value;
use super::error::{Problem, ProblemKind};
use super::policy::Place;
use super::text::ConditionText;
use std::ops::Range;
use toml::Spanned;

/// A file being read: its name, and its text to turn an offset into a line.
pub struct Page<'a> {
    /// The name inside the policy folder.
    pub file: &'a str,
    /// The whole text.
    pub text: &'a str,
}

impl Page<'_> {
    /// The place where a span of bytes begins.
    pub fn place(&self, span: &Range<usize>) -> Place {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        Place { file: self.file.to_owned(), line: 1 + before.matches('\n').count() }
    }

    fn pointless(&self, span: &Range<usize>, words: &str) -> Problem {
        Problem { place: self.place(span), kind: ProblemKind::Pointless(words.to_owned()) }
    }

    fn value(&self, text: &Spanned<String>) -> Result<u64, Problem> {
        value(text.as_ref()).map_err(|part| Problem {
            place: self.place(&text.span()),
            kind: ProblemKind::UnknownConstant(part),
        })
    }
}

/// Reads a condition, and refuses those that no call can satisfy.
pub fn read_condition(page: &Page<'_>, wanted: &ConditionText) -> Result<Condition, Problem> {
    let arg = *wanted.arg.as_ref();
    if arg > 5 {
        return Err(page.pointless(&wanted.arg.span(), "a system call has the arguments 0 to 5"));
    }
    let (width, all) = match *wanted.bits.as_ref() {
        32 => (Width::Low32, u64::from(u32::MAX)),
        64 => (Width::Full64, u64::MAX),
        _ => return Err(page.pointless(&wanted.bits.span(), "`bits` is 32 or 64: what the kernel looks at")),
    };
    let mask = wanted.mask.as_ref().map_or(Ok(all), |mask| page.value(mask))?;
    if mask == 0 || mask & !all != 0 {
        let span = wanted.mask.as_ref().map_or_else(|| wanted.bits.span(), Spanned::span);
        let words = "the mask has no bit, or bits outside of what the kernel looks at";
        return Err(page.pointless(&span, words));
    }
    let (verb, list) = read_list(page, wanted)?;
    let values = list.iter().map(|one| page.value(one)).collect::<Result<Vec<_>, _>>()?;
    if let Some(at) = values.iter().position(|value| value & !mask != 0) {
        return Err(page.pointless(&list[at].span(), "no argument equals this value under the mask"));
    }
    let names: Vec<_> = list.iter().map(|one| one.as_ref().as_str()).collect();
    let masked = wanted.mask.as_ref().map_or_else(String::new, |mask| format!(" & ({})", mask.as_ref()));
    let words = format!("{}{masked} {verb} {}", wanted.name, names.join(", "));
    let test = if wanted.is.is_some() { Test::AnyOf(values) } else { Test::NoneOf(values) };
    Ok(Condition { arg, width, mask, test, words })
}

/// The values to compare with, and the verb that says how.
fn read_list<'a>(
    page: &Page<'_>,
    text: &'a ConditionText,
) -> Result<(&'static str, &'a [Spanned<String>]), Problem> {
    let (verb, list) = match (&text.is, &text.is_not) {
        (Some(list), None) => ("is", list),
        (None, Some(list)) => ("is not", list),
        _ => return Err(page.pointless(&text.arg.span(), "a condition has either `is` or `is_not`")),
    };
    if list.is_empty() {
        return Err(page.pointless(&text.arg.span(), "a condition compares with at least one value"));
    }
    Ok((verb, list))
}
