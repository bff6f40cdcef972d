//! The environment variables of the user, read once at start, so that everything else here is a function of them.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// The user's environment variables. Never handed on as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostEnv(BTreeMap<String, String>);

impl HostEnv {
    /// Reads this process's environment; variables that are not UTF-8 are left out.
    pub fn capture() -> Self {
        Self(
            std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
        )
    }

    /// The value of a variable; an empty one counts as not set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Whether a variable switches something on, in the words that uv takes.
    pub fn is_on(&self, name: &str) -> bool {
        let value = self.get(name).unwrap_or_default().to_ascii_lowercase();
        ["1", "true", "t", "yes", "y", "on"].contains(&value.as_str())
    }

    /// Every variable.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// An absolute path in a variable.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// The home folder, where one is named.
    pub fn home(&self) -> Option<PathBuf> {
        self.path("HOME")
    }

    /// A folder of the XDG base directory specification: the variable, or its default below the home folder.
    pub fn xdg(&self, variable: &str, default: &str) -> Option<PathBuf> {
        self.path(variable).or_else(|| Some(self.home()?.join(default)))
    }

    /// The folders of PATH, absolute ones only.
    pub fn search_path(&self) -> Vec<PathBuf> {
        let path = self.get("PATH").unwrap_or_default();
        std::env::split_paths(path).filter(|folder| folder.is_absolute()).collect()
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for HostEnv {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(items: I) -> Self {
        Self(items.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}
