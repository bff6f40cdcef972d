//! Capabilities: none in any set, and no program can bring one back.

use caps::CapSet;

use super::stage::{Failed, Limited, Unprivileged, Worker, enforced};

const STAGE: &str = "capabilities";

impl Worker<Limited> {
    /// Empties every capability set and sets `no_new_privs`.
    pub fn drop_privileges(self) -> Result<Worker<Unprivileged>, Failed> {
        let bounding = drop_all()?;
        rustix::thread::set_no_new_privs(true)
            .map_err(|error| Failed::errno(STAGE, "setting no_new_privs", error))?;
        let mut emptied = vec![CapSet::Effective, CapSet::Permitted, CapSet::Inheritable, CapSet::Ambient];
        emptied.extend(bounding.then_some(CapSet::Bounding));
        for set in emptied {
            let left = caps::read(None, set).map_err(|error| Failed::plain(STAGE, error.to_string()))?;
            if !left.is_empty() {
                return Err(Failed::plain(STAGE, format!("{set:?} still holds {left:?}")));
            }
        }
        Ok(self.advance("capabilities", enforced("no capabilities")))
    }
}

/// Empties every capability set of this process. Tells whether the bounding set could be emptied too: that needs a
/// capability; without any, nothing can be gained from it either, since `no_new_privs` stops set-user-ID files and
/// file capabilities.
pub fn drop_all() -> Result<bool, Failed> {
    let bounding = drop_bounding()?;
    for set in [CapSet::Ambient, CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        caps::clear(None, set).map_err(|error| Failed::plain(STAGE, error.to_string()))?;
    }
    Ok(bounding)
}

/// Empties the bounding set where this process may. Tells whether it could.
pub fn drop_bounding() -> Result<bool, Failed> {
    let may = caps::has_cap(None, CapSet::Effective, caps::Capability::CAP_SETPCAP).unwrap_or(false);
    if may {
        caps::clear(None, CapSet::Bounding).map_err(|error| Failed::plain(STAGE, error.to_string()))?;
    }
    Ok(may)
}
