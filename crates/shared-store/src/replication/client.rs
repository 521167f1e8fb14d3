//! The active adit's side of replication: the client of its standby.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use adit_store::{GroupNumber, GroupQueue, Incarnation};
use adit_transport::Transport;
use adit_transport::resp::RespValue;
use adit_types::Nanos;

use crate::replication::command::ReplicationCommand;
use crate::replication::connection::{
    Connection, SentCommand, next_number, receive_replies, reply_words,
};
use crate::replication::error::ReplicationError;

/// Configuration of the client: the standby's address, and how long to wait for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicationConfig {
    /// The address at which the standby listens.
    pub peer: SocketAddr,
    /// The name of the records in the shared store.
    pub name: String,
    /// The epoch of this adit.
    pub epoch: u64,
    /// How long the standby may leave a command without reply, at most.
    pub silence_max: Nanos,
    /// Pause before another attempt to connect.
    pub retry_after: Nanos,
    /// Pause between two `PING` commands.
    pub ping_interval: Nanos,
}

/// How far the standby has received groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StandbyProgress {
    /// Identifies the run of the standby's process.
    pub incarnation: Incarnation,
    /// The last group up to which the standby, or the shared store, has every group.
    pub last: GroupNumber,
}

/// A connection to the standby, and how far it has come.
#[derive(Debug)]
struct StandbyConnection {
    connection: Connection,
    /// How far the standby has received groups, by its last reply; `None` before the reply to
    /// `ADIT.HELLO`.
    progress: Option<StandbyProgress>,
    /// The argument `greeting` of the next `ADIT.HELLO`, `None` if none is to be sent: zero at
    /// first; the number in the last reply, if the standby has groups that this adit did not make.
    greeting: Option<u64>,
    /// The last group that was sent or need not be sent.
    sent: GroupNumber,
    /// When the last `PING` was sent; and whether its reply is missing.
    pinged_at: Nanos,
    is_pinging: bool,
}

/// Sends groups to the standby; after a reconnection, again those that the standby may lack.
///
/// Memory: a second copy of the groups that await a reply, at most 2 MiB.
pub struct ReplicationClient<T> {
    transport: T,
    config: ReplicationConfig,
    standby: Option<StandbyConnection>,
    retry_at: Nanos,
    /// Why there is no connection, or why the last one ended.
    error: ReplicationError,
    connections: u64,
    /// Until when the standby has promised not to take over.
    promised_until: Nanos,
}

impl<T> fmt::Debug for ReplicationClient<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = (&self.config, &self.standby, &self.error);
        f.debug_tuple("ReplicationClient").field(&all).finish_non_exhaustive()
    }
}

impl<T: Transport> ReplicationClient<T> {
    /// Creates a client without a connection.
    #[must_use]
    pub fn new(transport: T, config: ReplicationConfig) -> Self {
        Self {
            transport,
            config,
            standby: None,
            retry_at: Nanos(0),
            error: ReplicationError::Untried,
            connections: 0,
            promised_until: Nanos(0),
        }
    }

    /// Connects if there is no connection, sends groups of the shared store's queue, and receives,
    /// as far as that is possible without waiting.
    pub fn poll(&mut self, now: Nanos, groups: &GroupQueue) {
        // Transports over blocking sockets notice only in `wait` which sockets are ready.
        self.transport.wait(Duration::ZERO);
        self.transport.poll(now);
        if let Err(error) = self.drive(now, groups) {
            self.disconnect(now, error);
        }
    }

    /// Blocks until octets of the standby may have arrived, for at most `limit`.
    pub fn wait(&mut self, limit: Duration) {
        self.transport.wait(limit);
    }

    /// Returns the last group that the standby, or the shared store, is known to have; `None`
    /// without a connection, and before the reply to `ADIT.HELLO`.
    #[must_use]
    pub fn progress(&self) -> Option<StandbyProgress> {
        self.standby.as_ref()?.progress
    }

    /// Returns until when the standby has promised not to take over.
    #[must_use]
    pub const fn promised_until(&self) -> Nanos {
        self.promised_until
    }

    /// Returns why there is no connection, or why the last one ended.
    #[must_use]
    pub const fn error(&self) -> &ReplicationError {
        &self.error
    }

    /// Returns how many connections have reached the standby.
    #[must_use]
    pub const fn connections(&self) -> u64 {
        self.connections
    }

