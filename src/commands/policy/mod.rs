//! `policy show | explain | diff docker | export | check`: what the system call policy says, and why.
//!
//! Each command is a function from its arguments to text or an error. It must never print or exit.
mod own;

use crate::seccomp::compiler::{Decision, Place, Policy, Syscall, syscalls};
use crate::seccomp::{Answer, Arch, PolicyError, Role, Tier, docker, embedded, embedded_policy};
pub use own::{check, export_folder, load};
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Which of the policies a command is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The architecture.
    pub arch: Arch,
    /// The role.
    pub role: Role,
    /// The tier.
    pub tier: Tier,
}

/// Why a command has no answer.
#[derive(Debug, Error)]
pub enum PolicyCommandError {
    /// The architecture has no such system call.
    #[error("{arch} has no system call `{name}`{hint}")]
    UnknownSyscall {
        /// What was asked for.
        name: String,
        /// The architecture.
        arch: Arch,
        /// What might have been meant, as the rest of the sentence.
        hint: String,
    },
    /// The policy has mistakes.
    #[error("the policy in {} cannot be used:\n{error}", folder.display())]
    Mistakes {
        /// The policy folder.
        folder: PathBuf,
        /// The mistakes.
        error: PolicyError,
    },
    /// The embedded policy has mistakes, which the build excludes.
    #[error("the embedded policy cannot be used: {0}")]
    Embedded(#[from] PolicyError),
    /// There is nothing to check.
    #[error(
        "{} has no folder x86_64 or aarch64; write a copy of the embedded policy with `policy export folder PATH`",
        .0.display()
    )]
    NoArchitecture(PathBuf),
    /// A folder to write to that has something in it.
    #[error("{} is not empty; name a new folder", .0.display())]
    NotEmpty(PathBuf),
    /// A file or folder cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// The whole table of one policy.
///
/// # Errors
/// None in a program that was built, see [`embedded_policy`].
pub fn show(selection: Selection) -> Result<String, PolicyCommandError> {
    let Selection { arch, role, tier } = selection;
    let policy = embedded_policy(arch, role, tier)?;
    let mut text = format!(
        "{arch}, {role}, {tier}: {} system calls, {} instructions\n{}\n",
        policy.decisions.len(),
        embedded(arch, role, tier).len(),
        counts(&policy)
    );
    text.push_str("other numbers: ENOSYS; a foreign architecture: kill");
    text.push_str(if arch == Arch::X86_64 { "; x32 numbers: kill\n" } else { "\n" });
    for (number, decision) in &policy.decisions {
        write_decision(&mut text, &format!("{number:>4} {:<24}", decision.name), decision);
    }
    Ok(text)
}

fn counts(policy: &Policy) -> String {
    let count =
        |wanted: &dyn Fn(&Decision) -> bool| policy.decisions.values().filter(|one| wanted(one)).count();
    let plain = |answer: Answer| count(&|one| one.cases.is_empty() && one.answer == answer);
    let arguments = count(&|one| !one.cases.is_empty());
    let (allowed, unknown, pretended) =
        (plain(Answer::Allow), plain(Answer::UNKNOWN), plain(Answer::Pretend));
    let refused = policy.decisions.len() - allowed - unknown - pretended - arguments;
    format!(
        "{allowed} allowed, {arguments} decided on arguments, {refused} refused, {unknown} as unknown, \
         {pretended} answered without being done"
    )
}

fn write_decision(text: &mut String, start: &str, decision: &Decision) {
    let otherwise = if decision.cases.is_empty() { "" } else { "otherwise: " };
    let blank = " ".repeat(start.len());
    let mut start = start;
    for case in &decision.cases {
        let when: Vec<_> = case.when.iter().map(ToString::to_string).collect();
        push_line(text, &format!("{start} {:<15} if {}: {}", case.answer, when.join(" and "), case.reason));
        start = &blank;
    }
    let Decision { answer, reason, place, .. } = decision;
    push_line(text, &format!("{start} {answer:<15} {otherwise}{reason} [{place}]"));
}

