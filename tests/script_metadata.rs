//! Scripts as agents send them: what is read, what is refused, and which line is blamed.

use mcp_python_exec_sandbox::script::{self, Analysis, ProblemKind, Severity};

fn read(source: &str) -> Analysis {
    script::read(source, &[])
}

fn with(source: &str, dependencies: &[&str]) -> Analysis {
    let dependencies: Vec<String> = dependencies.iter().map(ToString::to_string).collect();
    script::read(source, &dependencies)
}

fn block(content: &str) -> String {
    let lines: Vec<String> = content.lines().map(|line| format!("# {line}\n")).collect();
    format!("# /// script\n{}# ///\nprint(1)\n", lines.concat())
}

fn shown(analysis: &Analysis) -> Vec<String> {
    analysis.problems.iter().map(ToString::to_string).collect()
}

fn merged(analysis: &Analysis) -> Vec<&str> {
    analysis.merged.iter().map(script::Requirement::as_str).collect()
}

/// Asserts that the script is refused, with one problem that contains every text.
fn assert_refused(analysis: &Analysis, texts: &[&str]) {
    assert!(!analysis.is_valid(), "{analysis:?}");
    let all = shown(analysis);
    assert!(
        all.iter().any(|problem| texts.iter().all(|text| problem.contains(text))),
        "{texts:?} in {all:#?}"
    );
}

#[test]
fn ordinary_blocks_are_read() {
    let analysis = read(&block(
        "requires-python = \">=3.11\"\ndependencies = [\n  \"requests[socks]>=2.31 ; python_version >= '3.9'\", # why\n  \
         \"numpy~=2.0\",\n  \"six===1.16.0\",\n]",
    ));
    assert_eq!(shown(&analysis), Vec::<String>::new());
    assert_eq!(
        merged(&analysis),
        ["numpy~=2.0", "requests[socks]>=2.31 ; python_version >= '3.9'", "six===1.16.0"]
    );
    assert_eq!(
        analysis.metadata.requires_python.map(|versions| versions.to_string()).as_deref(),
        Some(">=3.11")
    );
}

#[test]
fn scripts_without_a_block_are_valid() {
    for source in [
        "print(1)\n",
        "if True:\n    # /// script\n    # dependencies = [\"packaging\"]\n    # ///\n    print('OK')\n",
        "x = '''\n# /// script\n# dependencies = [\"packaging\"]\n# ///\n'''\n",
        "# /// pyproject\n# [project\n# ///\nprint(1)\n",
    ] {
        let analysis = read(source);
        assert!(analysis.is_valid() && analysis.merged.is_empty(), "{source:?} {analysis:?}");
    }
}

#[test]
fn texts_that_are_no_script_are_refused() {
    assert_eq!(shown(&read("")), shown(&read(" \n\t\n")));
    assert_refused(&read(""), &["the script is empty"]);
    assert_refused(&read("a = 1\nb = '\0'\n"), &["line 2: ", "column 6", "NUL"]);
    assert_refused(&read("```python\nprint('OK')\n```\n"), &["line 1: ", "```python", "without the fence"]);
    assert_refused(&with("", &["-e ."]), &["dependencies argument, item 1: ", "is an option"]);
}

#[test]
fn a_large_script_is_read_in_one_go() {
    let script =
        format!("{}{}", block("dependencies = [\"six\"]"), "x = f'{1:>{2}}' # comment\n".repeat(200_000));
    assert!(script.len() > 5_000_000);
    assert_eq!(merged(&read(&script)), ["six"]);
}

#[test]
fn foreign_encodings_are_told_where_they_matter() {
    let analysis = read("# coding: latin-1\nprint('é')\n");
    assert!(analysis.is_valid());
    assert_eq!(analysis.problems[0].kind, ProblemKind::ForeignEncoding);
    assert!(read("# coding: latin-1\nprint('e')\n").problems.is_empty());
}

#[test]
fn every_mistake_is_found_with_its_line() {
    let analysis = read(&block(
        "requires-python = \"3.12\"\ndependancies = [\"six\"]\nversion = \"1\"\ndependencies = [\n  \"numpy==abc\",\n  7,\n  \
         \"attrs\",\n  \"-r x\",\n]",
    ));
    let lines: Vec<_> = analysis.problems.iter().map(|problem| (problem.line, problem.severity)).collect();
    assert_eq!(
        lines,
        [
            (Some(2), Severity::Error),
            (Some(3), Severity::Error),
            (Some(4), Severity::Warning),
            (Some(6), Severity::Error),
            (Some(7), Severity::Error),
            (Some(9), Severity::Error),
        ],
        "{:#?}",
        analysis.problems
    );
    assert_refused(&analysis, &["`dependancies`", "did you mean `dependencies`?"]);
    assert_refused(&analysis, &["`3.12`", "write `>=3.12`"]);
    assert_eq!(merged(&analysis), ["attrs"]);
}

