//! Errors of the protocol itself: what a client's maker reads.

use rmcp::ErrorData;
use rmcp::model::{ErrorCode, RequestId};

/// The server is doing as much as it can. From the range that JSON-RPC leaves to servers.
const BUSY: ErrorCode = ErrorCode(-32000);

/// A line that is no JSON text.
pub fn unreadable(line: &[u8], error: &serde_json::Error) -> ErrorData {
    let hint = if line.starts_with(b"Content-Length") {
        "; this server reads one message a line, without headers"
    } else {
        "; a message is one JSON object on one line"
    };
    ErrorData::parse_error(format!("the line is not JSON: {error}{hint}"), None)
}

/// A text that is not Unicode.
pub fn not_unicode() -> ErrorData {
    ErrorData::parse_error(
        "a string in the message is not valid Unicode (a lone surrogate such as \\ud800, or bytes that are not UTF-8); \
         replace it, or write it as an escape of the Python language",
        None,
    )
}

/// Several messages in one.
pub fn no_batches() -> ErrorData {
    ErrorData::invalid_request("batches are not supported; send one message a line", None)
}

/// JSON, but no message.
pub fn not_an_object() -> ErrorData {
    ErrorData::invalid_request("a message must be a JSON object", None)
}

/// Neither a request nor an answer.
pub fn no_method() -> ErrorData {
    ErrorData::invalid_request("the message has no `method`, or it is not a string", None)
}

/// Both a request and an answer.
pub fn request_and_answer() -> ErrorData {
    ErrorData::invalid_request(
        "the message has a `method` and a `result` or `error`; it must be one of them",
        None,
    )
}

/// Another protocol.
pub fn no_version() -> ErrorData {
    ErrorData::invalid_request("the message lacks \"jsonrpc\":\"2.0\"", None)
}

/// An id that cannot be answered.
pub fn unusable_id() -> ErrorData {
    ErrorData::invalid_request("the `id` must be a string or an integer of 64 bits", None)
}

/// A line over the limit.
pub fn line_too_long(limit: usize) -> ErrorData {
    let limit = crate::sandbox::limit::Bytes(limit as u64);
    ErrorData::invalid_request(
        format!("the line is longer than the limit of {limit}; send a shorter message"),
        None,
    )
}

/// Parameters of another shape.
pub fn wrong_params(method: &str, why: &str) -> ErrorData {
    ErrorData::invalid_params(format!("the parameters of `{method}` cannot be used: {why}"), None)
}

/// A request that comes too early.
pub fn not_initialized(method: &str) -> ErrorData {
    ErrorData::invalid_request(
        format!(
            "`{method}` came before `initialize`; send that first, or name the protocol version in the request's `_meta`"
        ),
        None,
    )
}

/// A second request with the id of one that is still being worked on.
pub fn duplicate_id(id: &RequestId) -> ErrorData {
    ErrorData::invalid_request(
        format!("a request with the id {id} is still in progress; use another id"),
        None,
    )
}

/// More than the server takes on.
pub fn too_many_calls() -> ErrorData {
    ErrorData::new(BUSY, "too many requests are in progress; wait for an answer before sending more", None)
}

/// A method that this server does not have.
pub fn unknown_method(method: &str) -> String {
    let method: String = method.chars().take(80).collect();
    format!("this server has no method `{method}`; it offers tools and resources only")
}

/// A tool that does not exist.
pub fn unknown_tool(name: &str, known: &[&str]) -> ErrorData {
    let name: String = name.chars().take(80).collect();
    ErrorData::invalid_params(format!("unknown tool `{name}`; the tools are {}", known.join(", ")), None)
}

/// A request whose client does not want it any more. Never sent.
pub fn cancelled() -> ErrorData {
    ErrorData::new(BUSY, "cancelled", None)
}
