//! `execute_python`, `check_environment` and `validate_script`: one script, one throw-away sandbox.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolResult, Tool};
use serde_json::json;

use crate::environment::PythonVersion;
use crate::execution::{Execute, ExecutionRequest, Progress};
use crate::sandbox::BoxFuture;
use crate::server::arguments::{ArgumentError, Arguments, Seconds};
use crate::server::reply;
use crate::settings::Settings;

use super::runs::Runs;
use super::{Call, Family, Reach, annotations, reach_of_scripts, tool};

const EXECUTE: &str = "execute_python";
const CHECK: &str = "check_environment";
const VALIDATE: &str = "validate_script";

/// The family.
pub struct ExecuteTools {
    executor: Arc<dyn Execute>,
    timeouts: Seconds,
    reach: Reach,
    max_output_bytes: usize,
    max_image_bytes: usize,
    runs: Arc<Runs>,
    python: PythonVersion,
}

impl ExecuteTools {
    /// Tools that hand their work to `executor` and files to `runs`.
    pub fn new(executor: Arc<dyn Execute>, runs: Arc<Runs>, settings: &Settings) -> Self {
        Self {
            executor,
            reach: reach_of_scripts(settings),
            timeouts: Seconds { default: settings.default_timeout, max: settings.max_timeout },
            max_output_bytes: settings.max_output_bytes,
            max_image_bytes: settings.sessions.max_image_bytes,
            runs,
            python: settings.python.unwrap_or(PythonVersion::DEFAULT),
        }
    }

    async fn execute(&self, call: Call<'_>) -> Result<CallToolResult, ArgumentError> {
        let known = &["script", "dependencies", "timeout_seconds", "python_version"];
        let mut arguments = Arguments::new(EXECUTE, call.arguments, known)?;
        let script = arguments.text("script")?;
        let dependencies = arguments.list("dependencies")?;
        let (timeout, lowered) = arguments.seconds("timeout_seconds", self.timeouts)?;
        let python = arguments.python_version("python_version")?;
        let request =
            ExecutionRequest { script, dependencies, python, timeout: Duration::from_secs(timeout) };
        (call.progress)(Progress::Queued);
        let _place = match call.gate.enter().await {
            Ok(place) => place,
            Err(busy) => return Ok(reply::failure(&busy)),
        };
        let mut result = self.executor.execute(request, call.progress).await;
        call.audit.run(&result);
        if let Some(note) = lowered {
            match &mut result {
                Ok(report) => report.notes.push(note),
                Err(error) => error.notes.push(note),
            }
        }
        Ok(match result {
            Ok(mut report) => {
                let streams = reply::streams(&report.stdout, &report.stderr, self.max_output_bytes);
                // What is left out of the text is named before what the script left.
                report.output.splice(0..0, streams.files());
                let run = self.runs.keep(&report.output);
                reply::report(&report, &streams, run, self.max_image_bytes)
            }
            Err(error) => reply::failure(&error),
        })
    }

    async fn validate(&self, call: Call<'_>) -> Result<CallToolResult, ArgumentError> {
        let mut arguments = Arguments::new(VALIDATE, call.arguments, &["script", "dependencies"])?;
        let script = arguments.text("script")?;
        let dependencies = arguments.list("dependencies")?;
        Ok(reply::validation(&self.executor.validate(script, dependencies).await, self.python))
    }

    async fn check(&self, call: Call<'_>) -> Result<CallToolResult, ArgumentError> {
        Arguments::new(CHECK, call.arguments, &[])?;
        Ok(reply::overview(&self.executor.overview().await))
    }
}

impl Family for ExecuteTools {
    fn tools(&self) -> Vec<Tool> {
        let dependencies = json!({"type": "array", "items": {"type": "string"}});
        let execute = json!({
            "type": "object",
            "properties": {
                "script": {"type": "string"},
                "dependencies": dependencies,
                "timeout_seconds": {"type": "integer", "default": self.timeouts.default, "maximum": self.timeouts.max},
                "python_version": {"type": "string"},
            },
            "required": ["script"],
        });
        let validate = json!({
            "type": "object",
            "properties": {"script": {"type": "string"}, "dependencies": dependencies},
            "required": ["script"],
        });
        vec![
            tool(EXECUTE, "Run Python", reply::describe::EXECUTE, execute)
                .with_annotations(annotations(self.reach)),
            tool(CHECK, "Environment", reply::describe::CHECK, json!({"type": "object"}))
                .with_annotations(annotations(Reach::Reading)),
            tool(VALIDATE, "Validate script", reply::describe::VALIDATE, validate)
                .with_annotations(annotations(Reach::Reading)),
        ]
    }

    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, CallToolResult> {
        Box::pin(async move {
            let audit = call.audit;
            let result = match call.tool {
                EXECUTE => self.execute(call).await,
                VALIDATE => self.validate(call).await,
                _ => self.check(call).await,
            };
            result.unwrap_or_else(|error| {
                audit.failure(reply::WRONG_ARGUMENTS);
                reply::wrong_arguments(&error)
            })
        })
    }
}
