//! The families of tools. A new family is a file beside `execute.rs` and a line in [`families`].

mod execute;

use std::sync::Arc;

use rmcp::model::{CallToolResult, JsonObject, Tool};

use crate::execution::{Execute, ProgressSink};
use crate::sandbox::BoxFuture;
use crate::server::gate::Gate;
use crate::settings::Settings;

/// Tools that belong together.
pub trait Family: Send + Sync {
    /// What they are, as clients see them, in a fixed order.
    fn tools(&self) -> Vec<Tool>;

    /// Carries one call out; only asked for a tool that it named. Dropping the future ends what it had started.
    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, CallToolResult>;
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
}

/// All families, in the order in which clients see them.
pub fn families(executor: Arc<dyn Execute>, settings: &Settings) -> Vec<Box<dyn Family>> {
    vec![Box::new(execute::ExecuteTools::new(executor, settings))]
}
