//! The local admin socket: one request line in, one JSON document out, then the connection closes.
//!
//! A request is a JSON object such as `{"show":"sessions"}`. An answer is the document of the topic,
//! or `{"error":"…"}`. The control thread gathers an answer page by page; JSON is made of it here,
//! on the thread of the client, and sent at once, so that neither time nor memory grows with the
//! number of sessions. The socket's file is readable and writable by its owner only.

pub(crate) mod client;
mod document;

use core::net::IpAddr;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use adit_types::limits::ADMIN_CLIENTS_MAX;
use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::cli::Topic;
use document::DocumentWriter;

/// Octets of a request at most; a longer one is refused.
const REQUEST_BYTES_MAX: u64 = 4096;

/// How long to wait for the request of a client, and for the control thread.
const PATIENCE: Duration = Duration::from_secs(5);

/// Niceness of the threads that make JSON: they share a core with the control thread.
const NICENESS: i32 = 10;

/// One request on the socket.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdminRequest {
    show: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
}

/// A question of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdminQuestion {
    pub topic: Topic,
    /// Only this session, by its UP SEID or an address of its UE. For the topic `qos`.
    pub session: Option<String>,
}

/// Where the next page of an answer begins; the default is the first page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PageCursor {
    /// Which list of the topic, counted from zero.
    pub list: u8,
    pub from: PagePosition,
}

/// A place in a list. Entries may come and go between two pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum PagePosition {
    #[default]
    Start,
    /// At this index of a session or next hop.
    Index(u32),
    /// Behind this address.
    Behind(IpAddr),
    /// At the session of this index, and nowhere else.
    Only(u32),
}

/// JSON that is made of gathered values on the thread of the client.
pub(crate) type Deferred<T> = Box<dyn FnOnce() -> T + Send>;

/// A part of an answer.
pub(crate) struct AnswerPage {
    /// The list that the rows belong to; without one there are no rows.
    pub list: Option<&'static str>,
    pub rows: Deferred<Vec<Value>>,
    /// Members of the document besides its lists.
    pub members: Deferred<Map<String, Value>>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<PageCursor>,
}

/// What the control thread says to a [`Query`].
pub(crate) enum AdminAnswer {
    Page(AnswerPage),
    /// A sentence.
    Refused(String),
}

/// A question for the control thread, with the place to put the answer.
pub(crate) struct AdminQuery {
    pub question: AdminQuestion,
    pub cursor: PageCursor,
    pub answer: Sender<AdminAnswer>,
}

/// The listening socket. Its file is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct AdminServer {
    listener: UnixListener,
    /// The file, and the device and inode that it had; none for a second handle.
    file: Option<(PathBuf, (u64, u64))>,
}

impl AdminServer {
    /// Listens at `path`, replacing the socket that a dead process left there, and nothing else.
    ///
    /// # Errors
    /// When `path` is something else than a socket without a listener, or cannot be created.
    pub(crate) fn bind(path: &Path) -> anyhow::Result<Self> {
        let hint = || {
            format!(
                "cannot listen at {}; set admin.socket to a path that adit may write",
                path.display()
            )
        };
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).with_context(hint)?;
        }
        remove_dead_socket(path)?;
        let listener = UnixListener::bind(path).with_context(hint)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
            .with_context(hint)?;
        let inode = inode(path).with_context(hint)?;
        Ok(Self { listener, file: Some((path.to_owned(), inode)) })
    }

    /// Answers requests forever, each client on a thread of its own. `ask` passes a question to
    /// the control thread and returns its answer. Clients beyond [`ADMIN_CLIENTS_MAX`] are refused.
    pub(crate) fn serve<F>(&self, ask: F)
    where
        F: Fn(&AdminQuestion, PageCursor) -> Option<AdminAnswer> + Clone + Send + 'static,
    {
        let places = Arc::new(());
        for stream in self.listener.incoming() {
            let served = match stream {
                Ok(stream) if Arc::strong_count(&places) > ADMIN_CLIENTS_MAX => refuse(&stream),
                Ok(stream) => start(stream, Arc::clone(&places), ask.clone()),
                Err(error) => Err(error),
            };
            if let Err(error) = served {
                tracing::warn!(%error, "admin socket cannot serve a client");
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }

    /// A second handle to the same socket, for the serving thread.
    ///
    /// # Errors
    /// When the process is out of file descriptors.
    pub(crate) fn listener(&self) -> std::io::Result<Self> {
        Ok(Self { listener: self.listener.try_clone()?, file: None })
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        if let Some((path, known)) = &self.file
            && inode(path).is_ok_and(|inode| inode == *known)
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Removes the socket at `path` if nobody listens there any more.
///
/// # Errors
/// When there is anything else; it is left as it is.
fn remove_dead_socket(path: &Path) -> anyhow::Result<()> {
    let known = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        known => {
            known.with_context(|| format!("cannot look at admin.socket {}", path.display()))?
        }
    };
    let kind = known.file_type();
    if !kind.is_socket() {
        let kind = match (kind.is_dir(), kind.is_symlink(), kind.is_file()) {
            (true, ..) => "a directory",
            (_, true, _) => "a symbolic link",
            (.., true) => "a regular file",
            _ => "a device or pipe",
        };
        bail!(
            "admin.socket {} is {kind}, not a socket; it was left as it is: set admin.socket to \
             another path, or remove it",
            path.display()
        );
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path)
            .with_context(|| {
                format!("cannot remove the dead socket {}; remove it", path.display())
            }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(_) => bail!(
            "another adit, or another process, listens at {}; stop it or set admin.socket to \
             another path",
            path.display()
        ),
        Err(error) => bail!(
            "the socket {} may belong to another process ({error}); set admin.socket to another \
             path, or remove it",
            path.display()
        ),
    }
}

fn inode(path: &Path) -> std::io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|known| (known.dev(), known.ino()))
}

