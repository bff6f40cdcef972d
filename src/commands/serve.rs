//! Without a subcommand: the MCP server on standard input and output, or over HTTP.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, OnceCell};
use tokio_util::io::{InspectReader, InspectWriter};

use super::{audit, close, engine_with, fail, sandbox};
use crate::audit::AuditLog;
use crate::execution::overview::Overview;
use crate::execution::validation::Validation;
use crate::execution::{
    Engine, Execute, ExecutionError, ExecutionReport, ExecutionRequest, FailureKind, ProgressSink, warm,
};
use crate::sandbox::BoxFuture;
use crate::sandbox::select::Choice;
use crate::sandbox::spec::Network;
use crate::server::{self, Services};
use crate::session::interpreter::Interpreter;
use crate::session::python::{EngineSource, LocalPython};
use crate::session::{InterpreterKind, Sessions};
use crate::settings::Settings;

/// Serves until the end of input or a signal.
pub async fn serve(
    settings: Settings,
    #[cfg(feature = "http")] http: crate::cli::http::HttpArgs,
) -> ExitCode {
    let audit = match audit(&settings) {
        Ok(audit) => audit,
        Err(error) => return fail(&error.to_string()),
    };
    let deferred =
        Arc::new(Deferred { settings: settings.clone(), engine: OnceCell::new(), audit: audit.clone() });
    let asked = settings.network == Network::Outbound && settings.network_choice == Choice::User;
    let demands =
        settings.require.is_some() || settings.seccomp_policy.is_some() || !settings.mounts.is_empty();
    if demands || settings.limits.cpu_percent.is_some() || asked {
        // A requirement is answered before anything else.
        if let Err(error) = deferred.engine().await {
            return fail(&error.message);
        }
    }
    let background = Arc::clone(&deferred);
    tokio::spawn(async move {
        if let Ok(engine) = background.engine().await {
            get_ready(engine).await;
        }
    });
    let asked_to_end = async {
        if let Err(error) = server::terminated().await {
            tracing::warn!("signals cannot be received, so they end the server at once: {error}");
            std::future::pending::<()>().await;
        }
    };
    let sessions = Some(sessions(&deferred, &settings));
    let services = Services { executor: deferred.clone(), sessions, audit };
    #[cfg(feature = "http")]
    let served = match http.http.clone() {
        Some(address) => super::http::serve(services, &settings, &address, http, asked_to_end).await,
        None => lines(services, &settings, asked_to_end).await,
    };
    #[cfg(not(feature = "http"))]
    let served = lines(services, &settings, asked_to_end).await;
    if let Some(engine) = deferred.engine.get() {
        close(engine.sandbox().as_ref()).await;
    }
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => fail(&message),
    }
}

/// One client, on standard input and output.
async fn lines(
    services: Services,
    settings: &Settings,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), String> {
    let stirred = Arc::new(Notify::new());
    let (read, written) = (Arc::clone(&stirred), Arc::clone(&stirred));
    let input = InspectReader::new(server::stdin(), move |_| read.notify_one());
    let output = InspectWriter::new(server::stdout(), move |_| written.notify_one());
    let resting = tokio::spawn(rest(stirred));
    let served = server::serve_all(services, settings, input, output, shutdown).await;
    resting.abort();
    served.map_err(|error| error.to_string())
}

/// How long nothing is read and nothing is written before a server counts as idle: longer than agents leave between calls
/// that belong together.
const IDLE: Duration = Duration::from_secs(1);

/// Whenever the server has become idle, gives back what it was only working with.
async fn rest(stirred: Arc<Notify>) {
    loop {
        stirred.notified().await;
        while tokio::time::timeout(IDLE, stirred.notified()).await.is_ok() {}
        give_back();
    }
}

fn give_back() {
    #[cfg(native)]
    if let Err(error) = crate::launcher::sys::own_file::give_back() {
        tracing::debug!("memory that is not needed now stays: {error}");
    }
}

/// What can be done before the first call: sandboxes that wait, and where that is wanted packages that are there.
async fn get_ready(engine: &Arc<Engine>) {
    if let Err(error) = engine.expect_calls().await {
        tracing::info!("nothing waits for the first call: {error}");
    }
    engine.environments().remove_left().await;
    give_back();
    warm::warm(Arc::clone(engine)).await;
}

/// Stateful sandboxes with the interpreter that was asked for.
fn sessions(engine: &Arc<Deferred>, settings: &Settings) -> Sessions {
    let wanted = &settings.sessions;
    let interpreter: Arc<dyn Interpreter> = match wanted.interpreter {
        InterpreterKind::Python => {
            Arc::new(LocalPython::new(Arc::clone(engine) as _, wanted.max_image_bytes))
        }
    };
    Sessions::new(interpreter, wanted.clone())
}

/// The engine while it comes up: the client's first request is answered before the sandbox has proved itself.
struct Deferred {
    settings: Settings,
    engine: OnceCell<Arc<Engine>>,
    audit: Option<Arc<AuditLog>>,
}

impl Deferred {
    async fn engine(&self) -> Result<&Arc<Engine>, ExecutionError> {
        let build = || async {
            let sandbox = sandbox(&self.settings).await?;
            if let (Some(audit), Ok(tier)) = (&self.audit, &sandbox.facts().tier) {
                audit.set_tier(*tier);
            }
            engine_with(self.settings.clone(), sandbox)
        };
        self.engine.get_or_try_init(build).await.map_err(|message: String| {
            tracing::error!("{message}");
            let (detail, notes) = (String::new(), Vec::new());
            ExecutionError { kind: FailureKind::Storage, message, detail, notes }
        })
    }
}

impl EngineSource for Deferred {
    fn engine(&self) -> BoxFuture<'_, Result<Arc<Engine>, ExecutionError>> {
        Box::pin(async move { Deferred::engine(self).await.cloned() })
    }
}

impl Execute for Deferred {
    fn execute(
        &self,
        request: ExecutionRequest,
        progress: ProgressSink,
    ) -> BoxFuture<'_, Result<ExecutionReport, ExecutionError>> {
        Box::pin(async move { self.engine().await?.execute(request, progress).await })
    }

    fn validate(&self, script: String, dependencies: Vec<String>) -> BoxFuture<'_, Validation> {
        Box::pin(async move {
            match self.engine().await {
                Ok(engine) => engine.validate(script, dependencies).await,
                Err(error) => Validation { syntax: format!("not checked: {error}"), ..Validation::default() },
            }
        })
    }

    fn overview(&self) -> BoxFuture<'_, Overview> {
        Box::pin(async move {
            match self.engine().await {
                Ok(engine) => engine.overview().await,
                Err(error) => Overview::unusable(&self.settings, &error.message),
            }
        })
    }
}
