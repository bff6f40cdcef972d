//! Scripts: from a call, or a start, to the whole answer.

use std::process::Command;
use std::time::Duration;

use mcp_python_exec_sandbox::sandbox::docker::image::default_name;

use super::NO_POOL;
use crate::client::Server;
use crate::contestants::{Call, Contestant, Direct, race};
use crate::jails;
use crate::report::Report;
use crate::setting::{HELLO, Setting, output};

/// Between two calls: about what the other contestants of a round take, and less than an agent needs to think.
const PAUSE: Duration = Duration::from_millis(50);

/// The same where an engine has to make a container meanwhile.
const CONTAINER_PAUSE: Duration = Duration::from_millis(1500);

/// A script without dependencies.
pub fn hello(setting: &Setting, report: &mut Report) -> Result<(), String> {
    let script = setting.script("hello.py", HELLO)?;
    let mut contestants: Vec<Box<dyn Contestant>> = vec![
        Box::new(Direct::python("bare python", &setting.python, &script)),
        Box::new(Direct::python("the environment's python", &setting.env_python, &script)),
        Box::new(Call::ours(setting, "ours, pool off", &NO_POOL, HELLO, &[])?),
        Box::new(Call::ours(setting, "ours, pool", &[], HELLO, &[])?.pausing(PAUSE)),
        Box::new(Call::ours(
            setting,
            "ours, backend none",
            &["--sandbox-backend", "none", "--pool-size", "0"],
            HELLO,
            &[],
        )?),
    ];
    for (name, words) in [
        ("bwrap", jails::bwrap(setting, &[&setting.python], Some(&script))),
        ("nsjail", jails::nsjail(setting, &[&setting.python], Some(&script))),
    ] {
        match words {
            Ok(words) => contestants.push(Box::new(Direct::new(name, words))),
            Err(reason) => report.skip(name, &reason),
        }
    }
    match python_program(setting) {
        Ok(call) => contestants.push(Box::new(call)),
        Err(reason) => report.skip("the Python program", &reason),
    }
    report.race("hello", &race(setting.flags.rounds, &mut contestants)?);
    Ok(())
}

fn python_program(setting: &Setting) -> Result<Call, String> {
    let program = setting.flags.python_program.as_deref().ok_or("name it with --python-program")?;
    Call::of("the Python program", Server::greet(Command::new(program))?, HELLO, &[])
}

/// Packages and a script that needs them.
const PACKAGES: [(&[&str], &str); 3] = [
    (&["six"], "import six, time\nprint(time.monotonic_ns())\n"),
    (&["requests"], "import requests, time\nprint(time.monotonic_ns())\n"),
    (&["numpy"], "import numpy, time\nprint(time.monotonic_ns())\n"),
];

const FRAMES: &str = "import numpy, pandas, time\nprint(time.monotonic_ns())\n";

/// Scripts with dependencies, in an environment that is there and compiled.
pub fn packages(setting: &Setting, report: &mut Report) -> Result<(), String> {
    for (dependencies, text) in PACKAGES.into_iter().chain([(&["numpy", "pandas"][..], FRAMES)]) {
        let job = dependencies.join("+");
        let python = match setting.environment(dependencies) {
            Ok(python) => python,
            Err(reason) => {
                report.skip(&job, &reason);
                continue;
            }
        };
        compiled(setting, dependencies, text)?;
        // Not by a package's own name: a direct start looks beside the script first.
        let script = setting.script(&format!("with-{job}.py"), text)?;
        let mut contestants: Vec<Box<dyn Contestant>> = vec![
            Box::new(Direct::python("the environment's python", &python, &script)),
            Box::new(Call::ours(setting, "ours, pool off", &NO_POOL, text, dependencies)?),
            Box::new(Call::ours(setting, "ours, pool", &[], text, dependencies)?.pausing(PAUSE)),
        ];
        report.race(&job, &race(setting.flags.rounds / 2, &mut contestants)?);
    }
    Ok(())
}

/// Waits until the environment's bytecode is there: a server compiles it in the background and locks it meanwhile.
fn compiled(setting: &Setting, dependencies: &[&str], text: &str) -> Result<(), String> {
    let python = setting.environment(dependencies)?;
    let record = python.parent().and_then(std::path::Path::parent).ok_or("an environment has a folder")?;
    let record = record.with_extension("json");
    let mut server = Server::start(setting, &NO_POOL)?;
    let deadline = std::time::Instant::now() + Duration::from_mins(3);
    while std::time::Instant::now() < deadline {
        server.run(text, dependencies)?;
        let state = std::fs::read_to_string(&record).map_err(|error| error.to_string())?;
        if state.contains("\"compiled\":true") {
            return Ok(());
        }
    }
    Err("the bytecode was not ready in time".to_owned())
}

/// Interpreters that have imported numpy and pandas before the call.
pub fn preload(setting: &Setting, report: &mut Report) -> Result<(), String> {
    let dependencies = ["numpy", "pandas"];
    let python = setting.environment(&dependencies)?;
    compiled(setting, &dependencies, FRAMES)?;
    let script = setting.script("frames.py", FRAMES)?;
    let flags = ["--preload", "numpy,pandas"];
    let mut contestants: Vec<Box<dyn Contestant>> = vec![
        Box::new(Direct::python("the environment's python", &python, &script)),
        Box::new(
            Call::ours(setting, "ours, preload", &flags, FRAMES, &dependencies)?
                .pausing(Duration::from_secs(1)),
        ),
    ];
    report.race("numpy+pandas", &race(setting.flags.rounds / 4, &mut contestants)?);
    Ok(())
}

/// Containers, where an engine answers and has the image.
pub fn container(setting: &Setting, report: &mut Report) -> Result<(), String> {
    let docker = jails::find("docker")?;
    let image = setting.flags.docker_image.clone().unwrap_or_else(default_name);
    output(Command::new(&docker).args(["image", "inspect", &image]))?;
    let by_hand = ["run", "--rm", &image, "python3", "-c", HELLO].map(std::ffi::OsString::from);
    let by_hand = [docker.into_os_string()].into_iter().chain(by_hand);
    let call = |name, pool| {
        let flags = ["--sandbox-backend", "docker", "--docker-image", &image, "--pool-size", pool];
        Call::ours(setting, name, &flags, HELLO, &[])
    };
    let mut contestants: Vec<Box<dyn Contestant>> = vec![
        Box::new(Direct::new("docker run", by_hand)),
        Box::new(call("ours, pool off", "0")?),
        Box::new(call("ours, pool", "1")?.pausing(CONTAINER_PAUSE)),
    ];
    report.race("hello", &race(setting.flags.rounds, &mut contestants)?);
    Ok(())
}
