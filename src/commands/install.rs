//! `install` and `uninstall`: this server in the configuration of a client.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use super::{fail, print};
use crate::cli::sources::{Origin, Setting};
use crate::cli::{Cli, InstallArgs};
use crate::environment::HostEnv;
use crate::install::{Change, Client, ENTRY, Edit, Entry, FileError, System, Written, link, rewrite};

/// Adds this server to a client, or prints what would be added.
pub fn install(args: InstallArgs, settings: &[Setting]) -> ExitCode {
    if let Some(flag) = settings.iter().find(|setting| setting.origin == Origin::Flag) {
        // It would be for this process, which has no use for it.
        return fail(&format!("flags for the server follow two dashes: install ... -- --{} ...", flag.name));
    }
    let entry = match entry(args.server) {
        Ok(entry) => entry,
        Err(error) => return fail(&error),
    };
    if args.print {
        return show(args.client, &entry);
    }
    change(args.client, |path| rewrite(path, |text| args.client.add(text, &entry)))
}

/// Takes this server out of a client's configuration.
pub fn uninstall(client: Client) -> ExitCode {
    change(client, |path| rewrite(path, |text| client.remove(text)))
}

/// This program by its full path, with the flags that were given, which have to be right.
fn entry(args: Vec<String>) -> Result<Entry, String> {
    check(&args).map_err(|error| {
        format!("the client could not start the server: {}", error.to_string().trim_start_matches("error: "))
    })?;
    let program =
        std::env::current_exe().map_err(|error| format!("this program cannot find itself: {error}"))?;
    let command = program.into_os_string().into_string();
    let command = command.map_err(|path| format!("{} is no path for a configuration", path.display()))?;
    Ok(Entry { command, args })
}

fn check(args: &[String]) -> Result<(), clap::Error> {
    let words = std::iter::once(env!("CARGO_PKG_NAME")).chain(args.iter().map(String::as_str));
    let cli = Cli::try_parse_from(words)?;
    if cli.command.is_some() {
        let message = "a client starts the server by flags alone, without a subcommand";
        return Err(Cli::command().error(clap::error::ErrorKind::ArgumentConflict, message));
    }
    cli.options.settings().map(drop)
}

fn show(client: Client, entry: &Entry) -> ExitCode {
    let text = match client.add("", entry) {
        Ok(Edit::Text(text, _)) => text,
        Ok(Edit::Nothing) => String::new(),
        Err(error) => return fail(&error.to_string()),
    };
    match file(client) {
        Ok(path) => eprintln!("for {}, in {}:", client.title(), path.display()),
        Err(error) => eprintln!("for {}: {error}", client.title()),
    }
    let code = print(&text);
    if let Some(link) = link::install(client, entry) {
        eprintln!("or open this link:\n{link}");
    }
    code
}

fn change(client: Client, rewrite: impl FnOnce(&PathBuf) -> Result<Option<Written>, FileError>) -> ExitCode {
    let path = match file(client) {
        Ok(path) => path,
        Err(error) => return fail(&error),
    };
    let written = match rewrite(&path) {
        Ok(written) => written,
        Err(error) => return fail(&error.to_string()),
    };
    eprintln!("{}", said(client, &path, written.as_ref()));
    ExitCode::SUCCESS
}

fn file(client: Client) -> Result<PathBuf, String> {
    let file = client.file(&HostEnv::capture(), System::native());
    file.ok_or_else(|| "the home folder is not known; set HOME".to_owned())
}

fn said(client: Client, path: &std::path::Path, written: Option<&Written>) -> String {
    let (title, path) = (client.title(), path.display());
    let Some(written) = written else { return format!("{title}: nothing to do in {path}") };
    let done = match written.change {
        Change::Added => "added to",
        Change::Replaced => "replaced in",
        Change::Removed => "removed from",
    };
    let kept = written.backup.as_ref().map(|backup| format!("; what was there is in {}", backup.display()));
    format!("{title}: {ENTRY} {done} {path}{}. Restart the client", kept.unwrap_or_default())
}
