//! The local admin socket: one request line in, one JSON document out, then the connection closes.
//!
//! A request is a JSON object such as `{"show":"sessions"}`. An answer is the document of the topic,
//! or `{"error":"…"}`. The socket's file is readable and writable by its owner only.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::Topic;

/// Octets of a request at most; a longer one is refused.
const REQUEST_BYTES_MAX: u64 = 4096;

/// Patience with a peer that connects and says nothing, and with the control thread.
const PATIENCE: Duration = Duration::from_secs(5);

/// One request on the socket.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    show: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub topic: Topic,
    /// Only this session, where the topic is sessions' rates: an UP SEID or an address of the UE.
    pub session: Option<String>,
}

/// A question for the control thread, with the place to put the answer.
pub struct Query {
    pub question: Question,
    pub answer: Sender<Value>,
}

/// The listening socket. Its file is removed when this is dropped.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
}

impl Server {
    /// Listens at `path`, replacing the file that a dead process left there.
    ///
    /// # Errors
    /// When another process listens there, or the path cannot be created.
    pub fn bind(path: &Path) -> anyhow::Result<Self> {
        if UnixStream::connect(path).is_ok() {
            bail!(
                "another adit answers at {}; stop it or set admin.socket to another path",
                path.display()
            );
        }
        let hint = || {
            format!(
                "cannot listen at {}; set admin.socket to a path that adit may write",
                path.display()
            )
        };
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).with_context(hint)?;
        }
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(hint);
            }
            _ => {}
        }
        let listener = UnixListener::bind(path).with_context(hint)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
            .with_context(hint)?;
        Ok(Self { listener, path: path.to_owned() })
    }

    /// Answers requests for ever; `ask` brings a question to the control thread and back.
    pub fn serve(&self, ask: impl Fn(Question) -> Option<Value>) {
        for stream in self.listener.incoming() {
            match stream {
                Ok(stream) => {
                    if let Err(error) = answer(&stream, &ask) {
                        tracing::debug!(%error, "admin request failed");
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "admin socket cannot accept");
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    /// A second handle to the same socket, for the serving thread.
    ///
    /// # Errors
    /// When the process is out of file descriptors.
    pub fn listener(&self) -> std::io::Result<Self> {
        Ok(Self { listener: self.listener.try_clone()?, path: PathBuf::new() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Waits for the control thread's answer, within bounds.
pub fn ask(queries: &Sender<Query>, question: Question) -> Option<Value> {
    let (answer, result) = std::sync::mpsc::channel();
    queries.send(Query { question, answer }).ok()?;
    result.recv_timeout(PATIENCE).ok()
}

fn answer(stream: &UnixStream, ask: impl Fn(Question) -> Option<Value>) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(REQUEST_BYTES_MAX)).read_line(&mut line)?;
    let document = match question_of(&line) {
        Ok(question) => {
            ask(question).unwrap_or_else(|| error("adit is shutting down or overloaded"))
        }
        Err(what) => error(&what),
    };
    let mut writer = std::io::BufWriter::new(stream);
    serde_json::to_writer(&mut writer, &document)?;
    writer.write_all(b"\n")?;
    Ok(writer.flush()?)
}

fn question_of(line: &str) -> Result<Question, String> {
    let request: Request =
        serde_json::from_str(line).map_err(|error| format!("not a request: {error}"))?;
    let topics = <Topic as clap::ValueEnum>::value_variants();
    let found = topics.iter().find(|topic| topic.word() == request.show);
    let topic = found.copied().ok_or_else(|| format!("cannot show \"{}\"", request.show))?;
    match request.session {
        Some(_) if topic != Topic::Qos => {
            Err(format!("\"{}\" is not shown by session; leave it out", topic.word()))
        }
        session => Ok(Question { topic, session }),
    }
}

fn error(what: &str) -> Value {
    serde_json::json!({ "error": what })
}

/// Asks the adit that listens at `socket`.
///
/// # Errors
/// A sentence when nothing listens there, the answer is cut short, or adit refuses.
pub fn request(socket: &Path, question: &Question) -> anyhow::Result<Value> {
    let mut stream = UnixStream::connect(socket).with_context(|| {
        format!(
            "no adit answers at {}; start one with `adit run`, or name its admin.socket with --socket",
            socket.display()
        )
    })?;
    stream.set_read_timeout(Some(2 * PATIENCE))?;
    serde_json::to_writer(
        &mut stream,
        &Request { show: question.topic.word().to_owned(), session: question.session.clone() },
    )?;
    stream.write_all(b"\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text).context("adit did not finish its answer")?;
    let document: Value = serde_json::from_str(&text).context("adit's answer is not JSON")?;
    match document.get("error").and_then(Value::as_str) {
        Some(what) => bail!("adit: {what}"),
        None => Ok(document),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_and_answer_cross_the_socket() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub/admin.sock");
        let server = Server::bind(&path).unwrap();
        let serving = server.listener().unwrap();
        std::thread::spawn(move || {
            serving.serve(|question| {
                (question.topic == Topic::Ports).then(|| serde_json::json!({ "n": 1 }))
            });
        });
        let about = |topic| Question { topic, session: None };
        let ports = request(&path, &about(Topic::Ports)).unwrap();
        assert_eq!(ports, serde_json::json!({ "n": 1 }));
        let refused = request(&path, &about(Topic::Sessions)).unwrap_err().to_string();
        assert!(refused.contains("shutting down"), "{refused}");
        assert!(Server::bind(&path).unwrap_err().to_string().contains("another adit"));
        drop(server);
        assert!(!path.exists());
    }

    #[test]
    fn bad_request_line_is_answered_with_an_error() {
        assert!(question_of("").is_err());
        assert!(question_of("{\"show\":\"all\"}").is_err());
        assert!(question_of("{\"show\":\"ports\",\"x\":1}").is_err());
        assert!(question_of("{\"show\":\"ports\",\"session\":\"1\"}").is_err());
        let of = |topic, session: Option<&str>| {
            Ok(Question { topic, session: session.map(str::to_owned) })
        };
        assert_eq!(question_of("{\"show\":\"ports\"}\n"), of(Topic::Ports, None));
        let one = question_of("{\"show\":\"qos\",\"session\":\"10.60.0.1\"}");
        assert_eq!(one, of(Topic::Qos, Some("10.60.0.1")));
    }
}
