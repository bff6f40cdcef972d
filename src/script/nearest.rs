//! Finds the name that was probably meant.

/// The one of `known` that `given` is most likely a misspelling of, if it is close to any.
///
/// Case, `_` for `-` and blanks do not count; otherwise one edit for every three characters may differ. An edit is
/// an insertion, a deletion, a replacement or a swap of neighbours.
#[must_use]
pub fn nearest<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    let given = plain(given);
    // Longer than any name: the table below would only cost time.
    if given.len() > 64 {
        return None;
    }
    let distances = known.iter().map(|name| (distance(&given, &plain(name)), *name));
    let (edits, name) = distances.min()?;
    (edits <= name.len() / 3).then_some(name)
}

fn plain(name: &str) -> Vec<char> {
    name.trim().to_lowercase().replace(['_', ' '], "-").chars().collect()
}

fn distance(left: &[char], right: &[char]) -> usize {
    let width = right.len() + 1;
    let mut table = vec![0; (left.len() + 1) * width];
    for row in 0..=left.len() {
        for column in 0..=right.len() {
            table[row * width + column] = if row == 0 || column == 0 {
                row + column
            } else {
                let cost = usize::from(left[row - 1] != right[column - 1]);
                let replaced = table[(row - 1) * width + column - 1] + cost;
                let shifted = table[(row - 1) * width + column].min(table[row * width + column - 1]) + 1;
                let swaps = row > 1
                    && column > 1
                    && left[row - 1] == right[column - 2]
                    && left[row - 2] == right[column - 1];
                let swapped = if swaps { table[(row - 2) * width + column - 2] + 1 } else { usize::MAX };
                replaced.min(shifted).min(swapped)
            };
        }
    }
    table[left.len() * width + right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 3] = ["requires-python", "dependencies", "tool"];

    #[test]
    fn misspellings_are_recognised_and_other_words_are_not() {
        for (given, want) in [
            ("dependancies", Some("dependencies")),
            ("Dependencies", Some("dependencies")),
            ("dependnecies", Some("dependencies")),
            ("dependency", Some("dependencies")),
            ("requires_python", Some("requires-python")),
            ("require-python", Some("requires-python")),
            ("tools", Some("tool")),
            ("name", None),
            ("version", None),
            ("optional-dependencies", None),
            ("", None),
        ] {
            assert_eq!(nearest(given, &KEYS), want, "{given}");
        }
        assert_eq!(nearest(&"x".repeat(100_000), &KEYS), None);
    }
}
