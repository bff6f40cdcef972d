//! The only way by which a file's name gets into a workspace: a checked path below the work directory. Pure.
//!
//! What the name then leads to is the business of the implementation, which opens it without following any link.

use std::fmt;

use crate::sandbox::spec::WORK_DIR;

/// Bytes of a whole path.
const LONGEST_PATH: usize = 4096;
/// Bytes of one name, as file systems have it.
const LONGEST_NAME: usize = 255;
/// Folders within each other.
const DEEPEST: usize = 64;

/// A path below the work directory: names without `.` and `..`, none of them empty. No names at all is the directory
/// itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WorkPath(Vec<String>);

/// Why a path is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It names no file.
    #[error("the path is empty; name a file such as data.csv")]
    Empty,
    /// It leads out.
    #[error("{0:?} leads out of the working directory with `..`")]
    Parent(String),
    /// It starts at the root of a file system.
    #[error(
        "{0:?} is an absolute path; only files of the working directory can be reached: name them without a leading \
         slash"
    )]
    Absolute(String),
    /// It names a file of the work directory that is not in the folder that was named beside it.
    #[error("{0:?} does not lie in the folder that was named with it; give the file's name alone")]
    Elsewhere(String),
    /// A character that has no place in a name.
    #[error("{0:?} holds a control character")]
    Control(String),
    /// An address.
    #[error("{0:?} is an address, not a path")]
    Address(String),
    /// Too much of it.
    #[error(
        "the path is too long: at most {LONGEST_PATH} bytes, {LONGEST_NAME} a name and {DEEPEST} folders"
    )]
    Long,
}

impl WorkPath {
    /// Checks a path as a caller gives it: relative, or below `/work`. A lone slash is the work directory.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.len() > LONGEST_PATH {
            return Err(PathError::Long);
        }
        let shown = || text.chars().take(100).collect::<String>();
        if text.chars().any(char::is_control) {
            return Err(PathError::Control(shown()));
        }
        if text.contains("://") {
            return Err(PathError::Address(shown()));
        }
        let below = text.strip_prefix(WORK_DIR).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let relative = match below {
            Some(rest) => rest.trim_start_matches('/'),
            None if text.trim_matches('/').is_empty() => "",
            None if text.starts_with('/') => return Err(PathError::Absolute(shown())),
            None => text,
        };
        let names: Vec<&str> = relative.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
        if names.contains(&"..") {
            return Err(PathError::Parent(shown()));
        }
        if names.len() > DEEPEST || names.iter().any(|name| name.len() > LONGEST_NAME) {
            return Err(PathError::Long);
        }
        Ok(Self(names.into_iter().map(str::to_owned).collect()))
    }

    /// As [`WorkPath::parse`], for a path that has to name something in the work directory.
    pub fn file(text: &str) -> Result<Self, PathError> {
        let path = Self::parse(text)?;
        if path.0.is_empty() { Err(PathError::Empty) } else { Ok(path) }
    }

    /// The path of a file in a folder of this one; the name is a path of its own, checked in the same way. One that is
    /// absolute can only be meant to lie in the work directory.
    pub fn join(&self, name: &str) -> Result<Self, PathError> {
        let own = Self::file(name)?;
        if self.is_root() {
            return Ok(own);
        }
        if name.starts_with('/') {
            return if own.0.starts_with(&self.0) {
                Ok(own)
            } else {
                Err(PathError::Elsewhere(own.to_string()))
            };
        }
        Self::file(&format!("{self}/{own}"))
    }

    /// Whether it is the work directory itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The names, outermost first.
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// The last name; empty for the work directory.
    pub fn name(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }

    /// The folder that it lies in.
    #[must_use]
    pub fn parent(&self) -> Self {
        Self(self.0[..self.0.len().saturating_sub(1)].to_vec())
    }
}

impl fmt::Display for WorkPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_below_the_work_directory_are_taken() {
        let taken = [
            "a.txt",
            "./a.txt",
            "a//b/./c",
            "/work/a.txt",
            "/work",
            "/",
            "",
            ".",
            "~/x",
            "CON",
            "..%2f..%2fx",
        ];
        let paths = taken.map(|text| WorkPath::parse(text).map(|path| path.to_string()));
        let wanted = ["a.txt", "a.txt", "a/b/c", "a.txt", "", "", "", "", "~/x", "CON", "..%2f..%2fx"];
        assert_eq!(paths, wanted.map(|text| Ok(text.to_owned())));
    }

    #[test]
    fn everything_that_leads_elsewhere_is_refused() {
        for text in ["..", "../x", "a/../../x", "/work/../etc/passwd", "./././../x", "a/.."] {
            assert!(matches!(WorkPath::parse(text), Err(PathError::Parent(_))), "{text}");
        }
        for text in ["/etc/passwd", "/proc/self/environ", "//etc", "/workshop/x", "/tmp"] {
            assert!(matches!(WorkPath::parse(text), Err(PathError::Absolute(_))), "{text}");
        }
        for text in ["\0/etc/passwd", "a\nb", "a\u{7f}"] {
            assert!(matches!(WorkPath::parse(text), Err(PathError::Control(_))), "{text:?}");
        }
        assert!(matches!(WorkPath::parse("file:///etc/passwd"), Err(PathError::Address(_))));
        for text in ["x".repeat(256), "x/".repeat(65), "x".repeat(5000)] {
            assert_eq!(WorkPath::parse(&text), Err(PathError::Long));
        }
    }

    #[test]
    fn a_file_needs_a_name_and_stays_in_its_folder() {
        for text in ["", ".", "/", "/work"] {
            assert_eq!(WorkPath::file(text), Err(PathError::Empty));
        }
        let folder = WorkPath::parse("data").expect("a folder");
        assert_eq!(folder.join("a.csv").map(|path| path.to_string()), Ok("data/a.csv".to_owned()));
        assert_eq!(folder.join("/work/data/a.csv").map(|path| path.to_string()), Ok("data/a.csv".to_owned()));
        assert_eq!(folder.join("/work/a.csv"), Err(PathError::Elsewhere("a.csv".to_owned())));
        for folder in [&folder, &WorkPath::default()] {
            assert!(matches!(folder.join("/etc/passwd"), Err(PathError::Absolute(_))));
            assert!(matches!(folder.join("/a.csv"), Err(PathError::Absolute(_))));
            assert_eq!(folder.join(""), Err(PathError::Empty), "it would name the folder itself");
        }
        let root = WorkPath::default();
        assert_eq!(root.join("/work/a.csv").map(|path| path.to_string()), Ok("a.csv".to_owned()));
        assert!(folder.join("../a.csv").is_err());
        assert_eq!(WorkPath::default().join("a.csv").map(|path| path.to_string()), Ok("a.csv".to_owned()));
        assert_eq!(folder.join("b/c").map(|path| path.parent().to_string()), Ok("data/b".to_owned()));
    }
}
