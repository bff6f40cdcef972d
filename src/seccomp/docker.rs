//! The policy in the language of Docker: an exported profile, and the default profile to compare with.
//!
//! Docker's JSON says less than a policy file: cases have no order, all of a call's cases share one answer, and what
//! no case allows gets the profile's one default. What is lost is said, call by call.
use super::compiler::{Answer, Arch, Case, Condition, Decision, Errno, Policy, Test, Width};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

static DEFAULT_PROFILE: &str = include_str!("../../seccomp/docker-default.toml");

/// What Docker's default profile does with system calls.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefaultProfile {
    /// Which version of the profile this is.
    pub about: String,
    /// Allowed, whatever the arguments.
    pub allowed: Vec<String>,
    /// Allowed on some arguments.
    pub on_arguments: Vec<String>,
    /// Refused with ENOSYS. All that is in no list is refused with EPERM.
    pub enosys: Vec<String>,
}

/// What Docker's default profile does with system calls, as facts kept in this repository.
///
/// # Panics
/// When the file in the repository is damaged; a test reads it.
#[must_use]
pub fn default_profile() -> DefaultProfile {
    toml::from_str(DEFAULT_PROFILE).expect("seccomp/docker-default.toml has the shape of DefaultProfile")
}

/// A profile for `docker run --security-opt seccomp=FILE`.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The JSON.
    pub json: String,
    /// What the JSON cannot say, a sentence for each call that it concerns.
    pub lost: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    default_action: &'static str,
    default_errno_ret: u16,
    architectures: [&'static str; 1],
    syscalls: Vec<Rule>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    names: Vec<&'static str>,
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    errno_ret: Option<u16>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    args: Vec<Arg>,
    comment: String,
}

/// Holds when the bits of `value` in the argument are those of `value_two`.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Arg {
    index: u8,
    value: u64,
    value_two: u64,
    op: &'static str,
}

/// How a profile refuses what is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// By the profile's default, for engines that know a default with an error of its own (Docker 23 and later).
    ByDefault,
    /// Call by call: earlier engines answer the default with EPERM, which breaks programs that would fall back.
    Named,
}

/// The policy as a Docker profile. Docker has to be told `no-new-privileges` as well: otherwise it installs the
/// profile before it has set the user and groups.
///
/// # Panics
/// Never: the profile is plain data, which JSON can always hold.
#[must_use]
pub fn export(policy: &Policy) -> Exported {
    export_for(policy, Unknown::ByDefault)
}

/// The same for an engine of any age.
///
/// # Panics
/// Never, as [`export`].
#[must_use]
pub fn export_for(policy: &Policy, unknown: Unknown) -> Exported {
    let mut lost = Vec::new();
    let mut plain: BTreeMap<(Answer, &str), Vec<&'static str>> = BTreeMap::new();
    let mut on_arguments = Vec::new();
    for decision in policy.decisions.values() {
        if decision.cases.is_empty() {
            let answer = plain_answer(decision, &mut lost);
            plain.entry((answer, &decision.reason)).or_default().push(decision.name);
        } else {
            on_arguments.extend(with_arguments(decision, &mut lost));
        }
    }
    let mut syscalls: Vec<_> = plain
        .into_iter()
        .filter(|((answer, _), _)| *answer != Answer::UNKNOWN || unknown == Unknown::Named)
        .map(|((answer, reason), names)| rule(names, answer, Vec::new(), reason))
        .collect();
    syscalls.extend(on_arguments);
    let architecture = match policy.arch {
        Arch::X86_64 => "SCMP_ARCH_X86_64",
        Arch::Aarch64 => "SCMP_ARCH_AARCH64",
    };
    let profile = Profile {
        default_action: "SCMP_ACT_ERRNO",
        default_errno_ret: Errno::Enosys.number(),
        architectures: [architecture],
        syscalls,
    };
    Exported { json: serde_json::to_string_pretty(&profile).expect("plain data"), lost }
}

fn plain_answer(decision: &Decision, lost: &mut Vec<String>) -> Answer {
    if decision.answer != Answer::Notify {
        return decision.answer;
    }
    lost.push(format!("{}: nobody is notified; it fails with ENOSYS", decision.name));
    Answer::UNKNOWN
}

