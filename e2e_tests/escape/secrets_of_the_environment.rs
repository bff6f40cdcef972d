//! Variables of the server, such as keys and index passwords, reach no script: neither its own environment nor
//! `/proc`.

use crate::harness::{Ground, Property, Stage, case};

pub const PROPERTY: Property = Property::probe(
    "secrets_of_the_environment",
    "A script sees no variable of the server's environment",
    r#"
def own():
    return "seen" if any("7c1f0b" in value for value in os.environ.values()) else "nothing"

def anywhere():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if b"7c1f0b" in file.read():
                    return "seen"
        except OSError:
            pass
    return "nothing"

def loader():
    return "set" if any(name.startswith(("LD_", "PYTHONSTARTUP", "PYTHONPATH")) for name in os.environ) else "unset"

attempt("own environment", own)
attempt("environment of any process", anywhere)
attempt("loader and interpreter variables", loader)
"#,
    &[
        case("own environment", "seen", "nothing"),
        case("environment of any process", "seen", "nothing").confined("EACCES|nothing"),
        case("loader and interpreter variables", "set", "unset"),
    ],
)
.staged(stage);

fn stage(_: &Ground) -> Result<Stage, String> {
    let mut stage = Stage::default();
    let secrets = ["AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "UV_INDEX_INTERNAL_PASSWORD", "OPENAI_API_KEY"];
    stage.options.env.extend(secrets.map(|name| (name.to_owned(), "key-7c1f0b".into())));
    stage.options.env.insert("LD_LIBRARY_PATH".to_owned(), "/nonexistent".into());
    stage.options.env.insert("PYTHONPATH".to_owned(), "/nonexistent".into());
    Ok(stage)
}
