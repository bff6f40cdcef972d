//! A property: something that a script must not be able to do, how that is tried, and what has to come of it.

use super::ground::Ground;

/// What one attempt has to come to: names of outcomes, separated by `|`. An outcome is `ok`, the name of an errno, a
/// word that the probe gives, or `signal NAME`. `*`: not tried there, as machines differ or as it would do harm.
pub type Expected = &'static str;

/// Something that a script must not be able to do.
pub struct Property {
    /// Name of the file that it stands in.
    pub name: &'static str,
    /// What holds, in one sentence.
    pub claim: &'static str,
    /// Escapes that worked like this elsewhere.
    pub known_as: &'static [&'static str],
    /// What has to be there for the attempt to mean anything.
    pub needs: &'static [Need],
    /// How it is tried.
    pub act: Act,
    /// Where the control cannot work.
    pub uncontrolled: Option<Uncontrolled>,
}

/// Why no attempt of a property can come to anything else outside than inside, on this machine and for this user. Looks at the
/// machine, never at what came of the attempts: a control that fails for another reason has to be seen. Where it says
/// something although an attempt did come to something else, that is a broken property, too.
pub type Uncontrolled = fn(&Ground) -> Option<String>;

/// How a property is tried.
pub enum Act {
    /// One Python program, run outside as the control and then inside.
    Probe(Probe),
    /// Steps of its own; an error is a broken property.
    Steps(fn(&Ground) -> Result<(), String>),
}

/// One Python program with its attempts.
pub struct Probe {
    /// The program, after the common prelude.
    pub script: &'static str,
    /// Attempts and their outcomes.
    pub cases: &'static [Case],
    /// Where the control runs.
    pub outside: Outside,
    /// Flags of the server for the run inside.
    pub flags: &'static [&'static str],
    /// Prepares what the probe looks for, and checks it afterwards.
    pub stage: Option<fn(&Ground) -> Result<Stage, String>>,
}

/// Where the control runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outside {
    /// An ordinary process of the same user: for attempts that do no harm.
    Plain,
    /// Root of namespaces of its own: for attempts that would change the machine.
    Private,
}

/// What a property needs of the machine or of the run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A kernel of at least this version.
    Kernel(u32, u32),
    /// A Landlock ABI of at least this number.
    Landlock(u8),
    /// An x86-64 processor.
    X86,
    /// Namespaces: the full tier.
    Namespaces,
    /// To be started as root.
    Root,
    /// A suite that runs as root, so that it can give groups to whom it starts.
    GroupsToGive,
}

/// What stands ready for a probe; dropped after it.
#[derive(Default)]
pub struct Stage {
    /// Facts that the probe is told: `ARGS` in it.
    pub args: serde_json::Map<String, serde_json::Value>,
    /// Options of both runs.
    pub options: super::Options,
    /// Looks at the machine after the run inside.
    pub afterwards: Option<Box<dyn FnOnce() -> Result<(), String>>>,
    /// Listeners, processes and the like that live as long.
    pub held: Vec<Box<dyn std::any::Any>>,
}

impl Stage {
    /// A stage that tells the probe one fact.
    pub fn with(name: &str, value: impl Into<serde_json::Value>) -> Self {
        Self::default().and(name, value)
    }

    /// Tells the probe one fact more.
    pub fn and(mut self, name: &str, value: impl Into<serde_json::Value>) -> Self {
        self.args.insert(name.to_owned(), value.into());
        self
    }

    /// Keeps something until the end of the probe.
    pub fn hold(mut self, held: impl std::any::Any) -> Self {
        self.held.push(Box::new(held));
        self
    }
}

/// One attempt of a probe, with what has to come of it in each place.
pub struct Case {
    /// Its label in the probe.
    pub label: &'static str,
    /// The control's outcome.
    pub outside: Expected,
    /// The control's outcome as root, where that differs.
    pub outside_root: Option<Expected>,
    /// In the full tier.
    pub full: Expected,
    /// In the confined tier, where that differs.
    pub confined: Option<Expected>,
    /// With namespaces and a root of its own alone: no Landlock, no filter.
    pub namespaces: Option<Expected>,
    /// With Landlock alone.
    pub landlock: Option<Expected>,
    /// With the filter alone.
    pub seccomp: Option<Expected>,
}

/// An attempt: its label, what comes of it outside, what inside.
pub const fn case(label: &'static str, outside: Expected, full: Expected) -> Case {
    Case {
        label,
        outside,
        outside_root: None,
        full,
        confined: None,
        namespaces: None,
        landlock: None,
        seccomp: None,
    }
}

impl Case {
    /// What comes of it outside as root.
    pub const fn outside_root(mut self, expected: Expected) -> Self {
        self.outside_root = Some(expected);
        self
    }

    /// What comes of it in the confined tier.
    pub const fn confined(mut self, expected: Expected) -> Self {
        self.confined = Some(expected);
        self
    }

    /// What comes of it behind namespaces alone.
    pub const fn namespaces(mut self, expected: Expected) -> Self {
        self.namespaces = Some(expected);
        self
    }

    /// What comes of it behind Landlock alone.
    pub const fn landlock(mut self, expected: Expected) -> Self {
        self.landlock = Some(expected);
        self
    }

    /// What comes of it behind the filter alone.
    pub const fn seccomp(mut self, expected: Expected) -> Self {
        self.seccomp = Some(expected);
        self
    }
}

impl Property {
    /// A property that a probe tries.
    pub const fn probe(
        name: &'static str,
        claim: &'static str,
        script: &'static str,
        cases: &'static [Case],
    ) -> Self {
        let probe =
            Probe { script, cases, outside: Outside::Plain, flags: &["--network", "none"], stage: None };
        Self { name, claim, known_as: &[], needs: &[], act: Act::Probe(probe), uncontrolled: None }
    }

    /// A property with steps of its own.
    pub const fn steps(
        name: &'static str,
        claim: &'static str,
        steps: fn(&Ground) -> Result<(), String>,
    ) -> Self {
        Self { name, claim, known_as: &[], needs: &[], act: Act::Steps(steps), uncontrolled: None }
    }

    /// Escapes that worked like this elsewhere.
    pub const fn known_as(mut self, names: &'static [&'static str]) -> Self {
        self.known_as = names;
        self
    }

    /// What has to be there for the attempt to mean anything.
    pub const fn needs(mut self, needs: &'static [Need]) -> Self {
        self.needs = needs;
        self
    }

    /// The control runs as root of namespaces of its own.
    pub const fn privately(mut self) -> Self {
        if let Act::Probe(probe) = &mut self.act {
            probe.outside = Outside::Private;
        }
        self
    }

    /// Declares where the control cannot work.
    pub const fn uncontrolled_where(mut self, reason: Uncontrolled) -> Self {
        self.uncontrolled = Some(reason);
        self
    }

    /// Flags of the server in place of `--network none`.
    pub const fn flags(mut self, flags: &'static [&'static str]) -> Self {
        if let Act::Probe(probe) = &mut self.act {
            probe.flags = flags;
        }
        self
    }

    /// Something is prepared first.
    pub const fn staged(mut self, stage: fn(&Ground) -> Result<Stage, String>) -> Self {
        if let Act::Probe(probe) = &mut self.act {
            probe.stage = Some(stage);
        }
        self
    }
}
