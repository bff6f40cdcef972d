//! Serving over HTTP: who is turned away, what one client may take, and that the tools are the same.

mod server;

use std::sync::Arc;
use std::time::Duration;

use mcp_python_exec_sandbox::server::Services;
use mcp_python_exec_sandbox::server::http::{self, Address, Bounds, Guard, Listener, Token};
use serde_json::{Value, json};
use server::{Fake, settings};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const TOKEN: &str = "a token for tests only";
const PATIENCE: Duration = Duration::from_secs(50);

/// A server with a pretended executor.
struct Server {
    fake: Arc<Fake>,
    address: Address,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<()>,
}

fn token() -> String {
    TOKEN.replace(' ', "-")
}

fn bounds() -> Bounds {
    Bounds { body_bytes: 1 << 20, ..Bounds::default() }
}

impl Server {
    async fn start() -> Self {
        Self::with(bounds(), &"0".parse().expect("a port")).await
    }

    async fn with(bounds: Bounds, address: &Address) -> Self {
        let fake = Arc::new(Fake::default());
        let listener = Listener::bind(address).await.unwrap_or_else(|error| panic!("{error}"));
        let address = listener.address().clone();
        let token = Token::new(&token()).unwrap_or_else(|error| panic!("{error}"));
        let guard = Guard::new(token, Vec::new(), Vec::new());
        let services = Services { executor: fake.clone(), sessions: None, audit: None };
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(async move {
            let shutdown = async { drop(stopped.await) };
            http::serve(services, &settings(), listener, guard, bounds, shutdown).await;
        });
        Self { fake, address, stop: Some(stop), served }
    }

    /// The connection of a call that does not end.
    async fn hanging(&self, id: i64, session: &str) -> TcpStream {
        let mut stream = self.connect().await;
        stream
            .write_all(&Request::run(id, "hang").set("mcp-session-id", session).bytes())
            .await
            .expect("sent");
        stream
    }

    /// Waits until so many calls run.
    async fn running(&self, number: usize) {
        let wanted = async {
            while self.fake.running() != number {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wanted).await.expect("calls begin and end");
    }

    async fn connect(&self) -> TcpStream {
        let Address::Tcp(address) = &self.address else { panic!("no TCP address") };
        TcpStream::connect(address).await.expect("the server listens")
    }

    /// One request on a connection of its own.
    async fn send(&self, request: &Request) -> Reply {
        let mut stream = self.connect().await;
        stream.write_all(&request.bytes()).await.expect("sent");
        reply(&mut stream).await
    }

    /// A handshake; the session's id.
    async fn session(&self) -> String {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let answer = self.send(&Request::call(1, "initialize", &params)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.message(1)["result"]["serverInfo"]["name"], "mcp-python-exec-sandbox");
        let session = answer.header("mcp-session-id").expect("a session").to_owned();
        let mut told = Request::post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        told.set("mcp-session-id", &session);
        assert_eq!(self.send(&told).await.status, 202);
        session
    }

    async fn end(mut self) {
        let _gone = self.stop.take().expect("ended once").send(());
        tokio::time::timeout(PATIENCE, self.served)
            .await
            .expect("the server does not end")
            .expect("no panic");
    }
}

/// A request that is right until a test changes it.
struct Request {
    start: &'static str,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn post(message: &Value) -> Self {
        Self::raw("POST /mcp HTTP/1.1", message.to_string().into_bytes())
    }

    fn raw(start: &'static str, body: Vec<u8>) -> Self {
        let mut request = Self { start, headers: Vec::new(), body };
        request.set("host", "localhost");
        request.set("authorization", &format!("Bearer {}", token()));
        request.set("accept", "application/json, text/event-stream");
        request.set("content-type", "application/json");
        request.set("content-length", &request.body.len().to_string());
        request.set("connection", "close");
        request
    }

