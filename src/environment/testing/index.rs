//! A package index on loopback that serves wheels which are made here.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How the index answers.
#[derive(Clone, Copy, Debug)]
pub enum Behaviour {
    /// To everyone.
    Open,
    /// Not at all.
    Silent,
    /// To this user with this password.
    Password(&'static str, &'static str),
}

/// A pure-Python wheel with one module and one console script.
#[derive(Clone, Debug)]
pub struct Wheel {
    name: String,
    version: String,
    requires: Vec<String>,
    files: BTreeMap<String, String>,
}

impl Wheel {
    pub fn new(name: &str, version: &str) -> Self {
        let module = format!("VERSION = {version:?}\ndef main():\n    print({name:?}, VERSION)\n");
        let files = BTreeMap::from([(format!("{name}.py"), module)]);
        Self { name: name.to_owned(), version: version.to_owned(), requires: Vec::new(), files }
    }

    pub fn needs(mut self, requirement: &str) -> Self {
        self.requires.push(requirement.to_owned());
        self
    }

    pub fn file(mut self, name: &str, content: &str) -> Self {
        self.files.insert(name.to_owned(), content.to_owned());
        self
    }

    fn file_name(&self) -> String {
        format!("{}-{}-py3-none-any.whl", self.name, self.version)
    }

    fn bytes(&self) -> Vec<u8> {
        let info = format!("{}-{}.dist-info", self.name, self.version);
        let mut files = self.files.clone();
        let mut metadata = format!("Metadata-Version: 2.1\nName: {}\nVersion: {}\n", self.name, self.version);
        for requirement in &self.requires {
            let _ = writeln!(metadata, "Requires-Dist: {requirement}");
        }
        let wheel = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
        files.insert(format!("{info}/METADATA"), metadata);
        files.insert(format!("{info}/WHEEL"), wheel.to_owned());
        files.insert(
            format!("{info}/entry_points.txt"),
            format!("[console_scripts]\n{0} = {0}:main\n", self.name),
        );
        let mut record = format!("{info}/RECORD,,\n");
        for name in files.keys() {
            let _ = writeln!(record, "{name},,");
        }
        files.insert(format!("{info}/RECORD"), record);
        zip(&files)
    }
}

/// An archive whose files are stored as they are.
fn zip(files: &BTreeMap<String, String>) -> Vec<u8> {
    let (mut body, mut directory) = (Vec::new(), Vec::new());
    let short = |value: usize| u16::try_from(value).expect("small").to_le_bytes();
    let long = |value: usize| u32::try_from(value).expect("small").to_le_bytes();
    for (name, content) in files {
        let offset = body.len();
        let mut common = Vec::new();
        common.extend([20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0x54]);
        common.extend(crc32(content.as_bytes()).to_le_bytes());
        common.extend(long(content.len()));
        common.extend(long(content.len()));
        common.extend(short(name.len()));
        common.extend([0, 0]);
        body.extend(b"PK\x03\x04");
        body.extend(&common);
        body.extend(name.as_bytes());
        body.extend(content.as_bytes());
        directory.extend(b"PK\x01\x02\x14\x03");
        directory.extend(&common);
        directory.extend([0; 6]);
        directory.extend((0o100_644_u32 << 16).to_le_bytes());
        directory.extend(long(offset));
        directory.extend(name.as_bytes());
    }
    let start = body.len();
    let size = directory.len();
    body.extend(directory);
    body.extend(b"PK\x05\x06\0\0\0\0");
    body.extend(short(files.len()));
    body.extend(short(files.len()));
    body.extend(long(size));
    body.extend(long(start));
    body.extend([0, 0]);
    body
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

/// The index, served until it is dropped.
#[derive(Debug)]
pub struct TestIndex {
    port: u16,
    server: tokio::task::JoinHandle<()>,
}

impl TestIndex {
    pub async fn start(behaviour: Behaviour, wheels: &[Wheel]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let port = listener.local_addr().expect("bound").port();
        let pages = Arc::new(pages(wheels));
        let server = tokio::spawn(async move {
            let mut silent = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                match behaviour {
                    Behaviour::Silent => silent.push(stream),
                    _ => drop(tokio::spawn(answer(stream, behaviour, pages.clone()))),
                }
            }
        });
        Self { port, server }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/simple", self.port)
    }
}

impl Drop for TestIndex {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn pages(wheels: &[Wheel]) -> BTreeMap<String, Vec<u8>> {
    let mut pages: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for wheel in wheels {
        let bytes = wheel.bytes();
        let (file, hash) = (wheel.file_name(), super::super::index::hex(&Sha256::digest(&bytes)));
        let link = format!("<a href=\"/files/{file}#sha256={hash}\">{file}</a>\n");
        pages.entry(format!("/simple/{}/", wheel.name)).or_default().extend(link.bytes());
        pages.insert(format!("/files/{file}"), bytes);
    }
    pages
}

/// Answers requests on one connection until the client closes it.
async fn answer(mut stream: TcpStream, behaviour: Behaviour, pages: Arc<BTreeMap<String, Vec<u8>>>) {
    let mut buffer = Vec::new();
    loop {
        while !buffer.windows(4).any(|window| window == b"\r\n\r\n") {
            if !matches!(stream.read_buf(&mut buffer).await, Ok(count) if count > 0) {
                return;
            }
        }
        let request = String::from_utf8_lossy(&buffer).into_owned();
        buffer.clear();
        let path = request.split(' ').nth(1).unwrap_or_default();
        let allowed = match behaviour {
            Behaviour::Password(user, password) => {
                let expected = format!("basic {}", base64(format!("{user}:{password}").as_bytes()));
                request.lines().any(|line| {
                    line.to_lowercase().starts_with("authorization: ")
                        && line[15..].eq_ignore_ascii_case(&expected)
                })
            }
            _ => true,
        };
        let (status, body) = match pages.get(path) {
            _ if !allowed => ("401 Unauthorized\r\nwww-authenticate: Basic realm=\"test\"", &b""[..]),
            Some(page) => ("200 OK", page.as_slice()),
            None => ("404 Not Found", &b""[..]),
        };
        let kind = if path.starts_with("/simple") { "text/html" } else { "application/octet-stream" };
        let head =
            format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
        let body = if request.starts_with("HEAD ") { &b""[..] } else { body };
        if stream.write_all(head.as_bytes()).await.is_err() || stream.write_all(body).await.is_err() {
            return;
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * place)) as usize & 63] as char;
            text.push(if place <= chunk.len() { letter } else { '=' });
        }
    }
    text
}
