//! `completions` and `man`: what shells and `man` know of the command line, made from the command line itself.

use std::io::Write;
use std::process::ExitCode;

use clap::CommandFactory;

use super::fail;
use crate::cli::Cli;

/// Prints the completions for a shell.
pub fn completions(shell: clap_complete::Shell) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), env!("CARGO_PKG_NAME"), &mut text);
    put(&text)
}

/// Prints the manual page.
pub fn page() -> ExitCode {
    let mut text = Vec::new();
    match clap_mangen::Man::new(Cli::command()).render(&mut text) {
        Ok(()) => put(&text),
        Err(error) => fail(&format!("the manual page could not be made: {error}")),
    }
}

/// To standard output; a reader that has gone away is no reason for words.
fn put(text: &[u8]) -> ExitCode {
    match std::io::stdout().write_all(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
