//! Runs properties for each user, in each tier, and judges what their probes say. Counts everything, and says why
//! something was not tried.

use std::collections::{BTreeMap, VecDeque};
use std::process::Output;
use std::sync::Mutex;

use super::super::situation::Situation;
use super::alone::{self, Layer};
use super::ground::{Ground, Options};
use super::machine;
use super::property::{Act, Expected, Need, Probe, Property, Stage, Uncontrolled};

/// What came of one property in one situation.
#[derive(Default)]
pub struct Verdict {
    /// What did not hold.
    pub broken: Vec<String>,
    /// What was not tried, and why.
    pub skipped: Vec<String>,
    /// Attempts that were judged.
    pub judged: usize,
    /// Those among them of which the control outside came to something else.
    pub controlled: usize,
    /// Attempts behind one layer alone that were judged.
    pub judged_alone: usize,
    /// How long it took.
    pub took: std::time::Duration,
}

/// Runs properties in all situations, several at a time; the verdicts come out in order.
pub fn run_all(properties: &[&'static Property], situations: &[Situation]) -> bool {
    let jobs = situations.iter().flat_map(|situation| properties.iter().map(move |one| (situation, *one)));
    let queue: Mutex<VecDeque<_>> = Mutex::new(jobs.collect());
    let total = Mutex::new(Total::default());
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((situation, property)) = next(&queue) {
                    let start = std::time::Instant::now();
                    let mut verdict = run_one(property, situation);
                    verdict.took = start.elapsed();
                    lock(&total).add(&situation.name, property, &verdict);
                }
            });
        }
    });
    total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).tell()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn next<T>(queue: &Mutex<VecDeque<T>>) -> Option<T> {
    lock(queue).pop_front()
}

#[derive(Default)]
struct Total {
    held: usize,
    broken: usize,
    judged: usize,
    controlled: usize,
    judged_alone: usize,
    skipped: BTreeMap<String, usize>,
    /// Held, broken and skipped properties of each situation.
    situations: BTreeMap<String, [usize; 3]>,
}

impl Total {
    fn add(&mut self, situation: &str, property: &Property, verdict: &Verdict) {
        let Verdict { broken, skipped, judged, controlled, judged_alone, .. } = verdict;
        self.judged += judged;
        self.controlled += controlled;
        self.judged_alone += judged_alone;
        for reason in skipped {
            *self.skipped.entry(reason.clone()).or_default() += 1;
        }
        let (word, column) = match (broken.is_empty(), judged) {
            (false, _) => ("BROKEN", 1),
            (true, 0) => ("skipped", 2),
            (true, _) => ("held", 0),
        };
        self.situations.entry(situation.to_owned()).or_default()[column] += 1;
        self.broken += usize::from(!broken.is_empty());
        self.held += usize::from(word == "held");
        let seconds = verdict.took.as_secs_f32();
        eprintln!(
            "{situation:<20} {:<26} {word} ({judged}, {controlled} controlled, + {judged_alone}) {seconds:.1} s",
            property.name
        );
        for line in broken {
            eprintln!("    {line}");
        }
        for line in skipped {
            eprintln!("    not tried: {line}");
        }
    }

    fn tell(&self) -> bool {
        for (reason, count) in &self.skipped {
            eprintln!("not tried, {count} times: {reason}");
        }
        eprintln!();
        for (situation, [held, broken, skipped]) in &self.situations {
            eprintln!("{situation}: {held} held, {broken} broken, {skipped} skipped");
        }
        eprintln!(
            "escape: {} held, {} broken; {} attempts judged, {} of them with a control of their own, {} more behind one \
             layer alone; {} parts not tried",
            self.held,
            self.broken,
            self.judged,
            self.controlled,
            self.judged_alone,
            self.skipped.values().sum::<usize>()
        );
        self.broken == 0 && self.held > 0
    }
}

fn run_one(property: &Property, situation: &Situation) -> Verdict {
    let mut verdict = Verdict::default();
    if let Some(lacking) = property.needs.iter().find_map(|need| lacking(*need, situation)) {
        verdict.skipped.push(lacking);
        return verdict;
    }
    let ground = match situation.ground() {
        Ok(ground) => ground,
        Err(error) => return Verdict { broken: vec![error], ..verdict },
    };
    match &property.act {
        Act::Probe(probe) => run_probe(property, probe, &ground, situation, &mut verdict),
        Act::Steps(steps) => match steps(&ground) {
            Ok(()) => (verdict.judged, verdict.controlled) = (1, 1),
            Err(error) => verdict.broken.push(error),
        },
    }
    verdict
}

