//! Policy files: what is refused, with which words and on which line; and what the embedded files keep to.
use mcp_python_exec_sandbox::seccomp::compiler::{Answer, Problem, ProblemKind, layers, load, syscalls};
use mcp_python_exec_sandbox::seccomp::{
    Arch, Role, Tier, compile, embedded_files, embedded_policy, embedded_text, folder,
};
use std::io;

const FULL: Tier = Tier::Full;

/// The problems of the embedded run policy when `more` is laid over it.
fn problems(more: &str) -> Vec<Problem> {
    let read = |name: &str| if name == "more.toml" { Ok(more.to_owned()) } else { embedded_text(name) };
    let mut files = layers(Arch::X86_64, Role::Run, FULL);
    files.push("more.toml".to_owned());
    load(Arch::X86_64, &files, read).err().map_or_else(Vec::new, |error| error.problems)
}

/// The only problem, as `line: words`.
fn problem(more: &str) -> String {
    let problems = problems(&format!("about = \"a test\"\n{more}"));
    assert_eq!(problems.len(), 1, "{problems:?}");
    format!("{}: {}", problems[0].place.line, problems[0].kind)
}

const SOUND: &str = "[[override]]\ncalls = [\"socket\"]\nanswer = \"EPERM\"\nreason = \"none\"\n";

#[test]
fn an_override_replaces_a_decision_and_remembers_it() {
    let text = format!("about = \"a test\"\n{SOUND}");
    let read = |name: &str| if name == "more.toml" { Ok(text.clone()) } else { embedded_text(name) };
    let files = ["x86_64/run.toml".to_owned(), "more.toml".to_owned()];
    let policy = load(Arch::X86_64, &files, read).expect("sound");
    let (_, socket) = policy.by_name("socket").expect("decided");
    assert_eq!((socket.answer.to_string().as_str(), socket.cases.len()), ("EPERM", 0));
    assert_eq!(socket.place.to_string(), "more.toml:3");
    assert_eq!(socket.replaced[0].file, "shared/network.toml");
}

#[test]
fn an_unknown_syscall_names_the_architecture() {
    let words = problem(&SOUND.replace("socket", "sokcet"));
    assert_eq!(words, "3: `sokcet` is not a system call of x86_64");
}

#[test]
fn a_call_of_another_architecture_is_unknown() {
    let text =
        "about = \"t\"\n[[override]]\ncalls = [\"open\"]\nanswer = \"EPERM\"\nreason = \"r\"\n".to_owned();
    let read = |name: &str| if name == "more.toml" { Ok(text.clone()) } else { embedded_text(name) };
    let files = ["aarch64/run.toml".to_owned(), "more.toml".to_owned()];
    let error = load(Arch::Aarch64, &files, read).expect_err("arm64 has no open");
    assert_eq!(error.to_string(), "more.toml:3: `open` is not a system call of aarch64");
}

#[test]
fn a_second_rule_is_a_duplicate_and_names_the_first() {
    let words = problem(&SOUND.replace("override", "rule"));
    assert!(words.starts_with("3: `socket` already has a decision at shared/network.toml:"), "{words}");
    let twice = problem(&format!("{SOUND}{SOUND}"));
    assert!(twice.starts_with("7: `socket` already has a decision at more.toml:3"), "{twice}");
}

#[test]
fn a_missing_decision_is_an_error_that_lists_the_calls() {
    let read = |name: &str| {
        let text = embedded_text(name)?;
        Ok(text.replace("\"fsync\", ", "").replace("\"vhangup\", ", ""))
    };
    let error =
        load(Arch::Aarch64, &layers(Arch::Aarch64, Role::Run, FULL), read).expect_err("two are missing");
    assert_eq!(
        error.to_string(),
        "aarch64/run.toml:1: no decision on 2 system calls of aarch64: vhangup, fsync"
    );
}

#[test]
fn an_override_of_nothing_is_an_error() {
    let text = "about = \"a test\"\n".to_owned() + SOUND;
    let error = load(Arch::X86_64, &["m".to_owned()], |_| Ok(text.clone())).expect_err("nothing is included");
    let first = error.problems[0].to_string();
    assert!(first.starts_with("m:3: `socket` has no decision to override here"), "{first}");
}

