//! `doctor`: what this machine can do, layer by layer, which tier results, and how to get a better one.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::terminal::{Look, look};
use super::{docker_options, engine, fail, print};
use crate::execution::Execute;
use crate::execution::overview::Overview;
use crate::sandbox::facts::{CONTROL_GROUPS, Part, Refusal};
use crate::sandbox::{LayerState, LayerStatus, Tier, docker};
use crate::settings::Settings;

/// What a line is about that is about nothing in particular.
const NOTE: &str = "note";

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

/// Everything that was seen of this machine.
struct Seen {
    overview: Overview,
    parts: Vec<Part>,
    pythons: Vec<(String, PathBuf)>,
    docker: Result<String, Refusal>,
}

/// Looks at this machine. Ends with 0 where scripts can be run, 1 where not, 125 where nothing could be found out.
pub async fn doctor(settings: Settings, as_json: bool) -> ExitCode {
    let options = docker_options(&settings);
    let engine = match engine(settings).await {
        Ok(engine) => engine,
        Err(error) => return fail(&error),
    };
    let seen = Seen {
        overview: engine.overview().await,
        parts: engine.sandbox().parts(),
        pythons: engine.environments().pythons().await,
        docker: docker::look(&options).await,
    };
    let lines = lines(&seen);
    let usable = lines.iter().all(|line| line.mark != Mark::Bad);
    let text =
        if as_json { in_json(&seen.overview, &lines) } else { in_words(&lines, look(&std::io::stdout())) };
    match (print(&text), usable) {
        (printed, true) => printed,
        _ => ExitCode::FAILURE,
    }
}

fn lines(seen: &Seen) -> Vec<Line> {
    let overview = &seen.overview;
    let mut lines = vec![good("machine", &overview.platform), tier(overview)];
    // Where there are layers they tell of the same parts, but for the groups that limits are kept by.
    let told = |part: &&Part| overview.layers.is_empty() || part.name == CONTROL_GROUPS;
    lines.extend(overview.layers.iter().map(layer));
    lines.extend(seen.parts.iter().filter(told).map(part));
    lines.push(found("uv", &overview.uv, "Install uv, or name it with --uv-path"));
    let remedy = "Install Python 3.13, or let uv install it while the network is there";
    lines.push(found("Python", &overview.python, remedy));
    if !seen.pythons.is_empty() {
        let all = seen.pythons.iter().map(|(version, path)| format!("{version} ({})", path.display()));
        lines.push(good("Pythons", &all.collect::<Vec<_>>().join(", ")));
    }
    lines.push(match &seen.docker {
        Ok(engine) => good("Docker", engine),
        Err(refusal) => Line {
            mark: Mark::Weak,
            remedy: Some(refusal.remedy.clone()),
            ..good("Docker", &format!("not usable: {}", refusal.reason))
        },
    });
    lines.extend(overview.notes.iter().map(|note| Line { mark: Mark::Weak, ..good(NOTE, note) }));
    lines
}

fn good(what: &str, detail: &str) -> Line {
    Line { mark: Mark::Good, what: what.to_owned(), detail: detail.to_owned(), remedy: None }
}

fn tier(overview: &Overview) -> Line {
    let backend = overview.backend;
    match &overview.tier {
        Ok(Tier::Full) => good("sandbox", &format!("{backend}, tier full")),
        Ok(tier) => {
            let better = overview.shortfall.as_ref();
            let why = better.map(|better| format!(": {}", better.reason)).unwrap_or_default();
            Line {
                mark: Mark::Weak,
                remedy: better.map(|better| better.remedy.clone()),
                ..good("sandbox", &format!("{backend}, tier {tier}{why}"))
            }
        }
        Err(refusal) => Line {
            mark: Mark::Bad,
            remedy: Some(refusal.remedy.clone()),
            ..good("sandbox", &format!("{backend}: {}", refusal.reason))
        },
    }
}

fn layer(layer: &LayerStatus) -> Line {
    stands(&layer.name, &layer.state, "enforced")
}

fn part(part: &Part) -> Line {
    Line { remedy: part.remedy.clone(), ..stands(part.name, &part.state, "there") }
}

