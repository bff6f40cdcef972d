//! SECURITY.md and the escape suite say the same: each property has one row, each row a property, with the same
//! names of earlier escapes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Files of the suite that are no property.
const NOT_PROPERTIES: [&str; 2] = ["main", "situation"];

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Last column to the column "seen as", of the tables whose rows end in a name in back-quotes.
fn rows() -> BTreeMap<String, BTreeSet<String>> {
    let document = read("SECURITY.md");
    let cells =
        |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let mut rows = BTreeMap::new();
    for cells in document.lines().filter(|line| line.starts_with('|')).map(cells) {
        let [_, seen_as, _, test] = cells.as_slice() else { continue };
        if let Some(name) = test.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')) {
            let names = seen_as.split(", ").filter(|name| !name.is_empty()).map(str::to_owned).collect();
            assert_eq!(rows.insert(name.to_owned(), names), None, "{name} has two rows");
        }
    }
    rows
}

fn properties() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e_tests/escape");
    let files = fs::read_dir(folder).expect("the suite is there").map(|entry| entry.expect("listed").path());
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .filter(|name| !NOT_PROPERTIES.contains(&name.as_str()))
        .collect()
}

#[test]
fn every_property_has_a_row_and_every_row_a_property() {
    let rows: BTreeSet<String> = rows().into_keys().collect();
    assert_eq!(rows, properties());
    assert!(rows.len() >= 60, "{} properties", rows.len());
}

#[test]
fn every_property_runs() {
    let main = read("e2e_tests/escape/main.rs");
    let listed: BTreeSet<String> = main
        .lines()
        .skip_while(|line| !line.starts_with("properties! {"))
        .skip(1)
        .take_while(|line| !line.starts_with('}'))
        .map(|line| line.trim().to_owned())
        .collect();
    assert_eq!(listed, properties());
}

#[test]
fn earlier_escapes_are_named_alike() {
    for (name, in_document) in rows() {
        let source = read(&format!("e2e_tests/escape/{name}.rs"));
        let in_source: BTreeSet<String> = match source.split_once(".known_as(&[") {
            None => BTreeSet::new(),
            Some((_, rest)) => {
                let list = rest.split_once(']').map_or("", |(list, _)| list);
                list.split(',')
                    .map(|one| one.trim().trim_matches('"').to_owned())
                    .filter(|one| !one.is_empty())
                    .collect()
            }
        };
        assert_eq!(in_document, in_source, "{name}");
        assert!(source.contains(&format!("\"{name}\"")), "{name} calls itself otherwise");
    }
}
