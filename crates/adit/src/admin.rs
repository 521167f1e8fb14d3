//! The local admin socket: one request line in, one JSON document out, then the connection closes.
//!
//! A request is a JSON object such as `{"show":"sessions"}`, or `{"act":"drain","of":"on"}`, which changes something and
//! is logged ([`crate::audit`]), or `{"tap":{"ue":"10.45.0.2","stages":true}}`, whose answer has a line for each packet
//! ([`crate::tap`]). The answer is a document, or `{"error":"…"}`. The control thread gathers an answer page by page. The client's thread converts
//! each page to JSON and sends it at once, so that neither the control thread's turn nor memory grows
//! with the number of sessions. Only its owner can read and write the socket's file.

pub(crate) mod client;
mod document;
mod tap_socket;

use core::net::IpAddr;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use adit_types::limits::ADMIN_CLIENTS_MAX;
use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) use crate::admin_act::AdminAct;
use crate::audit::{self, AuditActor};
use crate::cli::{MetricsFormat, Topic};
use crate::config::KeyRefusal;
pub(crate) use crate::session_filter::{SessionFilter, SessionFilterText};
use crate::tap::{JsonLines, TapQuestion, TapStream};
use document::DocumentWriter;
use tap_socket::TapSocket;

/// Maximum length of a request; adit refuses longer ones. Unit: octets.
const REQUEST_BYTES_MAX: u64 = 4096;

/// Timeout for the request of a client, and for the control thread.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How long a process that was killed may still listen.
const DYING_PROCESS_MAX: Duration = Duration::from_secs(3);
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Niceness of threads that serve clients, which share a core with the control thread.
pub(crate) const NICENESS: i32 = 10;

/// One request on the socket: either `show` or `act`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdminRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    show: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filter: Option<SessionFilterText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    format: Option<MetricsFormat>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    act: Option<String>,
    /// The object of the act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    of: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tap: Option<TapQuestion>,
}

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AdminCommand {
    Show(AdminQuestion),
    Act(AdminAct),
    /// Packets are traced or captured.
    Tap(TapQuestion),
}

impl AdminCommand {
    fn request(&self) -> AdminRequest {
        match self {
            Self::Show(AdminQuestion { topic, session, filter, rows_max, format }) => {
                AdminRequest {
                    show: Some(topic.word().to_owned()),
                    session: session.clone(),
                    filter: (!filter.is_empty()).then(|| filter.clone()),
                    limit: *rows_max,
                    format: (*topic == Topic::Metrics).then_some(*format),
                    ..AdminRequest::default()
                }
            }
            Self::Act(act) => AdminRequest {
                act: Some(act.word().to_owned()),
                of: act.object().map(str::to_owned),
                ..AdminRequest::default()
            },
            Self::Tap(question) => {
                AdminRequest { tap: Some(question.clone()), ..AdminRequest::default() }
            }
        }
    }
}

impl AdminCommand {
    /// Counts rows that the client got. True if it has all the rows that it requested.
    fn take_rows(&mut self, rows: usize) -> bool {
        let Self::Show(AdminQuestion { rows_max: Some(left), .. }) = self else { return false };
        *left = left.saturating_sub(rows);
        *left == 0
    }
}

/// The question of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdminQuestion {
    pub topic: Topic,
    /// Only this session, by its UP SEID or an address of its UE. Only for the topic `qos`.
    pub session: Option<String>,
    /// Only sessions that match. Only for the topic `sessions`.
    pub filter: SessionFilterText,
    /// Rows of one page at most, if fewer than usual. Only for topics with pages.
    pub rows_max: Option<usize>,
    /// Only for the topic `metrics`.
    pub format: MetricsFormat,
}

impl AdminQuestion {
    /// Everything about a topic.
    pub(crate) fn about(topic: Topic) -> Self {
        let (filter, format) = (SessionFilterText::default(), MetricsFormat::default());
        Self { topic, session: None, filter, rows_max: None, format }
    }

    /// # Errors
    /// A sentence that names the part that the topic does not have, or that cannot be read.
    pub(crate) fn check(&self) -> Result<(), String> {
        let word = self.topic.word();
        SessionFilter::parse(&self.filter)?;
        let is_plain = self.format == MetricsFormat::default();
        match self {
            Self { session: Some(_), topic, .. } if *topic != Topic::Qos => {
                Err(format!("\"{word}\" is not shown by session; leave it out"))
            }
            Self { filter, topic, .. } if !filter.is_empty() && *topic != Topic::Sessions => {
                Err(format!("\"{word}\" has no filter; leave it out"))
            }
            Self { rows_max: Some(_), topic, .. } if !topic.is_paged() => {
                Err(format!("\"{word}\" has no limit; leave it out"))
            }
            Self { rows_max: Some(0), .. } => Err("the limit is 1 or more".to_owned()),
            Self { topic, .. } if !is_plain && *topic != Topic::Metrics => {
                Err(format!("\"{word}\" has no text format; leave it out"))
            }
            _ => Ok(()),
        }
    }

