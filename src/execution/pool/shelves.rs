//! Which sandboxes wait, which are wanted, which have to go. Pure bookkeeping: it starts nothing and reads no clock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::sandbox::SandboxSpec;

/// A shelf that nobody has asked for this long is emptied.
pub const IDLE: Duration = Duration::from_mins(5);

/// Shelves at most; the one that was not used for longest goes.
const SHELVES: usize = 8;

/// Calls that come within this time belong to one burst: a shelf gets as long as the longest burst.
const BURST: Duration = Duration::from_millis(100);

/// Length of a shelf without bursts: one for the next call, one for the call right after it.
const SHORTEST: usize = 2;

/// Places that an interpreter with imported packages takes. Measured: numpy and pandas hold 45 MB, an interpreter alone
/// 3 to 4.
const IMPORTED_WEIGHS: usize = 8;

/// How long a shelf is left alone after a sandbox could not be started for it; twice as long after each further failure.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Doublings at most: about a minute.
const DOUBLINGS: u32 = 6;

/// All shelves, the one used last first. `S` is what waits, `P` what keeps its environment in use.
pub struct Shelves<S, P> {
    size: usize,
    all: Vec<Shelf<S, P>>,
    next_number: u64,
}

/// How those that wait on a shelf are started.
#[derive(Clone)]
pub struct Start {
    /// The sandbox, with files that are there before the script.
    pub spec: SandboxSpec,
    /// Modules that are imported before the script is there.
    pub modules: Arc<[String]>,
}

impl Start {
    /// How many places it takes: imported packages hold many times the memory of an interpreter alone.
    fn weight(&self) -> usize {
        if self.modules.is_empty() { 1 } else { IMPORTED_WEIGHS }
    }
}

struct Shelf<S, P> {
    number: u64,
    /// What calls ask for.
    spec: SandboxSpec,
    /// `None` where nothing may wait.
    start: Option<Start>,
    /// Dropped with the shelf.
    _pin: P,
    ready: VecDeque<S>,
    /// Being started, and who waits for that.
    starting: usize,
    waiters: VecDeque<oneshot::Sender<S>>,
    used: Instant,
    burst: VecDeque<Instant>,
    longest_burst: usize,
    not_before: Option<Instant>,
    /// Failures since the last start that succeeded.
    failures: u32,
}

/// What a call finds.
pub enum Found<S> {
    /// One that waits.
    Ready(S),
    /// One that will soon wait; the sender goes where it does not come about.
    Starting(oneshot::Receiver<S>),
    /// Nothing.
    Nothing,
}

/// Whether a sandbox for the one will do for the other: everything but the files is the same.
fn same(a: &SandboxSpec, b: &SandboxSpec) -> bool {
    let SandboxSpec { role, command, mounts, files: _, network, named_servers, limits, channel } = a;
    (role, command, mounts, network, named_servers, limits, channel)
        == (&b.role, &b.command, &b.mounts, &b.network, &b.named_servers, &b.limits, &b.channel)
}

impl<S, P> Shelves<S, P> {
    /// No shelf, and room for `size` that wait.
    pub fn new(size: usize) -> Self {
        Self { size, all: Vec::new(), next_number: 0 }
    }

    /// Whether nothing may wait at all.
    pub fn hold_nothing(&self) -> bool {
        self.size == 0
    }

    /// Takes one that waits and is fit; those that are not are dropped.
    pub fn take(&mut self, spec: &SandboxSpec, now: Instant, is_fit: impl Fn(&S) -> bool) -> Found<S> {
        let Some(place) = self.all.iter_mut().find(|place| same(&place.spec, spec)) else {
            return Found::Nothing;
        };
        place.note_call(now);
        while let Some(slot) = place.ready.pop_front() {
            if is_fit(&slot) {
                return Found::Ready(slot);
            }
        }
        if place.starting > place.waiters.len() {
            let (sender, coming) = oneshot::channel();
            place.waiters.push_back(sender);
            return Found::Starting(coming);
        }
        Found::Nothing
    }

