//! What the launcher tells the server, and how the plan reaches it: length-prefixed JSON on one stream socket.
//!
//! Frames are small and written at once, so that several processes of one run can share the socket.

use serde::{Deserialize, Serialize};

use crate::sandbox::LimitHit;
use crate::sandbox::facts::LayerStatus;

/// Largest plan that a launcher reads, in bytes. Contents of files follow the plan and do not count.
pub const PLAN_LIMIT: u32 = 4 << 20;

/// Largest message that the server reads, in bytes.
pub const MESSAGE_LIMIT: u32 = 64 << 10;

/// One message to the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "message", content = "content")]
pub enum Message {
    /// The first process of the run exists; its pidfd comes along as a descriptor.
    Supervisor,
    /// A socket inside on which a name server of the host is to appear comes along as a descriptor.
    NameServer {
        /// Its place in the host's list.
        place: u8,
    },
    /// The filter stands; the descriptor on which its questions wait comes along.
    Listener,
    /// What was asked for ahead of the plan is done.
    Grounded,
    /// The root stands; the work directory comes along as a descriptor.
    Root,
    /// Every layer stands and the program is executed next.
    Ready {
        /// What was enforced.
        layers: Vec<LayerStatus>,
        /// Microseconds since the launcher's start at the end of each stage.
        timeline: Vec<(String, u64)>,
    },
    /// A stage failed; nothing of the program was executed.
    Failed(Failure),
    /// What the self-test found: acts that should have been refused and were not.
    SelfTest {
        /// A few words each; empty when every layer held.
        breaches: Vec<String>,
    },
    /// A limit was reached.
    Limit(LimitHit),
    /// The main program ended.
    Exited {
        /// Exit code, where it ended by itself.
        code: Option<i32>,
        /// Signal, where one ended it.
        signal: Option<i32>,
        /// Processor time in microseconds, of the program and the children that it waited for.
        cpu_us: u64,
        /// Largest resident size of one process, in bytes.
        peak_memory: u64,
    },
}

impl Message {
    /// Whether a descriptor comes along.
    pub fn carries_descriptor(&self) -> bool {
        matches!(self, Self::Supervisor | Self::NameServer { .. } | Self::Listener | Self::Root)
    }
}

/// Why a stage failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The stage: `namespaces`, `mounts`, `limits` ...
    pub stage: String,
    /// What failed in it.
    pub detail: String,
    /// The kernel's error number, where there is one.
    pub errno: Option<i32>,
}

/// Puts one message into a frame: four bytes of length, little-endian, then JSON.
pub fn frame(message: &impl Serialize) -> Vec<u8> {
    let body = serde_json::to_vec(message).unwrap_or_default();
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let mut out = Vec::with_capacity(body.len() + 4);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&body);
    out
}
