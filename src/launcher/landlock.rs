//! Landlock: access by path, independent of the mounts; ports; abstract sockets and signals stop at the border.

use std::io;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, PathFdError,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use super::stage::{Failed, Restricted, Unprivileged, Worker, absent, enforced_with, partial};
use super::sys;
use crate::sandbox::facts::LayerStatus;
use crate::sandbox::linux::plan::{FileRules, LandlockPlan, PortRule, Scopes};

const STAGE: &str = "landlock";

/// The newest ABI that the rules are written for; on an older kernel what it lacks is left out, and said.
const NEWEST: ABI = ABI::V10;

/// First ABI that restricts moving and linking between folders.
const REFER_SINCE: u8 = 2;
/// First ABI that restricts truncating.
const TRUNCATE_SINCE: u8 = 3;
/// First ABI that knows ports.
const PORTS_SINCE: u8 = 4;
/// First ABI with scopes for abstract sockets and signals.
const SCOPES_SINCE: u8 = 6;

impl Worker<Unprivileged> {
    /// Restricts this process and all that it starts to the plan's paths.
    pub fn restrict(self, plan: Option<&LandlockPlan>) -> Result<Worker<Restricted>, Failed> {
        let Some(plan) = plan else { return Ok(self.advance("landlock", absent(STAGE, "not asked for"))) };
        let layer = match sys::landlock_abi() {
            Ok(abi) if abi >= plan.minimum_abi.max(1) => apply(plan, abi)?,
            Ok(abi) => {
                let detail = format!("ABI {abi} is there, {} is needed", plan.minimum_abi);
                return Err(Failed::plain(STAGE, detail));
            }
            Err(error) if plan.minimum_abi == 0 => absent(STAGE, format!("the kernel has none: {error}")),
            Err(error) => return Err(Failed::io(STAGE, "asking for its ABI", &error)),
        };
        Ok(self.advance("landlock", layer))
    }
}

/// Puts this process and all that it starts into a domain whose signals stay inside it, and which restricts nothing
/// else.
pub fn scope_signals() -> Result<(), Failed> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let ruleset = ruleset.scope(Scope::Signal).map_err(said)?;
    let created = may_move(may_handle_moves(ruleset)?.create().map_err(said)?)?;
    match created.restrict_self().map_err(said)?.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        _ => Err(Failed::plain(STAGE, "the kernel did not enforce the signal scope")),
    }
}

/// Moving files between folders is refused by every domain that does not allow it, whatever else it restricts.
fn may_handle_moves(ruleset: Ruleset) -> Result<Ruleset, Failed> {
    ruleset.handle_access(AccessFs::Refer).map_err(said)
}

fn may_move(created: RulesetCreated) -> Result<RulesetCreated, Failed> {
    allow(created, &["/".into()], AccessFs::Refer.into(), Missing::Fails)
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err wants")]
fn said(error: RulesetError) -> Failed {
    Failed::plain(STAGE, error.to_string())
}

fn apply(plan: &LandlockPlan, abi: u8) -> Result<LayerStatus, Failed> {
    let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
    ruleset = match &plan.files {
        Some(_) => ruleset.handle_access(AccessFs::from_all(NEWEST)).map_err(said)?,
        None => may_handle_moves(ruleset)?,
    };
    if plan.ports == PortRule::Refused {
        ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST)).map_err(said)?;
    }
    if plan.ports == PortRule::ConnectRefused {
        ruleset = ruleset.handle_access(AccessNet::ConnectTcp).map_err(said)?;
    }
    ruleset = match plan.scopes {
        Scopes::Signals => ruleset.scope(Scope::Signal),
        Scopes::All => ruleset.scope(Scope::from_all(NEWEST)),
    }
    .map_err(said)?;
    let created = ruleset.create().map_err(said)?;
    let created = match &plan.files {
        Some(files) => allow_files(created, files)?,
        None => may_move(created)?,
    };
    match created.restrict_self().map_err(said)?.ruleset {
        RulesetStatus::NotEnforced => Err(Failed::plain(STAGE, "the kernel did not enforce it")),
        _ => Ok(status(plan, abi)),
    }
}

/// Best effort is silent about what it left out; the kernel's ABI says what that was.
fn status(plan: &LandlockPlan, abi: u8) -> LayerStatus {
    let files = plan.files.is_some();
    let missing = [
        (files && abi < REFER_SINCE, "moves between folders are refused altogether"),
        (files && abi < TRUNCATE_SINCE, "truncating is left to the system-call filter"),
        (plan.ports == PortRule::Refused && abi < PORTS_SINCE, "ports are left to the system-call filter"),
        (abi < SCOPES_SINCE, "no scopes for abstract sockets and signals"),
    ];
    let missing: Vec<&str> =
        missing.into_iter().filter(|(missing, _)| *missing).map(|(_, what)| what).collect();
    if missing.is_empty() {
        enforced_with(STAGE, format!("ABI {abi}"))
    } else {
        partial(STAGE, format!("ABI {abi}: {}", missing.join("; ")))
    }
}

fn allow_files(mut created: RulesetCreated, files: &FileRules) -> Result<RulesetCreated, Failed> {
    created = allow(created, &files.list, AccessFs::ReadDir.into(), Missing::Fails)?;
    created = allow(created, &files.read, AccessFs::ReadFile | AccessFs::ReadDir, Missing::IsPassedOver)?;
    created = allow(created, &files.read_execute, AccessFs::from_read(NEWEST), Missing::Fails)?;
    allow(created, &files.read_write, AccessFs::from_all(NEWEST), Missing::Fails)
}

/// What a path without anything behind it means. A rule less allows less, never more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// The run cannot be what was planned.
    Fails,
    /// The machine has no such file.
    IsPassedOver,
}

fn allow(
    mut ruleset: RulesetCreated,
    paths: &[PathBuf],
    access: BitFlags<AccessFs>,
    missing: Missing,
) -> Result<RulesetCreated, Failed> {
    for path in paths {
        let name = || path.display().to_string();
        let fd = match PathFd::new(path) {
            Ok(fd) => fd,
            Err(PathFdError::OpenCall { source, .. })
                if missing == Missing::IsPassedOver && source.kind() == io::ErrorKind::NotFound =>
            {
                continue;
            }
            Err(PathFdError::OpenCall { source, .. }) => return Err(Failed::io(STAGE, name(), &source)),
            Err(error) => return Err(Failed::plain(STAGE, error.to_string())),
        };
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
        ruleset = ruleset
            .add_rule(PathBeneath::new(fd, access))
            .map_err(|error| Failed::plain(STAGE, format!("{}: {error}", name())))?;
    }
    Ok(ruleset)
}
