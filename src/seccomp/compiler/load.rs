//! Reads policy files, lays them over each other and checks the result.
use super::answer::Answer;
use super::arch::{Arch, Role, Tier};
use super::condition::{Case, Condition};
use super::error::{PolicyError, Problem, ProblemKind};
use super::page::{Page, read_condition};
use super::policy::{Decision, Place, Policy};
use super::syscalls::{Syscall, syscalls};
use super::text::{CaseText, ConditionText, FileText, RuleText};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path};
use toml::Spanned;

/// The files whose layers make up one policy, bottom first, relative to the policy folder.
#[must_use]
pub fn layers(arch: Arch, role: Role, tier: Tier) -> Vec<String> {
    match tier {
        Tier::Full => vec![format!("{arch}/{role}.toml")],
        Tier::Brokered => {
            vec![format!("{arch}/{role}.toml"), "shared/sockets/brokered.toml".to_owned()]
        }
        Tier::Confined(sockets) => {
            let mut files = vec![format!("{arch}/{role}-confined.toml")];
            files.extend(sockets.overlay().map(|name| format!("shared/sockets/{name}.toml")));
            files
        }
    }
}

/// Reads the files with `read`, which gets names relative to the policy folder, and lays each over those before it.
///
/// # Errors
/// Everything that is wrong with the files, and every system call of the architecture that is left undecided.
pub fn load<R>(arch: Arch, files: &[String], read: R) -> Result<Policy, PolicyError>
where
    R: Fn(&str) -> io::Result<String>,
{
    let mut loader = Loader {
        arch,
        read,
        seen: BTreeSet::new(),
        decisions: BTreeMap::new(),
        problems: Vec::new(),
        has_unread: false,
    };
    for file in files {
        loader.file(file, None);
    }
    if loader.problems.is_empty() {
        loader.find_missing(files.last().map_or("", String::as_str));
        loader.find_undoable_notify();
    }
    if loader.problems.is_empty() {
        Ok(Policy { arch, decisions: loader.decisions })
    } else {
        Err(PolicyError { problems: loader.problems })
    }
}

struct Loader<R> {
    arch: Arch,
    read: R,
    seen: BTreeSet<String>,
    decisions: BTreeMap<u32, Decision>,
    problems: Vec<Problem>,
    /// Whether a file could not be read.
    has_unread: bool,
}

/// Whether a decision has to be the first on its system call, or has to replace one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    First,
    Replace,
}

impl<R: Fn(&str) -> io::Result<String>> Loader<R> {
    fn problem(&mut self, place: Place, kind: ProblemKind) {
        self.problems.push(Problem { place, kind });
    }

    /// A problem that leaves out all that the file decides.
    fn unread(&mut self, place: Place, kind: ProblemKind) {
        self.has_unread = true;
        self.problem(place, kind);
    }

    fn file(&mut self, file: &str, wanted_by: Option<Place>) {
        if !self.seen.insert(file.to_owned()) {
            return;
        }
        let here = wanted_by.unwrap_or_else(|| Place { file: file.to_owned(), line: 1 });
        match (self.read)(file) {
            Ok(text) => self.page(&Page { file, text: &text }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.unread(here, ProblemKind::NoFile(file.to_owned()));
            }
            Err(error) => self.unread(here, ProblemKind::Unreadable(error.to_string())),
        }
    }

    fn page(&mut self, page: &Page<'_>) {
        let parsed: FileText = match toml::from_str(page.text) {
            Ok(parsed) => parsed,
            Err(error) => {
                let place = page.place(&error.span().unwrap_or(0..0));
                return self.unread(place, ProblemKind::Shape(error.message().to_owned()));
            }
        };
        for name in &parsed.include {
            let place = page.place(&name.span());
            if stays_inside(name.as_ref()) {
                self.file(name.as_ref(), Some(place));
            } else {
                self.problem(place, ProblemKind::OutsideFolder(name.as_ref().clone()));
            }
        }
        let mut here = BTreeSet::new();
        for rule in &parsed.rules {
            self.rule(page, rule, Mode::First, &mut here);
        }
        for rule in &parsed.overrides {
            self.rule(page, rule, Mode::Replace, &mut here);
        }
    }

