//! The families of tools. A new family is a file beside `execute.rs` and a line in [`families`].

mod execute;
mod resources;
mod runs;
mod sandbox;

use rmcp::ErrorData;
use rmcp::model::{
    CallToolResult, JsonObject, ReadResourceResult, Resource, ResourceTemplate, Tool, ToolAnnotations,
};

use super::Services;
use crate::audit::Entry;
use crate::execution::ProgressSink;
use crate::sandbox::BoxFuture;
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
    if settings.tools.contains(&ToolFamily::Execute) {
        families.push(Box::new(execute::ExecuteTools::new(services.executor, settings)));
    }
    if let Some(sessions) = services.sessions.filter(|_| settings.tools.contains(&ToolFamily::Sandbox)) {
        families.push(Box::new(sandbox::SandboxTools::new(sessions, settings)));
    }
    families
}

/// What a tool can touch.
#[derive(Clone, Copy)]
enum Reach {
    /// It changes nothing and asks nobody.
    Reading,
    /// It changes a sandbox and nothing else.
    Sandbox,
    /// It runs code that may use the network; what it changes is thrown away.
    World,
}

fn annotations(reach: Reach) -> ToolAnnotations {
    let reading = matches!(reach, Reach::Reading);
    let world = matches!(reach, Reach::World);
    ToolAnnotations::from_raw(None, Some(reading), Some(false), Some(reading), Some(world))
}

fn tool(name: &'static str, title: &str, description: &'static str, schema: serde_json::Value) -> Tool {
    let serde_json::Value::Object(schema) = schema else { unreachable!("schemas are written as objects") };
    Tool::new(name, description, schema).with_title(title)
}
