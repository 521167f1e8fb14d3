//! The client: finds the primary, writes groups, and reads records.

use std::collections::HashSet;
use std::fmt;
use std::time::{Duration, Instant};

use adit_resp::RespValue;
use adit_store::{
    AppendError, RecordId, RecordKey, RecordKind, RecordNumber, RecordStore, StoreChange,
    StoreError, Upkeep,
};
use adit_transport::Transport;
use adit_types::limits::{STORE_BACKLOG_BYTES_MAX, STORE_GROUP_BYTES_MAX, STORE_VALUE_BYTES_MAX};

use crate::figures::SharedStoreFigures;
use crate::keys::{StoreKeys, read_field};
use crate::link::{CommandWords, LinkError, ServerLink};
use crate::options::SharedStoreOptions;
use crate::position::GroupPosition;
use crate::scripts::{Script, ScriptAnswer, ScriptDigests, number, octets};
use crate::tail::{GroupTail, TailGroup};

/// Octets of groups that are sent without waiting for an answer, and groups.
const BATCH_OCTETS_MAX: usize = 8 << 20;
const BATCH_GROUPS_MAX: usize = 256;
/// Changes of a group: a script cannot pass on more.
const GROUP_CHANGES_MAX: usize = 3900;
/// Records that a server is to return at once.
const SCAN_COUNT: &[u8] = b"256";

/// The records of a name in a shared store.
///
/// Threads: used by one thread at a time.
pub struct SharedStore<T: Transport> {
    pub(crate) link: ServerLink<T>,
    pub(crate) keys: StoreKeys,
    pub(crate) scripts: ScriptDigests,
    pub(crate) options: SharedStoreOptions,
    pub(crate) holder: String,
    /// The token, while this process holds the lease.
    pub(crate) epoch: Option<u64>,
    pub(crate) tail: GroupTail,
    /// When the lease was prolonged last.
    pub(crate) renewed: Option<Instant>,
    /// Who took the lease from this process.
    fenced_by: Option<String>,
    pub(crate) is_handover_requested: bool,
    /// The last group that [`SharedStore::follow`] has yielded.
    pub(crate) followed: Option<GroupPosition>,
    pub(crate) figures: SharedStoreFigures,
    /// The last group that was sent to any server.
    sent: u64,
}

impl<T: Transport> fmt::Debug for SharedStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = (&self.holder, &self.epoch, &self.figures);
        f.debug_tuple("SharedStore").field(&all).finish_non_exhaustive()
    }
}

impl<T: Transport> SharedStore<T> {
    /// A client without a connection; the first call makes one.
    #[must_use]
    pub fn new(transport: T, options: SharedStoreOptions) -> Self {
        Self {
            link: ServerLink::new(transport, options.servers.clone()),
            keys: StoreKeys::new(&options.name),
            scripts: ScriptDigests::default(),
            holder: options.holder(),
            options,
            epoch: None,
            tail: GroupTail::default(),
            renewed: None,
            fenced_by: None,
            is_handover_requested: false,
            followed: None,
            figures: SharedStoreFigures::default(),
            sent: 0,
        }
    }

    /// Figures for operators.
    #[must_use]
    pub fn figures(&self) -> SharedStoreFigures {
        SharedStoreFigures {
            server: self.link.server(),
            epoch: self.epoch.unwrap_or(0),
            connection_failures: self.link.failures,
            pending_octets: self.tail.pending_octets(),
            ..self.figures.clone()
        }
    }