    /// Rows of a page whose usual number is `usual`.
    pub(crate) fn rows_of_page(&self, usual: usize) -> usize {
        self.rows_max.unwrap_or(usual).clamp(1, usual)
    }
}

/// Start of a page of an answer; the default is the first page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PageCursor {
    /// Index of the list in the document.
    pub list: u8,
    pub from: PagePosition,
}

/// A position in a list. Entries may appear and disappear between two pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum PagePosition {
    #[default]
    Start,
    /// At the session or next hop with this index.
    Index(u32),
    /// After this address.
    Behind(IpAddr),
    /// Only the session with this index.
    Only(u32),
}

/// A conversion of gathered values to JSON that runs on the client's thread.
pub(crate) type Deferred<T> = Box<dyn FnOnce() -> T + Send>;

/// A part of an answer.
pub(crate) struct AnswerPage {
    /// The list of the rows; `None` for a page without rows.
    pub list: Option<&'static str>,
    pub rows: Deferred<Vec<Value>>,
    /// Members of the document other than lists.
    pub members: Deferred<Map<String, Value>>,
    /// Start of the next page; `None` after the last one.
    pub next: Option<PageCursor>,
}

impl AdminAnswer {
    /// A document without lists.
    pub(crate) fn document(members: Map<String, Value>) -> Self {
        let (rows, members) = (Box::new(Vec::new), Box::new(|| members));
        Self::Page(AnswerPage { list: None, rows, members, next: None })
    }

    /// The answer to an act. `outcome`: what happened.
    pub(crate) fn done(outcome: &str) -> Self {
        let outcome = ("outcome".to_owned(), Value::from(outcome));
        Self::document(Map::from_iter([outcome]))
    }
}

/// The control thread's answer to an [`AdminQuery`].
pub(crate) enum AdminAnswer {
    Page(AnswerPage),
    /// Packets, until the tap ends.
    Stream(TapStream),
    /// Why the control thread refuses.
    Refused(String),
    /// Why it refuses a configuration, and the keys.
    RefusedKeys(String, Vec<KeyRefusal>),
    /// Nothing has this name.
    Unknown(String),
}

/// Takes the control thread's answer.
pub(crate) type AnswerSink = Box<dyn FnOnce(AdminAnswer) + Send>;

/// A command for the control thread, with the receiver of the answer.
pub(crate) struct AdminQuery {
    pub command: AdminCommand,
    pub cursor: PageCursor,
    pub answer: AnswerSink,
}

/// The listening socket. Drop removes its file.
#[derive(Debug)]
pub(crate) struct AdminServer {
    listener: UnixListener,
    /// Path, device and inode of the file; `None` for a second handle.
    file: Option<(PathBuf, (u64, u64))>,
}

impl AdminServer {
    /// Listens at `path`. Replaces a socket without a listener, but nothing else.
    ///
    /// # Errors
    /// `path` exists and is not a socket without a listener, or cannot be created.
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
        remove_dead_socket(path, Instant::now() + DYING_PROCESS_MAX)?;
        let listener = UnixListener::bind(path).with_context(hint)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
            .with_context(hint)?;
        let inode = inode(path).with_context(hint)?;
        Ok(Self { listener, file: Some((path.to_owned(), inode)) })
    }

    /// Answers requests forever, with a thread per client. `ask` passes a command to the control thread
    /// and returns its answer. Refuses clients beyond [`ADMIN_CLIENTS_MAX`].
    pub(crate) fn serve<F>(&self, ask: F)
    where
        F: Fn(&AdminCommand, PageCursor) -> Option<AdminAnswer> + Clone + Send + 'static,
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
    /// The process is out of file descriptors.
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