#[test]
fn misspelt_keys_and_wrong_types_are_errors_with_their_line() {
    let key = problem(&SOUND.replace("reason", "raeson"));
    assert!(key.starts_with("5: unknown field `raeson`"), "{key}");
    let answer_type = problem(&SOUND.replace("\"EPERM\"", "1"));
    assert!(answer_type.starts_with("4: invalid type: integer `1`"), "{answer_type}");
    let calls_type = problem(&SOUND.replace("[\"socket\"]", "\"socket\""));
    assert!(calls_type.starts_with("3: invalid type: string"), "{calls_type}");
    let syntax = problem(&SOUND.replace("answer =", "answer"));
    assert!(syntax.starts_with("4: "), "{syntax}");
    assert!(problems(SOUND)[0].to_string().contains("missing field `about`"));
}

#[test]
fn answers_reasons_and_lists_have_to_say_something() {
    let answer = problem(&SOUND.replace("EPERM", "EPREM"));
    assert!(answer.starts_with("4: `EPREM` is not an answer; the answers are allow, pretend,"), "{answer}");
    assert_eq!(problem(&SOUND.replace("\"none\"", "\" \"")), "5: `reason` is empty");
    assert_eq!(problem(&SOUND.replace("\"socket\"", "")), "4: `calls` is empty");
    let case = format!("{SOUND}[[override.case]]\nanswer = \"allow\"\nwhen = []\n");
    assert_eq!(problem(&case), "8: `when` is empty");
}

#[test]
fn conditions_that_cannot_hold_are_errors() {
    let with = |condition: &str| {
        problem(&format!("{SOUND}[[override.case]]\nanswer = \"allow\"\nwhen = [\n{{ {condition} }},\n]\n"))
    };
    let name = "name = \"n\"";
    assert!(
        with(&format!("arg = 6, {name}, bits = 32, is = [\"1\"]")).starts_with("9: a system call has the")
    );
    assert!(with(&format!("arg = 0, {name}, bits = 16, is = [\"1\"]")).starts_with("9: `bits` is 32 or 64"));
    assert!(with(&format!("arg = 0, {name}, bits = 32")).starts_with("9: a condition has either"));
    assert!(with(&format!("arg = 0, {name}, bits = 32, is = []")).starts_with("9: a condition compares"));
    assert!(
        with(&format!("arg = 0, {name}, bits = 32, mask = \"0\", is = [\"0\"]")).starts_with("9: the mask")
    );
    assert!(
        with(&format!("arg = 0, {name}, bits = 32, mask = \"1\", is = [\"2\"]"))
            .starts_with("9: no argument")
    );
    assert!(
        with(&format!("arg = 0, {name}, bits = 32, is = [\"0x100000000\"]")).starts_with("9: no argument")
    );
    let unknown = with(&format!("arg = 0, {name}, bits = 32, is = [\"AF_UNIX | AF_INTE\"]"));
    assert!(unknown.starts_with("9: `AF_INTE` is neither a number nor a name"), "{unknown}");
    assert!(with(&format!("arg = 0, {name}, bits = -1, is = [\"1\"]")).contains("invalid value"));
}

#[test]
fn a_case_with_too_many_comparisons_is_an_error_not_a_wrong_program() {
    let values: Vec<_> = (0..300).map(|value| format!("\"{value}\"")).collect();
    let text = format!(
        "about = \"t\"\n{SOUND}[[override.case]]\nanswer = \"allow\"\nwhen = [{{ arg = 0, name = \"n\", bits = 32, is = [{}] }}]\n",
        values.join(",")
    );
    let read = |name: &str| if name == "more.toml" { Ok(text.clone()) } else { embedded_text(name) };
    let files = ["x86_64/run.toml".to_owned(), "more.toml".to_owned()];
    let error = compile(&load(Arch::X86_64, &files, read).expect("the text is sound")).expect_err("too long");
    assert!(matches!(&error.problems[0].kind, ProblemKind::TooLong(name) if name == "socket"), "{error}");
}

