//! A client of the HTTP interface at the admin socket: one request for each connection.

use core::fmt;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use serde_json::{Map, Value};

/// Longest time that adit may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest line of an answer's head. Unit: octets.
const HEAD_LINE_BYTES_MAX: u64 = 4096;

/// An HTTP request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HttpRequest {
    pub method: &'static str,
    /// Path and query.
    pub target: String,
    pub body: Option<Value>,
    /// Media type that the client requests for the answer; `None` for the usual one.
    pub accept: Option<&'static str>,
}

impl HttpRequest {
    pub(crate) fn new(method: &'static str, target: impl Into<String>) -> Self {
        Self { method, target: target.into(), body: None, accept: None }
    }

    pub(crate) fn with_body(self, body: Value) -> Self {
        Self { body: Some(body), ..self }
    }

    pub(crate) fn accepting(self, kind: &'static str) -> Self {
        Self { accept: Some(kind), ..self }
    }

    /// Formats the request as HTTP/1.0, so that the answer has no chunks, and ends with the
    /// connection. Spec: RFC 1945 §5.
    fn octets(&self) -> Vec<u8> {
        let Self { method, target, body, accept } = self;
        let mut text = format!("{method} {target} HTTP/1.0\r\nhost: localhost\r\n");
        if let Some(kind) = accept {
            text += &format!("accept: {kind}\r\n");
        }
        let body = body.as_ref().map(Value::to_string);
        if let Some(body) = &body {
            text +=
                &format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
        }
        format!("{text}\r\n{}", body.unwrap_or_default()).into_bytes()
    }
}

/// A refusal of a request by adit: the members of its problem document. Displays the detail.
#[derive(Debug)]
pub(crate) struct HttpRefusal(pub Map<String, Value>);

impl fmt::Display for HttpRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail = self.0.get("detail").and_then(Value::as_str);
        f.write_str(detail.unwrap_or("adit refuses without a reason"))
    }
}

impl std::error::Error for HttpRefusal {}

/// The body of an answer, which may arrive over a long time.
#[derive(Debug)]
pub(crate) struct HttpBody {
    reader: BufReader<UnixStream>,
    /// Length of the body, if the head of the answer has it. Unit: octets.
    len: Option<usize>,
}

impl HttpBody {
    /// Reads the whole body as text.
    fn text(mut self) -> anyhow::Result<String> {
        let mut text = String::new();
        let read = self.reader.read_to_string(&mut text).context("cannot read adit's answer")?;
        match self.len.is_some_and(|len| len != read) {
            true => bail!("adit did not finish its answer"),
            false => Ok(text),
        }
    }

    /// Returns a reader of the arriving body. A read fails with `WouldBlock` after `patience`.
    pub(crate) fn stream(self, patience: Duration) -> std::io::Result<BufReader<UnixStream>> {
        self.reader.get_ref().set_read_timeout(Some(patience))?;
        Ok(self.reader)
    }
}

/// Sends a request to the adit that listens at `socket`.
///
/// # Errors
/// Nothing listens there, or adit refuses ([`HttpRefusal`]).
pub(crate) fn send(socket: &Path, request: &HttpRequest) -> anyhow::Result<HttpBody> {
    let mut stream = UnixStream::connect(socket).with_context(|| {
        format!(
            "no adit answers at {}; start one with `adit run`, or name its configuration with --config, or its admin.socket with --socket",
            socket.display()
        )
    })?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    // An overloaded adit may close the socket before it reads the request; its answer has the
    // reason.
    let _ = stream.write_all(&request.octets());
    let mut reader = BufReader::new(stream);
    let status = line(&mut reader)?;
    let status = status.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok());
    let status = status.ok_or_else(|| {
        anyhow!("no HTTP at {}: an adit of release 0.1.0, or another program", socket.display())
    })?;
    let mut len = None;
    loop {
        let field = line(&mut reader)?;
        match field.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                len = value.trim().parse().ok();
            }
            Some(_) => {}
            None => break,
        }
    }
    let body = HttpBody { reader, len };
    match status {
        200..300 => Ok(body),
        _ => Err(HttpRefusal(serde_json::from_str(&body.text()?).unwrap_or_default()).into()),
    }
}

/// Reads the next line of an answer's head (status line or header), without the line break.
fn line(reader: &mut BufReader<UnixStream>) -> anyhow::Result<String> {
    let mut line = String::new();
    let read = reader.take(HEAD_LINE_BYTES_MAX).read_line(&mut line);
    read.context("adit does not answer")?;
    match line.pop() {
        Some('\n') => Ok(line.trim_end().to_owned()),
        _ => bail!("adit did not finish its answer"),
    }
}

/// Sends a request, and returns the body of the answer as text.
///
/// # Errors
/// As for [`send`], and if the answer is incomplete.
pub(crate) fn text(socket: &Path, request: &HttpRequest) -> anyhow::Result<String> {
    send(socket, request)?.text()
}

/// Sends a request, and returns the document in the answer.
///
/// # Errors
/// As for [`text`].
pub(crate) fn document(socket: &Path, request: &HttpRequest) -> anyhow::Result<Map<String, Value>> {
    let text = text(socket, request)?;
    serde_json::from_str(&text).context("adit did not finish its answer")
}

