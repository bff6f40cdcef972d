//! `[tool.uv]`: which settings are taken, what they become, and why others are refused.

use mcp_python_exec_sandbox::script::{self, Analysis, Severity};

fn read(content: &str) -> Analysis {
    let lines: Vec<String> = content.lines().map(|line| format!("# {line}\n")).collect();
    script::read(&format!("# /// script\n{}# ///\n", lines.concat()), &[])
}

fn problems(analysis: &Analysis) -> Vec<String> {
    analysis.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn allowed_settings_are_written_in_one_form() {
    let analysis = read(concat!(
        "[tool.uv]\n",
        "exclude-newer = \"2023-10-02T00:00:00Z\"\n",
        "exclude-newer-package = { Six = \"1 week\", attrs = false }\n",
        "constraint-dependencies = [\"b<2\", \"A>=1\"]\n",
        "override-dependencies = [\"c==1\"]\n",
        "build-constraint-dependencies = [\"setuptools<80\"]\n",
        "exclude-dependencies = [\"D_e\"]\n",
        "prerelease = \"if-necessary\"\n",
        "prerelease-package = { f = \"allow\" }\n",
        "resolution = \"lowest-direct\"\n",
        "fork-strategy = \"fewest\"\n",
        "index-strategy = \"first-index\"\n",
        "no-build = true\n",
        "no-build-package = [\"g\"]\n",
        "no-binary = false\n",
        "no-binary-package = [\"h\"]\n",
        "index-url = \"https://Example.com/simple\"\n",
        "extra-index-url = [\"https://example.com/more\"]\n",
        "find-links = [\"https://example.com/links\"]\n",
        "[[tool.uv.index]]\n",
        "name = \"cpu\"\n",
        "url = \"https://example.com/cpu\"\n",
        "explicit = true\n",
        "format = \"flat\"\n",
        "[tool.uv.sources]\n",
        "torch = [{ index = \"cpu\", marker = \"sys_platform == 'linux'\" }]\n",
        "x = { git = \"https://example.com/x\", tag = \"v1\", subdirectory = \"sub\" }\n",
        "y = { url = \"https://example.com/y.whl\" }\n",
    ));
    assert_eq!(problems(&analysis), Vec::<String>::new());
    let text = analysis.metadata.uv.to_metadata();
    for line in [
        "constraint-dependencies = [\"a>=1\", \"b<2\"]",
        "exclude-dependencies = [\"d-e\"]",
        "exclude-newer = \"2023-10-02T00:00:00Z\"",
        "index-url = \"https://example.com/simple\"",
        "resolution = \"lowest-direct\"",
        "six = \"1 week\"",
        "attrs = false",
        "name = \"script-cpu\"",
        "index = \"script-cpu\"",
        "marker = \"sys_platform == 'linux'\"",
        "tag = \"v1\"",
        "[tool.uv]",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    let file = analysis.metadata.uv.to_uv_toml();
    assert!(file.contains("prerelease = \"if-necessary\"") && !file.contains("sources"), "{file}");
}

#[test]
fn equal_settings_give_equal_text() {
    let one = read(
        "[tool.uv]\nresolution = \"lowest\"\nprerelease = \"allow\"\nconstraint-dependencies = [\"a\", \"B>=1,<2\"]",
    );
    let other = read(
        "[tool.uv]\nconstraint-dependencies = [\"b<2,>=1\", \"a\"]\nprerelease = 'allow'\nresolution = \"lowest\"",
    );
    assert_eq!(one.metadata.uv.to_metadata(), other.metadata.uv.to_metadata());
    assert_eq!(read("dependencies = []").metadata.uv.to_metadata(), "");
}

#[test]
fn what_reads_the_machine_or_moves_trust_is_refused_with_the_reason() {
    for (setting, reason) in [
        ("keyring-provider = \"subprocess\"", "user's credentials"),
        ("allow-insecure-host = [\"x\"]", "user's decision"),
        ("cache-dir = \"/tmp/x\"", "depends on the machine"),
        ("python-install-mirror = \"https://x\"", "say `requires-python`"),
        ("pypy-install-mirror = \"https://x\"", "say `requires-python`"),
        ("config-settings = { a = \"b\" }", "built from source"),
        ("extra-build-variables = { a = { CC = \"sh\" } }", "built from source"),
        ("no-build-isolation = true", "built from source"),
        ("preview = true", "set by the server"),
        ("native-tls = true", "user's decision"),
        ("offline = true", "how the network is reached"),
        ("https-proxy = \"https://x\"", "how the network is reached"),
        ("required-version = \"==1\"", "set by the server"),
        ("publish-url = \"https://x\"", "user's credentials"),
        ("trusted-publishing = \"always\"", "user's credentials"),
        ("torch-backend = \"auto\"", "depends on the machine"),
        ("workspace = {}", "project in a folder"),
        ("index-strategy = \"unsafe-best-match\"", "same name on another index"),
        ("find-links = [\"/srv/wheels\"]", "not a URL"),
        ("find-links = [\"file:///srv/wheels\"]", "user's files"),
        ("index-url = \"http://127.0.0.1/simple\"", "use `https`"),
        (
            "index-url = \"https://u:s3cret@example.com/simple\"",
            "credentials come from the user's own configuration",
        ),
        ("extra-index-url = [\"https://example.com/${TOKEN}\"]", "replaced from the environment"),
        ("index = [{ url = \"https://x\", authenticate = \"always\" }]", "credentials and publishing"),
        ("index = [{ url = \"file:///x\" }]", "user's files"),
        ("index = [{ name = \"x\" }]", "needs a `url`"),
        ("index = [{ url = \"https://x\", explicit = true }]", "needs a `name`"),
        ("index = [{ url = \"https://x\", name = \"a b\" }]", "not an index name"),
        ("constraint-dependencies = [\"a @ file:///x\"]", "user's files"),
        ("override-dependencies = [\"-r x\"]", "is an option"),
        ("sources = { a = { path = \"/srv/a\" } }", "user's files are not read"),
        ("sources = { a = { path = \"/srv/a\", editable = true } }", "user's files are not read"),
        ("sources = { a = { workspace = true } }", "project in a folder"),
        ("sources = { a = { git = \"ssh://git@example.com/a\" } }", "user's keys"),
        ("sources = { a = { git = \"file:///srv/a\" } }", "user's files"),
        ("sources = { a = { git = \"https://x/a\", rev = \"--upload-pack=id\" } }", "not a git reference"),
        ("sources = { a = { git = \"https://x/a\", subdirectory = \"../b\" } }", "leaves the package"),
        ("sources = { a = { url = \"file:///a.whl\" } }", "user's files"),
        ("sources = { a = { index = \"corp\" } }", "does not define"),
        ("sources = { a = { index = \"x\", url = \"https://x\" } }", "needs one of"),
        ("sources = { a = { url = \"https://x/a.whl\", marker = \"nonsense\" } }", "`marker` `nonsense`"),
        ("sources = [1]", "must be a table"),
        ("resolution = \"newest\"", "it is one of `highest`, `lowest`, `lowest-direct`"),
        ("exclude-newer = \"soon\"", "a date such as"),
        ("exclude-newer = 2023-10-02", "in quotes"),
        ("no-build = \"yes\"", "`true` or `false`"),
        ("exclude-never = \"2023-10-02\"", "did you mean `exclude-newer`?"),
        ("entirely-new = 1", "unknown `[tool.uv]` key"),
    ] {
        let analysis = read(&format!("[tool.uv]\n{setting}"));
        assert!(!analysis.is_valid(), "{setting}");
        let shown = problems(&analysis);
        assert!(
            shown.iter().any(|problem| problem.starts_with("line 3: ") && problem.contains(reason)),
            "{setting}: {shown:?}"
        );
        assert!(!shown.iter().any(|problem| problem.contains("s3cret")), "{shown:?}");
    }
}

#[test]
fn settings_without_effect_are_said_to_have_none() {
    let analysis = read("[tool.uv]\nlink-mode = \"copy\"\nupgrade = true");
    assert!(analysis.is_valid());
    assert_eq!(analysis.problems.len(), 2);
    assert!(analysis.problems.iter().all(|problem| problem.severity == Severity::Warning));
}
