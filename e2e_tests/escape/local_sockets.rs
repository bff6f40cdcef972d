//! Services that listen on sockets with a path: container engines, agents with keys, the desktop. A way in is a way
//! out.

use std::os::unix::net::UnixListener;

use crate::harness::{Ground, Property, Stage, case};

pub const PROPERTY: Property = Property::probe(
    "local_sockets",
    "A script reaches no service that listens on a path, and is told of none",
    r#"
attempt("a service", connected(socket.AF_UNIX, ARGS["folder"] + "/docker.sock"))
for name in ("/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/run/dbus/system_bus_socket",
             "/run/systemd/private", "/run/systemd/journal/socket", "/dev/log", "/tmp/.X11-unix/X0", "/run/nscd/socket"):
    attempt(name, connected(socket.AF_UNIX, name))
def variables():
    names = {"SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DOCKER_HOST",
             "XAUTHORITY", "GPG_AGENT_INFO"}
    return "told" if names & set(os.environ) else "not told"
attempt("variables", variables)
def any_socket():
    for top in ("/run", "/var", "/tmp", "/dev", "/home", "/root", "/etc"):
        for folder, _, names in os.walk(top):
            for name in names:
                try:
                    if stat.S_ISSOCK(os.lstat(os.path.join(folder, name)).st_mode):
                        return "some"
                except OSError:
                    pass
    return "none"
attempt("socket files", any_socket)
"#,
    &[
        case("a service", "ok", "ENOENT").namespaces("ENOENT"),
        case("/var/run/docker.sock", "*", "ENOENT").namespaces("ENOENT"),
        case("/run/containerd/containerd.sock", "*", "ENOENT").namespaces("ENOENT"),
        case("/run/podman/podman.sock", "*", "ENOENT").namespaces("ENOENT"),
        case("/run/dbus/system_bus_socket", "*", "ENOENT").namespaces("ENOENT"),
        case("/run/systemd/private", "*", "ENOENT").namespaces("ENOENT"),
        case("/run/systemd/journal/socket", "*", "ENOENT").namespaces("ENOENT"),
        case("/dev/log", "*", "ENOENT").namespaces("ENOENT"),
        case("/tmp/.X11-unix/X0", "*", "ENOENT").namespaces("ENOENT"),
        case("/run/nscd/socket", "*", "ENOENT").namespaces("ENOENT"),
        case("variables", "told", "not told"),
        case("socket files", "some", "none"),
    ],
)
.flags(&["--network", "host"])
.staged(stage);

fn stage(ground: &Ground) -> Result<Stage, String> {
    let path = ground.folder.path().join("docker.sock");
    let listener = UnixListener::bind(&path).map_err(|error| error.to_string())?;
    ground.give(&path)?;
    let mut stage = Stage::with("folder", ground.folder.path().display().to_string()).hold(listener);
    for name in ["SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "DOCKER_HOST"] {
        stage.options.env.insert(name.to_owned(), path.clone().into());
    }
    Ok(stage)
}
