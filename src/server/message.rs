//! One line to one message, or to the refusal that answers it. Pure.

use std::fmt;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientJsonRpcMessage, ClientRequest,
    ErrorData, Implementation, InitializeRequest, InitializeRequestParams, RequestId,
};
use serde::Deserialize;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value, json};

use super::reply;

/// What a line turned out to be.
#[derive(Debug)]
pub enum Incoming {
    /// A request or a notification.
    Message(Box<ClientJsonRpcMessage>),
    /// Nothing that could be carried out; the answer.
    Refused(Refusal),
    /// Nothing that wants an answer: a blank line, an answer to a question that was never asked.
    Ignored,
}

/// An error reply. Without an id where none can be known.
#[derive(Debug)]
pub struct Refusal {
    /// The request's id.
    pub id: Option<RequestId>,
    /// What is wrong with it.
    pub error: ErrorData,
}

impl Refusal {
    fn without_id(error: ErrorData) -> Incoming {
        Incoming::Refused(Self { id: None, error })
    }
}

/// Further methods that this server has: parameters of another shape are wrong parameters, not an unknown method.
const KNOWN_METHODS: &[&str] = &[
    "ping",
    "server/discover",
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];

/// Reads one line.
pub fn read(line: Vec<u8>) -> Incoming {
    let text = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line).trim_ascii();
    if text.is_empty() {
        return Incoming::Ignored;
    }
    let parsed = serde_json::from_slice::<Value>(text).map_err(|error| unreadable(text, &error));
    drop(line);
    match parsed {
        Ok(Value::Object(object)) => read_object(object),
        Ok(Value::Array(_)) => Refusal::without_id(reply::no_batches()),
        Ok(_) => Refusal::without_id(reply::not_an_object()),
        Err(refusal) => refusal,
    }
}

/// A line that is no JSON text. Where only a part of it cannot be kept (a string that is not Unicode, a number that is too
/// large, values nested too deeply), the id is still known.
fn unreadable(line: &[u8], error: &serde_json::Error) -> Incoming {
    match id_of_all(line) {
        Ok(id) if may_be_not_unicode(line) => Incoming::Refused(Refusal { id, error: reply::not_unicode() }),
        Ok(id) => Incoming::Refused(Refusal { id, error: reply::unreadable(line, error) }),
        Err(_) => Refusal::without_id(reply::unreadable(line, error)),
    }
}

/// Whether it holds other bytes than UTF-8, or an escape of half a character.
fn may_be_not_unicode(line: &[u8]) -> bool {
    let is_half = |bytes: &[u8]| bytes.eq_ignore_ascii_case(b"\\ud");
    std::str::from_utf8(line).is_err() || line.windows(3).any(is_half)
}

fn read_object(object: Map<String, Value>) -> Incoming {
    let id = match object.get("id").map(usable_id) {
        Some(None) => return Refusal::without_id(reply::unusable_id()),
        Some(Some(id)) => Some(id),
        None => None,
    };
    let refuse = |error| Incoming::Refused(Refusal { id: id.clone(), error });
    let answers = object.contains_key("result") || object.contains_key("error");
    let method = match object.get("method") {
        Some(Value::String(_)) if answers => return refuse(reply::request_and_answer()),
        Some(Value::String(method)) => method.clone(),
        None if answers => return Incoming::Ignored,
        _ => return refuse(reply::no_method()),
    };
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return refuse(reply::no_version());
    }
    match object.get("params") {
        None | Some(Value::Object(_)) => {}
        Some(_) if id.is_none() => return Incoming::Ignored,
        Some(_) => return refuse(reply::wrong_params(&method, "they must be an object")),
    }
    let Some(id) = id else { return notification(object) };
    request(id, &method, object)
}

fn notification(object: Map<String, Value>) -> Incoming {
    match ClientJsonRpcMessage::deserialize(Value::Object(object)) {
        Ok(message) => Incoming::Message(Box::new(message)),
        Err(_) => Incoming::Ignored,
    }
}

fn request(id: RequestId, method: &str, mut object: Map<String, Value>) -> Incoming {
    let mut params = || object.remove("params").unwrap_or_default();
    let request = match method {
        "initialize" => initialize(params()),
        "tools/call" => tool_call(params()),
        _ => other_request(method, object),
    };
    match request {
        Ok(request) => Incoming::Message(Box::new(ClientJsonRpcMessage::request(request, id))),
        Err(why) => Incoming::Refused(Refusal { id: Some(id), error: reply::wrong_params(method, &why) }),
    }
}

