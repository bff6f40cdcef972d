//! `policy show | explain | diff | export | check`, and the surface that a reviewer signs, as snapshots.
//!
//! A snapshot that differs fails; `UPDATE_SNAPSHOTS=1 cargo test --test seccomp_commands` writes it anew, for the
//! reviewer to look at.
use mcp_python_exec_sandbox::commands::policy::{
    PolicyCommandError, Selection, check, diff_docker, explain, export_docker, export_folder, show,
};
use mcp_python_exec_sandbox::seccomp::compiler::{Answer, syscalls};
use mcp_python_exec_sandbox::seccomp::{
    Arch, Policy, Role, Sockets, Tier, docker, embedded, embedded_policy, folder,
};
use serde_json::Value;
use std::fs;
use std::path::Path;

const RUN: Selection = Selection { arch: Arch::X86_64, role: Role::Run, tier: Tier::Full };

fn assert_snapshot(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/seccomp").join(name);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
        fs::write(&path, text).expect("writable");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let at = kept.lines().zip(text.lines()).position(|(old, new)| old != new);
    assert!(kept == text, "{name} differs from line {:?}; see the head of this file", at.map(|at| at + 1));
}

#[test]
fn the_tables_are_those_that_were_reviewed() {
    for arch in Arch::ALL {
        let text = show(Selection { arch, ..RUN }).expect("embedded");
        assert_snapshot(&format!("{arch}-run-full.txt"), &text);
    }
}

/// The other policies as the difference to the run role in the full tier.
#[test]
fn the_other_tables_differ_as_reviewed() {
    for arch in Arch::ALL {
        let base = embedded_policy(arch, Role::Run, Tier::Full).expect("embedded");
        let mut text = String::new();
        for role in Role::ALL {
            for tier in Tier::ALL {
                let policy = embedded_policy(arch, role, tier).expect("embedded");
                text.push_str(&["== ", role.name(), " ", tier.name(), "\n"].concat());
                text.push_str(&differences(&base, &policy));
            }
        }
        assert_snapshot(&format!("{arch}-others.txt"), &text);
    }
}

fn differences(base: &Policy, policy: &Policy) -> String {
    let changed = policy.decisions.iter().filter(|(number, one)| base.decisions[*number].place != one.place);
    let line = |(_, one): (&u32, &mcp_python_exec_sandbox::seccomp::compiler::Decision)| {
        let cases: Vec<_> = one
            .cases
            .iter()
            .map(|case| {
                let when: Vec<_> = case.when.iter().map(ToString::to_string).collect();
                format!("{} if {}, else ", case.answer, when.join(" and "))
            })
            .collect();
        format!("{}: {}{}\n", one.name, cases.concat(), one.answer)
    };
    changed.map(line).collect()
}

#[test]
fn the_difference_to_docker_is_as_reviewed() {
    assert_snapshot("diff-docker-x86_64-run-full.txt", &diff_docker(RUN).expect("embedded"));
}

#[test]
fn what_the_docker_profile_loses_is_as_reviewed() {
    assert_snapshot("docker-loses.txt", &(export_docker(RUN).expect("embedded").lost.join("\n") + "\n"));
}

#[test]
fn show_has_a_line_for_every_call() {
    for arch in Arch::ALL {
        for tier in Tier::ALL {
            let text = show(Selection { arch, role: Role::Build, tier }).expect("embedded");
            for call in syscalls(arch) {
                let start = format!("{:>4} {:<24} ", call.number, call.name);
                assert!(text.lines().any(|line| line.starts_with(&start)), "{arch} {tier}: {}", call.name);
            }
        }
    }
}

#[test]
fn explain_gives_answer_reason_and_line() {
    let text = explain("ptrace", Arch::X86_64).expect("known");
    assert!(text.starts_with("ptrace is number 101 on x86_64\n\nevery role and tier:\n"), "{text}");
    let place =
        text.split("[shared/processes.toml:").nth(1).expect("a place").split(']').next().expect("a line");
    let line: usize = place.parse().expect("a number");
    let source = include_str!("../seccomp/shared/processes.toml").lines().nth(line - 1).expect("that line");
    assert!(source.contains("\"ptrace\""), "{source}");
}