/// Serves one client on a thread of its own, which holds a place as long as it lives.
fn start<F>(stream: UnixStream, place: Arc<()>, ask: F) -> std::io::Result<()>
where
    F: Fn(&AdminQuestion, PageCursor) -> Option<AdminAnswer> + Send + 'static,
{
    let thread = std::thread::Builder::new().name("adit-admin-client".to_owned());
    let serve = move || {
        // Without the niceness the client is served all the same.
        let _ = rustix::process::nice(NICENESS);
        if let Err(error) = answer(&stream, ask) {
            tracing::debug!(%error, "admin request failed");
        }
        drop(place);
    };
    thread.spawn(serve).map(drop)
}

fn refuse(stream: &UnixStream) -> std::io::Result<()> {
    stream.set_nonblocking(true)?;
    let what = format!("{ADMIN_CLIENTS_MAX} clients are being served; try again");
    // A client that does not read the text is refused without it.
    let _ = { stream }.write_all(format!("{}\n", error(&what)).as_bytes());
    Ok(())
}

/// Waits for the control thread's answer, within bounds.
pub(crate) fn ask(
    queries: &Sender<AdminQuery>,
    question: &AdminQuestion,
    cursor: PageCursor,
) -> Option<AdminAnswer> {
    let (answer, result) = std::sync::mpsc::channel();
    queries.send(AdminQuery { question: question.clone(), cursor, answer }).ok()?;
    result.recv_timeout(PATIENCE).ok()
}

fn answer(
    stream: &UnixStream,
    ask: impl Fn(&AdminQuestion, PageCursor) -> Option<AdminAnswer>,
) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(REQUEST_BYTES_MAX)).read_line(&mut line)?;
    let mut writer = DocumentWriter::new(std::io::BufWriter::new(stream));
    let question = match question_of(&line) {
        Ok(question) => question,
        Err(what) => return writer.refuse(&error(&what)),
    };
    let mut cursor = PageCursor::default();
    loop {
        let page = match ask(&question, cursor) {
            Some(AdminAnswer::Page(page)) => page,
            Some(AdminAnswer::Refused(what)) => return writer.refuse(&error(&what)),
            None => return writer.refuse(&error("adit is shutting down or overloaded")),
        };
        let next = page.next;
        writer.page(page)?;
        match next {
            Some(next) => cursor = next,
            None => return writer.finish(),
        }
    }
}

fn question_of(line: &str) -> Result<AdminQuestion, String> {
    let request: AdminRequest =
        serde_json::from_str(line).map_err(|error| format!("not a request: {error}"))?;
    let topics = <Topic as clap::ValueEnum>::value_variants();
    let found = topics.iter().find(|topic| topic.word() == request.show);
    let topic = found.copied().ok_or_else(|| format!("cannot show \"{}\"", request.show))?;
    match request.session {
        Some(_) if topic != Topic::Qos => {
            Err(format!("\"{}\" is not shown by session; leave it out", topic.word()))
        }
        session => Ok(AdminQuestion { topic, session }),
    }
}

fn error(what: &str) -> Value {
    serde_json::json!({ "error": what })
}

#[cfg(test)]
mod tests;
