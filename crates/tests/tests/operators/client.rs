//! A client of HTTP that sends any text, right or wrong.

use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);

/// An answer.
pub(crate) struct HttpAnswer {
    pub status: u16,
    /// Status line and header fields.
    pub head: String,
    pub body: Vec<u8>,
}

impl fmt::Debug for HttpAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.head, String::from_utf8_lossy(&self.body))
    }
}

impl HttpAnswer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }

    /// A document for each line.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Value> {
        let lines = self.text().lines();
        lines.map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
    }

    /// The media type.
    pub(crate) fn kind(&self) -> &str {
        let field = self.head.lines().find_map(|line| line.strip_prefix("content-type: "));
        field.unwrap_or_default()
    }
}

pub(crate) fn connect() -> TcpStream {
    let stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], 8080))).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends a request and reads its answer.
pub(crate) fn request(
    method: &str,
    path: &str,
    token: Option<&str>,
    body: Option<&Value>,
) -> HttpAnswer {
    send(&octets(method, path, token, body))
}

pub(crate) fn octets(
    method: &str,
    path: &str,
    token: Option<&str>,
    body: Option<&Value>,
) -> Vec<u8> {
    let token = token.filter(|token| !token.is_empty());
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let body = body.map(Value::to_string).unwrap_or_default();
    let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
    format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:8080\r\nconnection: close\r\n{token}{kind}\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Sends octets, and reads the answer.
pub(crate) fn send(octets: &[u8]) -> HttpAnswer {
    let mut stream = connect();
    // Who refuses a request may close before it is sent.
    let _ = stream.write_all(octets);
    read_answer(stream)
}

/// The first event of a stream of events.
pub(crate) fn first_event(path: &str, token: &str) -> HttpAnswer {
    let mut stream = connect();
    stream.write_all(&octets("GET", path, Some(token), None)).unwrap();
    let mut known = String::new();
    let mut buffer = [0; 4096];
    loop {
        let len = stream.read(&mut buffer).unwrap();
        assert!(len > 0, "{known}");
        known.push_str(std::str::from_utf8(&buffer[..len]).unwrap());
        if let Some((_, event)) = known.split_once("data: ")
            && let Some((event, _)) = event.split_once("\n\n")
        {
            let (head, _) = known.split_once("\r\n\r\n").unwrap();
            return HttpAnswer { status: 200, head: head.to_owned(), body: event.into() };
        }
    }
}

/// Reads to the end.
pub(crate) fn read_answer(mut stream: TcpStream) -> HttpAnswer {
    let mut octets = Vec::new();
    stream.read_to_end(&mut octets).unwrap();
    let end = octets.windows(4).position(|part| part == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(&octets)));
    let (head, body) = (str::from_utf8(&octets[..end]).unwrap(), &octets[end + 4..]);
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap();
    let is_chunked = head.contains("transfer-encoding: chunked");
    let body = if is_chunked { joined(body) } else { body.to_vec() };
    HttpAnswer { status, head: head.to_owned(), body }
}

/// The chunks of a body. Spec: RFC 9112 §7.1.
fn joined(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = body.windows(2).position(|part| part == b"\r\n") {
        let len = usize::from_str_radix(str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        let rest = &body[end + 2..];
        whole.extend(&rest[..len]);
        body = rest[len..].strip_prefix(b"\r\n").unwrap_or_default();
        if len == 0 {
            break;
        }
    }
    whole
}
