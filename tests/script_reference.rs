//! The block finder against the reference expression of the specification, run by a real Python, and the string scanner
//! against Python's own `tokenize`.
//!
//! Python reads source with universal line ends, so the reference gets the text with `\r\n` and `\r` turned into `\n`.

#[path = "../e2e_tests/common/skipped.rs"]
mod skipped;

use std::io::Write;
use std::process::{Command, Stdio};

use mcp_python_exec_sandbox::script::block;
use mcp_python_exec_sandbox::script::problem::Problems;

/// Prints, for each script of a JSON list, the content of the first `script` block or null. With `tokenize` as its
/// argument it first blanks out every string of the script, and prints false for a script that is not valid Python.
const REFERENCE: &str = r##"
import io, json, re, sys, tokenize
pattern = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")

def blank_strings(text):
    compile(text, "script", "exec")
    lines = text.split("\n")
    start = None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        name = tokenize.tok_name[token.type]
        if name in ("STRING", "FSTRING_MIDDLE", "TSTRING_MIDDLE"):
            (first, _), (last, _) = token.start, token.end
            for line in range(first, last):
                if lines[line].startswith("#"):
                    lines[line] = "x" + lines[line][1:]
    return "\n".join(lines)

def first_block(text):
    for match in pattern.finditer(text):
        if match.group("type") == "script":
            lines = match.group("content").split("\n")[:-1]
            return "".join((line[2:] if line.startswith("# ") else line[1:]) + "\n" for line in lines)
    return None

results = []
for text in json.load(sys.stdin):
    text = text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    try:
        if sys.argv[1:] == ["tokenize"]:
            text = blank_strings(text)
        results.append(first_block(text))
    except (SyntaxError, tokenize.TokenError, ValueError):
        results.append(False)
json.dump(results, sys.stdout)
"##;

/// What the reference does, and the oldest minor version of Python 3 that can.
#[derive(Clone, Copy)]
enum Mode {
    /// Only the expression.
    Expression = 9,
    /// Strings are blanked out first; before 3.12 the tokenizer gave formatted strings in one piece.
    Tokenize = 12,
}

/// The first Python that can, of the one in `TEST_PYTHON` and those on PATH.
fn find_python(mode: Mode) -> Option<String> {
    let names = ["python3.14", "python3.13", "python3.12", "python3"].map(str::to_owned);
    std::env::var("TEST_PYTHON").into_iter().chain(names).find(|name| {
        let check = format!("import sys; sys.exit(sys.version_info < (3, {}))", mode as u32);
        let quiet =
            Command::new(name).args(["-c", &check]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        quiet.is_ok_and(|status| status.success())
    })
}

/// Runs the reference; `None`, and a line that says so, where there is no Python for it.
fn reference(scripts: &[String], mode: Mode) -> Option<Vec<serde_json::Value>> {
    let Some(python) = find_python(mode) else {
        crate::skipped::skipped(format_args!(
            "no Python 3.{} or newer on PATH or in TEST_PYTHON",
            mode as u32
        ));
        return None;
    };
    let mut child = Command::new(python)
        .args(["-W", "ignore", "-c", REFERENCE])
        .args(matches!(mode, Mode::Tokenize).then_some("tokenize"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python starts");
    let input = serde_json::to_vec(scripts).expect("scripts are JSON");
    // The reference reads everything before it prints anything, so this cannot block.
    child.stdin.take().expect("a pipe").write_all(&input).expect("Python reads");
    let output = child.wait_with_output().expect("Python ends");
    assert!(output.status.success());
    Some(serde_json::from_slice(&output.stdout).expect("the reference prints JSON"))
}

fn ours(script: &str) -> serde_json::Value {
    block::find(script, &mut Problems::default()).map(|block| block.toml().to_owned()).into()
}

/// A generator of numbers that is the same on every run (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).expect("small")
    }
}

fn scripts(count: usize, seed: u64, pieces: &[&str], most: usize) -> Vec<String> {
    let mut numbers = Numbers(seed);
    let mut script = |_| (0..=numbers.below(most)).map(|_| pieces[numbers.below(pieces.len())]).collect();
    (0..count).map(&mut script).collect()
}

#[test]
fn blocks_are_those_of_the_reference_expression() {
    const PIECES: [&str; 30] = [
        "# /// script\n",
        "# /// script\n",
        "# /// script\n",
        "# ///\n",
        "# ///\n",
        "# ///\n",
        "# a = 1\n",
        "# b = [\n",
        "#\n",
        "#\r\n",
        "# /// script\r\n",
        "# ///\r\n",
        "# ///\r",
        "# a\r",
        "\n",
        "x = 1\n",
        "# ",
        "#c\n",
        "# /// other\n",
        "# /// a b\n",
        "# /// \n",
        "# ///",
        "# /// script",
        "  # ///\n",
        "# \u{2028}\n",
        "# \u{85}\u{b}\u{c}# ///\n",
        "#\t\n",
        "# /// script \n",
        "# ////\n",
        "\u{feff}",
    ];
    let scripts = scripts(20_000, 0x9E37_79B9_7F4A_7C15, &PIECES, 9);
    let Some(expected) = reference(&scripts, Mode::Expression) else { return };
    let mut found = 0;
    for (script, want) in scripts.iter().zip(&expected) {
        assert_eq!(&ours(script), want, "{script:?}");
        found += usize::from(want.is_string());
    }
    assert!(found > 1_000, "only {found} scripts had a block: the generator is too wild to test anything");
}

#[test]
fn string_literals_are_those_of_the_tokenizer() {
    const BLOCK: &str = "\n# /// script\n# a = 1\n# ///\n";
    const PIECES: [&str; 36] = [
        BLOCK, BLOCK, BLOCK, BLOCK, "'", "\"", "'''", "'''", "\"\"\"", "f'''", "f\"\"\"", "f'", "rf'''",
        "r'''", "b'''", "{", "}", "{x}", "{{", "}}", "{x:>{y}}", "{x!r}", "{'a'}", "{\"b\"}", "\\", "\\\n",
        "x", "x = ", "\n", " # c\n", "(", ")", "[", "]", ":", "+",
    ];
    let scripts = scripts(150_000, 0xD1B5_4A32_D192_ED03, &PIECES, 9);
    let Some(expected) = reference(&scripts, Mode::Tokenize) else { return };
    let (mut valid, mut hidden) = (0, 0);
    for (script, want) in scripts.iter().zip(&expected).filter(|(_, want)| !want.is_boolean()) {
        assert_eq!(&ours(script), want, "{script:?}");
        valid += 1;
        hidden += usize::from(want.is_null() && script.contains(BLOCK));
    }
    assert!(
        valid > 2_000 && hidden > 200,
        "{valid} valid, {hidden} with a block in a string: too few to test anything"
    );
}
