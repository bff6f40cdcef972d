//! Where settings come from: a flag, an environment variable, the configuration file, or the default, in this order.
//!
//! Each value from outside the command line is checked alone, by the same rules as a flag, so that a mistake is told with
//! its place; then it takes the place of the flag's default, and the command line is read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches};

use super::Cli;
use super::config_file::{self, ConfigError};
use crate::environment::HostEnv;
use crate::script::nearest;

/// What the names of environment variables begin with; the flag in capitals follows.
const PREFIX: &str = "MCP_PYTHON_EXEC_SANDBOX_";

/// What may follow it beside the settings: the configuration file, and the token of the HTTP server.
const OTHER_VARIABLES: [&str; 2] = ["CONFIG", "TOKEN"];

/// The command line with everything that stands behind it.
#[derive(Debug)]
pub struct Parsed {
    /// The command line; its options hold what flags, variables and the file say together.
    pub cli: Cli,
    /// Every setting with where its value comes from, in the order of the help.
    pub settings: Vec<Setting>,
    /// The configuration file that was read.
    pub file: Option<PathBuf>,
}

/// One setting as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name, which is the flag's.
    pub name: String,
    /// Its value.
    pub value: Shape<String>,
    /// Where that comes from.
    pub origin: Origin,
}

/// A value by the kind of its setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape<T> {
    /// On or off.
    Switch(bool),
    /// One value; `None` where it is not set.
    One(Option<T>),
    /// Any number of values.
    Many(Vec<T>),
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// The line of the configuration file.
    File(usize),
    /// This environment variable.
    Environment(String),
    /// The command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(line) => write!(f, "file, line {line}"),
            Self::Environment(name) => write!(f, "environment, {name}"),
            Self::Flag => f.write_str("flag"),
        }
    }
}

/// Why a command line cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// The command line itself; help and version are among these.
    #[error(transparent)]
    CommandLine(#[from] clap::Error),
    /// The configuration file.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An environment variable.
    #[error("the environment variable {name}: {reason}")]
    Variable {
        /// Its name.
        name: String,
        /// What is wrong with its value.
        reason: String,
    },
}

/// Values by the name of their setting, with where they come from.
pub(super) type Values = BTreeMap<String, (Vec<String>, Origin)>;

/// Reads the command line, the environment and the configuration file.
pub fn parse(words: &[OsString], host: &HostEnv) -> Result<Parsed, ParseError> {
    let plain = Cli::command().try_get_matches_from(words)?;
    let flags = flags();
    let named = plain.get_one::<PathBuf>("config").cloned();
    let named = named.or_else(|| host.get(&format!("{PREFIX}CONFIG")).map(PathBuf::from));
    let (file, mut values) = match config_file::find(named, host) {
        Some(file) => config_file::read(file, &flags).map(|(file, values)| (Some(file), values))?,
        None => (None, Values::new()),
    };
    values.extend(environment(&flags, host)?);
    // What stands nowhere else does not have to be read again with other defaults.
    let matches =
        if values.is_empty() { plain } else { with_defaults(&flags, &values).try_get_matches_from(words)? };
    let cli = Cli::from_arg_matches(&matches)?;
    let settings = flags.iter().map(|flag| setting(flag, &matches, &values)).collect();
    Ok(Parsed { cli, settings, file })
}

/// The command line with these values in the place of the flags' defaults.
fn with_defaults(flags: &[Arg], values: &Values) -> Command {
    let mut command = Cli::command();
    for flag in flags {
        if let Some((given, _)) = values.get(name(flag)) {
            let given = given.clone();
            command = command.mut_arg(flag.get_id().as_str(), |arg| arg.default_values(given));
        }
    }
    command
}

/// The flags that are settings of the server.
pub(super) fn flags() -> Vec<Arg> {
    let options = <super::Options as clap::Args>::augment_args(Command::new("options"));
    options.get_arguments().filter(|flag| flag.get_long().is_some()).cloned().collect()
}

/// The name of a setting.
pub(super) fn name(flag: &Arg) -> &str {
    flag.get_long().unwrap_or_default()
}

/// The environment variable of a setting.
fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.replace('-', "_").to_uppercase())
}

/// How a flag takes its value.
pub(super) fn shape(flag: &Arg) -> Shape<()> {
    match flag.get_action() {
        ArgAction::SetTrue => Shape::Switch(false),
        ArgAction::Append => Shape::Many(Vec::new()),
        _ => Shape::One(None),
    }
}

/// What the environment says. A variable with the prefix that means nothing is a mistake, which could be about safety.
fn environment(flags: &[Arg], host: &HostEnv) -> Result<Values, ParseError> {
    let mut values = Values::new();
    let known: Vec<&str> = flags.iter().map(name).collect();
    for (found, _) in host.iter() {
        let Some(below) = found.strip_prefix(PREFIX) else { continue };
        if OTHER_VARIABLES.contains(&below) || known.iter().any(|name| variable(name) == found) {
            continue;
        }
        let meant = nearest(below, &known).map_or_else(
            || "`config show` lists them all".to_owned(),
            |name| format!("did you mean {}?", variable(name)),
        );
        let reason = format!("it is no setting; {meant}");
        return Err(ParseError::Variable { name: found.to_owned(), reason });
    }
    for flag in flags {
        let variable = variable(name(flag));
        let Some(value) = host.get(&variable) else { continue };
        let given = vec![value.to_owned()];
        check(flag, &given).map_err(|reason| ParseError::Variable { name: variable.clone(), reason })?;
        values.insert(name(flag).to_owned(), (given, Origin::Environment(variable)));
    }
    Ok(values)
}

