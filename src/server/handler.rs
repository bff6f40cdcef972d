//! rmcp's callbacks: who we are, which tools there are, and the life of one tool call.

use std::sync::Arc;

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, Implementation,
    InitializeRequestParams, InitializeResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ResourceTemplate, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler};
use tokio_util::sync::CancellationToken;

use super::gate::Gate;
use super::outbox::Outbox;
use super::progress::{Channel, Reporter};
use super::reply;
use super::tools::{Call, Family};
use crate::audit::{AuditLog, Caller, Entry, Outcome};

/// How long a client of the stateless protocol may keep the list of tools: it does not change while the server runs.
const LIST_TTL_MS: u64 = 3_600_000;

/// Families, each with its tools, which never change.
type Offer = Vec<(Vec<Tool>, Box<dyn Family>)>;

/// The server as rmcp sees it. Clones serve the same tools, for several clients.
#[derive(Clone)]
pub struct Handler {
    families: Arc<Offer>,
    gate: Arc<Gate>,
    /// Where there is one client only.
    outbox: Option<Outbox>,
    closing: CancellationToken,
    audit: Option<Arc<AuditLog>>,
}

impl Handler {
    /// A handler that offers the tools of `families`, in that order, and drops every call when `closing` is cancelled.
    /// What it says beside answers goes to `outbox`, or else to the client that asks.
    pub fn new(
        families: Vec<Box<dyn Family>>,
        gate: Gate,
        outbox: Option<Outbox>,
        closing: CancellationToken,
    ) -> Self {
        let families = families.into_iter().map(|family| (family.tools(), family)).collect();
        Self { families: Arc::new(families), gate: Arc::new(gate), outbox, closing, audit: None }
    }

    /// The same, with calls written down.
    pub fn with_audit(self, audit: Option<Arc<AuditLog>>) -> Self {
        Self { audit, ..self }
    }

    fn reporter(&self, context: &RequestContext<RoleServer>) -> Reporter {
        let asker = || Channel::Peer(context.peer.clone());
        let channel = self.outbox.clone().map_or_else(asker, Channel::Lines);
        Reporter::new(context.meta.get_progress_token(), channel)
    }

    fn family(&self, tool: &str) -> Option<&dyn Family> {
        let (_, family) =
            self.families.iter().find(|(tools, _)| tools.iter().any(|known| known.name == tool))?;
        Some(family.as_ref())
    }

    fn instructions(&self) -> String {
        let served: Vec<&str> = self.tools().map(|tool| tool.name.as_ref()).collect();
        reply::describe::instructions(&served)
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        self.families.iter().flat_map(|(_, family)| family.templates()).collect()
    }

    fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.families.iter().flat_map(|(tools, _)| tools)
    }
}

/// Who asks, as far as the client says.
fn caller(context: &RequestContext<RoleServer>) -> Caller {
    Caller {
        client: context.client_info().map(|client| (client.name, client.version)),
        traceparent: context.meta.get_traceparent().map(str::to_owned),
    }
}

/// Completes when the client is known to be gone. Over standard input and output its end is the server's own.
async fn vanished(context: &RequestContext<RoleServer>) {
    #[cfg(feature = "http")]
    if let Some(vanished) = context
        .extensions
        .get::<hyper::http::request::Parts>()
        .and_then(|head| head.extensions.get::<super::http::Vanished>())
    {
        return vanished.wait().await;
    }
    let _ = context;
    std::future::pending::<()>().await;
}

fn outcome(result: &CallToolResult) -> Outcome {
    if result.is_error == Some(true) { Outcome::Failed } else { Outcome::Answered }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools();
        let capabilities = if self.templates().is_empty() {
            capabilities.build()
        } else {
            capabilities.enable_resources().build()
        };
        ServerConfig::new(capabilities)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
            .with_server_info(Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")))
            .with_instructions(self.instructions())
    }

    async fn initialize(
        &self,
        mut request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let answer = self.negotiate_initialize(&request)?;
        request.protocol_version = answer.protocol_version.clone();
        context.peer.set_peer_info(request);
        Ok(answer)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut list = ListToolsResult::with_all_items(self.tools().cloned().collect());
        if context.protocol_version().is_some_and(|version| !version.has_initialize()) {
            list.ttl_ms = Some(LIST_TTL_MS);
            list.cache_scope = Some(CacheScope::Private);
        }
        Ok(list)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(family) = self.family(&request.name) else {
            let known: Vec<_> = self.tools().map(|tool| tool.name.as_ref()).collect();
            return Err(reply::unknown_tool(&request.name, &known));
        };
        let reporter = self.reporter(&context);
        let arguments = request.arguments.unwrap_or_default();
        let entry = Entry::begin(self.audit.as_ref(), &request.name, caller(&context));
        entry.arguments(&arguments);
        let audit = &entry;
        let call = |progress| Call { tool: &request.name, arguments, gate: &self.gate, progress, audit };
        let work = reporter.during(|progress| family.call(call(progress)));
        // Leaving here drops the work, and that kills what it had started.
        let (outcome, result) = tokio::select! {
            biased;
            // No answer is sent to a request that was cancelled; this one goes nowhere.
            () = context.ct.cancelled() => (Outcome::Cancelled, Err(reply::cancelled())),
            result = work => (outcome(&result), Ok(result)),
            () = vanished(&context) => (Outcome::Dropped, Err(reply::cancelled())),
            () = self.closing.cancelled() => (Outcome::Dropped, Ok(reply::server_is_ending())),
        };
        let written = entry.end(outcome);
        result.map(|result| reply::written(result, written).into())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut resources = Vec::new();
        for (_, family) in self.families.iter() {
            resources.extend(family.resources().await);
        }
        Ok(ListResourcesResult::with_all_items(resources))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(self.templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let reading = self.families.iter().find_map(|(_, family)| family.read(&request.uri));
        let Some(reading) = reading else { return Err(reply::unknown_resource(&request.uri)) };
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Err(reply::cancelled()),
            result = reading => Ok(result?.into()),
            () = self.closing.cancelled() => Err(reply::cancelled()),
        }
    }
}