/// The decision on one system call: the answer, the reason and the line, for every role and tier.
///
/// # Errors
/// A name that the architecture does not have.
pub fn explain(name: &str, arch: Arch) -> Result<String, PolicyCommandError> {
    let asked = |call: &&Syscall| call.name == name || name.parse() == Ok(call.number);
    let Syscall { name, number } = *syscalls(arch).iter().find(asked).ok_or_else(|| unknown(name, arch))?;
    let mut groups: Vec<(Decision, Vec<String>)> = Vec::new();
    for tier in Tier::ALL {
        for role in Role::ALL {
            let policy = embedded_policy(arch, role, tier)?;
            let decision = policy.decisions[&number].clone();
            let label = format!("{role} {tier}");
            match groups.iter_mut().find(|(known, _)| known.place == decision.place) {
                Some((_, labels)) => labels.push(label),
                None => groups.push((decision, vec![label])),
            }
        }
    }
    let mut text = format!("{name} is number {number} on {arch}\n");
    let only = groups.len() == 1;
    for (decision, labels) in groups {
        let labels = if only { "every role and tier".to_owned() } else { labels.join(", ") };
        push_line(&mut text, &format!("\n{labels}:"));
        write_decision(&mut text, " ", &decision);
        let replaced: Vec<_> = decision.replaced.iter().map(Place::to_string).collect();
        if !replaced.is_empty() {
            push_line(&mut text, &format!("  replaces {}", replaced.join(", ")));
        }
    }
    Ok(text)
}

fn unknown(name: &str, arch: Arch) -> PolicyCommandError {
    let elsewhere = Arch::ALL.into_iter().find(|other| syscalls(*other).iter().any(|call| call.name == name));
    let similar: Vec<_> =
        syscalls(arch).iter().map(|call| call.name).filter(|known| known.contains(name)).take(5).collect();
    let hint = match elsewhere {
        Some(other) => format!("; {other} has, see `--arch {other}`"),
        None if similar.is_empty() || name.is_empty() => "; `policy show` lists them".to_owned(),
        None => format!("; there are {}", similar.join(", ")),
    };
    PolicyCommandError::UnknownSyscall { name: name.to_owned(), arch, hint }
}

/// Where one policy differs from Docker's default profile.
///
/// # Errors
/// None in a program that was built, see [`embedded_policy`].
pub fn diff_docker(selection: Selection) -> Result<String, PolicyCommandError> {
    let Selection { arch, role, tier } = selection;
    let policy = embedded_policy(arch, role, tier)?;
    let docker = docker::default_profile();
    let holds = |list: &[String], name: &str| list.iter().any(|one| one == name);
    let mut sections: [(&str, Vec<&Decision>); 4] = [
        ("Docker allows, refused here", Vec::new()),
        ("Docker allows on more arguments than here, or on others", Vec::new()),
        ("Docker allows, answered here without being done", Vec::new()),
        ("Docker refuses, allowed here (on arguments where it says so)", Vec::new()),
    ];
    for decision in policy.decisions.values() {
        let theirs = holds(&docker.allowed, decision.name) || holds(&docker.on_arguments, decision.name);
        let ours =
            decision.answer == Answer::Allow || decision.cases.iter().any(|c| c.answer == Answer::Allow);
        let section = match (theirs, ours) {
            (true, true) if !decision.cases.is_empty() => 1,
            (true, false) if decision.answer == Answer::Pretend => 2,
            (true, false) => 0,
            (false, true) => 3,
            (true, true) | (false, false) => continue,
        };
        sections[section].1.push(decision);
    }
    let mut text = format!("{arch}, {role}, {tier}, against {}\n", docker.about);
    for (title, decisions) in sections.iter().filter(|(_, decisions)| !decisions.is_empty()) {
        push_line(&mut text, &format!("\n{title}: {}", decisions.len()));
        for decision in decisions {
            write_decision(&mut text, &format!("  {:<24}", decision.name), decision);
        }
    }
    text.push_str(
        "\nUnknown numbers: Docker says EPERM to most, here they get ENOSYS. x32 and 32-bit calls: ",
    );
    text.push_str("Docker lets them through its list, here they kill.\n");
    Ok(text)
}

/// One policy as a Docker profile, and what that cannot say.
///
/// # Errors
/// None in a program that was built, see [`embedded_policy`].
pub fn export_docker(selection: Selection) -> Result<docker::Exported, PolicyCommandError> {
    let Selection { arch, role, tier } = selection;
    Ok(docker::export(&embedded_policy(arch, role, tier)?))
}

fn push_line(text: &mut String, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}", line.trim_end());
}
