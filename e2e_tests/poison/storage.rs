//! Disks that are full, closed, elsewhere, or taken away.

use std::process::Command;

use serde_json::json;

use crate::stage::{Index, Stage, finish, has_uv, skip, wheel};

const LOOK: &str = "import alpha; print('VERSION=' + alpha.VERSION)";

/// Runs `run` with a small file system of its own at `place`, which nobody else sees.
fn in_own_mounts(
    stage: &Stage,
    place: &str,
    options: &str,
    after: &str,
    dependency: &str,
) -> Option<crate::stage::Ran> {
    let as_root = rustix::process::geteuid().is_root();
    let script = stage.home().join("look.py");
    std::fs::write(&script, LOOK).expect("written");
    let run = stage.command(&[
        "--data-dir",
        place,
        "run",
        "--timeout",
        "60",
        "--with",
        dependency,
        script.to_str().expect("UTF-8"),
    ]);
    let words: Vec<String> = std::iter::once(run.get_program())
        .chain(run.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let mount = format!("mount -t tmpfs -o {options} none {place} && {after} exec \"$@\"");
    let mut command = Command::new("unshare");
    command
        .args(if as_root { &["-m"][..] } else { &["-rm"][..] })
        .args(["sh", "-c", &mount, "sh"])
        .args(words);
    command.env_clear().envs(&stage.env);
    let ran = finish(command);
    if ran.stderr.contains("unshare:") || ran.stderr.contains("mount:") {
        skip(&format!("no mounts of one's own: {}", ran.stderr));
        return None;
    }
    Some(ran)
}

#[test]
fn a_full_disk_is_said_and_leaves_no_half_environment() {
    // Where uv is fetched, it is the download that fills the disk.
    if !has_uv("a full disk") {
        return;
    }
    let large = json!({"name": "large", "version": "1", "files": {"large.py": "x = 1\n".repeat(1 << 20)}});
    let index = Index::of(&[large, wheel("alpha", "1.0")]);
    let stage = Stage::new(&index.at("/simple"));
    let place = tempfile::tempdir().expect("a temporary folder");
    let path = place.path().to_str().expect("UTF-8");
    if let Some(ran) = in_own_mounts(&stage, path, "size=5m,mode=755", "", "large") {
        ran.refused(&["Free space or name another folder with --data-dir"]);
    }
    if let Some(ran) = in_own_mounts(&stage, path, "size=5m,mode=755", "", "alpha") {
        assert_eq!(ran.succeeded().value("VERSION"), "1.0");
    }
}

#[test]
fn a_data_folder_that_cannot_be_written_is_an_error_where_it_was_named() {
    let index = Index::of(&[wheel("alpha", "1.0")]);
    let stage = Stage::new(&index.at("/simple"));
    let place = tempfile::tempdir().expect("a temporary folder");
    let path = place.path().to_str().expect("UTF-8");
    if let Some(ran) = in_own_mounts(&stage, path, "size=5m,ro", "", "alpha") {
        ran.refused(&[path, "cannot be used", "--data-dir"]);
    }
}

#[test]
fn without_a_cache_folder_a_temporary_one_serves() {
    let index = Index::of(&[wheel("alpha", "1.0")]);
    let mut stage = Stage::new(&index.at("/simple"));
    // A file where the folder should be.
    let file = stage.home().join("no-folder");
    std::fs::write(&file, "").expect("written");
    stage.env.insert("XDG_CACHE_HOME".to_owned(), file.display().to_string());
    assert_eq!(stage.run(&["alpha"], LOOK).succeeded().value("VERSION"), "1.0");
}

#[test]
fn another_file_system_serves_as_well() {
    let index = Index::of(&[wheel("alpha", "1.0")]);
    let mut stage = Stage::new(&index.at("/simple"));
    let Ok(place) = tempfile::tempdir_in("/dev/shm") else { return skip("there is no /dev/shm") };
    stage.flags.extend(["--data-dir".to_owned(), place.path().join("data").display().to_string()]);
    assert_eq!(stage.run(&["alpha"], LOOK).succeeded().value("VERSION"), "1.0");
}

#[test]
fn a_data_folder_that_goes_away_under_a_run_is_made_anew() {
    let index = Index::of(&[wheel("alpha", "1.0")]);
    let stage = Stage::new(&index.at("/simple"));
    stage.run(&["alpha"], LOOK).succeeded();
    let waiting =
        "import alpha, sys; print('begun', flush=True); sys.stdin.read(); print('VERSION=' + alpha.VERSION)";
    let script = stage.home().join("waiting.py");
    std::fs::write(&script, format!("{waiting}\nimport time; time.sleep(2)\n")).expect("written");
    let args = ["run", "--timeout", "60", "--with", "alpha", script.to_str().expect("UTF-8")];
    let child = stage.command(&args).stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    // What is kept is read-only, which stops its owner too where that is not root.
    let remove = || {
        let opened = std::process::Command::new("chmod").args(["-R", "u+w"]).arg(stage.data()).status();
        opened.and_then(|_| std::fs::remove_dir_all(stage.data()))
    };
    remove().or_else(|_| remove()).expect("removed");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.code().is_some(), "it ended by itself");
    assert_eq!(stage.run(&["alpha"], LOOK).succeeded().value("VERSION"), "1.0");
}