#[test]
fn explain_says_where_roles_and_tiers_differ() {
    let text = explain("chmod", Arch::X86_64).expect("known");
    assert!(text.contains("notify") && text.contains("x86_64/confined-attributes.toml:"), "{text}");
    assert!(text.contains("replaces x86_64/legacy.toml:"), "{text}");
}

#[test]
fn explain_helps_with_an_unknown_name() {
    let words = |name, arch| explain(name, arch).expect_err("unknown").to_string();
    assert_eq!(
        words("open", Arch::Aarch64),
        "aarch64 has no system call `open`; x86_64 has, see `--arch x86_64`"
    );
    assert!(words("io_uring", Arch::X86_64).contains("there are io_uring_setup"));
    assert!(words("zzz", Arch::X86_64).contains("`policy show` lists them"));
}

#[test]
fn dockers_profile_names_calls_that_exist() {
    let profile = docker::default_profile();
    for name in profile.allowed.iter().chain(&profile.on_arguments).chain(&profile.enosys) {
        let known = Arch::ALL.into_iter().any(|arch| syscalls(arch).iter().any(|call| call.name == name));
        assert!(known, "{name}");
    }
}

fn refusal(number: u64) -> Answer {
    let names =
        ["EPERM", "EACCES", "EINVAL", "ENOTTY", "ENOSYS", "ENOPROTOOPT", "EPROTONOSUPPORT", "EOPNOTSUPP"];
    let mut answers = names.into_iter().filter_map(Answer::parse);
    answers.find(|answer| u64::from(answer.code() & 0xFFFF) == number).expect("an error that policies know")
}

/// What libseccomp makes of an exported profile: every rule of a call is an alternative, its arguments all count.
fn exported_answer(rules: &[&Value], name: &str, args: &[u64; 6]) -> Answer {
    let number = |value: &Value| value.as_u64().expect("a number");
    for rule in rules {
        let holds = |arg: &Value| {
            assert_eq!(arg["op"], "SCMP_CMP_MASKED_EQ");
            let index = usize::try_from(number(&arg["index"])).expect("an index");
            args[index] & number(&arg["value"]) == number(&arg["valueTwo"])
        };
        if rule["args"].as_array().is_none_or(|args| args.iter().all(holds)) {
            return match (rule["action"].as_str().expect("an action"), rule["errnoRet"].as_u64()) {
                ("SCMP_ACT_ALLOW", None) => Answer::Allow,
                ("SCMP_ACT_ERRNO", Some(0)) => Answer::Pretend,
                ("SCMP_ACT_ERRNO", Some(number)) => refusal(number),
                other => panic!("{name}: {other:?}"),
            };
        }
    }
    Answer::UNKNOWN
}

#[test]
fn the_docker_profile_allows_what_the_policy_allows() {
    for arch in Arch::ALL {
        for tier in [Tier::Full, Tier::Confined(Sockets::Local)] {
            let selection = Selection { arch, tier, ..RUN };
            let policy = embedded_policy(arch, Role::Run, tier).expect("embedded");
            let exported = export_docker(selection).expect("embedded");
            let profile: Value = serde_json::from_str(&exported.json).expect("JSON");
            assert_eq!(profile["defaultErrnoRet"], 38);
            for (number, decision) in &policy.decisions {
                let lost = exported.lost.iter().any(|line| line.starts_with(&format!("{}: ", decision.name)));
                let named = |rule: &&Value| {
                    rule["names"].as_array().expect("names").iter().any(|one| one == decision.name)
                };
                let rules: Vec<_> =
                    profile["syscalls"].as_array().expect("rules").iter().filter(named).collect();
                let sets = if decision.cases.is_empty() { vec![[0; 6]] } else { docker_arguments() };
                for args in sets {
                    let (ours, theirs) =
                        (policy.answer_to(*number, &args), exported_answer(&rules, decision.name, &args));
                    let more = theirs == Answer::Allow && ours != Answer::Allow;
                    let several = ["fcntl", "setsockopt", "open", "openat"].contains(&decision.name);
                    assert!(!more || several, "{arch}: {} {args:x?}", decision.name);
                    assert!(ours != Answer::Allow || theirs == ours, "{arch}: {} {args:x?}", decision.name);
                    assert!(ours == theirs || lost, "{arch}: {} differs and it is not said", decision.name);
                }
            }
        }
    }
}

