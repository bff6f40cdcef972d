//! Joins the inline dependencies with those of the `dependencies` argument into one list, resolved once.
//!
//! The argument wins over inline requirements of the same name and marker (both normalised):
//! - its versions or URL replace theirs, extras are united, and a note says what was replaced;
//! - where it names neither versions nor a URL, it contradicts nothing and theirs are kept;
//! - where no version can satisfy both, one of the two is a mistake and it is not ours to say which: a conflict.
//!
//! Requirements of the same name under another marker stand side by side; the resolver decides.
//! Must never know: which versions exist.

use pep440_rs::{Operator, VersionSpecifier, VersionSpecifiers, release_specifiers_to_ranges};

use super::requirement::{Requirement, sorted};

/// The outcome of a merge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Merged {
    /// Every requirement, sorted by its canonical text, none twice.
    pub requirements: Vec<Requirement>,
    /// What the argument replaced, in sentences.
    pub notes: Vec<String>,
    /// Which requirements exclude each other, in sentences.
    pub conflicts: Vec<String>,
}

/// Merges the two lists.
#[must_use]
pub fn merge(inline: &[Requirement], argument: &[Requirement]) -> Merged {
    let mut merged = Merged::default();
    let mut kept: Vec<&Requirement> = inline.iter().collect();
    for given in argument {
        let same: Vec<&Requirement> = inline.iter().filter(|other| other.same_slot(given)).collect();
        kept.retain(|other| !other.same_slot(given));
        if let Some(other) = same.iter().find(|other| exclude_each_other(given, other)) {
            merged.conflicts.push(conflict(given, other));
        }
        merged.replace(given, &same);
    }
    merged.requirements.extend(kept.into_iter().cloned());
    merged.requirements.sort();
    merged.requirements.dedup();
    merged
}

impl Merged {
    /// Adds `given` in place of the inline requirements of its slot. Each of these is kept, with the extras united,
    /// where `given` leaves versions open.
    fn replace(&mut self, given: &Requirement, same: &[&Requirement]) {
        let extras = same.iter().fold(given.clone(), |united, other| united.over(other));
        for other in same {
            let result = given.over(other);
            if result.url() != other.url() || result.versions().map(sorted) != other.versions().map(sorted) {
                self.notes
                    .push(format!("`{given}` from the dependencies argument replaced the inline `{other}`"));
            }
            let open = given.versions().is_none() && given.url().is_none();
            self.requirements.push(if open { other.over(&extras) } else { extras.clone() });
        }
        if same.is_empty() {
            self.requirements.push(given.clone());
        }
    }
}

fn conflict(given: &Requirement, inline: &Requirement) -> String {
    format!(
        "no version satisfies both the inline `{inline}` and `{given}` from the dependencies argument: change one \
         of them"
    )
}

/// Whether it is certain that no version satisfies both. Direct URLs are left to the resolver.
fn exclude_each_other(one: &Requirement, other: &Requirement) -> bool {
    let (Some(one), Some(other)) = (one.versions(), other.versions()) else { return false };
    let both: VersionSpecifiers = one.iter().chain(other.iter()).filter_map(public).collect();
    let everything = release_specifiers_to_ranges(VersionSpecifiers::empty());
    everything.intersection(&both.into()).is_empty()
}

/// The specifier as it applies to public versions: `==1.0` also allows `1.0+local`, which ranges do not show.
/// `None` where it would then exclude too much.
fn public(specifier: &VersionSpecifier) -> Option<VersionSpecifier> {
    let (operator, version) = (*specifier.operator(), specifier.version().clone());
    match operator {
        Operator::NotEqual | Operator::ExactEqual if version.is_local() => None,
        _ if version.is_local() => VersionSpecifier::from_version(operator, version.without_local()).ok(),
        _ => Some(specifier.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(texts: &[&str]) -> Vec<Requirement> {
        texts.iter().map(|text| Requirement::parse(text).expect(text)).collect()
    }

    fn merged(inline: &[&str], argument: &[&str]) -> (Vec<String>, usize, usize) {
        let merged = merge(&list(inline), &list(argument));
        let texts = merged.requirements.iter().map(ToString::to_string).collect();
        (texts, merged.notes.len(), merged.conflicts.len())
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_argument_wins_where_both_can_hold() {
        for (inline, argument, want, notes) in [
            (&["Six>=1.15"][..], &["six==1.16"][..], &["six==1.16"][..], 1),
            (&["six==1.16"], &["six"], &["six==1.16"], 0),
            (&["six>=1,<2", "attrs"], &["six<2,>=1"], &["attrs", "six<2,>=1"], 0),
            (&["a[x]>=1"], &["A[y,x]>=2"], &["a[x,y]>=2"], 1),
            (&["a[x]>=1", "a<3"], &["a[y]"], &["a[x,y]<3", "a[x,y]>=1"], 0),
            (&["a>=1", "a<3"], &["a==2"], &["a==2"], 2),
            (&["a @ https://example.com/a.whl"], &["a==2"], &["a==2"], 1),
            (&["a==2"], &["a @ https://example.com/a.whl"], &["a @ https://example.com/a.whl"], 1),
            (&[], &["b", "a", "b"], &["a", "b"], 0),
            (&["b", "a", "b"], &[], &["a", "b"], 0),
        ] {
            assert_eq!(merged(inline, argument), (owned(want), notes, 0), "{inline:?} {argument:?}");
        }
    }

    #[test]
    fn another_marker_is_another_slot() {
        let (texts, notes, conflicts) =
            merged(&["a<2 ; python_version < '3.12'"], &["a>=2", "a<3 ; '3.12'>python_version"]);
        assert_eq!(texts, ["a<3 ; python_version < '3.12'", "a>=2"]);
        assert_eq!((notes, conflicts), (1, 0));
    }

    #[test]
    fn what_cannot_both_hold_is_a_conflict_that_shows_both() {
        let result = merge(&list(&["packaging<24"]), &list(&["Packaging >= 24"]));
        assert_eq!(result.conflicts.len(), 1);
        assert!(
            result.conflicts[0].contains("`packaging<24`") && result.conflicts[0].contains("`packaging>=24`")
        );
        for (inline, argument, conflicts) in [
            ("a==1.0", "a==2.0", 1),
            ("a==1.*", "a~=2.1", 1),
            ("a>1,<2", "a==2", 1),
            ("a!=1.0", "a==1.0", 1),
            ("a==1.0", "a==1.0+cpu", 0),
            ("a<=1.0", "a==1.0+cpu", 0),
            ("a!=1.0+cpu", "a==1.0", 0),
            ("a===1.0", "a>=1", 0),
            ("a<2", "a>=2.0a1", 1),
            ("a<=2", "a>=2.0a1", 0),
            ("a", "a==1", 0),
            ("a>=1!1", "a<2024", 1),
        ] {
            assert_eq!(merged(&[inline], &[argument]).2, conflicts, "{inline} {argument}");
        }
    }
}