/// Percent-encodes a text as a part of a path or a query. Spec: RFC 3986 §2.1.
pub(crate) fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for octet in text.bytes() {
        match octet {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
                encoded.push(char::from(octet));
            }
            // Writing to a string cannot fail.
            _ => drop(write!(encoded, "%{octet:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::admin::{
        AdminAct, AdminAnswer, AdminCommand, AdminQuery, AdminQuestion, AnswerPage, PageCursor,
        PagePosition,
    };
    use crate::cli::Topic;
    use crate::client::show::pages;
    use crate::config::KeyRefusal;
    use crate::http_api;
    use crate::socket_file::SocketFile;

    fn page(list: Option<&'static str>, rows: Vec<Value>, next: Option<u32>) -> AdminAnswer {
        let next = next.map(|from| PageCursor { list: 0, from: PagePosition::Index(from) });
        let members = Box::new(|| Map::from_iter([("n".to_owned(), Value::from(1))]));
        AdminAnswer::Page(AnswerPage { list, rows: Box::new(|| rows), members, next })
    }

    /// Answers like a control thread: traffic has two pages of one row each.
    fn answer(AdminQuery { command, cursor, answer }: AdminQuery) {
        answer(match (command, cursor.from) {
            (AdminCommand::Act(AdminAct::Reload), _) => {
                let key = KeyRefusal { key: "n4.listen".to_owned(), why: "restart".to_owned() };
                AdminAnswer::RefusedKeys("nothing was changed".to_owned(), vec![key])
            }
            (AdminCommand::Act(act), _) => {
                AdminAnswer::Unknown(format!("{} {:?}", act.word(), act.object()))
            }
            (AdminCommand::Show(AdminQuestion { topic: Topic::Traffic, .. }), from) => {
                let is_first = from == PagePosition::Start;
                let (row, next) = if is_first { (1, Some(7)) } else { (2, None) };
                page(Some("traffic"), vec![row.into()], next)
            }
            _ => page(None, Vec::new(), None),
        });
    }

    /// Starts the HTTP interface at a socket.
    fn served() -> (tempfile::TempDir, std::path::PathBuf, SocketFile) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub/admin.sock");
        let socket = SocketFile::bind(&path).unwrap();
        let (queries, asked) = mpsc::channel::<AdminQuery>();
        http_api::serve(socket.server().unwrap(), queries).unwrap();
        std::thread::spawn(move || asked.into_iter().for_each(answer));
        (dir, path, socket)
    }

    #[test]
    fn documents_and_pages_cross_the_socket() {
        let (_dir, path, socket) = served();
        let node = document(&path, &HttpRequest::new("GET", "/v1/node")).unwrap();
        assert_eq!(node["n"], 1);
        for (rows_max, expected) in [(None, vec![1, 2]), (Some(1), vec![1])] {
            let question = AdminQuestion { rows_max, ..AdminQuestion::about(Topic::Traffic) };
            let mut rows = Vec::new();
            let mut take = |page: Map<String, Value>| {
                assert!(!page.contains_key("next"));
                rows.extend(
                    page["traffic"].as_array().unwrap().iter().map(|n| n.as_i64().unwrap()),
                );
                Ok(())
            };
            pages(&path, &question, &mut take).unwrap();
            assert_eq!(rows, expected);
        }
        drop(socket);
        assert!(!path.exists());
        let gone = document(&path, &HttpRequest::new("GET", "/v1/node")).unwrap_err().to_string();
        assert!(gone.contains("adit run"), "{gone}");
    }

    #[test]
    fn refusals_have_their_words_and_their_keys() {
        let (_dir, path, _socket) = served();
        let refused = |request: &HttpRequest| document(&path, request).unwrap_err();
        let reload = refused(&AdminAct::Reload.request());
        assert_eq!(reload.to_string(), "nothing was changed");
        let HttpRefusal(members) = reload.downcast_ref().unwrap();
        assert_eq!(members["refused"][0]["key"], "n4.listen");
        for wrong in ["/v1/node?x=1", "/v1/none", "/v1/traffic?limit=0"] {
            assert!(
                refused(&HttpRequest::new("GET", wrong)).downcast_ref::<HttpRefusal>().is_some()
            );
        }
    }

    /// The request for each act is parsed as the same act, whatever the object of the act is.
    #[test]
    fn acts_arrive_as_they_were_sent() {
        let (_dir, path, _socket) = served();
        let odd = "a b/ü?%&#[2001:db8::1]".to_owned();
        for act in [
            AdminAct::TakeOver,
            AdminAct::EndSession(odd.clone()),
            AdminAct::DiscardSession("all".to_owned()),
            AdminAct::EndTap("1".to_owned()),
            AdminAct::ReleaseAssociation(odd.clone()),
            AdminAct::EndAssociation("smf.example".to_owned()),
            AdminAct::Drain(true),
            AdminAct::Drain(false),
            AdminAct::DrainWorker("1".to_owned()),
            AdminAct::ResumeWorker("1".to_owned()),
            AdminAct::SetLog("debug,\"x\"".to_owned()),
        ] {
            let refused = document(&path, &act.request()).unwrap_err().to_string();
            assert_eq!(refused, format!("{} {:?}", act.word(), act.object()));
        }
    }
}