fn docker_arguments() -> Vec<[u64; 6]> {
    let values = [
        0,
        1,
        2,
        6,
        8,
        10,
        16,
        38,
        0x2_0000,
        0x5401,
        0x5412,
        0x8000_0000,
        0xFFFF_FFFF,
        u64::MAX,
        0x2000_0000,
    ];
    let set = |first, second, third| [first, second, third, third, 0, 0];
    let mut sets = Vec::new();
    for first in values {
        for second in values {
            sets.extend(values.map(|third| set(first, second, third)));
        }
    }
    sets
}

#[test]
fn check_accepts_a_copy_and_names_every_mistake_in_it() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let copy = temporary.path().join("policy");
    let written = export_folder(&copy).expect("written");
    assert!(written.contains("policy check"), "{written}");
    let report = check(&copy).expect("the copy is sound");
    assert_eq!(report.lines().count(), Arch::ALL.len() * Role::ALL.len() * Tier::ALL.len());
    let same = folder::program(&copy, Arch::X86_64, Role::Run, Tier::Full).expect("sound");
    assert_eq!(same, embedded(Arch::X86_64, Role::Run, Tier::Full));

    let file = copy.join("shared/ipc.toml");
    let text = fs::read_to_string(&file).expect("written");
    fs::write(&file, text.replace("\"shmget\"", "\"shmgte\"").replace("\"semop\", ", "")).expect("writable");
    let error = check(&copy).expect_err("two mistakes").to_string();
    assert!(error.contains("shared/ipc.toml:4: `shmgte` is not a system call of x86_64"), "{error}");
    let refused = export_folder(&copy).expect_err("not empty");
    assert!(matches!(refused, PolicyCommandError::NotEmpty(_)));
}

#[test]
fn what_a_file_would_have_decided_that_cannot_be_read_is_not_missed_elsewhere() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let copy = temporary.path().join("policy");
    export_folder(&copy).expect("written");
    let file = copy.join("shared/files.toml");
    let text = fs::read_to_string(&file).expect("written");
    fs::write(&file, text.replacen("answer = \"allow\"", "answer = 5", 1)).expect("writable");
    let error = check(&copy).expect_err("a wrong type").to_string();
    let lines: Vec<&str> = error.lines().skip(1).collect();
    assert_eq!(lines, ["shared/files.toml:7: invalid type: integer `5`, expected a string"]);
    fs::remove_file(&file).expect("removable");
    let error = check(&copy).expect_err("a file is missing").to_string();
    for line in error.lines().skip(1) {
        assert!(line.ends_with("there is no file `shared/files.toml` in the policy folder"), "{error}");
    }
}

#[test]
fn a_call_is_explained_by_its_number_too() {
    let by_name = explain("openat", Arch::X86_64).expect("known");
    assert_eq!(explain("257", Arch::X86_64).expect("known"), by_name);
    assert!(explain("9999", Arch::X86_64).is_err());
}

#[test]
fn check_takes_a_single_file_in_or_outside_of_an_architecture_folder() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let copy = temporary.path().join("policy");
    export_folder(&copy).expect("written");
    let report = check(&copy.join("aarch64/build.toml")).expect("sound");
    assert!(report.starts_with("aarch64 ") && report.contains("sound"), "{report}");
    let own = copy.join("mine.toml");
    fs::write(&own, format!("about = \"mine\"\ninclude = [\"{}/run.toml\"]\n", Arch::native()))
        .expect("writable");
    assert!(check(&own).expect("sound").contains("sound"));
    let part = check(&copy.join("shared/ipc.toml")).expect_err("a part is no policy").to_string();
    assert!(part.contains("no decision on"), "{part}");
}

#[test]
fn check_says_what_is_wrong_with_the_path() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let empty = check(temporary.path()).expect_err("nothing there").to_string();
    assert!(empty.contains("has no folder x86_64 or aarch64"), "{empty}");
    let absent = check(&temporary.path().join("absent")).expect_err("not there").to_string();
    assert!(absent.contains("absent: "), "{absent}");
}
