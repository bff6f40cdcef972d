//! Tools and resources that the protocol's own test suite calls by name. Only in builds for that suite.

use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{
    CallToolResult, ContentBlock, ReadResourceResult, Resource, ResourceContents, ResourceTemplate, Tool,
};
use serde_json::{Value, json};

use crate::execution::Progress;
use crate::sandbox::BoxFuture;

use super::{Call, Family, Reach, annotations, tool};

/// A picture of one red point.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
/// A sound without a sample.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";
/// Between two steps of the tool that reports progress: more than the least time between two notifications.
const STEP: Duration = Duration::from_millis(600);

const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";
const BEFORE_ID: &str = "test://template/";
const AFTER_ID: &str = "/data";

/// The tools by name, and what the suite wants of each.
const TOOLS: [(&str, &str); 9] = [
    ("test_simple_text", "A text"),
    ("test_image_content", "A picture"),
    ("test_audio_content", "A sound"),
    ("test_embedded_resource", "A resource in the result"),
    ("test_multiple_content_types", "Text, picture and resource"),
    ("test_error_handling", "An error"),
    ("test_tool_with_progress", "Progress in three steps"),
    // This server does not log to its clients, and the suite looks whether it does.
    ("test_logging_tool", "A text, and no log"),
    ("json_schema_2020_12_tool", "A schema with every keyword"),
];

/// The family.
pub struct Fixtures;

fn resource(uri: &str, kind: &str, text: &str) -> ContentBlock {
    ContentBlock::resource(ResourceContents::text(text, uri).with_mime_type(kind))
}

fn content(tool: &str) -> Vec<ContentBlock> {
    let picture = || ContentBlock::image(PNG, "image/png");
    match tool {
        "test_image_content" => vec![picture()],
        "test_audio_content" => vec![ContentBlock::audio(WAV, "audio/wav")],
        "test_embedded_resource" => {
            vec![resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")]
        }
        "test_multiple_content_types" => vec![
            ContentBlock::text("Multiple content types test:"),
            picture(),
            resource("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
        ],
        _ => vec![ContentBlock::text("This is a simple text response for testing.")],
    }
}

async fn in_steps(call: Call<'_>) -> CallToolResult {
    for step in ["first", "second", "third", "last"] {
        (call.progress)(Progress::Output(step.to_owned()));
        tokio::time::sleep(STEP).await;
    }
    CallToolResult::success(vec![ContentBlock::text("done in three steps")])
}

fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

impl Family for Fixtures {
    fn tools(&self) -> Vec<Tool> {
        let made = |(name, description): (&'static str, &'static str)| {
            let schema = if name.starts_with("json") { schema() } else { json!({"type": "object"}) };
            tool(name, description, description, schema).with_annotations(annotations(Reach::Reading))
        };
        TOOLS.into_iter().map(made).collect()
    }

    fn resources(&self) -> BoxFuture<'_, Vec<Resource>> {
        let text = Resource::new(TEXT, "text").with_description("A text").with_mime_type("text/plain");
        let binary =
            Resource::new(BINARY, "picture").with_description("A picture").with_mime_type("image/png");
        Box::pin(std::future::ready(vec![text, binary]))
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        let template = format!("{BEFORE_ID}{{id}}{AFTER_ID}");
        vec![ResourceTemplate::new(template, "by number").with_description("A record by its number")]
    }

    fn read<'a>(&'a self, uri: &'a str) -> Option<BoxFuture<'a, Result<ReadResourceResult, ErrorData>>> {
        let id = uri.strip_prefix(BEFORE_ID).and_then(|rest| rest.strip_suffix(AFTER_ID));
        let contents = match (uri, id) {
            (TEXT, _) => ResourceContents::text("This is the content of the static text resource.", uri)
                .with_mime_type("text/plain"),
            (BINARY, _) => ResourceContents::blob(PNG, uri).with_mime_type("image/png"),
            (_, Some(id)) => {
                let record = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
                ResourceContents::text(record.to_string(), uri).with_mime_type("application/json")
            }
            _ => return None,
        };
        Some(Box::pin(std::future::ready(Ok(ReadResourceResult::new(vec![contents])))))
    }

    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, CallToolResult> {
        Box::pin(async move {
            match call.tool {
                "test_tool_with_progress" => in_steps(call).await,
                "test_error_handling" => {
                    let text = "This tool intentionally returns an error for testing";
                    CallToolResult::error(vec![ContentBlock::text(text)])
                }
                tool => CallToolResult::success(content(tool)),
            }
        })
    }
}
