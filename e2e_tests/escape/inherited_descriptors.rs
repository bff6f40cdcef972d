//! Descriptors that the server has open, among them a folder of the host and a file with a secret, are not handed on.

use crate::harness::{Ground, Property, Stage, case};

pub const PROPERTY: Property = Property::probe(
    "inherited_descriptors",
    "A script holds no descriptor but its three standard streams",
    r#"
def extra():
    listing = os.open("/proc/self/fd", os.O_RDONLY)
    open_ones = sorted(int(name) for name in os.listdir(listing) if int(name) > 2)
    os.close(listing)
    return "none" if all(number >= listing for number in open_ones) else "some"

def escape():
    for number in range(3, 64):
        try:
            return "secret" if os.stat("escape-root", dir_fd=number) else "nothing"
        except OSError:
            pass
    return "nothing"

attempt("descriptors above 2", extra)
attempt("a folder of the host among them", escape)
attempt("standard streams", lambda: "pipes" if all(
    stat.S_ISFIFO(os.fstat(number).st_mode) for number in (1, 2)) else "something else")
"#,
    &[
        case("descriptors above 2", "some", "none"),
        case("a folder of the host among them", "secret", "nothing"),
        case("standard streams", "pipes", "pipes"),
    ],
)
.staged(stage)
.known_as(&["CVE-2024-21626", "CVE-2016-9962"]);

fn stage(ground: &Ground) -> Result<Stage, String> {
    ground.file("escape-root", "here")?;
    let mut stage = Stage::default();
    stage.options.by = Some(
        "for number in (3, 7, 20):\n    os.dup2(os.open('.', os.O_RDONLY), number)\nos.set_inheritable(3, True)",
    );
    Ok(stage)
}