    /// True while a command awaits its reply.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.standby.as_ref().is_some_and(|standby| standby.connection.idle_since().is_none())
    }

    fn drive(&mut self, now: Nanos, groups: &GroupQueue) -> Result<(), ReplicationError> {
        if self.standby.is_none() && now >= self.retry_at {
            self.connect(now, groups.durable())?;
        }
        if self.standby.is_some() {
            self.receive(now, groups.last())?;
            self.send(now, groups);
        }
        match &mut self.standby {
            Some(standby) => standby.connection.flush(&mut self.transport, now),
            None => Ok(()),
        }
    }

    /// Connects to the standby, which needs the groups after `after`.
    fn connect(&mut self, now: Nanos, after: GroupNumber) -> Result<(), ReplicationError> {
        let connection = Connection::begin(&mut self.transport, self.config.peer, now)?;
        self.standby = Some(StandbyConnection {
            connection,
            progress: None,
            greeting: Some(0),
            sent: after,
            pinged_at: now,
            is_pinging: false,
        });
        Ok(())
    }

    fn receive(&mut self, now: Nanos, newest: GroupNumber) -> Result<(), ReplicationError> {
        let Some(standby) = &mut self.standby else { return Ok(()) };
        let StandbyConnection {
            connection, progress, greeting, sent, pinged_at, is_pinging, ..
        } = standby;
        let mut promised_until = self.promised_until;
        let mut greeted = 0;
        let mut on_reply = |tag, value: RespValue<'_>| {
            match (tag, value, &mut *progress) {
                (SentCommand::Hello, value, None) => {
                    let mut words = reply_words(value)?;
                    let incarnation = Incarnation(next_number(&mut words)?.0);
                    let last = next_number(&mut words)?;
                    let number = next_number(&mut words)?.0;
                    if last < *sent {
                        return Err(ReplicationError::Reply);
                    }
                    if last > newest {
                        *greeting = Some(number);
                        return Ok(());
                    }
                    *progress = Some(StandbyProgress { incarnation, last });
                    *sent = last;
                    greeted += 1;
                }
                (SentCommand::Group(number), RespValue::Integer(value), Some(progress))
                    if u64::try_from(value) == Ok(number.0) =>
                {
                    progress.last = number;
                }
                // The group was sent before the latest `ADIT.HELLO`, which has no reply yet.
                (SentCommand::Group(_), RespValue::Integer(_), None) => {}
                (SentCommand::Ping, RespValue::Integer(ms), _) => {
                    *is_pinging = false;
                    let ms = u64::try_from(ms).unwrap_or(0);
                    if ms > 0 {
                        // Counted from when `PING` was sent: the standby counts from its later
                        // reply.
                        promised_until = promised_until.max(*pinged_at + Nanos::from_millis(ms));
                    }
                }
                _ => return Err(ReplicationError::Reply),
            }
            Ok(())
        };
        let silence_max = self.config.silence_max;
        let received =
            receive_replies(connection, &mut self.transport, now, silence_max, &mut on_reply);
        self.promised_until = promised_until;
        received?;
        self.connections += greeted;
        Ok(())
    }

    /// Appends commands to the output, as many as it has room for.
    fn send(&mut self, now: Nanos, groups: &GroupQueue) {
        let Some(standby) = &mut self.standby else { return };
        let epoch = self.config.epoch;
        if standby.progress.is_none() {
            if let Some(greeting) = standby.greeting.take() {
                let name = self.config.name.as_bytes();
                let (after, newest) = (standby.sent, groups.last());
                let hello = ReplicationCommand::Hello { name, epoch, after, newest, greeting };
                if !standby.connection.send(now, &hello, SentCommand::Hello) {
                    standby.greeting = Some(greeting);
                }
            }
            return;
        }
        let StandbyConnection { connection, progress, greeting, sent, pinged_at, is_pinging } =
            standby;
        // `PING` goes before the groups, after which the output may have no room for it.
        let is_due = now.since(*pinged_at) >= self.config.ping_interval;
        if is_due
            && !*is_pinging
            && connection.send(now, &ReplicationCommand::Ping, SentCommand::Ping)
        {
            (*pinged_at, *is_pinging) = (now, true);
        }
        for next in groups.after(*sent) {
            let (previous, number, changes) = (next.previous, next.number, &next.changes);
            if previous != *sent {
                // The groups in between are in the shared store and no longer in the queue: the
                // standby begins after them.
                (*progress, *greeting, *sent) = (None, Some(0), groups.durable());
                return;
            }
            let group = ReplicationCommand::Group { epoch, previous, number, changes };
            if !connection.send(now, &group, SentCommand::Group(number)) {
                return;
            }
            *sent = number;
        }
    }

    fn disconnect(&mut self, now: Nanos, error: ReplicationError) {
        if let Some(standby) = self.standby.take() {
            self.transport.close(standby.connection.stream);
        }
        self.error = error;
        self.retry_at = now + self.config.retry_after;
    }
}
