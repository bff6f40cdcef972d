//! A script says what it needs in a comment. That comment cannot make the server read the host's files or run code.

use crate::harness::{Ground, Options, Property};

pub const PROPERTY: Property = Property::steps(
    "script_metadata",
    "A script's metadata cannot name files, indexes with the user's credentials or programs of the host",
    steps,
);

const BLOCKS: [(&str, &str); 6] = [
    ("a path source", "dependencies = [\"x\"]\n[tool.uv.sources]\nx = { path = \"FOLDER\" }"),
    ("a file URL", "dependencies = [\"x @ file://FOLDER\"]"),
    ("a keyring", "dependencies = []\n[tool.uv]\nkeyring-provider = \"subprocess\""),
    ("a cache folder", "dependencies = []\n[tool.uv]\ncache-dir = \"FOLDER\""),
    ("a build with the host's programs", "dependencies = []\n[tool.uv]\nno-build-isolation = true"),
    ("a mirror of interpreters", "dependencies = []\n[tool.uv]\npython-install-mirror = \"file://FOLDER\""),
];

fn steps(ground: &Ground) -> Result<(), String> {
    ground.file("setup.py", "open('built', 'w').close()")?;
    let folder = ground.folder.path().display().to_string();
    let plain = block("dependencies = []");
    let control = ground.inside(&format!("{plain}print('ran')\n"), &[], &Options::default())?;
    if !String::from_utf8_lossy(&control.stdout).contains("ran") {
        return Err(format!("control: {}", String::from_utf8_lossy(&control.stderr)));
    }
    for (what, metadata) in BLOCKS {
        let script = format!("{}print('ran')\n", block(&metadata.replace("FOLDER", &folder)));
        let output = ground.inside(&script, &[], &Options::default())?;
        let ran = String::from_utf8_lossy(&output.stdout).contains("ran");
        if ran || output.status.code() != Some(125) || ground.folder.path().join("built").exists() {
            return Err(format!("{what}: {}, {}", output.status, String::from_utf8_lossy(&output.stderr)));
        }
    }
    Ok(())
}

fn block(metadata: &str) -> String {
    let lines = metadata.lines().map(|line| format!("# {line}\n")).collect::<String>();
    format!("# /// script\n{lines}# ///\n")
}