    fn call(id: i64, method: &str, params: &Value) -> Self {
        Self::post(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    }

    fn run(id: i64, script: &str) -> Self {
        Self::call(id, "tools/call", &json!({"name": "execute_python", "arguments": {"script": script}}))
    }

    fn set(&mut self, name: &str, value: &str) -> &mut Self {
        self.headers.retain(|(known, _)| known != name);
        if !value.is_empty() {
            self.headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    fn head(&self) -> String {
        let lines = self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let headers = lines.collect::<Vec<_>>().concat();
        format!("{}\r\n{headers}\r\n", self.start)
    }

    fn bytes(&self) -> Vec<u8> {
        [self.head().as_bytes(), &self.body].concat()
    }
}

/// An answer, read to the end of its connection.
#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Every message in the body, whether it is one or a stream of them.
    fn messages(&self) -> Vec<Value> {
        let lines = self.body.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
        lines.filter_map(|line| serde_json::from_str::<Value>(line).ok()).filter(Value::is_object).collect()
    }

    /// The answer to `id`.
    fn message(&self, id: i64) -> Value {
        let found = self.messages().into_iter().find(|message| message["id"] == id);
        found.unwrap_or_else(|| panic!("no answer to {id} in {self:?}"))
    }
}

async fn reply(stream: &mut (impl AsyncRead + Unpin)) -> Reply {
    let mut bytes = Vec::new();
    let read =
        tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("the server is silent");
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {read:?} {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Reply { status: status.expect("a status"), head: head.to_owned(), body: body.to_owned() }
}

#[tokio::test]
async fn tools_are_listed_and_called_by_several_clients() {
    let server = Server::start().await;
    let (one, two) = (server.session().await, server.session().await);
    assert_ne!(one, two);
    for session in [&one, &two] {
        let list =
            server.send(Request::call(2, "tools/list", &json!({})).set("mcp-session-id", session)).await;
        assert_eq!(list.message(2)["result"]["tools"][0]["name"], "execute_python");
        let called = server.send(Request::run(3, "x").set("mcp-session-id", session)).await;
        assert!(
            called.message(3)["result"]["content"][0]["text"]
                .as_str()
                .is_some_and(|text| text.contains("hi"))
        );
    }
    // One client's end is not the other's.
    let mut end = Request::raw("DELETE /mcp HTTP/1.1", Vec::new());
    assert!(server.send(end.set("mcp-session-id", &one)).await.status < 300);
    assert_eq!(server.send(Request::run(4, "x").set("mcp-session-id", &one)).await.status, 404);
    assert_eq!(server.send(Request::run(5, "x").set("mcp-session-id", &two)).await.status, 200);
    server.end().await;
}

#[tokio::test]
async fn the_stateless_protocol_needs_no_session() {
    let server = Server::start().await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let mut call = Request::call(
        1,
        "tools/call",
        &json!({"name": "execute_python", "arguments": {"script": "x"}, "_meta": meta}),
    );
    call.set("mcp-protocol-version", "2026-07-28")
        .set("mcp-method", "tools/call")
        .set("mcp-name", "execute_python");
    let called = server.send(&call).await;
    assert_eq!((called.status, &called.message(1)["result"]["isError"]), (200, &json!(false)), "{called:?}");
    assert_eq!(called.header("mcp-session-id"), None);
    server.end().await;
}

#[tokio::test]
async fn progress_comes_on_the_stream_of_its_call() {
    let server = Server::start().await;
    let session = server.session().await;
    let params = json!({"name": "execute_python", "arguments": {"script": "lines 1200"}, "_meta": {"progressToken": "t"}});
    let answer = server.send(Request::call(2, "tools/call", &params).set("mcp-session-id", &session)).await;
    let messages = answer.messages();
    let last = messages.last().expect("messages");
    assert_eq!(last["id"], 2, "the result is not the last message: {last}");
    let told: Vec<_> =
        messages.iter().filter(|message| message["method"] == "notifications/progress").collect();
    assert!((1..=40).contains(&told.len()), "{} notifications", told.len());
    assert!(told[0]["params"]["message"].as_str().is_some_and(|text| text.contains("row ")), "{}", told[0]);
    server.end().await;
}

#[tokio::test]
async fn whoever_has_no_token_runs_nothing() {
    let server = Server::start().await;
    let wrong = token().replace("tests", "texts");
    for shown in
        ["", "Bearer", "Bearer x", "Basic YTpi", &format!("Bearer {wrong}"), &format!("Bearer {}x", token())]
    {
        let refused = server.send(Request::run(1, "x").set("authorization", shown)).await;
        assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Bearer")), "{shown}");
        assert!(!refused.body.contains(&token()), "the answer gives the token away");
    }
    assert_eq!(
        server.send(Request::raw("GET /mcp HTTP/1.1", Vec::new()).set("authorization", "")).await.status,
        401
    );
    assert_eq!(server.fake.requests(), []);
    server.end().await;
}

#[tokio::test]
async fn web_pages_of_others_and_rebound_names_are_turned_away() {
    let server = Server::start().await;
    for (name, value) in [
        ("host", "evil.example"),
        ("host", "localhost.evil.example:80"),
        ("host", "10.1.2.3"),
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("origin", "http://localhost:3000"),
    ] {
        let refused = server.send(Request::run(1, "x").set(name, value)).await;
        assert_eq!(refused.status, 403, "{name}: {value}: {refused:?}");
        let mut health = Request::raw("GET /health HTTP/1.1", Vec::new());
        assert_eq!(server.send(health.set(name, value)).await.status, 403, "{name}: {value}");
    }
    // No Host at all is no HTTP/1.1 request.
    assert!((400..404).contains(&server.send(Request::run(1, "x").set("host", "")).await.status));
    assert_eq!(server.fake.requests(), []);
    server.end().await;
}

#[tokio::test]
async fn health_is_told_without_a_token_and_nothing_else() {
    let server = Server::start().await;
    let mut health = Request::raw("GET /health HTTP/1.1", Vec::new());
    let answer = server.send(health.set("authorization", "")).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "ok\n"));
    for start in
        ["POST /health HTTP/1.1", "GET / HTTP/1.1", "GET /mcp/../health HTTP/1.1", "OPTIONS * HTTP/1.1"]
    {
        assert_eq!(server.send(&Request::raw(start, Vec::new())).await.status, 404, "{start}");
    }
    assert_eq!(server.send(&Request::raw("PUT /mcp HTTP/1.1", Vec::new())).await.status, 405);
    server.end().await;
}

#[tokio::test]
async fn bodies_over_the_limit_are_refused_before_they_are_read() {
    let server = Server::start().await;
    // Said in advance: the body is not waited for.
    let mut said = Request::run(1, "x");
    said.set("content-length", "999999999999");
    said.body.clear();
    assert_eq!(server.send(&said).await.status, 413);
    // Not said: refused as soon as it is more.
    let mut chunked = Request::run(1, "x");
    chunked.set("content-length", "").set("transfer-encoding", "chunked");
    let mut stream = server.connect().await;
    stream.write_all(chunked.head().as_bytes()).await.expect("sent");
    let (mut reading, mut writing) = stream.split();
    let chunk = [b"10000\r\n".as_slice(), &vec![b' '; 0x10000], b"\r\n"].concat();
    let mut sent = 0;
    let flood = async {
        while writing.write_all(&chunk).await.is_ok() {
            sent += chunk.len();
        }
    };
    let mut start = [0; 12];
    let refused = async {
        // A connection that is cut while this side still writes may lose its answer on the way.
        let answered = reading.read_exact(&mut start).await;
        assert!(answered.is_err() || &start == b"HTTP/1.1 413", "{start:?}");
    };
    tokio::time::timeout(PATIENCE, async { tokio::join!(flood, refused) }).await.expect("it is cut off");
    assert!(sent < 64 << 20, "{sent} bytes were taken");
    // Without the token nothing of it is read.
    let refused = server.send(said.set("authorization", "")).await;
    assert_eq!(refused.status, 401);
    // A large script still fits.
    let session = server.session().await;
    let script = format!("#{}", "x".repeat(900_000));
    assert_eq!(server.send(Request::run(2, &script).set("mcp-session-id", &session)).await.status, 200);
    assert_eq!(server.fake.requests().len(), 1);
    server.end().await;
}

#[tokio::test]
async fn bodies_that_are_no_message_are_answered() {
    let server = Server::start().await;
    let session = server.session().await;
    for (body, status, code) in [
        (&b"this is not json"[..], 400, -32700),
        (b"\xff\xfe", 400, -32700),
        (b"[]", 400, -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", 400, -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":5}", 400, -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"tools/call\",\"params\":{\"name\":5}}", 200, -32602),
        (b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"nothing/here\"}", 200, -32601),
    ] {
        let mut request = Request::raw("POST /mcp HTTP/1.1", body.to_vec());
        let answer = server.send(request.set("mcp-session-id", &session)).await;
        let shown = String::from_utf8_lossy(body);
        let codes: Vec<_> =
            answer.messages().iter().filter_map(|error| error["error"]["code"].as_i64()).collect();
        assert_eq!((answer.status, codes), (status, vec![code]), "{shown}: {answer:?}");
    }
    for session in ["", "no-such-session"] {
        let answer = server.send(Request::run(1, "x").set("mcp-session-id", session)).await;
        assert!((400..=422).contains(&answer.status), "{answer:?}");
    }
    for (name, value) in
        [("content-type", "text/plain"), ("accept", "text/html"), ("mcp-protocol-version", "1999-01-01")]
    {
        let answer = server.send(Request::run(1, "x").set("mcp-session-id", &session).set(name, value)).await;
        assert!((400..=415).contains(&answer.status), "{name}: {answer:?}");
    }
    assert_eq!(server.fake.requests(), []);
    server.end().await;
}

