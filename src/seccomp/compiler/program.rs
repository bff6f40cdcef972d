//! Turns a policy into a BPF program.
//!
//! The shape: check the architecture, on x86-64 the x32 bit, then search the number in a binary tree of ranges, then
//! check arguments at the leaf. A tree keeps both installing (the kernel walks the program once for each number to
//! find those that are always allowed) and running short.
use super::answer::Answer;
use super::arch::Arch;
use super::bpf::{
    AND, Insn, JUMP, JUMP_AT_LEAST, JUMP_EQUAL, LOAD, OFFSET_ARCH, OFFSET_ARGS, OFFSET_NUMBER, RETURN,
    branch, statement,
};
use super::condition::{Case, Condition, Test};
use super::error::{PolicyError, Problem, ProblemKind};
use super::policy::{Decision, Policy};

/// The longest program that the kernel accepts (`BPF_MAXINSNS` of `linux/bpf_common.h`).
pub const MAX_INSNS: usize = 4096;

/// The bit that marks the numbers of the x32 ABI, which share their architecture value with x86-64.
const X32_BIT: u32 = 0x4000_0000;

/// Compiles a policy.
///
/// # Errors
/// A decision with more comparisons than a branch can skip, or a program that is too long for the kernel.
pub fn compile(policy: &Policy) -> Result<Vec<Insn>, PolicyError> {
    let mut program = prologue(policy.arch);
    program.extend(tree(&ranges(policy)?));
    let first = policy.decisions.values().next();
    if let Some(decision) = first.filter(|_| program.len() > MAX_INSNS) {
        let kind = ProblemKind::ProgramTooLong(program.len());
        return Err(PolicyError { problems: vec![Problem { place: decision.place.clone(), kind }] });
    }
    Ok(program)
}

/// Kills on a foreign architecture and on x32 numbers; leaves the number in the accumulator. The number -1 is left
/// to the tree, which answers as for any unknown number: the kernel uses it for calls that a tracer has cancelled.
fn prologue(arch: Arch) -> Vec<Insn> {
    let kill = statement(RETURN, Answer::Kill.code());
    let mut code = vec![
        statement(LOAD, OFFSET_ARCH),
        branch(JUMP_EQUAL, arch.audit(), 1, 0),
        kill,
        statement(LOAD, OFFSET_NUMBER),
    ];
    if arch == Arch::X86_64 {
        code.push(branch(JUMP_AT_LEAST, X32_BIT, 0, 2));
        code.push(branch(JUMP_EQUAL, u32::MAX, 1, 0));
        code.push(kill);
    }
    code
}

/// Numbers from `start` up to the next range are treated alike.
struct NumberRange {
    start: u32,
    leaf: Leaf,
}

/// What a search ends at.
#[derive(Clone, PartialEq)]
enum Leaf {
    Answer(Answer),
    Arguments(Vec<Insn>),
}

/// Covers all numbers: alike neighbours are joined, gaps are unknown numbers.
fn ranges(policy: &Policy) -> Result<Vec<NumberRange>, PolicyError> {
    let unknown = Leaf::Answer(Answer::UNKNOWN);
    let mut ranges: Vec<NumberRange> = Vec::new();
    let mut push = |start: u32, leaf: Leaf| {
        if ranges.last().is_none_or(|last| last.leaf != leaf) {
            ranges.push(NumberRange { start, leaf });
        }
    };
    let mut next = 0;
    for (number, decision) in &policy.decisions {
        if *number > next {
            push(next, unknown.clone());
        }
        push(*number, leaf(decision)?);
        next = number + 1;
    }
    push(next, unknown);
    Ok(ranges)
}

/// A binary search over the ranges. Where one is too long for its branches, it is split: the lower half follows at
/// once, the upper half after it.
fn tree(ranges: &[NumberRange]) -> Vec<Insn> {
    if let Some(code) = search(ranges) {
        return code;
    }
    let (lower, upper) = ranges.split_at(ranges.len() / 2);
    let pivot = upper[0].start;
    let (lower, upper) = (tree(lower), tree(upper));
    let far = u32::try_from(lower.len()).expect("a program has at most a few thousand instructions");
    let mut code = vec![branch(JUMP_AT_LEAST, pivot, 0, 1), statement(JUMP, far)];
    code.extend(lower);
    code.extend(upper);
    code
}

/// Where a branch leads, before the distances are known.
#[derive(Clone, Copy)]
enum Target {
    At(usize),
    Answer(Answer),
}

/// An instruction, or a comparison of the number whose distances are not known yet.
enum Step {
    Insn(Insn),
    AtLeast(u32, Target, Target),
}

