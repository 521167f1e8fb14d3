//! The greeting: the first commands on a connection to a server, and the server's answers.

use std::time::Instant;

use adit_transport::resp::RespValue;

use adit_store::GroupPosition;

use crate::connection::{PipelineTag, ServerConnection};
use crate::keys::StoreKeys;
use crate::options::StoreLogin;
use crate::scripts::{SCRIPT_TEXTS, ScriptDigests, number, octets, replicas};
use crate::server_info::ServerInfo;

/// The rank of a usable primary. The one with the greatest rank is used.
pub(crate) type GreetingRank = (bool, bool, GroupPosition, u64, u32);

/// The answers of a server to the commands of a greeting.
#[derive(Debug, Default)]
pub(crate) struct Greeting {
    /// The last group that the server has.
    pub(crate) last: GroupPosition,
    pub(crate) epoch: u64,
    /// How many replicas the server has; `None` if it is no primary.
    pub(crate) replicas: Option<u32>,
    pub(crate) scripts: ScriptDigests,
    pub(crate) info: ServerInfo,
}

impl Greeting {
    /// Stores the reply to the command at index `place`.
    pub(crate) fn take(&mut self, place: usize, value: RespValue<'_>) {
        match place {
            0 => {
                let RespValue::Array(mut fields) = value else { return };
                let last = fields.next().and_then(octets).and_then(GroupPosition::parse);
                let epoch = fields.next().and_then(octets).and_then(number);
                (self.last, self.epoch) = (last.unwrap_or_default(), epoch.unwrap_or(0));
            }
            1 => self.replicas = replicas(value),
            LOGIN_INDEX => {}
            script => self.scripts.set(script - 2, octets(value).unwrap_or_default()),
        }
    }
}

/// The index of the login among the commands of a greeting. Index 0 is the state of the records,
/// which a Cluster redirects; 1 is the role; the scripts follow.
const LOGIN_INDEX: usize = usize::MAX;

/// Builds the commands of a greeting.
#[derive(Debug)]
pub(crate) struct GreetingCommands {
    login: Option<StoreLogin>,
    /// The key of the hash with the state of the records.
    state: Vec<u8>,
}

impl GreetingCommands {
    pub(crate) fn new(keys: &StoreKeys, login: Option<&StoreLogin>) -> Self {
        Self { login: login.cloned(), state: keys.state().to_vec() }
    }

    /// Queues the commands of a greeting.
    pub(crate) fn send(&self, connection: &mut ServerConnection, now: Instant) {
        // The output of a new connection has room for all of them.
        let mut queue = |tag, words: &[&[u8]]| connection.command(tag, words, now);
        if let Some(StoreLogin { username, password }) = &self.login {
            let (user, password) = (username.as_bytes(), password.as_bytes());
            match user {
                b"" => queue(PipelineTag::Call(LOGIN_INDEX), &[b"AUTH", password]),
                user => queue(PipelineTag::Call(LOGIN_INDEX), &[b"AUTH", user, password]),
            };
        }
        queue(PipelineTag::Call(0), &[b"HMGET", &self.state, b"last", b"epoch"]);
        queue(PipelineTag::Call(1), &[b"ROLE"]);
        for (place, text) in (2..).zip(SCRIPT_TEXTS) {
            queue(PipelineTag::Call(place), &[b"SCRIPT", b"LOAD", text]);
        }
        queue(PipelineTag::Info, &[b"INFO"]);
    }
}