    /// Prolongs the lease. Returns the last group that the server has.
    pub(crate) fn renew(&mut self, deadline: Instant) -> Result<GroupPosition, LinkError> {
        let renewed = Instant::now();
        let mut replies = Vec::new();
        let mut connected = None;
        let none = GroupPosition::default();
        let fixed = WriteWords::new(self, none, 0);
        let script = self.scripts.command(Script::Write, &self.keys);
        let commands = [fixed.command(&script, None), vec![&b"ROLE"[..]]];
        self.link.exchange(&commands, deadline, &mut |at, value| match at {
            0 => replies.push(ScriptAnswer::read(value)),
            _ => connected = replicas(value),
        })?;
        let Some(connected) = connected else {
            self.link.close();
            return Err(LinkError::Lost("it is no longer a primary".to_owned()));
        };
        self.figures.replicas = connected;
        let last = self.take_answers(&replies)?;
        self.renewed = Some(renewed);
        Ok(last)
    }

    /// Writes all groups that are not durable, and waits for the replicas.
    fn write(&mut self, deadline: Instant) -> Result<(), LinkError> {
        let began = Instant::now();
        let mut last = None;
        while let Some(batch) = self.next_batch() {
            let fixed: Vec<WriteWords> = batch
                .iter()
                .map(|&(before, number)| WriteWords::new(self, before, number))
                .collect();
            let script = self.scripts.command(Script::Write, &self.keys);
            let groups = self.tail.unwritten();
            let commands: Vec<_> = fixed
                .iter()
                .zip(groups)
                .map(|(words, (_, group))| words.command(&script, Some(group)))
                .collect();
            let mut replies = Vec::with_capacity(batch.len());
            let again = batch.iter().filter(|(_, number)| *number <= self.sent).count();
            self.sent = self.sent.max(batch.last().map_or(0, |(_, number)| *number));
            self.link.exchange(&commands, deadline, &mut |_, value| {
                replies.push(ScriptAnswer::read(value));
            })?;
            let reached = self.take_answers(&replies)?;
            if !self.tail.set_written(reached) {
                self.link.close();
                return Err(LinkError::Lost("its records were changed by others".to_owned()));
            }
            self.figures.groups += count(batch.len());
            self.figures.groups_resent += count(again);
            last = Some(reached);
        }
        if last.is_none() {
            self.renew(deadline)?;
        }
        self.renewed = Some(began);
        self.wait_for_replicas(deadline)?;
        self.tail.set_durable();
        Ok(())
    }

    /// Positions before the next groups to send, and their numbers; `None` if the server has all.
    fn next_batch(&self) -> Option<Vec<(GroupPosition, u64)>> {
        let mut octets = 0;
        let fits = |item: &(GroupPosition, &TailGroup)| {
            octets += item.1.octets();
            octets <= BATCH_OCTETS_MAX
        };
        let groups = self.tail.unwritten().take(BATCH_GROUPS_MAX).take_while(fits);
        let batch: Vec<_> = groups.map(|(before, group)| (before, group.number())).collect();
        (!batch.is_empty()).then_some(batch)
    }

    /// The replicas must have all that this connection wrote.
    pub(crate) fn wait_for_replicas(&mut self, deadline: Instant) -> Result<(), LinkError> {
        let wanted = self.options.acknowledge_replicas;
        if wanted == 0 {
            return Ok(());
        }
        let left = deadline.saturating_duration_since(Instant::now());
        // The answer has to arrive before the deadline.
        let limit = (left / 2).as_millis().max(1).to_string();
        let wanted_text = wanted.to_string();
        let command = vec![&b"WAIT"[..], wanted_text.as_bytes(), limit.as_bytes()];
        let mut have = 0;
        self.link.exchange(&[command], deadline, &mut |_, value| {
            if let RespValue::Integer(replicas) = value {
                have = replicas;
            }
        })?;
        if have < i64::from(wanted) {
            let server = self.link.server().map_or_else(String::new, |server| server.to_string());
            return Err(LinkError::Refused(format!(
                "{have} of {wanted} replicas of {server} have the last changes"
            )));
        }
        Ok(())
    }

