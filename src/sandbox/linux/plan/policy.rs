//! Which system-call policy a run gets: the embedded one, or the user's own.

use std::path::PathBuf;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::sandbox::spec::Role;
use crate::seccomp::folder::OwnPolicy;
use crate::seccomp::{self, Arch, Decision, Insn};

/// Which system-call policy applies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeccompPlan {
    /// The policy built into this program for a role.
    Embedded(Role, PolicyTier),
    /// A reviewed replacement, compiled by the server.
    Custom(CustomPolicy),
}

impl SeccompPlan {
    /// The variant of the policy, whoever wrote it.
    pub fn tier(&self) -> PolicyTier {
        match self {
            Self::Embedded(_, tier) => *tier,
            Self::Custom(policy) => policy.tier,
        }
    }

    /// Whether plain files in memory are held up until somebody has answered.
    pub fn asks_about_memory_files(&self) -> bool {
        match self {
            // The embedded policy does so where the server listens.
            Self::Embedded(_, tier) => *tier == PolicyTier::Brokered,
            Self::Custom(policy) => policy.asks_about_memory_files,
        }
    }

    /// The filter's program.
    pub fn program(&self) -> Vec<Insn> {
        match self {
            Self::Embedded(role, tier) => {
                seccomp::embedded(Arch::native(), (*role).into(), (*tier).into()).to_vec()
            }
            Self::Custom(policy) => policy.program.iter().copied().map(unpack).collect(),
        }
    }

    /// The same role and tier of a policy of the user's own.
    #[must_use]
    pub fn replaced_by(self, own: &OwnPolicy) -> Self {
        let Self::Embedded(role, tier) = self else { return self };
        let own_of = own.compiled(role.into(), tier.into());
        let call = u32::try_from(libc::SYS_memfd_create).unwrap_or_default();
        let asks_about_memory_files = own_of.policy.decisions.get(&call).is_some_and(Decision::asks);
        let program = own_of.program.iter().copied().map(pack).collect();
        Self::Custom(CustomPolicy { tier, folder: own.folder().to_owned(), asks_about_memory_files, program })
    }
}

/// A policy of the user's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomPolicy {
    /// The variant.
    pub tier: PolicyTier,
    /// Where the server has read it.
    pub folder: PathBuf,
    /// Whether it has the server asked about files in memory.
    pub asks_about_memory_files: bool,
    /// One number for each instruction, in hexadecimal digits.
    #[serde(serialize_with = "write_words", deserialize_with = "read_words")]
    pub program: Vec<u64>,
}

fn write_words<S: Serializer>(words: &[u64], to: S) -> Result<S::Ok, S::Error> {
    let words: Vec<_> = words.iter().map(|word| format!("{word:x}")).collect();
    to.serialize_str(&words.join(" "))
}

fn read_words<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
    let text = String::deserialize(from)?;
    text.split_whitespace().map(|word| u64::from_str_radix(word, 16).map_err(D::Error::custom)).collect()
}

fn pack(insn: Insn) -> u64 {
    let (code, k) = (insn.code.to_le_bytes(), insn.k.to_le_bytes());
    u64::from_le_bytes([code[0], code[1], insn.jt, insn.jf, k[0], k[1], k[2], k[3]])
}

fn unpack(word: u64) -> Insn {
    let [c0, c1, jt, jf, k0, k1, k2, k3] = word.to_le_bytes();
    Insn { code: u16::from_le_bytes([c0, c1]), jt, jf, k: u32::from_le_bytes([k0, k1, k2, k3]) }
}

/// Which variant of a policy applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyTier {
    /// Beside namespaces.
    Full,
    /// Beside namespaces, a private network among them, out of which the server connects.
    Brokered,
    /// Without namespaces, where system calls reach further.
    Confined(SocketPolicy),
}

/// Which sockets the confined tier has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SocketPolicy {
    /// Internet and local ones.
    All,
    /// Local ones: the network is off.
    Local,
    /// Internet ones: Landlock is too old to guard the host's path sockets.
    Internet,
    /// Pairs only: the network is off, and Landlock is too old.
    PairsOnly,
}

impl From<Role> for seccomp::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::Prepare => Self::Prepare,
            Role::Build => Self::Build,
            Role::Run => Self::Run,
        }
    }
}

impl From<PolicyTier> for seccomp::Tier {
    fn from(tier: PolicyTier) -> Self {
        match tier {
            PolicyTier::Full => Self::Full,
            PolicyTier::Brokered => Self::Brokered,
            PolicyTier::Confined(sockets) => Self::Confined(match sockets {
                SocketPolicy::All => seccomp::Sockets::All,
                SocketPolicy::Local => seccomp::Sockets::Local,
                SocketPolicy::Internet => seccomp::Sockets::Internet,
                SocketPolicy::PairsOnly => seccomp::Sockets::PairsOnly,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_policy_asks_is_told_by_itself() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/seccomp/.");
        let copied = std::process::Command::new("cp").args(["-r", source]).arg(folder.path()).status();
        assert!(copied.is_ok_and(|status| status.success()));
        let plan = |tier| SeccompPlan::Embedded(Role::Run, tier);
        let asks = |tier| {
            let own = OwnPolicy::read(folder.path()).expect("it is sound");
            plan(tier).replaced_by(&own).asks_about_memory_files()
        };
        for tier in [PolicyTier::Full, PolicyTier::Brokered] {
            assert_eq!(asks(tier), plan(tier).asks_about_memory_files(), "{tier:?}");
        }
        // Without the private network's own decision the one for every tier holds, which asks nobody.
        let sockets = folder.path().join("shared/sockets/brokered.toml");
        let text = std::fs::read_to_string(&sockets).expect("it is there");
        let (before, rest) = text.split_once("[[override]]\ncalls = [\"memfd_create\"]").expect("it decides");
        let (_, after) = rest.split_once("[[override]]\n").expect("it is not the last");
        std::fs::write(&sockets, format!("{before}[[override]]\n{after}")).expect("written");
        assert!(!asks(PolicyTier::Brokered));
    }

    #[test]
    fn a_policy_crosses_the_socket_unchanged() {
        let embedded = SeccompPlan::Embedded(Role::Run, PolicyTier::Full);
        let program = embedded.program();
        let words = program.iter().copied().map(pack).collect();
        let custom = CustomPolicy {
            tier: PolicyTier::Full,
            folder: "/a".into(),
            asks_about_memory_files: false,
            program: words,
        };
        let text = serde_json::to_string(&SeccompPlan::Custom(custom)).expect("it is plain data");
        let read: SeccompPlan = serde_json::from_str(&text).expect("it is read back");
        assert_eq!((read.tier(), read.program()), (PolicyTier::Full, program));
        assert!(
            serde_json::from_str::<SeccompPlan>(&text.replacen("\"20 ", "\"2x ", 1)).is_err()
                || !text.contains("\"20 ")
        );
    }
}