    /// Makes the specification the one that was used last, on a shelf of its own where there is none. Then `arrange` says
    /// how to start what waits on it, if anything may.
    pub fn keep(
        &mut self,
        spec: &SandboxSpec,
        pin: P,
        now: Instant,
        arrange: impl FnOnce(&P) -> Option<Start>,
    ) {
        if self.size == 0 {
            return;
        }
        let found = self.all.iter().position(|place| same(&place.spec, spec));
        let mut place = if let Some(at) = found {
            self.all.remove(at)
        } else {
            self.next_number += 1;
            self.all.truncate(SHELVES - 1);
            let spec = SandboxSpec { files: Vec::new(), ..spec.clone() };
            Shelf::new(self.next_number, spec, arrange(&pin), pin, now)
        };
        place.used = now;
        self.all.insert(0, place);
    }

    /// The shelf on which one is missing, which now counts as being started. Makes room for it.
    pub fn next_missing(&mut self, now: Instant) -> Option<(u64, Start)> {
        let at = self.first_missing(now)?;
        let start = self.all[at].start.clone()?;
        while self.weight() + start.weight() > self.size.max(start.weight()) {
            // Behind it lies more than its share: the oldest goes first.
            let last = self.all[at + 1..].iter_mut().rev().find(|place| !place.ready.is_empty())?;
            last.ready.pop_front();
        }
        let place = &mut self.all[at];
        place.starting += 1;
        Some((place.number, start))
    }

    /// The first shelf that holds less than its share. Those in front take what they want; the very first gets one
    /// whatever the bound.
    fn first_missing(&self, now: Instant) -> Option<usize> {
        let mut left = self.size;
        self.all.iter().enumerate().find_map(|(at, place)| {
            let start = place.start.as_ref()?;
            let least = usize::from(at == 0 && self.size > 0);
            let share = place.wanted().min((left / start.weight()).max(least));
            left = left.saturating_sub(share * start.weight());
            let is_due = place.not_before.is_none_or(|at| now >= at);
            (is_due && place.starting + place.ready.len() < share).then_some(at)
        })
    }

    /// Places that are taken.
    fn weight(&self) -> usize {
        let weigh = |place: &Shelf<S, P>| {
            let each = place.start.as_ref().map_or(0, Start::weight);
            each * (place.starting + place.ready.len())
        };
        self.all.iter().map(weigh).sum()
    }

    /// One has been started: for the call that has waited longest, or for the shelf.
    pub fn put(&mut self, number: u64, mut slot: S) {
        let Some(place) = self.find(number) else { return };
        place.starting = place.starting.saturating_sub(1);
        (place.not_before, place.failures) = (None, 0);
        while let Some(waiter) = place.waiters.pop_front() {
            match waiter.send(slot) {
                Ok(()) => return,
                Err(back) => slot = back,
            }
        }
        place.ready.push_back(slot);
    }

    /// One could not be started.
    pub fn failed(&mut self, number: u64, now: Instant) {
        let Some(place) = self.find(number) else { return };
        place.starting = place.starting.saturating_sub(1);
        place.not_before = Some(now + AFTER_FAILURE * (1 << place.failures.min(DOUBLINGS)));
        place.failures += 1;
        // Whoever waits runs without the pool.
        place.waiters.truncate(place.starting);
    }

    fn find(&mut self, number: u64) -> Option<&mut Shelf<S, P>> {
        self.all.iter_mut().find(|place| place.number == number)
    }

    /// Removes shelves that nobody has used for a while.
    pub fn drain(&mut self, now: Instant) {
        self.all.retain(|place| now < place.used + IDLE);
    }

    /// When the next one is to be removed, or to be tried again.
    pub fn next_change(&self, now: Instant) -> Option<Instant> {
        let tried_again = |place: &Shelf<S, P>| place.not_before.filter(|&at| at > now);
        self.all.iter().flat_map(|place| [Some(place.used + IDLE), tried_again(place)]).flatten().min()
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.all.clear();
    }
}

impl<S, P> Shelf<S, P> {
    fn new(number: u64, spec: SandboxSpec, start: Option<Start>, pin: P, now: Instant) -> Self {
        Self {
            number,
            spec,
            start,
            _pin: pin,
            ready: VecDeque::new(),
            starting: 0,
            waiters: VecDeque::new(),
            used: now,
            burst: VecDeque::new(),
            longest_burst: 0,
            not_before: None,
            failures: 0,
        }
    }

    fn note_call(&mut self, now: Instant) {
        while self.burst.front().is_some_and(|&call| now >= call + BURST) {
            self.burst.pop_front();
        }
        self.burst.push_back(now);
        self.longest_burst = self.longest_burst.max(self.burst.len());
    }