fn lacking(need: Need, situation: &Situation) -> Option<String> {
    match need {
        Need::Kernel(major, minor) => (situation.machine.kernel < (major, minor))
            .then(|| format!("the kernel is older than {major}.{minor}")),
        Need::Landlock(abi) => (situation.machine.landlock < abi)
            .then(|| format!("Landlock's ABI is {}, {abi} is needed", situation.machine.landlock)),
        Need::X86 => (!cfg!(target_arch = "x86_64")).then(|| "only x86-64 has this".to_owned()),
        Need::Namespaces => situation.confined.then(|| "the confined tier has no namespaces".to_owned()),
        Need::GroupsToGive => (!situation.user.is_root && situation.user.ids.is_none())
            .then(|| "only a suite that runs as root can give groups".to_owned()),
        Need::Root => (!situation.user.is_root).then(|| "only root's runs differ here".to_owned()),
    }
}

fn run_probe(
    property: &Property,
    probe: &Probe,
    ground: &Ground,
    situation: &Situation,
    verdict: &mut Verdict,
) {
    let stage = probe.stage.map_or_else(|| Ok(Stage::default()), |stage| stage(ground));
    let mut stage = match stage {
        Ok(stage) => stage,
        Err(error) => return verdict.broken.push(format!("preparing: {error}")),
    };
    let args = std::mem::take(&mut stage.args);
    let mut judge = Judge { verdict, probe, ground, args, nothing_is_hidden: false };
    judge.outside(&stage.options, property.uncontrolled);
    judge.inside(situation, &stage.options);
    if let Some(Err(error)) = stage.afterwards.take().map(|check| check()) {
        judge.verdict.broken.push(error);
    }
    judge.alone(situation);
}

struct Judge<'a> {
    verdict: &'a mut Verdict,
    probe: &'a Probe,
    ground: &'a Ground,
    args: serde_json::Map<String, serde_json::Value>,
    /// Whether a refusal may stand where the full tier has nothing to refuse.
    nothing_is_hidden: bool,
}