#[test]
fn notify_needs_a_policy_that_refuses_other_listeners() {
    let notify = SOUND.replace("EPERM", "notify");
    let words = problem(&format!("{notify}{}", SOUND.replace("socket", "seccomp").replace("EPERM", "allow")));
    assert!(words.contains("`notify` needs a decision on `seccomp`"), "{words}");
    assert!(
        problems(&format!("about = \"a test\"\n{notify}{}", SOUND.replace("socket", "seccomp"))).is_empty()
    );
}

#[test]
fn includes_stay_inside_the_folder() {
    for outside in ["../x.toml", "/etc/passwd", "a/../../x", ""] {
        let words = problem(&format!("include = [\"{outside}\"]"));
        assert!(words.starts_with("2: ") && words.contains("relative to the policy folder"), "{words}");
    }
    assert_eq!(
        problem("include = [\"nowhere.toml\"]"),
        "2: there is no file `nowhere.toml` in the policy folder"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_not_taken_for_empty() {
    let read = |name: &str| {
        if name == "shared/files.toml" {
            Err(io::ErrorKind::PermissionDenied.into())
        } else {
            embedded_text(name)
        }
    };
    let error = load(Arch::X86_64, &layers(Arch::X86_64, Role::Run, FULL), read).expect_err("unreadable");
    assert!(error.to_string().contains("the file cannot be read: permission denied"), "{error}");
}

#[test]
fn a_users_folder_has_no_fallback() {
    let empty = tempfile::tempdir().expect("a temporary folder");
    let error = folder::program(empty.path(), Arch::X86_64, Role::Run, FULL).expect_err("nothing is there");
    assert_eq!(
        error.to_string(),
        "x86_64/run.toml:1: there is no file `x86_64/run.toml` in the policy folder"
    );
}

#[test]
fn every_embedded_file_is_used_by_some_policy() {
    let used = std::cell::RefCell::new(std::collections::BTreeSet::new());
    for arch in Arch::ALL {
        for role in Role::ALL {
            for tier in Tier::ALL {
                let read = |name: &str| {
                    used.borrow_mut().insert(name.to_owned());
                    embedded_text(name)
                };
                load(arch, &layers(arch, role, tier), read).expect("sound");
            }
        }
    }
    let used = used.into_inner();
    let unused: Vec<_> = embedded_files().filter(|name| !used.contains(*name)).collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn every_call_of_the_tables_is_decided_with_a_reason() {
    for arch in Arch::ALL {
        assert!(syscalls(arch).len() > 320);
        for role in Role::ALL {
            for tier in Tier::ALL {
                let policy = embedded_policy(arch, role, tier).expect("sound");
                assert_eq!(policy.decisions.len(), syscalls(arch).len());
                for decision in policy.decisions.values() {
                    assert!(decision.reason.len() >= 15, "{}: {}", decision.place, decision.reason);
                    let spoken = |case: &_| -> bool {
                        let case: &mcp_python_exec_sandbox::seccomp::compiler::Case = case;
                        !case.reason.is_empty()
                    };
                    assert!(decision.cases.iter().all(spoken), "{}: a case has no reason", decision.place);
                }
            }
        }
    }
}

/// The confined tier, and within it each choice of sockets, only ever takes away.
#[test]
fn narrower_tiers_never_allow_more() {
    let allows = |policy: &mcp_python_exec_sandbox::seccomp::Policy, number: u32, args: &[u64; 6]| {
        policy.answer_to(number, args) == Answer::Allow
    };
    for arch in Arch::ALL {
        for role in Role::ALL {
            let full = embedded_policy(arch, role, FULL).expect("sound");
            for tier in Tier::ALL {
                let narrow = embedded_policy(arch, role, tier).expect("sound");
                for call in syscalls(arch) {
                    for first in 0..40 {
                        for second in 0..4 {
                            let args = [first, second, 0, 0, 0, 0];
                            let more =
                                allows(&narrow, call.number, &args) && !allows(&full, call.number, &args);
                            assert!(!more, "{arch} {role} {tier}: {} {args:?}", call.name);
                        }
                    }
                }
            }
        }
    }
}

/// Numbers in `constants.toml` against the C library's headers, as far as it has them.
#[cfg(target_os = "linux")]
#[test]
fn constants_are_those_of_the_headers() {
    macro_rules! same {
        ($($name:ident)*) => {
            $(assert_eq!(
                mcp_python_exec_sandbox::seccomp::compiler::constant(stringify!($name)).map(|value| value & 0xFFFF_FFFF),
                Some(u64::try_from(i128::from(libc::$name) & 0xFFFF_FFFF).expect("masked")),
                stringify!($name)
            );)*
        };
    }
    same!(F_SETLEASE F_NOTIFY SECCOMP_FILTER_FLAG_NEW_LISTENER CLONE_PARENT);
    same!(CLONE_NEWTIME CLONE_NEWNS CLONE_NEWCGROUP CLONE_NEWUTS CLONE_NEWIPC CLONE_NEWUSER CLONE_NEWPID CLONE_NEWNET);
    same!(PROT_WRITE PROT_EXEC MFD_EXEC MFD_NOEXEC_SEAL S_IFMT S_IFREG S_IFIFO S_IFSOCK);
    same!(AF_UNIX AF_INET AF_INET6 AF_NETLINK SOCK_STREAM SOCK_DGRAM SOCK_RAW SOCK_SEQPACKET);
    same!(IPPROTO_IP IPPROTO_TCP IPPROTO_UDP NETLINK_ROUTE SOL_SOCKET SOL_TCP TCP_ULP TCP_FASTOPEN_CONNECT MSG_FASTOPEN);
    same!(SO_ATTACH_FILTER SO_ATTACH_BPF SO_ATTACH_REUSEPORT_CBPF SO_ATTACH_REUSEPORT_EBPF PRIO_PROCESS PRIO_PGRP);
    same!(PR_SET_PDEATHSIG PR_GET_PDEATHSIG PR_GET_DUMPABLE PR_SET_DUMPABLE PR_GET_KEEPCAPS PR_SET_KEEPCAPS);
    same!(PR_GET_TIMING PR_SET_NAME PR_GET_NAME PR_GET_SECCOMP PR_SET_SECCOMP PR_CAPBSET_READ PR_CAPBSET_DROP);
    same!(PR_GET_SECUREBITS PR_SET_TIMERSLACK PR_GET_TIMERSLACK PR_SET_CHILD_SUBREAPER PR_GET_CHILD_SUBREAPER);
    same!(PR_SET_NO_NEW_PRIVS PR_GET_NO_NEW_PRIVS PR_GET_TID_ADDRESS PR_SET_THP_DISABLE PR_GET_THP_DISABLE PR_CAP_AMBIENT);
    same!(PR_SET_VMA PR_SET_MDWE PR_GET_MDWE);
    same!(TCGETS TCSETS TCSETSW TCSETSF TCGETA TCSETA TCSETAW TCSETAF TCSBRK TCXONC TCFLSH TIOCEXCL TIOCNXCL TIOCSCTTY);
    same!(TIOCGPGRP TIOCSPGRP TIOCOUTQ TIOCGWINSZ TIOCSWINSZ TIOCMGET FIONREAD FIONBIO FIOCLEX FIONCLEX TCSBRKP TIOCGSID);
    same!(TIOCGPTN TIOCSPTLCK TIOCGPTLCK TIOCGPTPEER TIOCGEXCL TCGETS2 TCSETS2 TCSETSW2 TCSETSF2 TIOCNOTTY TIOCPKT TIOCGETD);
    same!(FICLONE FICLONERANGE FS_IOC_GETFLAGS FS_IOC_GETVERSION SIOCGIFNAME SIOCGIFCONF SIOCGIFFLAGS SIOCGIFADDR);
    same!(SIOCGIFDSTADDR SIOCGIFBRDADDR SIOCGIFNETMASK SIOCGIFMETRIC SIOCGIFMTU SIOCGIFHWADDR SIOCGIFINDEX SIOCGIFTXQLEN);
}
