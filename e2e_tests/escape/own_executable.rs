//! The file of the program that runs, reached by `/proc/PID/exe`, cannot be written: neither the interpreter's nor,
//! through process 1, the server's.

use crate::harness::{Ground, Property, Stage, case};

pub const PROPERTY: Property = Property::probe(
    "own_executable",
    "A script cannot write to the interpreter's file, and not even read the server's",
    r#"
attempt("/proc/self/exe for writing", opened("/proc/self/exe", os.O_WRONLY))
attempt("the interpreter by name", opened(os.path.realpath(sys.executable), os.O_WRONLY))
attempt("the interpreter, truncated", lambda: os.truncate(os.path.realpath(sys.executable), 0))
attempt("/proc/1/exe", opened("/proc/1/exe"))
attempt("the name of /proc/1/exe", lambda: os.readlink("/proc/1/exe") and None)
attempt("the server by name", opened(ARGS["server"]))
"#,
    &[
        case("/proc/self/exe for writing", "EACCES", "EROFS|EACCES|ETXTBSY").outside_root("ETXTBSY"),
        case("the interpreter by name", "EACCES", "EROFS|EACCES").outside_root("ETXTBSY"),
        case("the interpreter, truncated", "*", "EROFS|EACCES"),
        case("/proc/1/exe", "EACCES", "EACCES|ENOENT").outside_root("ok|EACCES"),
        case("the name of /proc/1/exe", "EACCES", "EACCES|ENOENT").outside_root("ok|EACCES"),
        case("the server by name", "ok", "ENOENT"),
    ],
)
.staged(stage)
.known_as(&["CVE-2019-5736"]);

fn stage(ground: &Ground) -> Result<Stage, String> {
    let before = std::fs::read(&ground.binary).map_err(|error| error.to_string())?;
    let binary = ground.binary.clone();
    let mut stage = Stage::with("server", ground.binary.display().to_string());
    stage.afterwards = Some(Box::new(move || {
        let after = std::fs::read(&binary).map_err(|error| error.to_string())?;
        if after == before { Ok(()) } else { Err("the server's file has changed".to_owned()) }
    }));
    Ok(stage)
}
