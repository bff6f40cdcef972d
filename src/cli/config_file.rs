//! The configuration file: TOML whose keys are the names of the server's flags.

use std::path::{Path, PathBuf};

use clap::Arg;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::sources::{Origin, Shape, Values, check, name, shape};
use crate::environment::HostEnv;
use crate::script::nearest;

/// A configuration file.
pub(super) struct File {
    path: PathBuf,
    text: std::io::Result<String>,
}

/// What is wrong with a configuration file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("the configuration file {} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Something in it is wrong.
    #[error("{}:{line}: {reason}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
}

/// The file that was named, or the one in the user's configuration folder where there is one.
pub(super) fn find(named: Option<PathBuf>, host: &HostEnv) -> Option<File> {
    if let Some(path) = named {
        let text = std::fs::read_to_string(&path);
        return Some(File { path, text });
    }
    let path = usual(host)?;
    match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        // `HOME` names a folder of another user: what is in there is no file of this one.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied && !path.exists() => None,
        text => Some(File { path, text }),
    }
}

/// Where a file is looked for that nobody named.
pub fn usual(host: &HostEnv) -> Option<PathBuf> {
    Some(host.xdg("XDG_CONFIG_HOME", ".config")?.join(env!("CARGO_PKG_NAME")).join("config.toml"))
}

/// Its values, each checked by the rules of its flag.
pub(super) fn read(file: File, flags: &[Arg]) -> Result<(PathBuf, Values), ConfigError> {
    let path = file.path;
    let text = file.text.map_err(|source| ConfigError::Unreadable { path: path.clone(), source })?;
    let values = values(&path, &text, flags)?;
    Ok((path, values))
}

fn values(path: &Path, text: &str, flags: &[Arg]) -> Result<Values, ConfigError> {
    let wrong = |at: usize, reason: String| {
        let line = text[..at.min(text.len())].matches('\n').count() + 1;
        ConfigError::Wrong { path: path.to_owned(), line, reason }
    };
    let table = DeTable::parse(text)
        .map_err(|error| wrong(error.span().map_or(0, |span| span.start), error.message().to_owned()))?;
    let mut values = Values::new();
    for (key, value) in table.get_ref() {
        let at = key.span().start;
        let flag = flags.iter().find(|flag| name(flag) == key.get_ref());
        let flag = flag.ok_or_else(|| wrong(at, unknown(key.get_ref(), flags)))?;
        let given = given(flag, value).map_err(|reason| wrong(value.span().start, reason))?;
        check(flag, &given).map_err(|reason| wrong(at, reason))?;
        let line = text[..at].matches('\n').count() + 1;
        values.insert(name(flag).to_owned(), (given, Origin::File(line)));
    }
    Ok(values)
}

fn unknown(key: &str, flags: &[Arg]) -> String {
    let names: Vec<&str> = flags.iter().map(name).collect();
    let meant = nearest(key, &names)
        .map_or_else(|| "`config show` lists them all".to_owned(), |name| format!("did you mean `{name}`?"));
    format!("`{key}` is no setting; {meant}")
}

/// A value as the flag would take it. Numbers keep their digits: 3.10 is no 3.1.
fn given(flag: &Arg, value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, String> {
    let plain = |value: &DeValue<'_>| match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.to_string()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        _ => None,
    };
    let value = value.get_ref();
    let given = match (shape(flag), value) {
        (Shape::Switch(_), DeValue::Boolean(on)) => Some(vec![on.to_string()]),
        (Shape::One(_), one) => plain(one).map(|one| vec![one]),
        (Shape::Many(_), DeValue::Array(items)) => {
            items.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect()
        }
        _ => None,
    };
    given.ok_or_else(|| {
        let wanted = match shape(flag) {
            Shape::Switch(_) => "true or false",
            Shape::One(_) => "a text in quotes or a number",
            Shape::Many(_) => "a list of texts in quotes",
        };
        format!("`{}` takes {wanted}, not {}", name(flag), value.type_str())
    })
}

#[cfg(test)]
mod tests {
    use super::super::sources::flags;
    use super::*;

    #[test]
    fn mistakes_are_told_with_their_line_and_what_was_meant() {
        for (text, said) in [
            ("pool-sise = 1", "c.toml:1: `pool-sise` is no setting; did you mean `pool-size`?"),
            ("\n\nPool_Size = 1", "c.toml:3: `Pool_Size` is no setting; did you mean `pool-size`?"),
            ("colour = 1", "c.toml:1: `colour` is no setting; `config show` lists them all"),
            ("[sandbox]\npool-size = 1", "c.toml:1: `sandbox` is no setting"),
            ("\npool-size = 65", "c.toml:2: invalid value '65' for '--pool-size <N>': 65 is not in 0..=64"),
            ("pool-size = true", "c.toml:1: `pool-size` takes a text in quotes or a number, not boolean"),
            ("no-build = \"yes\"", "c.toml:1: `no-build` takes true or false, not string"),
            ("pass-env = \"A\"", "c.toml:1: `pass-env` takes a list of texts in quotes, not string"),
            (
                "network = \"moon\"",
                "c.toml:1: invalid value 'moon' for '--network <NETWORK>' [possible values: ",
            ),
            ("a = 1\npool-size = ", "c.toml:2: "),
            ("pool-size = 1\npool-size = 2", "c.toml:2: duplicate key"),
        ] {
            let error = values(Path::new("c.toml"), text, &flags()).expect_err(text).to_string();
            assert!(error.starts_with(said), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_file_that_was_named_has_to_be_there_and_the_usual_one_has_not() {
        let home = tempfile::tempdir().expect("a folder");
        let host: HostEnv = [("HOME", home.path().to_str().expect("plain"))].into_iter().collect();
        assert!(find(None, &host).is_none());
        let named = find(Some(home.path().join("none.toml")), &host).expect("it is to be read");
        assert!(matches!(read(named, &flags()), Err(ConfigError::Unreadable { .. })));
        let usual = usual(&host).expect("there is a home");
        std::fs::create_dir_all(usual.parent().expect("a folder")).expect("writable");
        std::fs::write(&usual, "pool-size = 0\n").expect("writable");
        let (path, values) = read(find(None, &host).expect("found"), &flags()).expect("right");
        assert_eq!((path, values.len()), (usual, 1));
    }
}
