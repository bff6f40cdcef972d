//! `cache`: what is kept on disk, and how to be rid of it or to fill it in advance.

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::{engine, fail, print};
use crate::cli::CacheAction;
use crate::environment::HostEnv;
use crate::environment::stock::{Cleaned, Sizes, Stock, Stocked};
use crate::execution::{ExecutionRequest, Progress, ProgressSink, warm};
use crate::settings::Settings;

/// Longest time for one set of packages: some hundred megabytes over a slow line.
const SET_TAKES: Duration = Duration::from_mins(10);

/// Does what was asked.
pub async fn cache(settings: Settings, action: CacheAction) -> ExitCode {
    if let CacheAction::Warm { with } = action {
        return fill(settings, with).await;
    }
    let stock = match Stock::open(settings.data_dir.as_deref(), &HostEnv::capture()) {
        Ok(stock) => stock,
        Err(error) => return fail(&error.to_string()),
    };
    match action {
        CacheAction::List => print(&listed(&stock.list(), SystemTime::now())),
        CacheAction::Size => {
            print(&format!("{}\n{}", measured(&stock.sizes(), settings.cache_size), stock.root().display()))
        }
        CacheAction::Clean | CacheAction::Warm { .. } => print(&cleaned(stock.clean())),
    }
}

/// Prepares the sets one after the other, compiled, and says of each how it went.
async fn fill(settings: Settings, with: Vec<String>) -> ExitCode {
    let sets: Vec<Vec<String>> = if with.is_empty() { warm::sets().collect() } else { vec![with] };
    let python = settings.python;
    let engine = match engine(settings).await {
        Ok(engine) => engine,
        Err(error) => return fail(&error),
    };
    let line = super::progress::Line::new();
    for dependencies in sets {
        let names = dependencies.join(" ");
        let request =
            ExecutionRequest { script: "pass".to_owned(), dependencies, python, timeout: SET_TAKES };
        let shown = Arc::clone(&line);
        let progress: ProgressSink = Arc::new(move |progress: Progress| shown.show(&progress));
        let deadline = Instant::now() + SET_TAKES;
        let prepared = line.during(engine.prepare(&request, deadline, &progress)).await;
        match prepared {
            Ok(prepared) => drop(prepared),
            Err(error) => return fail(&format!("{names}: {}", super::words(&error))),
        }
        engine.environments().settled().await;
        eprintln!("ready: {names}");
    }
    ExitCode::SUCCESS
}

fn listed(list: &[Stocked], now: SystemTime) -> String {
    if list.is_empty() {
        return "no environments".to_owned();
    }
    let lines = list.iter().map(|stocked| {
        let packages =
            if stocked.packages.is_empty() { "no packages".to_owned() } else { stocked.packages.join(", ") };
        let (key, size, used) =
            (&stocked.key[..stocked.key.len().min(8)], size(stocked.size), age(stocked.used, now));
        let place = if stocked.in_volume { ", in a volume" } else { "" };
        format!("{key}  {size:>9}  {used:>8}  Python {}{place}: {packages}", stocked.python)
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn measured(sizes: &Sizes, bound: u64) -> String {
    let rows = [
        ("environments", sizes.environments),
        ("packages", sizes.packages),
        ("built wheels", sizes.built),
        ("interpreters", sizes.interpreters),
        ("uv", sizes.uv),
        ("in volumes", sizes.volumes),
    ];
    let mut text = String::new();
    for (name, bytes) in rows {
        let _ = writeln!(text, "{name:<14} {:>9}", size(bytes));
    }
    let _ = write!(
        text,
        "{:<14} {:>9}  (environments and packages are kept below {})",
        "all",
        size(sizes.total()),
        size(bound)
    );
    text
}

fn cleaned(cleaned: Cleaned) -> String {
    let stay = match cleaned.in_use {
        0 => String::new(),
        count => format!("; {count} in use stay"),
    };
    let volumes = match cleaned.in_volumes {
        0 => String::new(),
        bytes => format!(
            "\n{} in the container engine's volumes are removed when the docker backend installs something next",
            size(bytes)
        ),
    };
    format!("{} freed{stay}{volumes}", size(cleaned.freed))
}

/// Bytes for people: three figures at most.
#[expect(clippy::cast_precision_loss, reason = "it is rounded to three figures")]
fn size(bytes: u64) -> String {
    let units = ["kB", "MB", "GB", "TB"];
    let (mut amount, mut unit) = (bytes as f64 / 1000.0, units[0]);
    for next in &units[1..] {
        if amount >= 1000.0 {
            (amount, unit) = (amount / 1000.0, next);
        }
    }
    if amount < 10.0 { format!("{amount:.1} {unit}") } else { format!("{amount:.0} {unit}") }
}

fn age(used: SystemTime, now: SystemTime) -> String {
    let seconds = now.duration_since(used).unwrap_or_default().as_secs();
    match seconds {
        0..60 => "just now".to_owned(),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_shown_in_a_line_each() {
        let now = SystemTime::now();
        let stocked = Stocked {
            key: "0123456789abcdef".to_owned(),
            python: "3.13.1".to_owned(),
            packages: vec!["six 1.17.0".to_owned()],
            size: 12_345_678,
            used: now - Duration::from_hours(3),
            in_volume: false,
        };
        assert_eq!(listed(&[stocked], now), "01234567      12 MB       3 h  Python 3.13.1: six 1.17.0");
        assert_eq!(listed(&[], now), "no environments");
        let in_use = Cleaned { freed: 1_500, in_use: 2, in_volumes: 0 };
        assert_eq!(cleaned(in_use), "1.5 kB freed; 2 in use stay");
        let in_volumes = Cleaned { freed: 1_500, in_use: 0, in_volumes: 2_000 };
        assert!(cleaned(in_volumes).starts_with("1.5 kB freed\n2.0 kB in the container engine's volumes"));
        assert!(
            measured(&Sizes { packages: 2_000_000_000, ..Sizes::default() }, 5 << 30)
                .contains("packages          2.0 GB")
        );
    }
}
