//! The `seccompiler` crate as an independent witness. It has one answer a filter and no order of cases, so it gets one
//! filter for the calls with each plain answer, and one for each case; the order is put back here.
use mcp_python_exec_sandbox::seccomp::compiler::{
    Answer, Arch, Call, Case, Condition, Insn, Policy, Test, Width, simulate,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};
use std::collections::BTreeMap;

/// What a filter of the witness answers where it matches.
const FOUND: SeccompAction = SeccompAction::Trap;
const FOUND_CODE: u32 = 0x0003_0000;

/// Filters of the witness for one policy.
pub struct Witness {
    arch: u32,
    plain: BTreeMap<Answer, Vec<Insn>>,
    cases: BTreeMap<u32, Vec<(Vec<Insn>, Answer)>>,
    otherwise: BTreeMap<u32, Answer>,
}

impl Witness {
    /// Compiles the policy with `seccompiler`.
    pub fn new(policy: &Policy) -> Self {
        let mut plain: BTreeMap<Answer, BTreeMap<i64, Vec<SeccompRule>>> = BTreeMap::new();
        let (mut cases, mut otherwise) = (BTreeMap::new(), BTreeMap::new());
        for (number, decision) in &policy.decisions {
            if decision.cases.is_empty() {
                plain.entry(decision.answer).or_default().insert(i64::from(*number), Vec::new());
                continue;
            }
            let filters = decision.cases.iter().map(|case| {
                let rules = BTreeMap::from([(i64::from(*number), rules(case))]);
                (filter(policy.arch, rules), case.answer)
            });
            cases.insert(*number, filters.collect());
            otherwise.insert(*number, decision.answer);
        }
        let plain = plain.into_iter().map(|(answer, rules)| (answer, filter(policy.arch, rules))).collect();
        Self { arch: policy.arch.audit(), plain, cases, otherwise }
    }

    /// The answer that the filters give together.
    pub fn answer_to(&self, number: u32, args: [u64; 6]) -> Answer {
        let call = Call { arch: self.arch, number, args };
        let finds = |program: &[Insn]| {
            simulate(program, &call).expect("seccompiler makes sound programs") == FOUND_CODE
        };
        if let Some(cases) = self.cases.get(&number) {
            let case = cases.iter().find(|(program, _)| finds(program));
            return case.map_or(self.otherwise[&number], |(_, answer)| *answer);
        }
        let found: Vec<_> = self.plain.iter().filter(|(_, program)| finds(program)).collect();
        assert!(found.len() <= 1, "call {number} has several answers");
        found.first().map_or(Answer::UNKNOWN, |(answer, _)| **answer)
    }
}

fn filter(arch: Arch, rules: BTreeMap<i64, Vec<SeccompRule>>) -> Vec<Insn> {
    let arch = match arch {
        Arch::X86_64 => TargetArch::x86_64,
        Arch::Aarch64 => TargetArch::aarch64,
    };
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, FOUND, arch).expect("the rules are sound");
    let program: BpfProgram = filter.try_into().expect("the filter compiles");
    program.iter().map(|one| Insn { code: one.code, jt: one.jt, jf: one.jf, k: one.k }).collect()
}

/// A rule for each combination of values, as a rule of the witness has one value for each condition.
fn rules(case: &Case) -> Vec<SeccompRule> {
    let mut sets = vec![Vec::new()];
    for condition in &case.when {
        let alternatives = conditions(condition);
        sets = sets
            .into_iter()
            .flat_map(|set: Vec<SeccompCondition>| {
                alternatives.iter().map(move |more| set.iter().cloned().chain(more.iter().cloned()).collect())
            })
            .collect();
    }
    sets.into_iter().map(|set: Vec<_>| SeccompRule::new(set).expect("not empty")).collect()
}

fn conditions(condition: &Condition) -> Vec<Vec<SeccompCondition>> {
    let length = match condition.width {
        Width::Low32 => SeccompCmpArgLen::Dword,
        Width::Full64 => SeccompCmpArgLen::Qword,
    };
    let new = |operator, value| {
        SeccompCondition::new(condition.arg, length.clone(), operator, value).expect("sound")
    };
    match &condition.test {
        Test::AnyOf(values) => {
            values.iter().map(|value| vec![new(SeccompCmpOp::MaskedEq(condition.mask), *value)]).collect()
        }
        Test::NoneOf(values) => vec![values.iter().map(|value| new(SeccompCmpOp::Ne, *value)).collect()],
    }
}