#[test]
fn wrong_types_are_named() {
    assert_refused(
        &read(&block("dependencies = \"six\"")),
        &["line 2: ", "`dependencies` must be a list of strings, such as `[\"six\"]`, not a string"],
    );
    assert_refused(&read(&block("dependencies = {six = 1}")), &["must be a list of strings, not a table"]);
    assert_refused(
        &read(&block("requires-python = 3.12")),
        &["`requires-python` must be a string in quotes, not a float"],
    );
    assert_refused(&read(&block("tool = 1")), &["`tool` must be a table, not an integer"]);
    assert_refused(&read(&block("tool.uv = []")), &["`tool.uv` must be a table, not an array"]);
}

#[test]
fn keys_in_the_wrong_place_do_not_vanish() {
    assert_refused(
        &read(&block("[project]\ndependencies = [\"six\"]")),
        &["line 2: ", "inside `project`", "top of the block"],
    );
    assert_refused(&read(&block("requirements = [\"six\"]")), &["did you mean `dependencies`?"]);
    assert_refused(&read(&block("Requires_Python = \">=3\"")), &["did you mean `requires-python`?"]);
    assert!(read(&block("[tool.black]\nline-length = 100")).problems.is_empty());
}

#[test]
fn toml_errors_are_in_the_lines_of_the_script() {
    let analysis = read(&format!("import os\n\n{}", block("dependencies = [\"six\"")));
    assert_refused(&analysis, &["not valid TOML"]);
    assert_refused(&read(&format!("#!python\n{}", block("#\nx = = 1"))), &["line 4: column 7: "]);
    let adjacent =
        "# /// script\n# dependencies = [\"a\"]\n# ///\n# /// script\n# dependencies = [\"b\"]\n# ///\n";
    assert_refused(&read(adjacent), &["line 3: ", "opened on line 1", "closing line, 6"]);
    assert_refused(&read(&block("a = 1\na = 2")), &["line 3: ", "duplicate key"]);
}

#[test]
fn nothing_can_satisfy_some_pythons() {
    assert_refused(&read(&block("requires-python = \">=3.12,<3.10\"")), &["line 2: ", "no Python satisfies"]);
    let analysis = read(&block("requires-python = \"==3.12\""));
    assert!(analysis.is_valid() && analysis.problems.len() == 1, "{analysis:?}");
}

#[test]
fn the_argument_is_merged_in() {
    let inline = block("dependencies = [\"packaging<24\", \"Six>=1.15\"]");
    let analysis = with(&inline, &["packaging>=24"]);
    assert_refused(&analysis, &["`packaging<24`", "`packaging>=24`"]);
    let analysis = with(&inline, &["six==1.16", "attrs"]);
    assert!(analysis.is_valid());
    assert_eq!(merged(&analysis), ["attrs", "packaging<24", "six==1.16"]);
    assert_eq!(
        analysis.notes,
        ["`six==1.16` from the dependencies argument replaced the inline `six>=1.15`"]
    );
}

#[test]
fn masses_of_mistakes_are_counted_not_listed() {
    let items = "\"-x\", ".repeat(1_500);
    let analysis = read(&block(&format!("dependencies = [{items}]")));
    assert_eq!(analysis.problems.len(), 51);
    assert!(analysis.problems[50].message.starts_with("1450 more"), "{}", analysis.problems[50]);
    let many = vec!["six"; 2_001];
    assert_refused(&with("print(1)", &many), &["2001 items"]);
    let list = format!("[{}]", "'six',".repeat(2_001));
    assert_refused(&read(&block(&format!("dependencies = {list}"))), &["line 2: ", "2001 items"]);
    assert_refused(
        &read(&block(&format!("tool.uv.constraint-dependencies = {list}"))),
        &["line 2: ", "2001 items"],
    );
    assert_refused(&read(&block(&format!("x = \"{}\"", "y".repeat(1_100_000)))), &["longer than 1024 KiB"]);
}

#[test]
fn the_generated_block_says_the_same() {
    let source = block(
        "requires-python = \">=3.11\"\ndependencies = [\"b\", \"a ; os_name == 'nt'\"]\n[tool.uv]\nprerelease = \
         \"allow\"\n[[tool.uv.index]]\nname = \"x\"\nurl = \"https://example.com/simple\"\nexplicit = true\n[tool.uv.sources]\n\
         b = { index = \"x\" }",
    );
    let first = with(&source, &["c"]);
    assert_eq!(shown(&first), Vec::<String>::new());
    let again = read(&first.to_block());
    assert_eq!(shown(&again), Vec::<String>::new());
    assert_eq!(again.merged, first.merged);
    assert_eq!(again.metadata.requires_python, first.metadata.requires_python);
    assert_eq!(again.metadata.uv.prerelease, first.metadata.uv.prerelease);
    let swapped = with(&source.replace("\"b\", \"a ; os_name == 'nt'\"", "'a;os_name==\"nt\"','b'"), &["c"]);
    assert_eq!(swapped.to_block(), first.to_block());
}
