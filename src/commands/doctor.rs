//! `doctor`: what this machine can do, layer by layer, which tier results, and how to get a better one.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::terminal::{Look, look};
use super::{engine, fail, print};
use crate::execution::Execute;
use crate::execution::overview::Overview;
use crate::sandbox::{LayerState, LayerStatus, Tier};
use crate::settings::Settings;

/// How one thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// As it should be.
    Good,
    /// It works, with less than there could be.
    Weak,
    /// It does not work.
    Bad,
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    mark: Mark,
    what: String,
    detail: String,
    remedy: Option<String>,
}

/// Looks at this machine. Ends with 0 where scripts can be run, 1 where not, 125 where nothing could be found out.
pub async fn doctor(settings: Settings, as_json: bool) -> ExitCode {
    let engine = match engine(settings).await {
        Ok(engine) => engine,
        Err(error) => return fail(&error),
    };
    let overview = engine.overview().await;
    let lines = lines(&overview);
    let usable = lines.iter().all(|line| line.mark != Mark::Bad);
    let text = if as_json { in_json(&overview, &lines) } else { in_words(&lines, look(&std::io::stdout())) };
    match (print(&text), usable) {
        (printed, true) => printed,
        _ => ExitCode::FAILURE,
    }
}

fn lines(overview: &Overview) -> Vec<Line> {
    let mut lines = vec![good("machine", &overview.platform), tier(overview)];
    lines.extend(overview.layers.iter().map(layer));
    lines.push(found("uv", &overview.uv, "Install uv, or name it with --uv-path"));
    let remedy = "Install Python 3.13, or let uv install it while the network is there";
    lines.push(found("Python", &overview.python, remedy));
    lines.extend(overview.notes.iter().map(|note| Line {
        mark: Mark::Weak,
        what: "note".to_owned(),
        detail: note.clone(),
        remedy: None,
    }));
    lines
}

fn good(what: &str, detail: &str) -> Line {
    Line { mark: Mark::Good, what: what.to_owned(), detail: detail.to_owned(), remedy: None }
}

fn tier(overview: &Overview) -> Line {
    let backend = overview.backend;
    match &overview.tier {
        Ok(Tier::Full) => good("sandbox", &format!("{backend}, tier full")),
        Ok(tier) => Line { mark: Mark::Weak, ..good("sandbox", &format!("{backend}, tier {tier}")) },
        Err(refusal) => Line {
            mark: Mark::Bad,
            remedy: Some(refusal.remedy.clone()),
            ..good("sandbox", &format!("{backend}: {}", refusal.reason))
        },
    }
}

fn layer(layer: &LayerStatus) -> Line {
    match &layer.state {
        LayerState::Enforced(detail) => good(&layer.name, detail.as_deref().unwrap_or("enforced")),
        LayerState::Partial(missing) => {
            Line { mark: Mark::Weak, ..good(&layer.name, &format!("in part: {missing}")) }
        }
        LayerState::Absent(reason) => {
            Line { mark: Mark::Weak, ..good(&layer.name, &format!("absent: {reason}")) }
        }
    }
}

fn found(what: &str, result: &Result<String, String>, remedy: &str) -> Line {
    match result {
        Ok(version) => good(what, version),
        Err(reason) => Line { mark: Mark::Bad, remedy: Some(remedy.to_owned()), ..good(what, reason) },
    }
}

fn in_words(lines: &[Line], look: Look) -> String {
    let mut text = String::new();
    for line in lines {
        let (word, tick, code) = match line.mark {
            Mark::Good => ("ok  ", "\u{2713}", "32"),
            Mark::Weak => ("note", "!", "33"),
            Mark::Bad => ("FAIL", "\u{2717}", "31"),
        };
        let sign = match look {
            Look::Plain => word.to_owned(),
            Look::Signs => tick.to_owned(),
            Look::Colours => format!("\x1b[{code}m{tick}\x1b[0m"),
        };
        let _ = writeln!(text, "{sign} {}: {}", line.what, line.detail);
        if let Some(remedy) = &line.remedy {
            let indent = if look == Look::Plain { "     " } else { "  " };
            let _ = writeln!(text, "{indent}-> {remedy}");
        }
    }
    text
}

fn in_json(overview: &Overview, lines: &[Line]) -> String {
    let lines: Vec<Value> = lines
        .iter()
        .map(|line| {
            let state = match line.mark {
                Mark::Good => "good",
                Mark::Weak => "weak",
                Mark::Bad => "bad",
            };
            json!({"what": line.what, "state": state, "detail": line.detail, "remedy": line.remedy})
        })
        .collect();
    let tier = overview.tier.as_ref().map_or(Value::Null, |tier| json!(tier.to_string()));
    json!({"backend": overview.backend.to_string(), "tier": tier, "checks": lines}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::{Backend, facts::Refusal, spec::Limits, spec::Network};

    fn overview() -> Overview {
        Overview {
            python: Ok("3.13.2".to_owned()),
            uv: Err("not found".to_owned()),
            platform: "Linux 6.18 x86_64".to_owned(),
            backend: Backend::Native,
            tier: Err(Refusal { reason: "refused".to_owned(), remedy: "Allow it".to_owned() }),
            layers: vec![LayerStatus {
                name: "landlock".to_owned(),
                state: LayerState::Absent("old".to_owned()),
            }],
            network: Network::Host,
            limits: Limits::default(),
            default_timeout: 30,
            max_timeout: 300,
            max_output_bytes: 1024,
            warming: "disabled".to_owned(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn each_line_says_how_it_stands_and_what_to_do() {
        let words = in_words(&lines(&overview()), Look::Plain);
        assert_eq!(
            words,
            "ok   machine: Linux 6.18 x86_64\nFAIL sandbox: native: refused\n     -> Allow it\nnote landlock: absent: \
             old\nFAIL uv: not found\n     -> Install uv, or name it with --uv-path\nok   Python: 3.13.2\n"
        );
    }

    #[test]
    fn a_terminal_shows_ticks() {
        let lines = &lines(&overview())[..2];
        let signs = "\u{2713} machine: Linux 6.18 x86_64\n\u{2717} sandbox: native: refused\n  -> Allow it\n";
        assert_eq!(in_words(lines, Look::Signs), signs);
        let coloured = in_words(lines, Look::Colours);
        assert!(coloured.starts_with("\x1b[32m\u{2713}\x1b[0m machine"), "{coloured:?}");
    }

    #[test]
    fn the_same_facts_stand_in_json() {
        let overview = overview();
        let value: Value = serde_json::from_str(&in_json(&overview, &lines(&overview))).expect("JSON");
        assert_eq!((&value["tier"], &value["checks"][1]["remedy"]), (&Value::Null, &json!("Allow it")));
    }
}
