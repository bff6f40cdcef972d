//! Where the server was started is no way back to the host: not by the working directory, nor by `..`, nor through
//! `/proc`.

use crate::harness::{Ground, Property, Stage, case};

pub const PROPERTY: Property = Property::probe(
    "working_directory",
    "The working directory of a script lies in the sandbox, and nothing above it leads out",
    r#"
def read(path):
    return lambda: open(path).read()

up = "/".join([".."] * 40)
attempt("the server's folder", read("secret.txt"))
attempt("the server's folder by name", read(ARGS["folder"] + "/secret.txt"))
attempt("above the root", lambda: read(up + ARGS["folder"] + "/secret.txt")())
attempt("through /proc/self/cwd", read("/proc/self/cwd/secret.txt"))
attempt("through /proc/self/root", read("/proc/self/root" + ARGS["folder"] + "/secret.txt"))
attempt("through process 1", opened("/proc/1/root/", os.O_RDONLY))
"#,
    &[
        case("the server's folder", "secret", "ENOENT"),
        case("the server's folder by name", "secret", "ENOENT").namespaces("ENOENT"),
        case("above the root", "secret", "ENOENT").namespaces("ENOENT"),
        case("through /proc/self/cwd", "secret", "ENOENT"),
        case("through /proc/self/root", "secret", "ENOENT").namespaces("ENOENT"),
        case("through process 1", "EACCES", "EACCES").outside_root("ok|EACCES").namespaces("EACCES"),
    ],
)
.staged(stage)
.known_as(&["CVE-2024-21626"]);

fn stage(ground: &Ground) -> Result<Stage, String> {
    ground.file("secret.txt", "secret")?;
    Ok(Stage::with("folder", ground.folder.path().display().to_string()))
}
