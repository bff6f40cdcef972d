//! The families of tools. A new family is a file beside `execute.rs` and a line in [`families`].

mod execute;
#[cfg(feature = "conformance")]
mod fixtures;
mod resources;
mod runs;
mod sandbox;

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::{
    CallToolResult, JsonObject, ReadResourceResult, Resource, ResourceTemplate, Tool, ToolAnnotations,
};

use super::Services;
use crate::audit::Entry;
use crate::execution::ProgressSink;
use crate::sandbox::BoxFuture;
use crate::sandbox::spec::Access;
use crate::server::gate::Gate;
use crate::settings::{Settings, ToolFamily};

/// Tools that belong together.
pub trait Family: Send + Sync {
    /// What they are, as clients see them, in a fixed order.
    fn tools(&self) -> Vec<Tool>;

    /// Carries one call out; only asked for a tool that it named. Dropping the future ends what it had started.
    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, CallToolResult>;

    /// What can be read beside calling tools; asked for only where there are templates.
    fn resources(&self) -> BoxFuture<'_, Vec<Resource>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// How addresses of resources are made.
    fn templates(&self) -> Vec<ResourceTemplate> {
        Vec::new()
    }

    /// Reads a resource; `None` where its address is none of this family's.
    fn read<'a>(&'a self, _uri: &'a str) -> Option<BoxFuture<'a, Result<ReadResourceResult, ErrorData>>> {
        None
    }
}

/// One call of a tool.
pub struct Call<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// Its arguments, as they came.
    pub arguments: JsonObject,
    /// Where a call that makes a large result waits before it starts.
    pub gate: &'a Gate,
    /// Where it says how far it is.
    pub progress: ProgressSink,
    /// Its line in the audit log.
    pub audit: &'a Entry,
}

/// The families that were asked for and can be served, in the order in which clients see them.
pub fn families(services: Services, settings: &Settings) -> Vec<Box<dyn Family>> {
    let mut families: Vec<Box<dyn Family>> = Vec::new();
    #[cfg(feature = "conformance")]
    families.push(Box::new(fixtures::Fixtures));
    let runs = Arc::new(runs::Runs::default());
    if settings.tools.contains(&ToolFamily::Execute) {
        families.push(Box::new(execute::ExecuteTools::new(services.executor, Arc::clone(&runs), settings)));
    }
    if let Some(sessions) = services.sessions.filter(|_| settings.tools.contains(&ToolFamily::Sandbox)) {
        families.push(Box::new(sandbox::SandboxTools::new(sessions, Arc::clone(&runs), settings)));
    }
    families.push(Box::new(runs::RunFiles(runs)));
    families
}

/// What a tool can touch.
#[derive(Clone, Copy)]
enum Reach {
    /// It changes nothing and asks nobody.
    Reading,
    /// It adds to a sandbox, another time once more.
    Adding,
    /// It replaces or removes something in a sandbox; a second time changes nothing more.
    Replacing,
    /// It runs code that may use the network, and leaves nothing behind.
    Passing,
    /// It runs code that may use the network and change what is there: in its sandbox, or in a folder of the user's that is
    /// shown to it for writing.
    Changing,
    /// It fetches packages into a sandbox.
    Fetching,
}

fn annotations(reach: Reach) -> ToolAnnotations {
    use Reach::{Adding, Changing, Fetching, Passing, Reading, Replacing};
    let (destructive, idempotent, open) = match reach {
        Reading => (false, true, false),
        Adding => (false, false, false),
        Replacing => (true, true, false),
        Passing => (false, false, true),
        Changing => (true, false, true),
        Fetching => (false, true, true),
    };
    let reading = matches!(reach, Reading);
    ToolAnnotations::from_raw(None, Some(reading), Some(destructive), Some(idempotent), Some(open))
}

/// What a script in a sandbox of its own can touch.
fn reach_of_scripts(settings: &Settings) -> Reach {
    let writable = settings.mounts.iter().any(|mount| mount.access == Access::ReadWrite);
    if writable { Reach::Changing } else { Reach::Passing }
}

fn tool(name: &'static str, title: &str, description: &'static str, schema: serde_json::Value) -> Tool {
    let serde_json::Value::Object(schema) = schema else { unreachable!("schemas are written as objects") };
    Tool::new(name, description, schema).with_title(title)
}
