//! Stateful sandboxes: how soon one is there, what a cell costs, and what a figure costs beside drawing it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Server;
use crate::numbers::{milliseconds, percentile, ratio};
use crate::report::Report;
use crate::setting::Setting;

const ID: &str = "measured";
/// Until the next sandbox waits.
const REFILLING: Duration = Duration::from_millis(500);
/// Cells of a round.
const CELLS: usize = 20;

/// Draws a figure and says how long matplotlib itself took for that and for writing it.
const DRAW: &str = "started = time.perf_counter()\nfigure, axes = plt.subplots()\naxes.plot(range(100))\n\
                    figure.savefig(io.BytesIO(), format='png')\nplt.close(figure)\ntime.perf_counter() - started";
/// The same figure, which the result then shows.
const SHOW: &str = "figure, axes = plt.subplots()\naxes.plot(range(100));";

pub fn sessions(setting: &Setting, report: &mut Report) -> Result<(), String> {
    let mut server = Server::start(setting, &[])?;
    let (mut made, mut cells) = (Vec::new(), Vec::new());
    // The first one starts the keeping of others.
    for round in 0..=setting.flags.rounds {
        let started = Instant::now();
        call(&mut server, "create_sandbox", json!({}))?;
        if round > 0 {
            made.push(started.elapsed());
        }
        for cell in 0..=CELLS {
            let started = Instant::now();
            run(&mut server, "1+1")?;
            // The first one of a sandbox warms it.
            if cell > 0 {
                cells.push(started.elapsed());
            }
        }
        call(&mut server, "close_sandbox", json!({}))?;
        std::thread::sleep(REFILLING);
    }
    report.figure("create_sandbox, p50", milliseconds(percentile(&made, 0.5)), "ms");
    report.figure("execute_code of 1+1, p50", milliseconds(percentile(&cells, 0.5)), "ms");
    figures(setting, &mut server, report)
}

fn figures(setting: &Setting, server: &mut Server, report: &mut Report) -> Result<(), String> {
    call(server, "create_sandbox", json!({}))?;
    call(server, "install_package", json!({"package_name": "matplotlib", "timeout_seconds": 280}))?;
    run(server, "import io, time\nimport matplotlib.pyplot as plt")?;
    let (mut drawn, mut shown) = (Vec::new(), Vec::new());
    for round in 0..=setting.flags.rounds / 2 {
        let result = run(server, DRAW)?;
        let seconds =
            result["structuredContent"]["results"][0]["text"].as_str().and_then(|text| text.parse().ok());
        let seconds: f64 = seconds.ok_or("a cell did not say how long it took")?;
        let started = Instant::now();
        let result = run(server, SHOW)?;
        let taken = started.elapsed();
        if !result["content"].to_string().contains("image/png") {
            return Err("a figure was not shown".to_owned());
        }
        // The first ones load fonts.
        if round > 0 {
            drawn.push(Duration::from_secs_f64(seconds));
            shown.push(taken);
        }
    }
    report.figure("a figure in a result, to drawing it", ratio(&shown, &drawn).0, "x");
    Ok(())
}

fn run(server: &mut Server, code: &str) -> Result<Value, String> {
    call(server, "execute_code", json!({"code": code, "timeout_seconds": 60}))
}

fn call(server: &mut Server, tool: &str, mut arguments: Value) -> Result<Value, String> {
    arguments["session_id"] = json!(ID);
    let result = server.tool(tool, &arguments)?;
    let failed = result["isError"] == true || result["structuredContent"]["error"].is_object();
    if failed { Err(format!("{tool} failed: {}", result["content"][0]["text"])) } else { Ok(result) }
}
