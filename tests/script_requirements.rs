//! Requirements: what is taken, in which form, and what is refused with which words.

use mcp_python_exec_sandbox::script::Requirement;

fn canonical(text: &str) -> String {
    match Requirement::parse(text) {
        Ok(requirement) => requirement.to_string(),
        Err(error) => format!("refused: {error}"),
    }
}

fn refusal(text: &str) -> String {
    Requirement::parse(text).map(|requirement| requirement.to_string()).expect_err(text).to_string()
}

#[test]
fn equal_requirements_have_one_form() {
    for (text, want) in [
        ("six", "six"),
        ("  Six\t", "six"),
        ("Zope.Interface_x", "zope-interface-x"),
        ("requests[socks,use_chardet_on_py3]>=2.31", "requests[socks,use-chardet-on-py3]>=2.31"),
        ("requests[use-chardet-on-py3, socks,SOCKS] >= 2.31", "requests[socks,use-chardet-on-py3]>=2.31"),
        ("a[]", "a"),
        ("numpy~=2.0", "numpy~=2.0"),
        ("six===1.16.0", "six===1.16.0"),
        ("idna>=3.0rc1,!=3.5", "idna!=3.5,>=3.0rc1"),
        ("idna!=3.5 , >=3.0rc1", "idna!=3.5,>=3.0rc1"),
        ("idna (>=3,<4)", "idna<4,>=3"),
        ("a==1.*", "a==1.*"),
        ("torch==2.1.0+cpu", "torch==2.1.0+cpu"),
        ("tomli; python_version < '3.11'", "tomli ; python_version < '3.11'"),
        ("a;os_name=='nt' and python_version>='3.8'", "a ; os_name == 'nt' and python_version >= '3.8'"),
        ("a;python_version>=\"3.8\" and os_name==\"nt\"", "a ; os_name == 'nt' and python_version >= '3.8'"),
        (
            "a @ https://Example.com/a-1.whl ; os_name == 'nt'",
            "a @ https://example.com/a-1.whl ; os_name == 'nt'",
        ),
        ("a@https://example.com/a-1.whl#sha256=ab", "a @ https://example.com/a-1.whl#sha256=ab"),
        ("a @ git+https://example.com/a.git@v1", "a @ git+https://example.com/a.git@v1"),
    ] {
        assert_eq!(canonical(text), want, "{text}");
        assert_eq!(canonical(want), want, "the canonical form is stable");
    }
}

#[test]
fn what_is_no_requirement_is_refused_in_words_that_help() {
    for (text, want) in [
        ("", "empty"),
        (" \t ", "empty"),
        ("--index-url=http://127.0.0.1:9/simple", "is an option"),
        ("-r /etc/passwd", "is an option"),
        ("-e .", "is an option"),
        ("-", "is an option"),
        ("./local", "is a path"),
        ("../x", "is a path"),
        (".", "is a path"),
        ("/etc/passwd", "is a path"),
        ("~/x", "is a path"),
        ("C:\\x", "is a path"),
        ("a/b", "is a path"),
        ("six-1.16.0-py3-none-any.whl", "is a path"),
        ("six-1.16.0.tar.gz", "is a path"),
        ("foo.zip[extra]", "is a path"),
        ("https://example.com/a.whl", "needs a package name in front"),
        ("git+https://example.com/a", "needs a package name in front"),
        ("git+ssh://git@example.com/a", "needs a package name in front"),
        ("file:///etc", "needs a package name in front"),
        ("ext::sh -c id", "needs a package name in front"),
        ("a @ file:///etc/passwd", "`file` URLs are refused"),
        ("a @ ./x", "is not a URL"),
        ("a @ /etc/passwd", "is not a URL"),
        ("a @ http://127.0.0.1/a.whl", "`http` URLs are refused"),
        ("a @ git+ssh://git@example.com/a", "`git+ssh` URLs are refused"),
        ("a @ git+file:///srv/a", "`git+file` URLs are refused"),
        ("a @ git+ext::sh -c id", "`git+ext` URLs are refused"),
        ("a @ https://u:p@example.com/a.whl", "holds a user name or password"),
        ("a @ https://example.com/${HOME}", "replaced from the environment"),
        ("a @ https://example.com/a.whl; os_name == 'nt'", "Missing space before"),
        ("a ${PROJECT_ROOT}", "variables are not replaced"),
        ("six\n--index-url=x", "control character"),
        ("six\0", "control character"),
        ("six\u{2028}x", "control character"),
        ("six=1.0", "write `six==1.0`"),
        ("six^1.0", "write `six>=1.0`"),
        ("six 1.0", "write `six==1.0`"),
        ("six@1.0", "write `six==1.0`"),
        ("six==latest", "write `six` alone"),
        ("six>=1 # why", "comments are not part of it"),
        ("six>=1,", "is not a requirement"),
        ("six>=", "is not a requirement"),
        ("six>=abc", "is not a requirement"),
        ("six ~= 1", "~="),
        ("six==99999999999999999999999", "a number in it is too long"),
        ("six≥1", "not ASCII"),
        ("“six”", "is not a requirement"),
        ("six-", "starts and ends with a letter or digit"),
        ("six->=1", "starts and ends with a letter or digit"),
        ("six[a-]", "extras are names"),
        ("six[a", "never closed"),
        ("six; 'linux' ~= sys_platform", "the marker of"),
        ("six; python_version > 'abc'", "the marker of"),
        ("six; python_version", "the marker of"),
        ("six;", "the marker of"),
        ("@x/y", "is not a requirement"),
        ("import six", "is not a requirement"),
    ] {
        let message = refusal(text);
        assert!(message.contains(want), "{text:?}: {message}");
        assert!(!message.contains(['\n', '\0']) && message.len() < 500, "{text:?}: {message}");
    }
}