fn rule(names: Vec<&'static str>, answer: Answer, args: Vec<Arg>, comment: &str) -> Rule {
    let (action, errno_ret) = match answer {
        Answer::Allow => ("SCMP_ACT_ALLOW", None),
        Answer::Kill => ("SCMP_ACT_KILL_PROCESS", None),
        Answer::Pretend => ("SCMP_ACT_ERRNO", Some(0)),
        Answer::Notify => ("SCMP_ACT_ERRNO", Some(Errno::Enosys.number())),
        Answer::Refuse(errno) => ("SCMP_ACT_ERRNO", Some(errno.number())),
    };
    Rule { names, action, errno_ret, args, comment: comment.to_owned() }
}

/// Rules that allow what the cases allow. Docker refuses the rest with the profile's default error.
fn with_arguments(decision: &Decision, lost: &mut Vec<String>) -> Vec<Rule> {
    let name = decision.name;
    let allow = |args, reason: &str| rule(vec![name], Answer::Allow, args, reason);
    if decision.answer == Answer::Allow {
        let Some(complement) = complement(&decision.cases) else {
            lost.push(format!("{name}: allowed on all arguments, as exceptions on several cannot be said"));
            return vec![allow(Vec::new(), &decision.reason)];
        };
        lost.push(format!("{name}: the exception fails with ENOSYS, not {}", decision.cases[0].answer));
        return complement.into_iter().map(|arg| allow(vec![arg], &decision.reason)).collect();
    }
    let mut rules = Vec::new();
    let mut others = Vec::from([decision.answer]);
    for case in &decision.cases {
        match alternatives(case) {
            Some(sets) if case.answer == Answer::Allow || stands_apart(case, &decision.cases) => {
                rules.extend(sets.into_iter().map(|args| rule(vec![name], case.answer, args, &case.reason)));
            }
            None if case.answer == Answer::Allow => {
                lost.push(format!("{name}: refused where `is_not` would allow it ({})", case.reason));
            }
            _ => others.push(case.answer),
        }
    }
    others.retain(|answer| *answer != Answer::UNKNOWN);
    if !others.is_empty() {
        let names: Vec<_> = others.iter().map(ToString::to_string).collect();
        lost.push(format!("{name}: what is not allowed fails with ENOSYS, not {}", names.join(" or ")));
    }
    rules
}

/// Whether no call is both this case and one that is allowed, so that their order does not matter.
fn stands_apart(case: &Case, cases: &[Case]) -> bool {
    let apart = |one: &Condition, other: &Condition| match (&one.test, &other.test) {
        (Test::AnyOf(ours), Test::AnyOf(theirs)) if one.arg == other.arg && one.mask == other.mask => {
            ours.iter().all(|value| !theirs.contains(value))
        }
        _ => false,
    };
    let mut allowed = cases.iter().filter(|other| other.answer == Answer::Allow);
    allowed.all(|other| case.when.iter().any(|one| other.when.iter().any(|theirs| apart(one, theirs))))
}

/// Docker joins the arguments of a rule by "and", and the rules of a call by "or".
fn alternatives(case: &Case) -> Option<Vec<Vec<Arg>>> {
    let mut sets = vec![Vec::new()];
    for condition in &case.when {
        let Test::AnyOf(values) = &condition.test else { return None };
        sets = sets
            .into_iter()
            .flat_map(|set: Vec<Arg>| {
                values.iter().map(move |value| {
                    let mut set = set.clone();
                    set.push(masked(condition, condition.mask, *value));
                    set
                })
            })
            .collect();
    }
    Some(sets)
}

/// The opposite of a single case with a single value: one of its bits differs.
fn complement(cases: &[Case]) -> Option<Vec<Arg>> {
    let [case] = cases else { return None };
    let [condition] = case.when.as_slice() else { return None };
    let Test::AnyOf(values) = &condition.test else { return None };
    let [value] = values.as_slice() else { return None };
    let bits = (0..64).map(|bit| 1_u64 << bit).filter(|bit| condition.mask & bit != 0);
    Some(bits.map(|bit| masked(condition, bit, !value & bit)).collect())
}

/// Always with a mask, so that Docker looks at as much of the argument as the kernel does.
fn masked(condition: &Condition, mask: u64, value: u64) -> Arg {
    let mask = match condition.width {
        Width::Low32 => mask & u64::from(u32::MAX),
        Width::Full64 => mask,
    };
    Arg { index: condition.arg, value: mask, value_two: value, op: "SCMP_CMP_MASKED_EQ" }
}
