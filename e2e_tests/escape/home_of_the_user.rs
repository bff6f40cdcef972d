//! Keys and configuration in the user's home.

use crate::harness::{Ground, Property, Stage, case};

pub const PROPERTY: Property = Property::probe(
    "home_of_the_user",
    "Nothing of the user's home is visible, and the script's own home is empty",
    r#"
def read(name):
    return lambda: open(os.path.join(ARGS["home"], name)).read()

for name in (".ssh/id_ed25519", ".aws/credentials", ".netrc", ".config/uv/uv.toml", ".bash_history"):
    attempt(name, read(name))
def listed():
    return "private" if set(os.listdir(ARGS["home"])) - {".cache"} else "nothing of it"

attempt("the folder itself", listed)
attempt("by ~", lambda: "empty" if os.listdir(os.path.expanduser("~")) == [] else "something")
"#,
    &[
        case(".ssh/id_ed25519", "private", "ENOENT").namespaces("ENOENT"),
        case(".aws/credentials", "private", "ENOENT").namespaces("ENOENT"),
        case(".netrc", "private", "ENOENT").namespaces("ENOENT"),
        case(".config/uv/uv.toml", "private", "ENOENT").namespaces("ENOENT"),
        case(".bash_history", "private", "ENOENT").namespaces("ENOENT"),
        // Environments may lie below it, and the folders above them are there.
        case("the folder itself", "private", "nothing of it|ENOENT").namespaces("ENOENT"),
        case("by ~", "something", "empty").confined("empty").namespaces("empty"),
    ],
)
.staged(stage);

fn stage(ground: &Ground) -> Result<Stage, String> {
    for name in [".ssh/id_ed25519", ".aws/credentials", ".netrc", ".config/uv/uv.toml", ".bash_history"] {
        ground.file(&format!("home/{name}"), "private")?;
    }
    let home = ground.folder.path().join("home");
    let mut stage = Stage::with("home", home.display().to_string());
    stage.options.env.insert("HOME".to_owned(), home.into());
    Ok(stage)
}
