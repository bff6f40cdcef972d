//! Why the backend cannot be used, each reason with what to do about it.

use std::path::Path;
use std::process::Command;

use super::client::Server;
use super::{Room, image};

/// What `run` says with another environment.
fn refusal(image: &str, change: impl FnOnce(&mut Command)) -> String {
    try_refusal(image, change).expect("it starts")
}

/// The same, where the program may not be there for the user whom the change names.
fn try_refusal(image: &str, change: impl FnOnce(&mut Command)) -> std::io::Result<String> {
    let data = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-python-exec-sandbox"));
    command
        .args([
            "run",
            "-",
            "--sandbox-backend",
            "docker",
            "--require-sandbox",
            "docker",
            "--docker-image",
            image,
        ])
        .arg("--data-dir")
        .arg(data.path())
        .env_remove("DOCKER_HOST")
        .env_remove("DOCKER_CONTEXT")
        .stdin(std::process::Stdio::null());
    change(&mut command);
    let output = command.output()?;
    assert_eq!(output.status.code(), Some(125), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test]
async fn no_engine_no_permission_no_image() {
    if Room::open().await.is_none() {
        return;
    }
    let said = refusal(&image(), |command| {
        command.env("DOCKER_HOST", "unix:///nowhere/engine.sock");
    });
    assert!(said.contains("not running") && said.contains("/nowhere/engine.sock"), "{said}");
    let said = refusal("no-such-image:0", |_| {});
    assert!(said.contains("has no image no-such-image:0") && said.contains("image build"), "{said}");
}

#[tokio::test]
async fn a_socket_that_this_user_may_not_open() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    if Room::open().await.is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("engine.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o000)).expect("set");
    // Root may open every socket, and becomes somebody else for this.
    let is_root = std::os::unix::net::UnixStream::connect(&socket).is_ok();
    let said = try_refusal(&image(), |command| {
        command.env("DOCKER_HOST", format!("unix://{}", socket.display()));
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
    });
    match said {
        Ok(said) => assert!(said.contains("no permission") && said.contains("group that owns it"), "{said}"),
        Err(error) if is_root && error.kind() == std::io::ErrorKind::PermissionDenied => {
            crate::skipped::skipped(
                "a socket of others: the program lies in a folder that is closed to them",
            );
        }
        Err(error) => panic!("it does not start: {error}"),
    }
}

#[test]
fn no_client_is_told_where_the_usual_folders_have_none() {
    let usual = ["/usr/local/bin/docker", "/usr/bin/docker", "/opt/homebrew/bin/docker", "/snap/bin/docker"];
    if let Some(found) = usual.iter().find(|path| Path::new(path).exists()) {
        crate::skipped::skipped(format_args!("{found} is found wherever PATH leads"));
        return;
    }
    let said = refusal(&image(), |command| {
        command.env("PATH", "/nowhere").env("HOME", "/nowhere");
    });
    assert!(said.contains("not installed"), "{said}");
}

/// Loads an image of one empty layer for another architecture: engines build only for their own.
const FOREIGN_IMAGE: &str = "
import hashlib, io, json, subprocess, sys, tarfile
layer = bytes(1024)
config = {'architecture': sys.argv[1], 'os': 'linux', 'config': {},
          'rootfs': {'type': 'layers', 'diff_ids': ['sha256:' + hashlib.sha256(layer).hexdigest()]}}
manifest = [{'Config': 'c.json', 'RepoTags': [sys.argv[2]], 'Layers': ['l.tar']}]
archive = io.BytesIO()
with tarfile.open(fileobj=archive, mode='w') as tar:
    for name, content in (('c.json', json.dumps(config).encode()), ('l.tar', layer),
                          ('manifest.json', json.dumps(manifest).encode())):
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
subprocess.run(['docker', 'load'], input=archive.getvalue(), check=True, stdout=subprocess.DEVNULL)
";

/// An engine takes an image of any architecture and only fails in running it.
#[tokio::test]
async fn an_image_for_another_architecture() {
    if Room::open().await.is_none() {
        return;
    }
    let other = if cfg!(target_arch = "x86_64") { "arm64" } else { "amd64" };
    let name = format!("mcp-python-exec-sandbox-other:{}", std::process::id());
    let made =
        Command::new("python3").args(["-c", FOREIGN_IMAGE, other, &name]).output().expect("Python starts");
    assert!(made.status.success(), "{made:?}");
    let said = refusal(&name, |_| {});
    super::docker(&["rmi", &name]);
    assert!(said.contains(&format!("is for linux {other}")) && said.contains("image build"), "{said}");
}

/// The greeting comes at once; the image is made, or turns out not to be had, behind it.
#[tokio::test]
async fn a_missing_image_is_made_in_the_background_and_a_call_says_what_it_waits_for() {
    if Room::open().await.is_none() {
        return;
    }
    let default = mcp_python_exec_sandbox::sandbox::docker::image::default_name();
    if Command::new("docker")
        .args(["image", "inspect", &default])
        .output()
        .expect("it starts")
        .status
        .success()
    {
        crate::skipped::skipped(format_args!("the engine has {default} already"));
        return;
    }
    let data = tempfile::tempdir().expect("a temporary folder");
    let start = std::time::Instant::now();
    let mut server = Server::start(data.path(), &[]);
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
    let arguments = serde_json::json!({"script": "print(1)", "timeout_seconds": 5});
    let said = server.call("execute_python", &arguments);
    assert!(said["isError"] == true && said.to_string().contains("image"), "{said}");
}
