//! Commands that the HTTP interface passes to the control thread, and the control thread's answers.
//!
//! The control thread gathers an answer page by page, so that its iteration does not grow with the
//! number of sessions. The thread of the interface converts each page to JSON.

pub(crate) mod reload;

use core::net::IpAddr;

use serde_json::{Map, Value};

use crate::cli::{MetricsFormat, Topic};
use crate::config::KeyRefusal;
pub(crate) use crate::request::admin_act::AdminAct;
pub(crate) use crate::request::session_filter::{SessionFilter, SessionFilterText};
use crate::tap::{TapQuestion, TapStream};

/// Niceness of threads that serve HTTP clients, so that they yield to the control thread.
pub(crate) const NICENESS: i32 = 10;

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AdminCommand {
    Show(AdminQuestion),
    Act(AdminAct),
    /// Starts a trace or a capture of packets.
    Tap(TapQuestion),
}

/// A client's request for the document of a topic of `adit show`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdminQuestion {
    pub topic: Topic,
    /// Restricts the answer to one session, by its UP SEID or a UE address. For the topic `qos`
    /// only.
    pub session: Option<String>,
    /// Restricts the answer to matching sessions. For the topic `sessions` only.
    pub filter: SessionFilterText,
    /// Maximum of rows per page, if below the topic's own. Only for topics with pages.
    pub rows_max: Option<usize>,
    /// Used by the topic `metrics` alone.
    pub format: MetricsFormat,
}

impl AdminQuestion {
    /// Requests the whole document of a topic.
    pub(crate) fn about(topic: Topic) -> Self {
        let (filter, format) = (SessionFilterText::default(), MetricsFormat::default());
        Self { topic, session: None, filter, rows_max: None, format }
    }

    /// Returns the maximum of rows per page: `usual`, or fewer if the client wants fewer.
    pub(crate) fn page_rows_max(&self, usual: usize) -> usize {
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

/// A position in a list. It stays valid while entries appear and disappear between two pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum PagePosition {
    #[default]
    Start,
    /// Begins at the session or next hop with this index.
    Index(u32),
    /// Begins after this address.
    Behind(IpAddr),
    /// Has only the session with this index.
    Only(u32),
}

/// A conversion of gathered values to JSON that runs on the client's thread.
pub(crate) type Deferred<T> = Box<dyn FnOnce() -> T + Send>;

/// One page of an answer.
pub(crate) struct AnswerPage {
    /// The list of the document that `rows` belong to; `None` for a page without rows.
    pub list: Option<&'static str>,
    pub rows: Deferred<Vec<Value>>,
    /// Members of the document other than lists.
    pub members: Deferred<Map<String, Value>>,
    /// Start of the next page; `None` after the last one.
    pub next: Option<PageCursor>,
}

impl AdminAnswer {
    /// Makes a document without lists.
    pub(crate) fn document(members: Map<String, Value>) -> Self {
        let (rows, members) = (Box::new(Vec::new), Box::new(|| members));
        Self::Page(AnswerPage { list: None, rows, members, next: None })
    }

    /// Makes the answer to an act. `outcome`: what happened.
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
    /// Why the control thread refuses the command.
    Refused(String),
    /// Why the control thread refuses a configuration, and the keys at fault.
    RefusedKeys(String, Vec<KeyRefusal>),
    /// The object that the command names does not exist.
    Unknown(String),
}

/// Called with the control thread's answer.
pub(crate) type AnswerSink = Box<dyn FnOnce(AdminAnswer) + Send>;

/// A command for the control thread, with the receiver of the answer.
pub(crate) struct AdminQuery {
    pub command: AdminCommand,
    pub cursor: PageCursor,
    pub answer: AnswerSink,
}
