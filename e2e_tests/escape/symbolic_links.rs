//! A link at any component of what is mounted, or of where it is mounted, is not followed: a folder that others may
//! write must not decide what a sandbox shows.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use mcp_python_exec_sandbox::sandbox::linux::plan::RootStep;
use mcp_python_exec_sandbox::sandbox::spec::Access;

use crate::harness::{Ground, Property, alone};

pub const PROPERTY: Property = Property::steps(
    "symbolic_links",
    "A symbolic link at any component of a mount's source or target ends the start",
    steps,
)
.known_as(&["CVE-2026-87766", "CVE-2021-30465", "CVE-2023-27561"]);

fn bind(source: PathBuf, target: &str) -> RootStep {
    RootStep::Bind { source, target: target.into(), access: Access::ReadOnly, directory: true }
}

fn steps(ground: &Ground) -> Result<(), String> {
    ground.file("a/b/c/secret", "secret")?;
    let top = ground.folder.path().to_owned();
    // Readable for the run's user, who is another one where the server is root.
    let open = |path: &str, mode| std::fs::set_permissions(top.join(path), std::fs::Permissions::from_mode(mode));
    open("a/b/c/secret", 0o644).map_err(|error| error.to_string())?;
    for (link, to) in [("x", "a"), ("a/y", "b"), ("a/b/z", "c"), ("root", "/")] {
        std::os::unix::fs::symlink(to, top.join(link)).map_err(|error| error.to_string())?;
    }
    let plain = top.join("a/b/c");
    let shown = try_with(ground, vec![bind(plain.clone(), "/shown")])?;
    if shown != "secret" {
        return Err(format!("control: the folder is not shown: {shown}"));
    }
    let root = format!("root{}/a/b/c", top.display());
    for source in ["x/b/c", "a/y/c", "a/b/z", &root] {
        refused(ground, source, vec![bind(top.join(source), "/shown")])?;
    }
    let link = |target: &str, to: &str| RootStep::Symlink { target: target.into(), to: to.into() };
    for (target, links) in [
        ("/one/two/three", link("/one", "/usr")),
        ("/one/two/three", link("/one/two", "/usr")),
        ("/one/two/three", link("/one/two/three", "/usr")),
    ] {
        refused(ground, target, vec![links, bind(plain.clone(), target)])?;
    }
    Ok(())
}

fn refused(ground: &Ground, what: &str, steps: Vec<RootStep>) -> Result<(), String> {
    match try_with(ground, steps) {
        Err(error) if error.contains("Too many levels") || error.contains("Not a directory") => Ok(()),
        Err(error) => Err(format!("{what}: refused for another reason: {error}")),
        Ok(output) => Err(format!("{what}: followed ({output})")),
    }
}

/// Adds steps to the plan of the full tier and reads what the mount shows.
fn try_with(ground: &Ground, steps: Vec<RootStep>) -> Result<String, String> {
    let script = "import sys\nsys.stdout.write(open('/shown/secret').read())\n";
    let (spec, mut plan) = alone::plan(ground, script)?;
    if let Some(isolation) = &mut plan.isolation {
        // Before the files that come with the plan.
        let at = isolation.root.len() - 1;
        isolation.root.splice(at..at, steps);
    }
    plan.landlock = None;
    let output = alone::carry_out(ground, &spec, &plan)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