#[tokio::test]
async fn bytes_that_are_no_request_end_their_connection_only() {
    let server = Server::start().await;
    let long = format!("GET /mcp HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(1 << 20));
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01"[..],
        b"hello\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        long.as_bytes(),
    ] {
        let mut stream = server.connect().await;
        let _cut = stream.write_all(bytes).await;
        let _cut = stream.shutdown().await;
        let mut answer = Vec::new();
        let _cut = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("it ends");
        assert!(
            !String::from_utf8_lossy(&answer).contains(" 200 "),
            "{:?}",
            String::from_utf8_lossy(&answer)
        );
    }
    server.session().await;
    server.end().await;
}

#[tokio::test]
async fn slow_requests_are_cut_off() {
    let bounds = Bounds { head: Duration::from_millis(400), body: Duration::from_millis(400), ..bounds() };
    let server = Server::with(bounds, &"0".parse().expect("a port")).await;
    // A head that drips, one that never starts, and a body that never comes.
    let mut dripping = server.connect().await;
    let silent = server.connect().await;
    let mut request = Request::run(1, "x");
    request.body.clear();
    let mut half = server.connect().await;
    half.write_all(&request.bytes()).await.expect("sent");
    let before = tokio::time::Instant::now();
    let drip = async {
        for byte in request.head().bytes() {
            if dripping.write_all(&[byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the whole head was taken, in {:?}", before.elapsed());
    };
    let ends = async {
        assert_eq!(reply(&mut half).await.status, 408);
        let mut rest = Vec::new();
        let (mut silent, _) = silent.into_split();
        let _cut = silent.read_to_end(&mut rest).await;
    };
    tokio::time::timeout(PATIENCE, async { tokio::join!(drip, ends) }).await.expect("all are cut off");
    server.session().await;
    server.end().await;
}

#[tokio::test]
async fn a_thousand_silent_connections_keep_nobody_out() {
    let bounds = Bounds { connections: 20, ..bounds() };
    let server = Server::with(bounds, &"0".parse().expect("a port")).await;
    let session = server.session().await;
    let mut strangers = Vec::new();
    for number in 0..1000 {
        let mut stream = server.connect().await;
        let _cut = stream.write_all(b"POST /mcp HTTP/1.1\r\n").await;
        // As many stay open on this side as descriptors are ordinarily allowed.
        strangers.push(stream);
        if strangers.len() > 300 {
            strangers.remove(0);
        }
        if number % 100 == 0 {
            let answer = server.send(Request::run(number, "x").set("mcp-session-id", &session)).await;
            assert_eq!(answer.status, 200, "after {number} connections");
        }
    }
    // A client at work is never the one that goes.
    let _working = server.hanging(5000, &session).await;
    server.fake.until("the call runs", |fake| fake.running() == 1).await;
    for _ in 0..100 {
        strangers.push(server.connect().await);
    }
    server.session().await;
    assert_eq!(server.fake.running(), 1);
    server.end().await;
}

#[tokio::test]
async fn sessions_are_bounded() {
    let bounds = Bounds { sessions: 3, ..bounds() };
    let server = Server::with(bounds, &"0".parse().expect("a port")).await;
    let first = server.session().await;
    for _ in 0..2 {
        server.session().await;
    }
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    assert_eq!(server.send(&Request::call(1, "initialize", &params)).await.status, 503);
    let mut end = Request::raw("DELETE /mcp HTTP/1.1", Vec::new());
    server.send(end.set("mcp-session-id", &first)).await;
    server.session().await;
    server.end().await;
}

#[tokio::test]
async fn cancelling_ends_the_call() {
    let server = Server::start().await;
    let session = server.session().await;
    let _call = server.hanging(7, &session).await;
    server.fake.until("the call runs", |fake| fake.running() == 1).await;
    let mut cancel = Request::post(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}),
    );
    assert_eq!(server.send(cancel.set("mcp-session-id", &session)).await.status, 202);
    server.fake.until("the call is dropped", |fake| fake.running() == 0).await;
    server.end().await;
}

#[tokio::test]
async fn the_call_of_a_client_that_vanished_is_ended() {
    let bounds = Bounds { absence: Duration::from_millis(300), ..bounds() };
    let server = Server::with(bounds, &"0".parse().expect("a port")).await;
    let (here, vanished) = (server.session().await, server.session().await);
    let kept = server.hanging(7, &here).await;
    let lost = server.hanging(7, &vanished).await;
    server.running(2).await;
    drop(lost);
    server.running(1).await;
    // Another stream of its session shows that this one's client is there.
    let other = server.hanging(8, &here).await;
    server.running(2).await;
    drop(kept);
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!(server.fake.running(), 2, "its client was there");
    drop(other);
    server.running(0).await;
    server.end().await;
}

#[tokio::test]
async fn a_call_without_a_session_ends_with_its_connection() {
    let server = Server::start().await;
    let mut stream = server.connect().await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let call = json!({"name": "execute_python", "arguments": {"script": "hang"}, "_meta": meta});
    let mut request = Request::call(1, "tools/call", &call);
    request
        .set("mcp-protocol-version", "2026-07-28")
        .set("mcp-method", "tools/call")
        .set("mcp-name", "execute_python");
    stream.write_all(&request.bytes()).await.expect("sent");
    server.running(1).await;
    drop(stream);
    server.running(0).await;
    server.end().await;
}

#[tokio::test]
async fn being_told_to_stop_answers_calls_and_ends() {
    let server = Server::start().await;
    let session = server.session().await;
    let mut stream = server.hanging(7, &session).await;
    let mut news = server.connect().await;
    let mut listen = Request::raw("GET /mcp HTTP/1.1", Vec::new());
    news.write_all(&listen.set("mcp-session-id", &session).bytes()).await.expect("sent");
    server.fake.until("the call runs", |fake| fake.running() == 1).await;
    let (fake, address) = (server.fake.clone(), server.address.clone());
    let ((), answer) = tokio::join!(server.end(), reply(&mut stream));
    assert_eq!(answer.message(7)["result"]["structuredContent"]["error"], "cancelled", "{answer:?}");
    assert_eq!(fake.running(), 0);
    let Address::Tcp(address) = address else { panic!("no TCP address") };
    assert!(TcpStream::connect(address).await.is_err(), "it still listens");
}

#[tokio::test]
async fn a_socket_file_serves_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let server = Server::with(bounds(), &Address::Unix(path.clone())).await;
    let initialize = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    for request in
        [Request::raw("GET /health HTTP/1.1", Vec::new()), Request::call(1, "initialize", &initialize)]
    {
        let mut stream = UnixStream::connect(&path).await.expect("the server listens");
        write_to(&mut stream, &request).await;
        let answer = reply(&mut stream).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let mut stream = UnixStream::connect(&path).await.expect("the server listens");
    write_to(&mut stream, Request::run(1, "x").set("authorization", "")).await;
    assert_eq!(reply(&mut stream).await.status, 401);
    server.end().await;
    assert!(!path.exists(), "the socket file stays");
}

async fn write_to(stream: &mut (impl AsyncWrite + Unpin), request: &Request) {
    stream.write_all(&request.bytes()).await.expect("sent");
}