    /// Reads the answers to writes, the last of which says what the server has.
    fn take_answers(
        &mut self,
        answers: &[Option<ScriptAnswer>],
    ) -> Result<GroupPosition, LinkError> {
        let mut reached = None;
        for answer in answers {
            match answer {
                Some(ScriptAnswer::Written { last, handover }) => {
                    self.is_handover_requested = *handover;
                    reached = Some(*last);
                }
                Some(ScriptAnswer::Fenced { holder }) => {
                    return Err(LinkError::Final(self.fence(holder.clone())));
                }
                Some(ScriptAnswer::Gap { last }) => {
                    self.link.close();
                    return Err(LinkError::Lost(format!("it has changes up to {last} only")));
                }
                _ => return Err(unreadable(&mut self.link)),
            }
        }
        let Some(last) = reached else { return Err(unreadable(&mut self.link)) };
        self.figures.last = last;
        Ok(last)
    }

    /// Notes that the lease is lost, for good.
    fn fence(&mut self, holder: String) -> StoreError {
        self.epoch = None;
        self.figures.holder.clone_from(&holder);
        self.fenced_by = Some(holder.clone());
        StoreError::Fenced { holder }
    }

    /// Only the holder of the lease writes.
    fn check_lease(&self) -> Result<(), StoreError> {
        match (&self.fenced_by, self.epoch) {
            (Some(holder), _) => Err(StoreError::Fenced { holder: holder.clone() }),
            (None, Some(_)) => Ok(()),
            (None, None) => Err(StoreError::Unavailable("its lease was not taken".to_owned())),
        }
    }

    /// Keeps the lease during a long read.
    fn renew_if_due(&mut self, patience: Duration) -> Result<(), LinkError> {
        if self.is_renewal_due() {
            self.renew(Instant::now() + patience)?;
        }
        Ok(())
    }

    fn is_renewal_due(&self) -> bool {
        let is_due = self.renewed.is_none_or(|last| last.elapsed() >= self.options.lease / 3);
        self.epoch.is_some() && is_due
    }

    /// Reads all records of a kind. Servers may return a record more than once.
    pub(crate) fn scan(
        &mut self,
        kind: RecordKind,
        deadline_of_part: Duration,
        visitor: &mut dyn FnMut(RecordKey<'_>, &[u8]),
    ) -> Result<(), LinkError> {
        let mut seen: HashSet<Box<[u8]>> = HashSet::new();
        let mut cursor = b"0".to_vec();
        loop {
            self.renew_if_due(deadline_of_part)?;
            let mut next = None;
            let command =
                vec![&b"HSCAN"[..], self.keys.records(kind), &cursor, b"COUNT", SCAN_COUNT];
            let deadline = Instant::now() + deadline_of_part;
            self.link.exchange(&[command], deadline, &mut |_, value| {
                next = read_scan(value, &mut |field, value| {
                    // What is no field of ours was put there by somebody else.
                    let Some(id) = read_field(field) else { return };
                    if seen.insert(field.into()) {
                        visitor(RecordKey { kind, id }, value);
                    }
                });
            })?;
            match next {
                Some(next) if next == b"0" => return Ok(()),
                Some(next) => cursor = next,
                None => return Err(unreadable(&mut self.link)),
            }
        }
    }
}

impl<T: Transport> RecordStore for SharedStore<T> {
    fn group_octets_max(&self) -> usize {
        STORE_GROUP_BYTES_MAX
    }

    fn append(&mut self, changes: &[StoreChange<'_>]) -> Result<RecordNumber, AppendError> {
        let is_sound = |change: &StoreChange<'_>| {
            let id_fits = match change.key.id {
                RecordId::Number(_) => true,
                RecordId::Octets(octets) => (1..=255).contains(&octets.len()),
            };
            id_fits && change.value.is_none_or(|value| value.len() <= STORE_VALUE_BYTES_MAX)
        };
        let octets = |change: &StoreChange<'_>| change.value.map_or(0, <[u8]>::len);
        if !changes.iter().all(is_sound) {
            return Err(AppendError::Record);
        }
        let sum: usize = changes.iter().map(octets).sum();
        if changes.is_empty() || changes.len() > GROUP_CHANGES_MAX || sum > STORE_GROUP_BYTES_MAX {
            return Err(AppendError::Group);
        }
        if self.tail.pending_octets() >= STORE_BACKLOG_BYTES_MAX {
            return Err(AppendError::Backlog);
        }
        Ok(RecordNumber(self.tail.append(changes)))
    }