/// Attempts with what has to come of each, where anything has to.
type Expectations = Vec<(&'static str, Option<Expected>)>;

impl Judge<'_> {
    fn outside(&mut self, options: &Options, uncontrolled: Option<Uncontrolled>) {
        let is_root = self.ground.user.is_root;
        let expected = self.expectations(|case| {
            Some(case.outside_root.filter(|_| is_root).unwrap_or(case.outside)).filter(|one| *one != "*")
        });
        let script = self.script(&expected);
        let output = match self.ground.outside(&script, self.probe.outside, options) {
            Ok(output) => output,
            Err(error) => return self.verdict.broken.push(format!("outside: {error}")),
        };
        if output.status.code() == Some(77) {
            let stderr = String::from_utf8_lossy(&output.stderr);
            match machine::refuses_namespaces(&self.ground.user) {
                Some(reason) => self.verdict.skipped.push(format!("a control: {reason}")),
                None => self.verdict.broken.push(format!("outside: {}", stderr.trim())),
            }
            return;
        }
        self.judge("outside", &output, &expected);
        self.verdict.controlled = self.count_controls(&output);
        // Asked after the attempts, which may have had the kernel load what it asks about.
        match (self.verdict.controlled, uncontrolled.and_then(|reason| reason(self.ground))) {
            (0, Some(reason)) => self.verdict.skipped.push(format!("a control: {reason}")),
            (0, None) => {
                let why = "outside: no attempt comes to anything else than inside, so nothing shows that the probe works";
                self.verdict.broken.push(why.to_owned());
            }
            (count, Some(reason)) => {
                self.verdict
                    .broken
                    .push(format!("outside: {count} attempts came to something else, although {reason}"));
            }
            (_, None) => {}
        }
    }

    /// Attempts that came to something else outside than they have to come to inside.
    fn count_controls(&self, output: &Output) -> usize {
        let stdout = String::from_utf8_lossy(&output.stdout);
        let told = told(&stdout);
        let inside = |case: &super::Case| {
            let confined = case.confined.filter(|_| self.ground.confined);
            confined.unwrap_or(case.full)
        };
        let proves = |case: &&super::Case| {
            let other = |outcome: &&str| !matches(inside(case), outcome);
            inside(case) != "*" && told.get(case.label).is_some_and(other)
        };
        self.probe.cases.iter().filter(proves).count()
    }

    fn inside(&mut self, situation: &Situation, options: &Options) {
        let expected = self.expectations(|case| {
            let expected = case.confined.filter(|_| situation.confined).unwrap_or(case.full);
            Some(expected).filter(|expected| *expected != "*")
        });
        self.nothing_is_hidden = situation.confined;
        let script = self.script(&expected);
        match self.ground.inside(&script, self.probe.flags, options) {
            Ok(output) => self.verdict.judged += self.judge("inside", &output, &expected),
            Err(error) => self.verdict.broken.push(format!("inside: {error}")),
        }
    }

    fn alone(&mut self, situation: &Situation) {
        for layer in Layer::ALL {
            let expected = self.expectations(|case| of(case, layer));
            if expected.iter().all(|(_, expected)| expected.is_none()) {
                continue;
            }
            if let Some(reason) = situation.cannot_be_alone(layer) {
                self.verdict.skipped.push(reason);
                continue;
            }
            match alone::run(self.ground, layer, &self.script(&expected)) {
                Ok(output) => self.verdict.judged_alone += self.judge(layer.name(), &output, &expected),
                Err(error) => self.verdict.broken.push(format!("{}: {error}", layer.name())),
            }
        }
    }

    fn expectations(&self, of: impl Fn(&super::Case) -> Option<Expected>) -> Expectations {
        self.probe.cases.iter().map(|case| (case.label, of(case))).collect()
    }

    fn script(&self, expected: &Expectations) -> String {
        let skip: Vec<&str> =
            expected.iter().filter(|(_, expected)| expected.is_none()).map(|(label, _)| *label).collect();
        self.ground.script(self.probe.script, &self.args, &skip)
    }

    /// Compares what a probe printed with what it had to. Gives the number of attempts that were compared.
    fn judge(&mut self, place: &str, output: &Output, expected: &Expectations) -> usize {
        let stdout = String::from_utf8_lossy(&output.stdout);
        let told = told(&stdout);
        if !stdout.lines().any(|line| line == "@end") {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let ending = stderr.lines().rev().take(6).collect::<Vec<_>>();
            let ending = ending.into_iter().rev().collect::<Vec<_>>().join(" / ");
            self.verdict
                .broken
                .push(format!("{place}: the probe did not reach its end ({}): {ending}", output.status));
        }
        let mut judged = 0;
        for (label, expected) in expected {
            let Some(expected) = expected else { continue };
            judged += 1;
            match told.get(label) {
                Some(outcome) if matches(expected, outcome) => {}
                Some(outcome) if self.nothing_is_hidden && refused_instead(expected, outcome) => {}
                Some(outcome) => {
                    self.verdict.broken.push(format!("{place}: {label}: {outcome}, not {expected}"));
                }
                None => self.verdict.broken.push(format!("{place}: {label}: not tried")),
            }
        }
        for label in told.keys().filter(|label| !expected.iter().any(|(known, _)| known == *label)) {
            self.verdict.broken.push(format!("{place}: {label}: nothing is said of this attempt"));
        }
        judged
    }
}

/// Attempts and their outcomes, as a probe prints them.
fn told(stdout: &str) -> BTreeMap<&str, &str> {
    let lines = stdout.lines().filter_map(|line| line.strip_prefix('@'));
    lines.filter_map(|line| line.split_once('\t')).collect()
}

fn of(case: &super::Case, layer: Layer) -> Option<Expected> {
    match layer {
        Layer::Namespaces => case.namespaces,
        Layer::Landlock => case.landlock,
        Layer::Seccomp => case.seccomp,
    }
}

/// In the confined tier what does not exist in the full one is there, and refused: a file or process by Landlock and the
/// filter, an address by having no socket for it.
fn refused_instead(expected: Expected, outcome: &str) -> bool {
    let any = |names: &[&str]| expected.split('|').any(|one| names.contains(&one));
    match outcome {
        "EACCES" => any(&["ENOENT", "EROFS", "ECONNREFUSED"]),
        "EPERM" => any(&["ESRCH", "EROFS", "EACCES"]),
        "ENOSYS" => any(&["ENOENT"]),
        "EAFNOSUPPORT" => {
            any(&["ENOENT", "ECONNREFUSED", "ENETUNREACH", "EPROTONOSUPPORT", "EADDRNOTAVAIL", "EPERM"])
        }
        _ => false,
    }
}

fn matches(expected: Expected, outcome: &str) -> bool {
    expected.split('|').any(|one| one == outcome)
}
