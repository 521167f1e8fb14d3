//! Reads the tail of the other adit, for one that has taken the records over.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use adit_resp::RespValue;
use adit_store::{RecordNumber, decode_changes};
use adit_transport::Transport;
use adit_types::Nanos;

use crate::client::ReplicationConfig;
use crate::command::ReplicationCommand;
use crate::connection::{Connection, SentCommand, array, next_number, receive_replies};
use crate::error::{ReplicationError, TailError};
use crate::group::{Incarnation, ReplicatedGroup, StorePosition};

/// A request for the tail, which also ends the epochs before that of the sender at the peer.
pub struct TailRequest<T> {
    transport: T,
    config: ReplicationConfig,
    store: StorePosition,
    marked: Incarnation,
    connection: Option<Connection>,
    retry_at: Nanos,
    groups: Vec<ReplicatedGroup>,
    /// The epoch of the tail, once the first part has arrived.
    epoch: Option<u64>,
    is_complete: bool,
    error: ReplicationError,
}

impl<T> fmt::Debug for TailRequest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = (&self.config, self.store, self.groups.len(), &self.error);
        f.debug_tuple("TailRequest").field(&all).finish_non_exhaustive()
    }
}

/// One reply.
struct TailReply {
    incarnation: Incarnation,
    epoch: u64,
    base: RecordNumber,
    last: RecordNumber,
    groups: Vec<ReplicatedGroup>,
}

impl<T: Transport> TailRequest<T> {
    /// A request for what comes behind the last group of the shared store, which names the peer as `marked`.
    #[must_use]
    pub fn new(
        transport: T,
        config: ReplicationConfig,
        store: StorePosition,
        marked: Incarnation,
    ) -> Self {
        Self {
            transport,
            config,
            store,
            marked,
            connection: None,
            retry_at: Nanos(0),
            groups: Vec::new(),
            epoch: None,
            is_complete: false,
            error: ReplicationError::Untried,
        }
    }

    /// Connects, sends and receives, as far as that is possible without waiting, and again after a failure. Returns true once
    /// the tail is here.
    ///
    /// # Errors
    /// The tail is of no use. [`TailRequest::error`] returns why the peer cannot be reached.
    pub fn poll(&mut self, now: Nanos) -> Result<bool, TailError> {
        // Sockets that are slept on tell only here that they are ready.
        self.transport.wait(Duration::ZERO);
        self.transport.poll(now);
        if self.is_complete {
            return Ok(true);
        }
        match self.drive(now) {
            Ok(Some(reply)) => self.take(now, reply),
            Ok(None) => Ok(false),
            Err(error) => {
                self.disconnect();
                self.error = error;
                self.retry_at = now + self.config.retry_after;
                Ok(false)
            }
        }
    }

    /// Blocks until the peer may have said something, for at most `limit`.
    pub fn wait(&mut self, limit: Duration) {
        self.transport.wait(limit);
    }

    /// Why the peer cannot be reached.
    #[must_use]
    pub const fn error(&self) -> &ReplicationError {
        &self.error
    }

    /// The transport, and the groups that the shared store lacks, in order.
    #[must_use]
    pub fn into_parts(self) -> (T, Vec<ReplicatedGroup>) {
        let mut this = self;
        this.disconnect();
        (this.transport, this.groups)
    }

    fn drive(&mut self, now: Nanos) -> Result<Option<TailReply>, ReplicationError> {
        if self.connection.is_none() {
            if now < self.retry_at {
                return Ok(None);
            }
            self.connection = Some(Connection::begin(&mut self.transport, self.config.peer, now)?);
            self.request(now);
        }
        let Some(connection) = &mut self.connection else { return Ok(None) };
        let mut received = None;
        let mut on_reply = |tag, value: RespValue<'_>| {
            if tag != SentCommand::Tail {
                return Err(ReplicationError::Reply);
            }
            received = Some(parse(value)?);
            Ok(())
        };
        let silence_max = self.config.silence_max;
        receive_replies(connection, &mut self.transport, now, silence_max, &mut on_reply)?;
        connection.flush(&mut self.transport, now)?;
        Ok(received)
    }

    /// Asks for what comes behind the last group that is here.
    fn request(&mut self, now: Nanos) {
        let received = self.groups.last().map(|group| group.number).zip(self.epoch);
        let store = received.map_or(self.store, |(number, epoch)| StorePosition { epoch, number });
        let (name, epoch) = (self.config.name.as_bytes(), self.config.epoch);
        let command = ReplicationCommand::Tail { name, epoch, store };
        if let Some(connection) = &mut self.connection {
            // There is no other command, so it finds room.
            connection.send(now, &command, SentCommand::Tail);
        }
    }

    fn take(&mut self, now: Nanos, reply: TailReply) -> Result<bool, TailError> {
        if reply.incarnation != self.marked {
            return Err(TailError::Ended(self.marked));
        }
        self.epoch = Some(reply.epoch);
        let shared = self.store.last_of(reply.epoch).unwrap_or(reply.base);
        let known = self.groups.last().map_or(shared, |group| group.number);
        let first = reply.groups.first().map_or(known, |group| group.previous);
        if shared < reply.base || known < first {
            return Err(TailError::StoreBehind { store: known, base: first.max(reply.base) });
        }
        self.groups.extend(reply.groups);
        let last = self.groups.last().map_or(shared, |group| group.number);
        self.is_complete = last >= reply.last;
        if !self.is_complete {
            self.request(now);
        }
        Ok(self.is_complete)
    }

    fn disconnect(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.transport.close(connection.stream);
        }
    }
}

fn parse(value: RespValue<'_>) -> Result<TailReply, ReplicationError> {
    let mut words = array(value)?;
    let incarnation = Incarnation(next_number(&mut words)?.0);
    let epoch = next_number(&mut words)?.0;
    let (base, last) = (next_number(&mut words)?, next_number(&mut words)?);
    let mut rest: VecDeque<_> = words.collect();
    let mut groups: Vec<ReplicatedGroup> = Vec::with_capacity(rest.len() / 3);
    while !rest.is_empty() {
        let mut words = rest.drain(..rest.len().min(3));
        let (previous, number) = (next_number(&mut words)?, next_number(&mut words)?);
        let changes = words.next().ok_or(ReplicationError::Reply)?.to_vec();
        let follows = groups.last().is_none_or(|group| group.number == previous);
        if !follows || number <= previous || decode_changes(&changes).any(|c| c.is_err()) {
            return Err(ReplicationError::Reply);
        }
        drop(words);
        groups.push(ReplicatedGroup { previous, number, changes });
    }
    Ok(TailReply { incarnation, epoch, base, last, groups })
}