    fn rule(&mut self, page: &Page<'_>, rule: &RuleText, mode: Mode, here: &mut BTreeSet<u32>) {
        if rule.calls.is_empty() {
            self.problem(page.place(&rule.answer.span()), ProblemKind::Empty("`calls`"));
        }
        if rule.reason.as_ref().trim().is_empty() {
            self.problem(page.place(&rule.reason.span()), ProblemKind::Empty("`reason`"));
        }
        let answer = self.answer(page, &rule.answer);
        let cases: Vec<_> = rule.cases.iter().map(|case| self.case(page, case)).collect();
        let (Some(answer), Some(cases)) = (answer, cases.into_iter().collect::<Option<Vec<_>>>()) else {
            return;
        };
        for call in &rule.calls {
            let place = page.place(&call.span());
            let Some(syscall) = self.syscall(call.as_ref(), &place) else { continue };
            let reason = rule.reason.as_ref().trim().to_owned();
            let decision = Decision {
                name: syscall.name,
                cases: cases.clone(),
                answer,
                reason,
                place,
                replaced: Vec::new(),
            };
            self.decide(syscall.number, decision, mode, here);
        }
    }

    fn decide(&mut self, number: u32, mut decision: Decision, mode: Mode, here: &mut BTreeSet<u32>) {
        let name = decision.name.to_owned();
        let first_here = here.insert(number);
        match (self.decisions.get(&number), mode) {
            // It may stand in a file that could not be read.
            (None, Mode::Replace) if self.has_unread => {}
            (None, Mode::Replace) => self.problem(decision.place, ProblemKind::NothingToOverride { name }),
            (Some(earlier), _) if mode == Mode::First || !first_here => {
                let first = earlier.place.clone();
                self.problem(decision.place, ProblemKind::Duplicate { name, first });
            }
            (earlier, _) => {
                if let Some(earlier) = earlier {
                    decision.replaced.clone_from(&earlier.replaced);
                    decision.replaced.push(earlier.place.clone());
                }
                self.decisions.insert(number, decision);
            }
        }
    }

    fn syscall(&mut self, name: &str, place: &Place) -> Option<Syscall> {
        let found = syscalls(self.arch).iter().find(|syscall| syscall.name == name).copied();
        if found.is_none() {
            let kind = ProblemKind::UnknownSyscall { name: name.to_owned(), arch: self.arch };
            self.problem(place.clone(), kind);
        }
        found
    }

    fn answer(&mut self, page: &Page<'_>, text: &Spanned<String>) -> Option<Answer> {
        let answer = Answer::parse(text.as_ref());
        if answer.is_none() {
            self.problem(page.place(&text.span()), ProblemKind::UnknownAnswer(text.as_ref().clone()));
        }
        answer
    }

    fn case(&mut self, page: &Page<'_>, case: &CaseText) -> Option<Case> {
        let answer = self.answer(page, &case.answer);
        if case.when.as_ref().is_empty() {
            self.problem(page.place(&case.when.span()), ProblemKind::Empty("`when`"));
        }
        let when: Vec<_> = case.when.as_ref().iter().map(|one| self.condition(page, one)).collect();
        Some(Case {
            answer: answer?,
            when: when.into_iter().collect::<Option<_>>()?,
            reason: case.reason.trim().to_owned(),
        })
    }

    fn condition(&mut self, page: &Page<'_>, text: &ConditionText) -> Option<Condition> {
        match read_condition(page, text) {
            Ok(condition) => Some(condition),
            Err(problem) => {
                self.problems.push(problem);
                None
            }
        }
    }

    /// With two filters that notify, the kernel asks the listener of the newer one, and it may let the call pass.
    fn find_undoable_notify(&mut self) {
        const NEW_LISTENER: u64 = 8;
        let seccomp = self.decisions.values().find(|one| one.name == "seccomp");
        let open = seccomp.is_some_and(|one| one.answer_to(&[1, NEW_LISTENER, 0, 0, 0, 0]) == Answer::Allow);
        let place = self.decisions.values().find(|one| one.asks()).map(|one| one.place.clone());
        if let Some(place) = place.filter(|_| open) {
            self.problem(place, ProblemKind::NotifyCanBeUndone);
        }
    }

    fn find_missing(&mut self, file: &str) {
        let missing = syscalls(self.arch).iter().filter(|call| !self.decisions.contains_key(&call.number));
        let names: Vec<_> = missing.map(|call| call.name.to_owned()).collect();
        if !names.is_empty() {
            let kind = ProblemKind::Missing { arch: self.arch, names };
            self.problem(Place { file: file.to_owned(), line: 1 }, kind);
        }
    }
}

fn stays_inside(name: &str) -> bool {
    !name.is_empty() && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
}
