//! What is packed says the same everywhere: name, version, description, and the marker by which a registry knows the owner.

use std::fs;
use std::path::Path;

use serde_json::Value;

fn read(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).expect("it is there")
}

fn json(name: &str) -> Value {
    serde_json::from_str(&read(name)).expect("JSON")
}

const NAME: &str = env!("CARGO_PKG_NAME");
const VERSION: &str = env!("CARGO_PKG_VERSION");

#[test]
fn names_versions_and_descriptions_are_those_of_the_crate() {
    for document in ["packaging/server.json", "packaging/manifest.json"] {
        let packed = json(document);
        assert_eq!(packed["version"], VERSION, "{document}");
        assert_eq!(packed["description"], env!("CARGO_PKG_DESCRIPTION"), "{document}");
    }
    let python: toml::Table = read("pyproject.toml").parse().expect("TOML");
    assert_eq!(python["project"]["name"].as_str(), Some(NAME));
    let dynamic = python["project"]["dynamic"].as_array().expect("a list");
    assert!(
        dynamic.iter().any(|field| field.as_str() == Some("version")),
        "the wheel takes the crate's version"
    );
    let changes = read("CHANGELOG.md");
    assert!(changes.lines().any(|line| line.starts_with(&format!("## {VERSION}"))), "no notes for {VERSION}");
}

#[test]
fn the_registrys_entry_is_a_template_that_fits_the_readme_and_the_bundle() {
    let server = json("packaging/server.json");
    let name = server["name"].as_str().expect("a name");
    assert_eq!(name, format!("io.github.OWNER/{NAME}"), "until somebody owns a name it is none");
    let markers: Vec<_> =
        read("README.md").lines().filter(|line| line.contains("mcp-name:")).map(str::to_owned).collect();
    assert_eq!(markers, [format!("<!-- mcp-name: {name} -->")]);
    let package = &server["packages"][0];
    assert_eq!(package["version"], VERSION);
    let file = format!("/v{VERSION}/{NAME}-{VERSION}-linux-x86_64.mcpb");
    assert!(package["identifier"].as_str().is_some_and(|address| address.ends_with(&file)), "{package}");
    assert!(
        server["description"].as_str().is_some_and(|text| text.len() <= 100),
        "registries take 100 characters"
    );
}

#[test]
fn the_bundle_starts_the_program_that_is_packed() {
    let manifest = json("packaging/manifest.json");
    let server = &manifest["server"];
    assert_eq!(manifest["name"], NAME);
    assert_eq!(server["entry_point"], format!("server/{NAME}"));
    assert_eq!(server["mcp_config"]["command"], format!("${{__dirname}}/server/{NAME}"));
}

#[test]
fn no_document_installs_from_a_public_index() {
    for document in ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"] {
        let text = read(document);
        for line in text.lines().filter(|line| line.contains(NAME)) {
            for command in ["pip install ", "uvx ", "cargo install ", "npx ", "docker run ", "docker pull "] {
                let Some((_, rest)) = line.split_once(command) else { continue };
                let local =
                    ["--path", "--from", "./", "dist/", "target/"].iter().any(|word| rest.starts_with(word));
                assert!(local, "{document}: {line}");
            }
        }
    }
}