    /// How many should wait.
    fn wanted(&self) -> usize {
        if self.start.is_some() { self.longest_burst.max(SHORTEST) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::spec::{Command, InlineFile, Limits, Network, Role};
    use std::collections::BTreeMap;

    type Numbers = Shelves<u32, ()>;

    fn spec(program: &str) -> SandboxSpec {
        let (args, env) = (vec!["/work/script.py".into()], BTreeMap::new());
        SandboxSpec {
            role: Role::Run,
            command: Command { program: program.into(), args, env, cwd: "/work".into() },
            mounts: Vec::new(),
            files: vec![InlineFile { path: "script.py".into(), content: program.as_bytes().into() }],
            network: Network::Host,
            named_servers: Vec::new(),
            limits: Limits::default(),
            channel: false,
        }
    }

    fn keep(shelves: &mut Numbers, program: &str, now: Instant) {
        let spec = spec(program);
        let start = Start { spec: SandboxSpec { files: Vec::new(), ..spec.clone() }, modules: [].into() };
        shelves.keep(&spec, (), now, |()| Some(start));
    }

    /// Starts what is missing, each with the next number.
    fn fill(shelves: &mut Numbers, now: Instant, next: &mut u32) -> usize {
        let mut started = 0;
        while let Some((place, start)) = shelves.next_missing(now) {
            assert!(start.spec.files.is_empty(), "no script waits");
            shelves.put(place, *next);
            *next += 1;
            started += 1;
            assert!(started < 100, "it never has enough");
        }
        started
    }

    fn ready(shelves: &mut Numbers, program: &str, now: Instant) -> Option<u32> {
        match shelves.take(&spec(program), now, |_| true) {
            Found::Ready(slot) => Some(slot),
            Found::Starting(_) | Found::Nothing => None,
        }
    }

    #[test]
    fn each_is_taken_once_and_missed_ones_are_replaced() {
        let (mut shelves, now, mut next) = (Numbers::new(8), Instant::now(), 0);
        assert!(matches!(shelves.take(&spec("a"), now, |_| true), Found::Nothing));
        keep(&mut shelves, "a", now);
        assert_eq!(fill(&mut shelves, now, &mut next), SHORTEST);
        assert_eq!(ready(&mut shelves, "a", now), Some(0));
        assert_eq!(fill(&mut shelves, now, &mut next), 1);
        // One that has died while it waited is passed over.
        let later = now + BURST;
        let found = shelves.take(&spec("a"), later, |&slot| slot != 1);
        assert!(matches!(found, Found::Ready(2)));
        assert_eq!(fill(&mut shelves, later, &mut next), 2);
    }

    #[test]
    fn another_specification_gets_nothing() {
        let (mut shelves, now, mut next) = (Numbers::new(8), Instant::now(), 0);
        keep(&mut shelves, "a", now);
        fill(&mut shelves, now, &mut next);
        let mut other = spec("a");
        other.command.env.insert("TZ".into(), "Asia/Tokyo".into());
        assert!(matches!(shelves.take(&other, now, |_| true), Found::Nothing));
        let mut larger = spec("a");
        larger.limits.memory += 1;
        assert!(matches!(shelves.take(&larger, now, |_| true), Found::Nothing));
    }

    #[test]
    fn a_shelf_gets_as_long_as_the_longest_burst_and_no_longer_than_the_pool() {
        let (mut shelves, now, mut next) = (Numbers::new(6), Instant::now(), 0);
        keep(&mut shelves, "a", now);
        fill(&mut shelves, now, &mut next);
        for _ in 0..4 {
            let _ = shelves.take(&spec("a"), now, |_| true);
        }
        assert_eq!(fill(&mut shelves, now, &mut next), 4);
        for _ in 0..20 {
            let _ = shelves.take(&spec("a"), now, |_| true);
        }
        assert_eq!(fill(&mut shelves, now, &mut next), 6);
        // Calls far from each other are no burst.
        for call in 1..10 {
            let _ = shelves.take(&spec("a"), now + 2 * BURST * call, |_| true);
        }
        assert_eq!(shelves.all[0].longest_burst, 24);
    }

    #[test]
    fn the_shelf_used_last_comes_first() {
        let (mut shelves, now, mut next) = (Numbers::new(3), Instant::now(), 0);
        keep(&mut shelves, "a", now);
        assert_eq!(fill(&mut shelves, now, &mut next), 2);
        keep(&mut shelves, "b", now);
        // One place is left, and the other is taken from the shelf behind.
        assert_eq!(fill(&mut shelves, now, &mut next), 2);
        assert_eq!(ready(&mut shelves, "a", now), Some(1));
        assert_eq!(ready(&mut shelves, "b", now), Some(2));
        assert_eq!(ready(&mut shelves, "b", now), Some(3));
    }

    #[test]
    fn imported_packages_take_the_places_of_several() {
        let (mut shelves, now, mut next) = (Numbers::new(10), Instant::now(), 0);
        keep(&mut shelves, "a", now);
        assert_eq!(fill(&mut shelves, now, &mut next), 2);
        let heavy = spec("b");
        let start = Start {
            spec: SandboxSpec { files: Vec::new(), ..heavy.clone() },
            modules: ["numpy".into()].into(),
        };
        shelves.keep(&heavy, (), now, |()| Some(start));
        // One fits beside the other shelf's two; a second one does not fit at all.
        assert_eq!(fill(&mut shelves, now, &mut next), 1);
        assert_eq!(shelves.weight(), 10);
        assert_eq!(ready(&mut shelves, "b", now), Some(2));
    }

    #[test]
    fn a_call_waits_for_one_that_is_being_started_and_only_for_that() {
        let (mut shelves, now) = (Numbers::new(4), Instant::now());
        keep(&mut shelves, "a", now);
        let (place, _) = shelves.next_missing(now).expect("one is missing");
        let Found::Starting(mut first) = shelves.take(&spec("a"), now, |_| true) else {
            panic!("one is being started")
        };
        assert!(matches!(shelves.take(&spec("a"), now, |_| true), Found::Nothing));
        shelves.put(place, 7);
        assert_eq!(first.try_recv(), Ok(7));
        // A caller that has gone leaves its own to the shelf.
        let (place, _) = shelves.next_missing(now).expect("one is missing");
        drop(shelves.take(&spec("a"), now, |_| true));
        shelves.put(place, 8);
        assert_eq!(ready(&mut shelves, "a", now), Some(8));
    }

    #[test]
    fn after_a_failure_callers_go_on_without_and_nothing_is_tried_for_a_while() {
        let (mut shelves, now, mut next) = (Numbers::new(4), Instant::now(), 0);
        keep(&mut shelves, "a", now);
        let (place, _) = shelves.next_missing(now).expect("one is missing");
        let Found::Starting(mut waiting) = shelves.take(&spec("a"), now, |_| true) else {
            panic!("one is being started")
        };
        shelves.failed(place, now);
        assert!(waiting.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed));
        assert!(shelves.next_missing(now).is_none());
        let again = now + AFTER_FAILURE;
        assert_eq!(shelves.next_change(now), Some(again));
        let (place, _) = shelves.next_missing(again).expect("the time is up");
        shelves.failed(place, again);
        // A second failure holds for longer.
        assert!(shelves.next_missing(again + AFTER_FAILURE).is_none());
        assert_eq!(fill(&mut shelves, again + 2 * AFTER_FAILURE, &mut next), SHORTEST);
    }

    #[test]
    fn idle_shelves_and_those_beyond_the_bound_go_and_late_starts_with_them() {
        let (mut shelves, now, mut next) = (Numbers::new(64), Instant::now(), 0);
        keep(&mut shelves, "a", now);
        let (place, _) = shelves.next_missing(now).expect("one is missing");
        assert_eq!(shelves.next_change(now), Some(now + IDLE));
        shelves.drain(now + IDLE);
        shelves.put(place, 1);
        assert!(matches!(shelves.take(&spec("a"), now, |_| true), Found::Nothing));
        for number in 0..2 * SHELVES {
            keep(&mut shelves, &number.to_string(), now);
        }
        assert_eq!(shelves.all.len(), SHELVES);
        fill(&mut shelves, now, &mut next);
        shelves.clear();
        assert_eq!(shelves.next_change(now), None);
    }

    #[test]
    fn what_must_not_wait_does_not() {
        let (mut shelves, now) = (Numbers::new(4), Instant::now());
        shelves.keep(&spec("a"), (), now, |()| None);
        assert!(shelves.next_missing(now).is_none());
        let mut off = Numbers::new(0);
        keep(&mut off, "a", now);
        assert!(off.next_missing(now).is_none());
    }
}