/// Removes the socket at `path` if no process listens there.
///
/// # Errors
/// There is anything else at `path`, which stays unchanged.
fn remove_dead_socket(path: &Path, end: Instant) -> anyhow::Result<()> {
    let known = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        known => known.with_context(|| format!("cannot read admin.socket {}", path.display()))?,
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
            "admin.socket {} is {kind}, not a socket; adit left it unchanged: set admin.socket to \
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
        // A process that was killed listens until the kernel has taken its memory.
        Ok(_) if Instant::now() < end => {
            std::thread::sleep(RETRY_INTERVAL);
            remove_dead_socket(path, end)
        }
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

/// Serves one client on its own thread, which occupies a place until it ends.
fn start<F>(stream: UnixStream, place: Arc<()>, ask: F) -> std::io::Result<()>
where
    F: Fn(&AdminCommand, PageCursor) -> Option<AdminAnswer> + Send + 'static,
{
    let thread = std::thread::Builder::new().name("adit-admin-client".to_owned());
    let serve = move || {
        // If this fails, the thread serves the client at normal priority.
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
    let what = format!("adit is serving {ADMIN_CLIENTS_MAX} clients already; try again");
    // Best effort: the client may not read it.
    let _ = { stream }.write_all(format!("{}\n", error(&what)).as_bytes());
    Ok(())
}

/// Waits for the control thread's answer, within bounds.
pub(crate) fn ask(
    queries: &Sender<AdminQuery>,
    command: &AdminCommand,
    cursor: PageCursor,
) -> Option<AdminAnswer> {
    let (answer, result) = std::sync::mpsc::channel();
    // The client may have given up.
    let answer: AnswerSink = Box::new(move |answered| drop(answer.send(answered)));
    queries.send(AdminQuery { command: command.clone(), cursor, answer }).ok()?;
    result.recv_timeout(TIMEOUT).ok()
}

fn answer(
    stream: &UnixStream,
    ask: impl Fn(&AdminCommand, PageCursor) -> Option<AdminAnswer>,
) -> anyhow::Result<()> {
    stream.set_write_timeout(Some(TIMEOUT))?;
    let line = read_line(stream, Instant::now() + TIMEOUT)?;
    let mut writer = DocumentWriter::new(std::io::BufWriter::new(stream));
    let mut command = match command_of(&line) {
        Ok(command) => command,
        Err(what) => return writer.refuse(&error(&what)),
    };
    let mut cursor = PageCursor::default();
    loop {
        let answered = match ask(&command, cursor) {
            Some(AdminAnswer::Page(page)) => Ok(page),
            Some(AdminAnswer::Stream(tap)) => {
                let (what, of) = tap.subject();
                audit::record(&actor(stream), what, Some(&of), Ok(()));
                let mut lines = JsonLines::new(TapSocket::new(stream), &tap)?;
                return tap.serve(&mut lines);
            }
            Some(AdminAnswer::Refused(what) | AdminAnswer::Unknown(what)) => Err((what, None)),
            Some(AdminAnswer::RefusedKeys(what, keys)) => Err((what, Some(keys))),
            None => Err(("adit is shutting down or overloaded".to_owned(), None)),
        };
        if let AdminCommand::Act(act) = &command {
            let outcome = answered.as_ref().map(drop).map_err(|(what, _)| what.as_str());
            audit::record(&actor(stream), act.word(), act.object(), outcome);
        }
        let page = match answered {
            Ok(page) => page,
            Err((what, None)) => return writer.refuse(&error(&what)),
            Err((what, Some(keys))) => {
                return writer.refuse(&serde_json::json!({ "error": what, "refused": keys }));
            }
        };
        let next = page.next;
        let rows = writer.page(page)?;
        let has_enough = command.take_rows(rows);
        match next.filter(|_| !has_enough) {
            Some(next) => cursor = next,
            None => return writer.finish(),
        }
    }
}

/// A request, which has to be complete at `end`: a client that sends an octet now and then holds no place.
fn read_line(stream: &UnixStream, end: Instant) -> anyhow::Result<Vec<u8>> {
    let mut line = Vec::new();
    let (mut limited, mut octets) = (stream.take(REQUEST_BYTES_MAX), [0; 1024]);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            bail!("the request is not complete");
        }
        stream.set_read_timeout(Some(left))?;
        let count = limited.read(&mut octets)?;
        line.extend(octets.iter().take(count));
        if let Some(len) = line.iter().position(|octet| *octet == b'\n') {
            line.truncate(len);
            return Ok(line);
        }
        if count == 0 {
            return Ok(line);
        }
    }
}

/// The user at the other end of the socket.
fn actor(stream: &UnixStream) -> AuditActor {
    let who = match rustix::net::sockopt::socket_peercred(stream) {
        Ok(known) => format!("uid {} pid {}", known.uid.as_raw(), known.pid.as_raw_nonzero()),
        Err(_) => "unknown".to_owned(),
    };
    AuditActor { who, role: "owner" }
}

fn command_of(line: &[u8]) -> Result<AdminCommand, String> {
    let request: AdminRequest =
        serde_json::from_slice(line).map_err(|error| format!("not a request: {error}"))?;
    match request {
        AdminRequest {
            show: Some(word),
            session,
            filter,
            limit,
            format,
            act: None,
            of: None,
            tap: None,
        } => {
            let topics = <Topic as clap::ValueEnum>::value_variants();
            let found = topics.iter().find(|topic| topic.word() == word);
            let topic = found.copied().ok_or_else(|| format!("cannot show \"{word}\""))?;
            let (filter, format) = (filter.unwrap_or_default(), format.unwrap_or_default());
            let question = AdminQuestion { topic, session, filter, rows_max: limit, format };
            question.check()?;
            Ok(AdminCommand::Show(question))
        }
        AdminRequest {
            show: None,
            session: None,
            filter: None,
            limit: None,
            format: None,
            act: Some(act),
            of,
            tap: None,
        } => AdminAct::parse(&act, of).map(AdminCommand::Act),
        AdminRequest {
            show: None,
            session: None,
            filter: None,
            limit: None,
            format: None,
            act: None,
            of: None,
            tap: Some(question),
        } => Ok(AdminCommand::Tap(question)),
        _ => Err("not a request: it has one of \"show\", \"act\" and \"tap\"".to_owned()),
    }
}

fn error(what: &str) -> Value {
    serde_json::json!({ "error": what })
}

#[cfg(test)]
mod tests;