/// Checks a value by the rules of its flag.
pub(super) fn check(flag: &Arg, given: &[String]) -> Result<(), String> {
    let mut words = vec![env!("CARGO_PKG_NAME").to_owned()];
    match shape(flag) {
        Shape::Switch(_) => match given {
            [value] if value == "true" || value == "false" => {}
            _ => return Err(format!("`{}` is true or false", name(flag))),
        },
        _ => words.extend(given.iter().map(|value| format!("--{}={value}", name(flag)))),
    }
    let checked = Cli::command().try_get_matches_from(words);
    checked.map(drop).map_err(|error| {
        let text = error.to_string();
        let lines = text.trim_start_matches("error: ").lines().take_while(|line| !line.is_empty());
        lines.map(str::trim).collect::<Vec<_>>().join(" ")
    })
}

fn setting(flag: &Arg, matches: &ArgMatches, values: &Values) -> Setting {
    let id = flag.get_id().as_str();
    let raw =
        |id| matches.get_raw(id).into_iter().flatten().map(|value| value.to_string_lossy().into_owned());
    let value = match shape(flag) {
        Shape::Switch(_) => Shape::Switch(matches.get_flag(id)),
        Shape::One(_) => Shape::One(raw(id).next()),
        Shape::Many(_) => Shape::Many(raw(id).collect()),
    };
    let origin = match matches.value_source(id) {
        Some(ValueSource::CommandLine) => Origin::Flag,
        Some(ValueSource::EnvVariable) => {
            Origin::Environment(flag.get_env().unwrap_or_default().to_string_lossy().into_owned())
        }
        _ => values.get(name(flag)).map_or(Origin::Default, |(_, origin)| origin.clone()),
    };
    Setting { name: name(flag).to_owned(), value, origin }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flag(wanted: &str) -> Arg {
        flags().into_iter().find(|flag| name(flag) == wanted).expect("there is such a flag")
    }

    fn parsed(words: &[&str], variables: &[(&str, &str)]) -> Result<Parsed, ParseError> {
        let words: Vec<_> = ["server"].iter().chain(words).map(OsString::from).collect();
        parse(&words, &variables.iter().copied().collect())
    }

    fn find<'a>(parsed: &'a Parsed, wanted: &str) -> &'a Setting {
        parsed.settings.iter().find(|setting| setting.name == wanted).expect("there is such a setting")
    }

    #[test]
    fn every_flag_of_the_server_is_a_setting_with_a_default() {
        let parsed = parsed(&[], &[]).expect("nothing is needed");
        assert!(parsed.settings.len() > 20);
        for setting in &parsed.settings {
            assert_eq!(setting.origin, Origin::Default, "{}", setting.name);
            let Shape::One(Some(value)) = &setting.value else { continue };
            assert_eq!(check(&flag(&setting.name), std::slice::from_ref(value)), Ok(()), "{}", setting.name);
        }
    }

    #[test]
    fn the_command_line_goes_before_the_environment_and_that_before_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("config.toml");
        let text = "# mine\npool-size = 1\nmax-processes = 11\nno-build = true\npass-env = [\"A\", \"B\"]\n\
                    python-version = 3.10\nmax-sandboxes = 3\ncpu-limit = 0.5\n";
        std::fs::write(&file, text).expect("writable");
        let file = file.to_str().expect("plain");
        let variables = [
            ("MCP_PYTHON_EXEC_SANDBOX_CONFIG", file),
            ("MCP_PYTHON_EXEC_SANDBOX_POOL_SIZE", "2"),
            ("MCP_PYTHON_EXEC_SANDBOX_MAX_PROCESSES", "12"),
            ("MCP_PYTHON_EXEC_SANDBOX_TOOLS", "execute"),
        ];
        let parsed = parsed(&["run", "x.py", "--pool-size", "3"], &variables).expect("all is right");
        let variable = |name: &str| Origin::Environment(format!("MCP_PYTHON_EXEC_SANDBOX_{name}"));
        for (name, value, origin) in [
            ("pool-size", "3", Origin::Flag),
            ("max-processes", "12", variable("MAX_PROCESSES")),
            ("max-sandboxes", "3", Origin::File(7)),
            ("python-version", "3.10", Origin::File(6)),
            ("disk-limit", "1G", Origin::Default),
        ] {
            let setting = find(&parsed, name);
            assert_eq!(
                (&setting.value, &setting.origin),
                (&Shape::One(Some(value.to_owned())), &origin),
                "{name}"
            );
        }
        assert_eq!(find(&parsed, "no-build").value, Shape::Switch(true));
        assert_eq!(find(&parsed, "tools").origin, variable("TOOLS"));
        let settings = parsed.cli.options.settings().expect("they agree");
        assert_eq!((settings.pool_size, settings.limits.processes), (3, 12));
        assert_eq!(settings.pass_env, ["A", "B"]);
        assert_eq!((settings.tools.len(), settings.limits.cpu_percent), (1, Some(50)));
        assert_eq!(settings.python, Some("3.10".parse().expect("a version")));
    }

    #[test]
    fn a_wrong_variable_is_named() {
        for (name, value, reason) in [
            ("POOL_SIZE", "many", "invalid value 'many' for '--pool-size <N>'"),
            ("NO_BUILD", "yes", "`no-build` is true or false"),
            ("NETWORK", "moon", "[possible values: "),
            ("NETWROK", "none", "it is no setting; did you mean MCP_PYTHON_EXEC_SANDBOX_NETWORK?"),
            ("QUITE_ANOTHER", "1", "it is no setting; `config show` lists them all"),
        ] {
            let variable = format!("{PREFIX}{name}");
            let error = parsed(&[], &[(&variable, value)]).expect_err("refused").to_string();
            assert!(error.starts_with(&format!("the environment variable {variable}: ")), "{error}");
            assert!(error.contains(reason) && !error.contains('\n'), "{error}");
        }
    }
}