/// A search whose branches reach everything: the comparisons and argument checks first, then each answer once.
fn search(ranges: &[NumberRange]) -> Option<Vec<Insn>> {
    let mut steps = Vec::new();
    let mut answers = Vec::new();
    let entry = lay_out(ranges, &mut steps, &mut answers);
    let end = steps.len();
    let position = |target| match target {
        Target::At(at) => Some(at),
        Target::Answer(answer) => answers.iter().position(|one| *one == answer).map(|at| end + at),
    };
    debug_assert_eq!(position(entry), Some(0), "a search starts with its first instruction");
    let resolve = |(at, step): (usize, &Step)| match step {
        Step::Insn(insn) => Some(*insn),
        Step::AtLeast(pivot, upper, lower) => {
            let skip = |target| u8::try_from(position(target)? - at - 1).ok();
            Some(branch(JUMP_AT_LEAST, *pivot, skip(*upper)?, skip(*lower)?))
        }
    };
    let mut code = steps.iter().enumerate().map(resolve).collect::<Option<Vec<_>>>()?;
    code.extend(answers.iter().map(|answer| statement(RETURN, answer.code())));
    Some(code)
}

fn lay_out(ranges: &[NumberRange], steps: &mut Vec<Step>, answers: &mut Vec<Answer>) -> Target {
    if let [only] = ranges {
        return match &only.leaf {
            Leaf::Answer(answer) => {
                if !answers.contains(answer) {
                    answers.push(*answer);
                }
                Target::Answer(*answer)
            }
            Leaf::Arguments(code) => {
                let at = steps.len();
                steps.extend(code.iter().copied().map(Step::Insn));
                Target::At(at)
            }
        };
    }
    let (lower, upper) = ranges.split_at(ranges.len() / 2);
    let at = steps.len();
    let pivot = upper[0].start;
    steps.push(Step::AtLeast(pivot, Target::At(at), Target::At(at)));
    let lower = lay_out(lower, steps, answers);
    let upper = lay_out(upper, steps, answers);
    steps[at] = Step::AtLeast(pivot, upper, lower);
    Target::At(at)
}

/// The cases one after the other, each skipped when one of its conditions fails; then the answer for the rest.
fn leaf(decision: &Decision) -> Result<Leaf, PolicyError> {
    if decision.cases.is_empty() {
        return Ok(Leaf::Answer(decision.answer));
    }
    let mut code = Vec::new();
    for one in &decision.cases {
        let block = case(one).ok_or_else(|| PolicyError {
            problems: vec![Problem {
                place: decision.place.clone(),
                kind: ProblemKind::TooLong(decision.name.to_owned()),
            }],
        })?;
        code.extend(block);
    }
    code.push(statement(RETURN, decision.answer.code()));
    Ok(Leaf::Arguments(code))
}

/// Built from the back, so that the distance to the end, where a failed condition leads, is known.
fn case(case: &Case) -> Option<Vec<Insn>> {
    let mut code = vec![statement(RETURN, case.answer.code())];
    for condition in case.when.iter().rev() {
        let mut block = comparisons(condition, code.len())?;
        block.append(&mut code);
        code = block;
    }
    Some(code)
}

/// Falls through when the condition holds, and skips `rest` further instructions when it does not.
fn comparisons(condition: &Condition, rest: usize) -> Option<Vec<Insn>> {
    let (values, found_leads_on) = match &condition.test {
        Test::AnyOf(values) => (values, true),
        Test::NoneOf(values) => (values, false),
    };
    let mut code = Vec::new();
    for (at, value) in values.iter().rev().enumerate() {
        let is_last = at == 0;
        let (end, beyond) = (code.len(), code.len() + rest);
        let (found, missed) = match (found_leads_on, is_last) {
            (true, true) => (end, beyond),
            (true, false) => (end, 0),
            (false, _) => (beyond, 0),
        };
        let mut block = comparison(condition, *value, at + 1 == values.len(), found, missed)?;
        block.append(&mut code);
        code = block;
    }
    Some(code)
}

/// Compares with one value; skips `found` instructions after the block on a match and `missed` otherwise.
fn comparison(
    condition: &Condition,
    value: u64,
    is_first: bool,
    found: usize,
    missed: usize,
) -> Option<Vec<Insn>> {
    let [low, high] = halves(condition.mask);
    let [low_value, high_value] = halves(value);
    let at = OFFSET_ARGS + 8 * u32::from(condition.arg);
    let two_halves = high != 0;
    let mut code = Vec::new();
    // The low half stays in the accumulator from one value to the next, unless the high half was loaded between.
    if is_first || two_halves {
        code.extend(load(at, low));
    }
    code.push(branch(JUMP_EQUAL, low_value, u8::try_from(found).ok()?, u8::try_from(missed).ok()?));
    if two_halves {
        let load_high = load(at + 4, high);
        let miss = u8::try_from(missed + load_high.len() + 1).ok()?;
        if let Some(check_low) = code.last_mut() {
            (check_low.jt, check_low.jf) = (0, miss);
        }
        code.extend(load_high);
        code.push(branch(JUMP_EQUAL, high_value, u8::try_from(found).ok()?, u8::try_from(missed).ok()?));
    }
    Some(code)
}

fn load(offset: u32, mask: u32) -> Vec<Insn> {
    let mut code = vec![statement(LOAD, offset)];
    if mask != u32::MAX {
        code.push(statement(AND, mask));
    }
    code
}

/// The low and the high half.
#[expect(clippy::cast_possible_truncation, reason = "taking the halves apart is the purpose")]
const fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}
