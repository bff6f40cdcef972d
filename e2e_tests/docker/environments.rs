//! Environments in volumes: kept from one run to the next, made again when somebody has removed them, and never
//! writable for a script.

use std::path::Path;
use std::process::{Command, Output};

use super::{Room, docker, image};

fn run(data: &Path, script: &str) -> Output {
    let file = data.join("script.py");
    std::fs::write(&file, script).expect("written");
    Command::new(env!("CARGO_BIN_EXE_mcp-python-exec-sandbox"))
        .args([
            "run",
            "--sandbox-backend",
            "docker",
            "--timeout",
            "120",
            "--docker-image",
            &image(),
            "--data-dir",
        ])
        .arg(data)
        .arg(&file)
        .output()
        .expect("it starts")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

struct Volumes(String);

impl Volumes {
    fn of(data: &Path) -> Self {
        let id = std::fs::read_to_string(data.join("docker/place")).expect("a place");
        Self(format!("label=mcp-python-exec-sandbox.place={}", id.trim()))
    }

    fn environments(&self) -> Vec<String> {
        let list = docker(&["volume", "ls", "--quiet", "--filter", &self.0]);
        list.lines().filter(|name| !name.ends_with("-packages")).map(str::to_owned).collect()
    }
}

impl Drop for Volumes {
    fn drop(&mut self) {
        for volume in docker(&["volume", "ls", "--quiet", "--filter", &self.0]).lines() {
            docker(&["volume", "rm", "--force", volume]);
        }
    }
}

#[tokio::test]
async fn an_environment_is_kept_closed_and_made_again() {
    if Room::open().await.is_none() {
        return;
    }
    let place = tempfile::tempdir().expect("a temporary folder");
    let data = place.path();
    let first = run(data, "import sys\nprint(sys.prefix, sys.flags.isolated)\nopen(sys.prefix + '/x', 'w')");
    let volumes = Volumes::of(data);
    let said = text(&first);
    assert!(said.contains("/environment 0"), "{said}");
    assert!(said.contains("Read-only file system") || said.contains("Permission denied"), "{said}");
    let kept = volumes.environments();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(text(&run(data, "print('again')")), "again\n");
    assert_eq!(volumes.environments(), kept, "it was made once");
    docker(&["volume", "rm", "--force", &kept[0]]);
    let gone = run(data, "print('lost')");
    assert_eq!(gone.status.code(), Some(125));
    assert!(text(&gone).contains("Run it again"), "{}", text(&gone));
    assert_eq!(text(&run(data, "print('anew')")), "anew\n");
    let new = volumes.environments();
    assert!(new.len() == 1 && new != kept, "{new:?}");
}

#[tokio::test]
async fn a_version_that_the_image_does_not_have_is_told() {
    if Room::open().await.is_none() {
        return;
    }
    let place = tempfile::tempdir().expect("a temporary folder");
    let output = run(place.path(), "# /// script\n# requires-python = \"==3.9.*\"\n# ///\nprint(1)");
    let said = text(&output);
    let _volumes = Volumes::of(place.path());
    assert_eq!(output.status.code(), Some(125));
    assert!(
        said.contains("3.9") && said.contains("Available: 3.1") && said.contains("image build --python"),
        "{said}"
    );
}