    fn commit(&mut self) -> Result<RecordNumber, StoreError> {
        self.check_lease()?;
        if self.tail.is_waiting() {
            self.on_primary(&mut |store, deadline| store.write(deadline))?;
        }
        Ok(self.durable())
    }

    fn durable(&self) -> RecordNumber {
        self.tail.durable()
    }

    fn withdraw(&mut self) -> usize {
        self.tail.withdraw(self.sent)
    }

    /// Prolongs the lease when a third of its time has passed.
    fn maintain(&mut self) -> Result<Upkeep, StoreError> {
        if let Some(holder) = &self.fenced_by {
            return Err(StoreError::Fenced { holder: holder.clone() });
        }
        if self.is_renewal_due() {
            self.on_primary(&mut |store, deadline| store.renew(deadline).map(|_| ()))?;
        }
        Ok(Upkeep::Idle)
    }

    fn visit(
        &mut self,
        kinds: &[RecordKind],
        visitor: &mut dyn FnMut(RecordKey<'_>, &[u8]),
    ) -> Result<(), StoreError> {
        self.on_primary(&mut |_, _| Ok(()))?;
        let patience = self.options.patience;
        for &kind in kinds {
            self.scan(kind, patience, visitor).map_err(final_error)?;
        }
        Ok(())
    }
}

/// What a failure means for a call that cannot begin again.
pub(crate) fn final_error(error: LinkError) -> StoreError {
    match error {
        LinkError::Lost(why) | LinkError::Refused(why) => StoreError::Unavailable(why),
        LinkError::Moved(server) => {
            StoreError::Unavailable(format!("the records moved to {server} meanwhile"))
        }
        LinkError::Final(error) => error,
    }
}

/// The server answered something else than what was asked for.
pub(crate) fn unreadable<T: Transport>(link: &mut ServerLink<T>) -> LinkError {
    link.close();
    LinkError::Lost("its answer cannot be read".to_owned())
}

/// The words of a write besides its changes.
struct WriteWords {
    epoch: String,
    holder: String,
    lease_ms: String,
    before: String,
    number: String,
    trim: String,
}

impl WriteWords {
    fn new<T: Transport>(store: &SharedStore<T>, before: GroupPosition, number: u64) -> Self {
        Self {
            epoch: store.epoch.unwrap_or(0).to_string(),
            holder: store.holder.clone(),
            lease_ms: store.options.lease_ms(),
            before: before.to_string(),
            number: number.to_string(),
            trim: store.tail.trim().to_string(),
        }
    }

    fn command<'a>(
        &'a self,
        script: &[&'a [u8]],
        group: Option<&'a TailGroup>,
    ) -> CommandWords<'a> {
        let Self { epoch, holder, lease_ms, before, number, trim } = self;
        let mut words = script.to_vec();
        words.extend([epoch, holder, lease_ms, before, number, trim].map(String::as_bytes));
        words.extend(group.into_iter().flat_map(TailGroup::words));
        words
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

/// Hands over the records of a part of a scan. Returns where the next part begins.
fn read_scan(value: RespValue<'_>, each: &mut dyn FnMut(&[u8], &[u8])) -> Option<Vec<u8>> {
    let RespValue::Array(mut parts) = value else { return None };
    let cursor = octets(parts.next()?)?;
    number(cursor)?;
    let RespValue::Array(mut fields) = parts.next()? else { return None };
    while let Some(field) = fields.next() {
        let (field, value) = (octets(field)?, octets(fields.next()?)?);
        each(field, value);
    }
    Some(cursor.to_vec())
}

fn count(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