/// Straight to its type: the general way copies a large script several times.
fn tool_call(params: Value) -> Result<ClientRequest, String> {
    let mut params = CallToolRequestParams::deserialize(params).map_err(|error| error.to_string())?;
    let meta = params.meta.take();
    let mut request = CallToolRequest::new(params);
    request.extensions.insert(meta.unwrap_or_default());
    Ok(ClientRequest::CallToolRequest(request))
}

/// Only the version matters to this server: a client that describes itself or its capabilities in a shape of its own is
/// welcome.
fn initialize(mut params: Value) -> Result<ClientRequest, String> {
    if let Some(params) = params.as_object_mut() {
        let usable = |key: &str, check: fn(&Value) -> bool| params.get(key).is_some_and(check);
        let capabilities = usable("capabilities", |value| ClientCapabilities::deserialize(value).is_ok());
        let client = usable("clientInfo", |value| Implementation::deserialize(value).is_ok());
        if !capabilities {
            params.insert("capabilities".to_owned(), json!({}));
        }
        if !client {
            params.insert("clientInfo".to_owned(), json!({"name": "unknown", "version": ""}));
        }
    }
    let params = InitializeRequestParams::deserialize(params).map_err(|error| error.to_string())?;
    Ok(ClientRequest::InitializeRequest(InitializeRequest::new(params)))
}

fn other_request(method: &str, object: Map<String, Value>) -> Result<ClientRequest, String> {
    match ClientRequest::deserialize(Value::Object(object)) {
        Ok(ClientRequest::CustomRequest(_)) if KNOWN_METHODS.contains(&method) => {
            Err("they have the wrong shape".to_owned())
        }
        Ok(request) => Ok(request),
        Err(error) => Err(error.to_string()),
    }
}

/// An id as this protocol allows it: a string, or an integer of 64 bits.
fn usable_id(id: &Value) -> Option<RequestId> {
    match id {
        Value::String(text) => Some(RequestId::String(text.as_str().into())),
        Value::Number(number) => number.as_i64().map(RequestId::Number),
        _ => None,
    }
}

/// The answer to a line over the limit, with the id where it stands at the start or at the end of it.
pub fn too_long(head: &[u8], tail: &[u8], limit: usize) -> Refusal {
    let mut id = None;
    let _incomplete = Captured(&mut id).deserialize(&mut serde_json::Deserializer::from_slice(head));
    Refusal { id: id.or_else(|| id_at_end(tail)), error: reply::line_too_long(limit) }
}

/// The id of an object whose syntax is right to its end, whatever its strings hold.
fn id_of_all(line: &[u8]) -> serde_json::Result<Option<RequestId>> {
    let mut id = None;
    let mut input = serde_json::Deserializer::from_slice(line);
    Captured(&mut id).deserialize(&mut input)?;
    input.end()?;
    Ok(id)
}

/// Walks over an object and keeps its id as soon as it has gone by.
struct Captured<'a>(&'a mut Option<RequestId>);

