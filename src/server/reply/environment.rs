//! What this machine offers, and what can be said of a script without running it.

use rmcp::model::CallToolResult;
use serde_json::{Value, json};

use crate::environment::PythonVersion;
use crate::execution::overview::Overview;
use crate::execution::validation::{Finding, Validation};
use crate::sandbox::Tier;

use super::{UNCONFINED, limits_in_words, notes_for, one_line, result};

/// The answer of `check_environment`: nine lines that clients of old know, then ours.
pub fn overview(overview: &Overview) -> CallToolResult {
    let layers = overview.layers.iter().map(ToString::to_string).collect::<Vec<_>>();
    let notes = notes(overview);
    let mut lines = vec![
        format!("Python version: {}", either(&overview.python)),
        format!("uv: {}", either(&overview.uv)),
        format!("Platform: {}", overview.platform),
        format!("Sandbox backend: {}", overview.backend),
        format!("Sandbox status: {}", status(overview)),
        format!("Default timeout: {}s", overview.default_timeout),
        format!("Max timeout: {}s", overview.max_timeout),
        format!("Max output: {} bytes", overview.max_output_bytes),
        format!("Cache warming: {}", if overview.warming == "off" { "disabled" } else { &overview.warming }),
        format!("Network: {}", word(&json!(overview.network))),
        format!("Limits: {}", limits_in_words(&overview.limits)),
    ];
    if !layers.is_empty() {
        lines.push(format!("Layers: {}", layers.join(", ")));
    }
    lines.extend(notes.iter().map(|note| format!("Note: {note}")));
    result(lines.join("\n"), overview_fields(overview, &layers, &notes))
}

/// Why there is no better sandbox, and what else the user should know.
fn notes(overview: &Overview) -> Vec<String> {
    let better = overview
        .shortfall
        .as_ref()
        .map(|better| format!("no better sandbox: {}. {}", better.reason, better.remedy));
    better.iter().chain(&overview.notes).map(|note| one_line(note)).collect()
}

fn overview_fields(overview: &Overview, layers: &[String], notes: &[String]) -> Value {
    let mut fields = json!({
        "python": overview.python.as_ref().ok(),
        "uv": overview.uv.as_ref().ok(),
        "platform": overview.platform,
        "backend": overview.backend,
        "tier": overview.tier.as_ref().ok(),
        "layers": layers,
        "network": overview.network,
        "limits": overview.limits,
        "default_timeout": overview.default_timeout,
        "max_timeout": overview.max_timeout,
        "max_output_bytes": overview.max_output_bytes,
        "cache_warming": overview.warming,
        "notes": notes_for(overview.tier.as_ref().ok().copied(), notes),
    });
    let missing = [
        ("python", overview.python.as_ref().err().cloned()),
        ("uv", overview.uv.as_ref().err().cloned()),
        (
            "sandbox",
            overview.tier.as_ref().err().map(|refusal| format!("{}. {}", refusal.reason, refusal.remedy)),
        ),
    ];
    for (what, why) in missing {
        if let Some(why) = why {
            fields["missing"][what] = json!(why);
        }
    }
    fields
}

fn either(value: &Result<String, String>) -> &str {
    match value {
        Ok(text) | Err(text) => text,
    }
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn status(overview: &Overview) -> String {
    match &overview.tier {
        Ok(Tier::None) => format!("none ({UNCONFINED})"),
        Ok(tier) => format!("{tier}"),
        Err(refusal) => format!("unavailable: {}. {}", refusal.reason, refusal.remedy),
    }
}

/// The answer of `validate_script`. `python` is the version that a script without `requires-python` is run with.
pub fn validation(validation: &Validation, python: PythonVersion) -> CallToolResult {
    let mut lines = Vec::new();
    let (first, others) = match validation.problems.split_first() {
        Some((first, others)) => (Some(first), others),
        None => (None, &[][..]),
    };
    lines.push(match (validation.valid, first) {
        (true, _) => "VALID".to_owned(),
        (false, Some(problem)) => format!("INVALID: {}", finding(problem)),
        (false, None) => "INVALID: the script cannot be run".to_owned(),
    });
    let assumed = || format!(">={}.{}", python.major, python.minor);
    if validation.valid || validation.requires_python.is_some() {
        lines
            .push(format!("requires-python: {}", validation.requires_python.clone().unwrap_or_else(assumed)));
    }
    if !validation.dependencies.is_empty() {
        lines.push(format!("dependencies ({}):", validation.dependencies.len()));
        lines.extend(validation.dependencies.iter().map(|dependency| format!("  - {dependency}")));
    } else if validation.valid {
        lines.push("dependencies: none".to_owned());
    }
    listed(&mut lines, "other problems", if validation.valid { &validation.problems } else { others });
    listed(&mut lines, "warnings", &validation.warnings);
    if !validation.syntax.is_empty() {
        lines.push(format!("syntax: {}", one_line(&validation.syntax)));
    }
    result(lines.join("\n"), validation_fields(validation))
}

fn validation_fields(validation: &Validation) -> Value {
    let findings = |list: &[Finding]| -> Vec<Value> {
        list.iter().map(|finding| json!({"line": finding.line, "message": finding.message})).collect()
    };
    json!({
        "valid": validation.valid,
        "requires_python": validation.requires_python,
        "dependencies": validation.dependencies,
        "problems": findings(&validation.problems),
        "warnings": findings(&validation.warnings),
        "syntax": validation.syntax,
    })
}

fn listed(lines: &mut Vec<String>, title: &str, findings: &[Finding]) {
    if !findings.is_empty() {
        lines.push(format!("{title} ({}):", findings.len()));
        lines.extend(findings.iter().map(|found| format!("  - {}", finding(found))));
    }
}

fn finding(finding: &Finding) -> String {
    let message = one_line(&finding.message);
    finding.line.map_or_else(|| message.clone(), |line| format!("line {line}: {message}"))
}