fn stands(name: &str, state: &LayerState, plainly: &str) -> Line {
    match state {
        LayerState::Enforced(detail) => good(name, detail.as_deref().unwrap_or(plainly)),
        LayerState::Partial(missing) => {
            Line { mark: Mark::Weak, ..good(name, &format!("in part: {missing}")) }
        }
        LayerState::Absent(reason) => Line { mark: Mark::Weak, ..good(name, &format!("absent: {reason}")) },
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
        let what = if line.what == NOTE { String::new() } else { format!("{}: ", line.what) };
        let _ = writeln!(text, "{sign} {what}{}", line.detail);
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
    use crate::sandbox::{Backend, spec::Limits, spec::Network};

    fn refusal() -> Refusal {
        Refusal { reason: "refused".to_owned(), remedy: "Allow it".to_owned() }
    }

    fn seen() -> Seen {
        let overview = Overview {
            python: Ok("3.13.2".to_owned()),
            uv: Err("not found".to_owned()),
            platform: "Linux 6.18 x86_64".to_owned(),
            backend: Backend::Native,
            tier: Err(refusal()),
            shortfall: None,
            layers: Vec::new(),
            network: Network::Host,
            limits: Limits::default(),
            default_timeout: 30,
            max_timeout: 300,
            max_output_bytes: 1024,
            warming: "disabled".to_owned(),
            notes: vec!["a folder is not used".to_owned()],
        };
        let parts = vec![
            Part::there("landlock", Some("ABI 7".to_owned())),
            Part::missing(CONTROL_GROUPS, &refusal()),
        ];
        let pythons = vec![("3.13.2".to_owned(), "/p/python3.13".into()), ("3.11.2".to_owned(), "/q".into())];
        Seen { overview, parts, pythons, docker: Err(refusal()) }
    }

    #[test]
    fn each_line_says_how_it_stands_and_what_to_do() {
        let words = in_words(&lines(&seen()), Look::Plain);
        let expected = "ok   machine: Linux 6.18 x86_64\n\
            FAIL sandbox: native: refused\n     -> Allow it\n\
            ok   landlock: ABI 7\n\
            note control groups: absent: refused\n     -> Allow it\n\
            FAIL uv: not found\n     -> Install uv, or name it with --uv-path\n\
            ok   Python: 3.13.2\n\
            ok   Pythons: 3.13.2 (/p/python3.13), 3.11.2 (/q)\n\
            note Docker: not usable: refused\n     -> Allow it\n\
            note a folder is not used\n";
        assert_eq!(words, expected);
    }

    #[test]
    fn a_lesser_sandbox_says_why_and_what_would_give_a_better_one() {
        let mut seen = seen();
        seen.overview.tier = Ok(Tier::Confined);
        seen.overview.shortfall = Some(refusal());
        seen.overview.layers =
            vec![LayerStatus { name: "landlock".to_owned(), state: LayerState::Partial("old".to_owned()) }];
        let words = in_words(&lines(&seen), Look::Plain);
        assert!(
            words.contains("note sandbox: native, tier confined: refused\n     -> Allow it\n"),
            "{words}"
        );
        assert!(words.contains("note landlock: in part: old\nnote control groups: absent"), "{words}");
    }

    #[test]
    fn a_terminal_shows_ticks() {
        let lines = &lines(&seen())[..2];
        let signs = "\u{2713} machine: Linux 6.18 x86_64\n\u{2717} sandbox: native: refused\n  -> Allow it\n";
        assert_eq!(in_words(lines, Look::Signs), signs);
        let coloured = in_words(lines, Look::Colours);
        assert!(coloured.starts_with("\x1b[32m\u{2713}\x1b[0m machine"), "{coloured:?}");
    }

    #[test]
    fn the_same_facts_stand_in_json() {
        let seen = seen();
        let value: Value = serde_json::from_str(&in_json(&seen.overview, &lines(&seen))).expect("JSON");
        assert_eq!((&value["tier"], &value["checks"][1]["remedy"]), (&Value::Null, &json!("Allow it")));
        assert!(value["checks"].as_array().expect("a list").iter().any(|check| check["what"] == "Docker"));
    }
}
