//! Finding the primary, and work on it that outlives a loss of the connection.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use adit_resp::RespValue;
use adit_store::StoreError;
use adit_transport::Transport;

use crate::link::{CommandWords, LinkError};
use crate::position::GroupPosition;
use crate::scripts::{Script, number, octets};
use crate::shared_store::{SharedStore, replicas};

/// New connections in one call.
const ROUNDS_MAX: usize = 4;

/// Servers that one search visits at most, with those that a Cluster names.
const VISITS_MAX: usize = 96;

/// How long one server may take to introduce itself.
const GREETING_MAX: Duration = Duration::from_millis(500);

/// How much a primary has: a former one that came back has less.
type PrimaryRank = (GroupPosition, u64);

impl<T: Transport> SharedStore<T> {
    /// Does a piece of work on the primary, and again on another server if the connection is lost meanwhile.
    pub(crate) fn on_primary<R>(
        &mut self,
        work: &mut dyn FnMut(&mut Self, Instant) -> Result<R, LinkError>,
    ) -> Result<R, StoreError> {
        let deadline = Instant::now() + self.options.patience;
        let mut round = 1;
        loop {
            let done = self.connect(deadline).and_then(|()| work(self, deadline));
            let why = match done {
                Ok(done) => return Ok(done),
                Err(LinkError::Final(error)) => return Err(error),
                Err(LinkError::Refused(why)) => return Err(StoreError::Unavailable(why)),
                Err(LinkError::Moved(server)) => {
                    self.link.prefer(server);
                    format!("the records moved to {server}")
                }
                Err(LinkError::Lost(why)) => why,
            };
            if round == ROUNDS_MAX || Instant::now() >= deadline {
                return Err(StoreError::Unavailable(why));
            }
            round += 1;
        }
    }

    /// Finds the primary, unless there is a connection: of several the one that has most.
    fn connect(&mut self, deadline: Instant) -> Result<(), LinkError> {
        if self.link.server().is_some() {
            return Ok(());
        }
        let mut reasons: Vec<String> = Vec::new();
        let mut best: Option<(PrimaryRank, SocketAddr)> = None;
        let mut candidates: VecDeque<SocketAddr> = self.link.candidates().collect();
        let mut visited = BTreeSet::new();
        while let Some(server) = candidates.pop_front() {
            if !visited.insert(server) {
                continue;
            }
            if visited.len() > VISITS_MAX || (visited.len() > 1 && Instant::now() >= deadline) {
                break;
            }
            match self.greet(server, deadline) {
                Ok(rank) if best.is_none_or(|(other, _)| rank > other) => {
                    best = Some((rank, server));
                }
                Ok(_) => {}
                Err(LinkError::Final(error)) => return Err(LinkError::Final(error)),
                Err(LinkError::Moved(to)) => candidates.push_front(to),
                Err(LinkError::Lost(why) | LinkError::Refused(why)) => {
                    reasons.push(format!("{server}: {why}"));
                }
            }
        }
        let Some((_, server)) = best else {
            // Those that were not reached in time come first when it is tried again.
            self.link.rotate(visited.len());
            return Err(LinkError::Final(StoreError::Unavailable(reasons.join("; "))));
        };
        if self.link.server() != Some(server) {
            self.greet(server, Instant::now() + GREETING_MAX)?;
        }
        self.resynchronize(Instant::now() + GREETING_MAX)
    }

    /// Connects to a server and logs in. It must be a primary, and have the slot of the records.
    fn greet(&mut self, server: SocketAddr, deadline: Instant) -> Result<PrimaryRank, LinkError> {
        let deadline = deadline.min(Instant::now() + GREETING_MAX);
        self.link.open(server, deadline)?;
        let Self { link, keys, scripts, options, figures, .. } = self;
        let mut commands: Vec<CommandWords<'_>> = Vec::new();
        match &options.login {
            None => {}
            Some(login) if login.username.is_empty() => {
                commands.push(vec![b"AUTH", login.password.as_bytes()]);
            }
            Some(login) => {
                commands.push(vec![b"AUTH", login.username.as_bytes(), login.password.as_bytes()]);
            }
        }
        let first = commands.len();
        // The first command with a key: a Cluster redirects it.
        commands.push(vec![b"HMGET", keys.state(), b"last", b"epoch"]);
        commands.push(vec![b"ROLE"]);
        commands.extend(Script::ALL.map(|script| vec![&b"SCRIPT"[..], b"LOAD", script.text()]));
        let (mut role, mut rank) = (None, PrimaryRank::default());
        link.exchange(&commands, deadline, &mut |at, value| match at.checked_sub(first) {
            Some(0) => rank = read_rank(value),
            Some(1) => role = replicas(value),
            Some(index) => {
                scripts.set(index.saturating_sub(2), octets(value).unwrap_or_default());
            }
            None => {}
        })?;
        let Some(replicas) = role else {
            link.close();
            return Err(LinkError::Lost("it is not a primary".to_owned()));
        };
        figures.replicas = replicas;
        Ok(rank)
    }

    /// Prolongs the lease, if this process has it, and learns which groups a new connection's server has.
    fn resynchronize(&mut self, deadline: Instant) -> Result<(), LinkError> {
        if self.epoch.is_none() {
            return Ok(());
        }
        let last = self.renew(deadline)?;
        if !self.tail.set_written(last) {
            let server = self.link.server().map_or_else(String::new, |server| server.to_string());
            self.link.close();
            let durable = self.tail.position(self.tail.durable().0);
            return Err(LinkError::Lost(format!(
                "{server} lost records: it has changes up to {last}, and {durable} was durable; let another server become \
                 the primary, or restart adit to go on with what this one has"
            )));
        }
        Ok(())
    }
}

/// The last group and the epoch.
fn read_rank(value: RespValue<'_>) -> PrimaryRank {
    let RespValue::Array(mut fields) = value else { return PrimaryRank::default() };
    let last = fields.next().and_then(octets).and_then(GroupPosition::parse);
    let epoch = fields.next().and_then(octets).and_then(number);
    (last.unwrap_or_default(), epoch.unwrap_or(0))
}
