//! The server for the protocol's own test suite: its fixture tools beside the real ones, over HTTP, without a token. It
//! runs no script. Prints its address, and ends with its standard input.

use std::sync::Arc;

use clap::Parser;
use mcp_python_exec_sandbox::cli::Cli;
use mcp_python_exec_sandbox::execution::overview::Overview;
use mcp_python_exec_sandbox::execution::validation::Validation;
use mcp_python_exec_sandbox::execution::{
    Execute, ExecutionError, ExecutionReport, ExecutionRequest, FailureKind, ProgressSink,
};
use mcp_python_exec_sandbox::sandbox::BoxFuture;
use mcp_python_exec_sandbox::server::http::{self, Address, Bounds, Guard, Listener};
use mcp_python_exec_sandbox::server::{self, Services};
use mcp_python_exec_sandbox::settings::Settings;
use tokio::io::AsyncReadExt;

/// Runs nothing: the suite calls the fixture tools only.
struct Nothing(Settings);

impl Execute for Nothing {
    fn execute(
        &self,
        _request: ExecutionRequest,
        _progress: ProgressSink,
    ) -> BoxFuture<'_, Result<ExecutionReport, ExecutionError>> {
        let message = "this server is for the protocol's tests; it runs no script".to_owned();
        let error =
            ExecutionError { kind: FailureKind::Storage, message, detail: String::new(), notes: Vec::new() };
        Box::pin(std::future::ready(Err(error)))
    }

    fn validate(&self, _script: String, _dependencies: Vec<String>) -> BoxFuture<'_, Validation> {
        Box::pin(std::future::ready(Validation::default()))
    }

    fn overview(&self) -> BoxFuture<'_, Overview> {
        Box::pin(std::future::ready(Overview::unusable(&self.0, "this server is for the protocol's tests")))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let settings = Cli::try_parse_from(["conformance", "--tools", "execute"])?.options.settings()?;
    let listener = Listener::bind(&"0".parse::<Address>()?).await?;
    eprintln!("{}{}", listener.address(), http::PATH);
    let executor = Arc::new(Nothing(settings.clone()));
    let services = Services { executor, sessions: None, audit: None };
    let end_of_input = async {
        let mut input = server::stdin();
        let mut buffer = [0; 64];
        while input.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
    };
    http::serve(services, &settings, listener, Guard::without_token(), Bounds::default(), end_of_input).await;
    Ok(())
}
