//! `validate`: what is wrong with a script, without running it.

use std::fmt::Write as _;
use std::io::Write;
use std::process::ExitCode;

use super::{engine, fail, read_script};
use crate::cli::ValidateArgs;
use crate::execution::{Execute, validation::Finding};
use crate::settings::Settings;

/// Checks one script. Ends with 0 where it is valid, 1 where it is not, 125 where it could not be checked.
pub async fn validate(settings: Settings, args: ValidateArgs) -> ExitCode {
    let script = match read_script(&args.file) {
        Ok(script) => script,
        Err(error) => return fail(&error),
    };
    let engine = match engine(settings).await {
        Ok(engine) => engine,
        Err(error) => return fail(&error),
    };
    let validation = engine.validate(script, args.with).await;
    let mut text = String::from(if validation.valid { "valid\n" } else { "invalid\n" });
    for (label, findings) in [("error", &validation.problems), ("warning", &validation.warnings)] {
        for Finding { line, message } in findings {
            let place = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            let _ = writeln!(text, "{label}: {place}{message}");
        }
    }
    if let Some(range) = &validation.requires_python {
        let _ = writeln!(text, "requires-python: {range}");
    }
    for dependency in &validation.dependencies {
        let _ = writeln!(text, "dependency: {dependency}");
    }
    let _ = writeln!(text, "syntax: {}", validation.syntax);
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) if validation.valid => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