#[test]
fn credentials_are_not_repeated() {
    for text in ["a @ https://u:s3cret@example.com/a.whl", "a @ git+https://s3cret@example.com/a"] {
        assert!(!refusal(text).contains("s3cret"), "{text}");
    }
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

#[test]
fn no_text_makes_the_parser_panic() {
    const PIECES: [&str; 64] = [
        "six",
        "a",
        "A.b_c",
        "-",
        "_",
        ".",
        "[",
        "]",
        "x,y",
        ",",
        " ",
        "\t",
        ";",
        "@",
        "==",
        ">=",
        "<",
        "~=",
        "!=",
        "===",
        ">",
        "<=",
        "1",
        "1.0",
        "0.0",
        "3.0.0",
        "*",
        ".*",
        "+cpu",
        "rc1",
        ".dev0",
        ".post1",
        "1!",
        "999999999999999999",
        "(",
        ")",
        "'",
        "\"",
        "python_version",
        "python_full_version",
        "os_name",
        "sys_platform",
        "extra",
        "implementation_version",
        "'3.8'",
        "\"nt\"",
        "'3.*'",
        "'3.8 3.9'",
        "''",
        "in",
        "not in",
        "not",
        "and",
        "or",
        "or ",
        "https://example.com/a.whl",
        "git+https://h/r@v",
        "${HOME}",
        "#",
        "é",
        "\u{2028}",
        "os.name",
        "{",
        "\\",
    ];
    let mut numbers = Numbers(0x2545_F491_4F6C_DD1D);
    let mut taken = 0;
    for round in 0..60_000 {
        // Half of the texts start like a requirement, half of those have a marker, so that deep paths are reached.
        let mut text = match round % 4 {
            0 => "six".to_owned(),
            1 => "six ; python_version ".to_owned(),
            2 => "six[a]>=1 ; os_name == 'nt' and ".to_owned(),
            _ => String::new(),
        };
        for _ in 0..=numbers.below(7) {
            text.push_str(PIECES[numbers.below(PIECES.len())]);
            if numbers.below(2) == 0 {
                text.push(' ');
            }
        }
        if let Ok(requirement) = Requirement::parse(&text) {
            taken += 1;
            let again = Requirement::parse(requirement.as_str());
            assert_eq!(again.as_ref(), Ok(&requirement), "{text:?} became {requirement}");
        }
    }
    assert!(
        taken > 1_000,
        "only {taken} texts were requirements: the generator is too wild to test anything"
    );
}
