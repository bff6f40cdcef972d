//! Landlock: access by path, independent of the mounts; abstract sockets and signals stop at the border.

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, PathFdError, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use super::stage::{Failed, Restricted, Unprivileged, Worker, absent, enforced_with, partial};
use super::sys;
use crate::sandbox::facts::LayerStatus;
use crate::sandbox::linux::plan::LandlockPlan;

const STAGE: &str = "landlock";

/// The newest ABI that the rules are written for; on an older kernel what it lacks is left out, and said.
const NEWEST: ABI = ABI::V10;

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

fn apply(plan: &LandlockPlan, abi: u8) -> Result<LayerStatus, Failed> {
    let words = |error: RulesetError| Failed::plain(STAGE, error.to_string());
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))
        .map_err(words)?;
    if plan.scoped {
        ruleset = ruleset.scope(Scope::from_all(NEWEST)).map_err(words)?;
    }
    let mut created = ruleset.create().map_err(words)?;
    created = allow(created, &plan.list, AccessFs::ReadDir.into())?;
    created = allow(created, &plan.read_execute, AccessFs::from_read(NEWEST))?;
    created = allow(created, &plan.read_write, AccessFs::from_all(NEWEST))?;
    let status = created.restrict_self().map_err(words)?;
    // Best effort is silent about what it left out; the kernel's ABI says what that was.
    match status.ruleset {
        RulesetStatus::NotEnforced => Err(Failed::plain(STAGE, "the kernel did not enforce it")),
        _ if plan.scoped && abi < SCOPES_SINCE => {
            Ok(partial(STAGE, format!("ABI {abi} has no scopes for abstract sockets and signals")))
        }
        _ => Ok(enforced_with(STAGE, format!("ABI {abi}"))),
    }
}

fn allow(
    mut ruleset: RulesetCreated,
    paths: &[std::path::PathBuf],
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, Failed> {
    for path in paths {
        let name = || path.display().to_string();
        let fd = match PathFd::new(path) {
            Ok(fd) => fd,
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
