//! Groups that the server's user is a member of open what belongs to them: a container that kept them has been left
//! that way.

use std::os::unix::fs::PermissionsExt;

use crate::harness::{Ground, Need, Property, Stage, case};

/// A group that nothing else has.
const GROUP: u32 = 31_338;

pub const PROPERTY: Property = Property::probe(
    "supplementary_groups",
    "A group of the server's user opens nothing: root's runs have none, and a user's reaches no file",
    r#"
def held():
    groups = set(os.getgroups()) - {os.getgid()}
    if not groups:
        return "given up"
    return "unnamed" if groups == {65534} else "kept"

attempt("of the process", held)
attempt("a file of the group", opened(ARGS["file"]))
attempt("a folder of the group", lambda: os.listdir(ARGS["folder"]) and None)
"#,
    &[
        // Nobody but root can drop them. What has no number in the run's user namespace has no name there.
        case("of the process", "kept", "given up|unnamed").confined("given up|kept"),
        case("a file of the group", "ok", "ENOENT"),
        case("a folder of the group", "ok", "ENOENT"),
    ],
)
.needs(&[Need::GroupsToGive])
.staged(stage)
.known_as(&["CVE-2022-36109", "CVE-2022-2990"]);

/// A file and a folder that the group alone opens, outside of what the user owns.
fn stage(ground: &Ground) -> Result<Stage, String> {
    let words = |error: std::io::Error| error.to_string();
    let place = tempfile::Builder::new().prefix("escape-group-").tempdir().map_err(words)?;
    let (file, folder) = (place.path().join("file"), place.path().join("folder"));
    std::fs::write(&file, "secret").map_err(words)?;
    std::fs::create_dir(&folder).map_err(words)?;
    std::fs::write(folder.join("inner"), "").map_err(words)?;
    for (path, mode) in [(&file, 0o040), (&folder, 0o050)] {
        std::os::unix::fs::chown(path, Some(0), Some(GROUP)).map_err(words)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(words)?;
    }
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).map_err(words)?;
    refuses_strangers(ground, &file)?;
    let mut stage = Stage::with("file", file.display().to_string())
        .and("folder", folder.display().to_string())
        .hold(place);
    stage.options.groups = vec![GROUP];
    Ok(stage)
}

/// Without the group the user cannot read the file, so that it is the group that opens it.
fn refuses_strangers(ground: &Ground, file: &std::path::Path) -> Result<(), String> {
    let mut command = ground.command("/bin/cat", &crate::harness::Options::default());
    let output = command.arg(file).output().map_err(|error| error.to_string())?;
    if output.status.success() && !ground.user.is_root {
        return Err("control: the file is readable without the group".to_owned());
    }
    Ok(())
}
