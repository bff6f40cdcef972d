//! What does the same job in different ways: a direct start, a start in a sandbox, a call of a server.

use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::client::Server;
use crate::machine;
use crate::setting::Setting;

/// One way of doing a job.
pub trait Contestant {
    /// How it is called in tables.
    fn name(&self) -> &str;

    /// Does the job once and gives what it printed.
    fn once(&mut self) -> Result<String, String>;

    /// Processor time that it has used so far, with everybody else's where it cannot be told apart.
    fn cpu(&self) -> Duration;

    /// When that is to be read.
    fn meter(&self) -> Meter {
        Meter::Rounds
    }

    /// Gets ready for the next round, outside what is measured.
    fn rest(&mut self) {}
}

/// When processor time is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meter {
    /// Before and after each job: others use the same clock.
    Rounds,
    /// Before the first and after the last job, so that what is done between jobs counts.
    Whole,
}

/// A program that is started and waited for.
pub struct Direct {
    name: String,
    words: Vec<OsString>,
}

impl Direct {
    pub fn new(name: &str, words: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self { name: name.to_owned(), words: words.into_iter().map(Into::into).collect() }
    }

    /// An interpreter with a script.
    pub fn python(name: &str, python: &Path, script: &Path) -> Self {
        Self::new(name, [python, script])
    }
}

impl Contestant for Direct {
    fn name(&self) -> &str {
        &self.name
    }

    fn once(&mut self) -> Result<String, String> {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).env_clear().env("PATH", "/usr/bin:/bin").env("LANG", "C.UTF-8");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        machine::in_its_own_session(&mut command);
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", self.name))?;
        let mut printed = Vec::new();
        if let Some(mut stdout) = child.stdout.take() {
            stdout.read_to_end(&mut printed).map_err(|error| error.to_string())?;
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("{} ended with {status}", self.name));
        }
        Ok(String::from_utf8_lossy(&printed).into_owned())
    }

    fn cpu(&self) -> Duration {
        machine::cpu_of_children()
    }
}

/// A call of a server.
pub struct Call {
    name: String,
    server: Server,
    script: String,
    dependencies: Vec<&'static str>,
    pause: Duration,
}

impl Call {
    /// A server of this program. The first call, which may build an environment, is made here and counts for nothing.
    pub fn ours(
        setting: &Setting,
        name: &str,
        flags: &[&str],
        script: &str,
        dependencies: &[&'static str],
    ) -> Result<Self, String> {
        Self::of(name, Server::start(setting, flags)?, script, dependencies)
    }

    /// Any server with the same tool.
    pub fn of(
        name: &str,
        server: Server,
        script: &str,
        dependencies: &[&'static str],
    ) -> Result<Self, String> {
        let (name, dependencies) = (name.to_owned(), dependencies.to_vec());
        let mut call = Self { name, server, script: script.to_owned(), dependencies, pause: Duration::ZERO };
        call.once()?;
        Ok(call)
    }

    /// Leaves the server alone for a while after each call: an agent does not call without a pause.
    pub fn pausing(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }
}

impl Contestant for Call {
    fn name(&self) -> &str {
        &self.name
    }

    fn once(&mut self) -> Result<String, String> {
        self.server.run(&self.script, &self.dependencies).map_err(|error| format!("{}: {error}", self.name))
    }

    fn cpu(&self) -> Duration {
        machine::cpu_of_tree(self.server.pid())
    }

    fn meter(&self) -> Meter {
        Meter::Whole
    }

    fn rest(&mut self) {
        std::thread::sleep(self.pause);
    }
}

/// What one contestant needed in all rounds.
pub struct Times {
    pub name: String,
    /// From the start of the job to its end.
    pub total: Vec<Duration>,
    /// From the start of the job to the script's first line, where it tells.
    pub first: Vec<Duration>,
    /// Processor time of one job, on average.
    pub cpu: Duration,
}

impl Times {
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), total: Vec::new(), first: Vec::new(), cpu: Duration::ZERO }
    }
}

/// Lets every contestant do its job once in each round, in changing order.
pub fn race(rounds: usize, contestants: &mut [Box<dyn Contestant>]) -> Result<Vec<Times>, String> {
    let mut times: Vec<Times> = contestants.iter().map(|one| Times::new(one.name())).collect();
    let before: Vec<Duration> = contestants.iter().map(|one| one.cpu()).collect();
    let mut used = vec![Duration::ZERO; contestants.len()];
    let count = contestants.len();
    for round in 0..rounds {
        for turn in 0..count {
            let which = (round + turn) % count;
            let cpu = contestants[which].cpu();
            let (clock, started) = (machine::monotonic(), Instant::now());
            let printed = contestants[which].once()?;
            times[which].total.push(started.elapsed());
            used[which] += contestants[which].cpu().saturating_sub(cpu);
            let told = printed.lines().next().and_then(|line| line.trim().parse().ok());
            let told = told.map(Duration::from_nanos).and_then(|at| at.checked_sub(clock));
            times[which].first.extend(told);
            contestants[which].rest();
        }
    }
    let rounds = u32::try_from(rounds).unwrap_or(1).max(1);
    for (which, one) in contestants.iter().enumerate() {
        let whole = one.cpu().saturating_sub(before[which]);
        let all = if one.meter() == Meter::Whole { whole } else { used[which] };
        times[which].cpu = all / rounds;
    }
    Ok(times)
}
