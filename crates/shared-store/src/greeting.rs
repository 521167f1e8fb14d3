//! How a server introduces itself.

use std::time::Instant;

use adit_resp::RespValue;

use crate::connection::{PipelineTag, ServerConnection};
use crate::keys::StoreKeys;
use crate::options::StoreLogin;
use crate::position::GroupPosition;
use crate::scripts::{Script, ScriptDigests, number, octets};
use crate::server_info::ServerInfo;

/// How much a primary is worth: the greatest is used.
pub(crate) type GreetingRank = (bool, bool, GroupPosition, u64, u32);

/// What a server says of itself.
#[derive(Debug, Default)]
pub(crate) struct Greeting {
    /// The last group that it has.
    pub(crate) last: GroupPosition,
    pub(crate) epoch: u64,
    /// Its replicas; `None` if it is no primary.
    pub(crate) replicas: Option<u32>,
    pub(crate) scripts: ScriptDigests,
    pub(crate) info: ServerInfo,
}

impl Greeting {
    pub(crate) const fn is_primary(&self) -> bool {
        self.replicas.is_some()
    }
}

/// The commands of a greeting: the login, the state of the records, which a Cluster redirects, the role, the scripts, and
/// the server's own figures.
#[derive(Debug)]
pub(crate) struct GreetingCommands {
    commands: Vec<Vec<Vec<u8>>>,
    /// The place of the first one behind the login.
    first: usize,
}

impl GreetingCommands {
    pub(crate) fn new(keys: &StoreKeys, login: Option<&StoreLogin>) -> Self {
        let owned = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
        let mut commands = Vec::new();
        if let Some(StoreLogin { username, password }) = login {
            let (user, password) = (username.as_bytes(), password.as_bytes());
            commands.push(match username.is_empty() {
                true => owned(&[b"AUTH", password]),
                false => owned(&[b"AUTH", user, password]),
            });
        }
        let first = commands.len();
        commands.push(owned(&[b"HMGET", keys.state(), b"last", b"epoch"]));
        commands.push(owned(&[b"ROLE"]));
        commands.extend(Script::ALL.map(|script| owned(&[b"SCRIPT", b"LOAD", script.text()])));
        Self { commands, first }
    }

    /// Queues them.
    pub(crate) fn send(&self, connection: &mut ServerConnection, now: Instant) {
        for (place, command) in self.commands.iter().enumerate() {
            let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
            // A new connection has room.
            connection.command(PipelineTag::Call(place), &words, now);
        }
        connection.command(PipelineTag::Info, &[b"INFO"], now);
    }

    /// Takes the reply to the command at `place`.
    pub(crate) fn take(&self, greeting: &mut Greeting, place: usize, value: RespValue<'_>) {
        match place.checked_sub(self.first) {
            Some(0) => {
                let RespValue::Array(mut fields) = value else { return };
                let last = fields.next().and_then(octets).and_then(GroupPosition::parse);
                let epoch = fields.next().and_then(octets).and_then(number);
                (greeting.last, greeting.epoch) = (last.unwrap_or_default(), epoch.unwrap_or(0));
            }
            Some(1) => greeting.replicas = replicas(value),
            Some(script) => {
                greeting.scripts.set(script.saturating_sub(2), octets(value).unwrap_or_default());
            }
            None => {}
        }
    }
}

/// The replicas of a primary; `None` if the server is none. The reply to `ROLE`.
pub(crate) fn replicas(value: RespValue<'_>) -> Option<u32> {
    let RespValue::Array(mut parts) = value else { return None };
    if octets(parts.next()?)? != b"master" {
        return None;
    }
    match parts.nth(1)? {
        RespValue::Array(replicas) => Some(replicas.count_left()),
        _ => None,
    }
}
