//! The backend under test. `E2E_BACKEND=docker` sends the whole suite through containers of the image that
//! `DOCKER_TEST_IMAGE` names (`mcp-python-exec-sandbox:test` where it names none); without it the native one is tested.
//!
//! One behaviour, two implementations: a test that cannot hold in the same words on both asks `differs`, by a name of
//! the one list below, which is the README's table row by row.

use std::path::PathBuf;

/// Which backend a server is started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    Native,
    Docker,
}

/// Everything in which the two differ: the first cell of each row of the README's table, in its order.
const DIFFERENCES: [&str; 10] = [
    "interpreters",
    "`--network host`",
    "`--network outbound`",
    "disk limit",
    "user namespace",
    "`/proc`",
    "`--uv-path`",
    "`--mount`",
    "`run --explain`",
    "a stateful sandbox that is lost",
];

impl Backend {
    /// As `E2E_BACKEND` says.
    pub fn under_test() -> Self {
        match std::env::var("E2E_BACKEND").as_deref() {
            Ok("docker") => Self::Docker,
            Ok("native") | Err(_) => Self::Native,
            Ok(other) => panic!("E2E_BACKEND is native or docker, not {other}"),
        }
    }

    /// Its name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Docker => "docker",
        }
    }

    /// Flags for every process of these tests: data of their own, so that the user's cache does not matter, and uv where
    /// CI put it.
    pub fn flags(self) -> Vec<String> {
        let user = rustix::process::getuid().as_raw();
        let folder = if self == Self::Native { "data" } else { self.name() };
        let data = std::env::temp_dir().join(format!("mcp-e2e-{folder}-{user}"));
        let mut flags = vec!["--data-dir".to_owned(), data.display().to_string()];
        match (self, std::env::var_os("E2E_PYTHON")) {
            (Self::Docker, _) => {
                let image = std::env::var("DOCKER_TEST_IMAGE");
                let image = image.unwrap_or_else(|_| "mcp-python-exec-sandbox:test".to_owned());
                flags.extend(["--docker-image".to_owned(), image]);
            }
            (Self::Native, Some(python)) => {
                let uv = PathBuf::from(python).with_file_name("uv");
                flags.extend(["--uv-path".to_owned(), uv.display().to_string()]);
            }
            (Self::Native, None) => {}
        }
        flags
    }
}

/// Whether the backend under test is another one in this point, which is said.
pub fn differs(row: &str) -> bool {
    assert!(DIFFERENCES.contains(&row), "{row} is no difference of the list");
    let differs = Backend::under_test() == Backend::Docker;
    if differs {
        println!("differs on docker: {row}");
    }
    differs
}

#[test]
fn the_readme_shows_every_difference_and_no_other() {
    let readme = include_str!("../../README.md");
    let (_, table) = readme.split_once("| | native | docker |\n|---|---|---|\n").expect("the table");
    let rows =
        table.lines().map_while(|line| line.strip_prefix("| ")).filter_map(|row| row.split(" | ").next());
    assert_eq!(rows.collect::<Vec<_>>(), DIFFERENCES);
}