impl<'de> DeserializeSeed<'de> for Captured<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Captured<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "id" {
                *self.0 = usable_id(&map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// The id as the last, or last but one, member of the outermost object: where several clients write it.
fn id_at_end(tail: &[u8]) -> Option<RequestId> {
    const KEY: &[u8] = b"\"id\"";
    let start = tail.windows(KEY.len()).rposition(|window| window == KEY)?;
    // A quote after a backslash stands inside a string; only a comma or the opening brace comes before a key.
    let before = tail[..start].trim_ascii_end().last()?;
    if !matches!(before, b',' | b'{') {
        return None;
    }
    let mut members = b"{".to_vec();
    members.extend_from_slice(&tail[start..]);
    id_of_all(members.trim_ascii()).ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(line: &[u8]) -> (i32, Option<String>, String) {
        match read(line.to_vec()) {
            Incoming::Refused(Refusal { id, error }) => {
                (error.code.0, id.map(|id| id.to_string()), error.message.into_owned())
            }
            other => panic!("{}: {other:?}", String::from_utf8_lossy(line)),
        }
    }

    #[test]
    fn lines_that_are_no_json_get_a_parse_error_without_an_id() {
        for line in [
            &b"this is not json"[..],
            b"{\"jsonrpc\":\"2.0\",\"id\":2,",
            b"\"method\":\"ping\"}",
            b"\xff\xfe not utf8",
            b"Content-Length: 10",
            b"{}{}",
        ] {
            let (code, id, _) = refusal(line);
            assert_eq!((code, id), (-32700, None), "{}", String::from_utf8_lossy(line));
        }
        assert!(refusal(b"Content-Length: 10").2.contains("one message a line"));
    }

    #[test]
    fn what_cannot_be_kept_is_named_and_refused_by_its_id() {
        let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        for (value, why) in [(deep.as_str(), "recursion limit"), ("1e999", "number out of range")] {
            let line = format!(r#"{{"jsonrpc":"2.0","method":"ping","params":{{"a":{value}}},"id":7}}"#);
            let (code, id, message) = refusal(line.as_bytes());
            assert_eq!((code, id.as_deref()), (-32700, Some("7")));
            assert!(message.contains(why) && !message.contains("Unicode"), "{message}");
        }
    }

    #[test]
    fn text_that_is_not_unicode_is_refused_by_its_id() {
        for script in [&b"\\ud800"[..], b"\\udc00\\ud800", b"\xff", b"\xed\xa0\x80"] {
            let mut line =
                br#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x","arguments":{"script":""#
                    .to_vec();
            line.extend_from_slice(script);
            line.extend_from_slice(br#""}},"id":7}"#);
            let (code, id, message) = refusal(&line);
            assert_eq!((code, id.as_deref()), (-32700, Some("7")));
            assert!(message.contains("Unicode"), "{message}");
        }
    }

    #[test]
    fn shapes_that_are_no_request_are_refused() {
        for (line, id) in [
            (&b"[]"[..], None),
            (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", None),
            (b"null", None),
            (b"7", None),
            (b"{}", None),
            (b"{\"id\":5}", Some("5")),
            (b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":7}", Some("5")),
            (b"{\"id\":5,\"method\":\"ping\"}", Some("5")),
            (b"{\"jsonrpc\":\"1.0\",\"id\":\"a\",\"method\":\"ping\"}", Some("a")),
            (b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\",\"result\":{}}", Some("5")),
        ] {
            let (code, found, _) = refusal(line);
            assert_eq!((code, found.as_deref()), (-32600, id), "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn ids_are_strings_and_integers() {
        for id in ["1", "-1", "0", "9223372036854775807", "\"\"", "\"a b\"", "\"1\""] {
            let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}");
            assert!(matches!(read(line.into_bytes()), Incoming::Message(_)), "{id} was refused");
        }
        for id in ["null", "true", "1.5", "1e3", "[]", "{}", "9223372036854775808"] {
            let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}");
            let (code, found, _) = refusal(line.as_bytes());
            assert_eq!((code, found), (-32600, None), "{id} was taken");
        }
    }

    #[test]
    fn wrong_parameters_of_a_known_method_are_named() {
        let (code, id, message) =
            refusal(br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":5}}"#);
        assert_eq!((code, id.as_deref()), (-32602, Some("1")));
        assert!(message.contains("initialize"), "{message}");
        let (code, _, message) = refusal(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#);
        assert_eq!(code, -32602);
        assert!(message.contains("tools/call"), "{message}");
        assert_eq!(refusal(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}"#).0, -32602);
    }

    #[test]
    fn blank_lines_and_answers_are_ignored() {
        for line in [&b""[..], b"  \t", b"\r", b"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}"] {
            assert!(matches!(read(line.to_vec()), Incoming::Ignored), "{}", String::from_utf8_lossy(line));
        }
        assert!(matches!(
            read(b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\"}\r".to_vec()),
            Incoming::Message(_)
        ));
    }

    #[test]
    fn the_id_of_an_overlong_line_is_found_at_either_end() {
        let id = |head: &str, tail: &str| {
            too_long(head.as_bytes(), tail.as_bytes(), 10).id.map(|id| id.to_string())
        };
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":4,"params":{"x":"aaa"#, "aaa\"}}").as_deref(), Some("4"));
        assert_eq!(
            id(r#"{"params":{"x":"aaa"#, "aaa\"}},\"jsonrpc\":\"2.0\",\"id\": \"q\"}\r").as_deref(),
            Some("q")
        );
        assert_eq!(
            id(r#"{"params":{"x":"aaa"#, "aaa\"}},\"id\":3,\"jsonrpc\":\"2.0\"}").as_deref(),
            Some("3")
        );
        // Inside a string, and inside the parameters: not the request's id.
        assert_eq!(id(r#"{"params":{"x":"aaa"#, r#"aaa \"id\":3}"#), None);
        assert_eq!(id(r#"{"params":{"x":"aaa"#, r#"aaa","id":3}}"#), None);
        assert_eq!(id(r#"{"params":{"id":9,"x":"aaa"#, "aaa\"}}"), None);
    }
}
