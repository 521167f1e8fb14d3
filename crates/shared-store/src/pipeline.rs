//! Writes without waiting: groups, the lease, and acknowledgments of replicas in one pipeline.

use std::time::{Duration, Instant};

use adit_store::{GroupNumber, GroupPosition, QueuedGroup, RecordKey, RecordKind, StoreError};
use adit_transport::Transport;
use adit_transport::resp::RespValue;

use crate::checksum::checksum;
use crate::connection::{CommandWords, LinkError, PipelineTag};
use crate::greeting::Greeting;
use crate::keys::write_name;
use crate::scripts::{PipelineReply, Script, ScriptAnswer};
use crate::shared_store::SharedStore;
use crate::standby_name::NameEntry;
use crate::tail::GroupWords;

/// Maximum of octets and of groups that are sent without waiting for an answer.
const BATCH_OCTETS_MAX: usize = 8 << 20;
const BATCH_GROUPS_MAX: usize = 256;

/// Longest pause between two renewals of the lease, which also show when a full server has room
/// again.
const RENEWAL_MAX: Duration = Duration::from_millis(500);

/// Pause between two `INFO` commands, which ask a server for its figures and settings.
const INFO_INTERVAL: Duration = Duration::from_secs(60);

/// The pause between two calls of [`SharedStore::drive`], about; renewals are due that much
/// earlier.
const CALLER_INTERVAL: Duration = Duration::from_millis(100);

impl<T: Transport> SharedStore<T> {
    /// Makes progress without waiting: searches for the primary, prolongs the lease, sends groups,
    /// and notes which groups have become durable.
    ///
    /// # Errors
    /// The lease is lost, or a newer program wrote the records.
    pub(crate) fn drive(&mut self) -> Result<(), StoreError> {
        let now = Instant::now();
        self.link.poll_transport();
        let (epoch, wanted) = (self.epoch.unwrap_or(u64::MAX), self.options.acknowledge_replicas);
        let found = self.link.search(now, |greeting| {
            let replicas = greeting.replicas.unwrap_or(0);
            // A holder first prefers a primary that names a later epoch; that primary ends its
            // lease. Then it prefers one with enough replicas, since it can send the groups that
            // this primary lacks.
            let is_enough = epoch != u64::MAX && replicas >= wanted;
            (greeting.epoch > epoch, is_enough, greeting.last, greeting.epoch, replicas)
        });
        if let Some(greeting) = found {
            self.begin(greeting);
        }
        match self.advance(now) {
            Ok(()) => Ok(()),
            Err(error) => self.note_loss(error),
        }
    }

    /// Begins to use the connection on which this greeting arrived.
    fn begin(&mut self, greeting: Greeting) {
        self.figures.replicas = greeting.replicas.unwrap_or(0);
        self.lease_clock.reset();
        self.scripts = greeting.scripts;
        self.info = greeting.info;
        self.informed_at = Some(Instant::now());
        self.standby.forget();
        // Without the lease (`epoch` is `None`) the connection is ready at once. The holder of the
        // lease writes, so it must know first which groups the server has.
        self.is_ready = self.epoch.is_none();
        if self.is_ready {
            self.lost_at = None;
        }
    }

    /// Notes that the connection is lost, and drops what was sent on it.
    ///
    /// # Errors
    /// [`LinkError::Final`]: no other server can help.
    pub(crate) fn note_loss(&mut self, error: LinkError) -> Result<(), StoreError> {
        self.is_ready = false;
        self.lost_at.get_or_insert_with(Instant::now);
        self.link.take_replies().clear();
        self.forget_sent_refill();
        self.standby.forget_sent();
        if let LinkError::Final(error) = error {
            self.link.lose(LinkError::Lost(error.to_string()));
            return Err(error);
        }
        if let LinkError::Refused(why) = &error {
            self.note_refusal(why.clone());
        }
        self.link.lose(error);
        Ok(())
    }

    fn note_refusal(&mut self, why: String) {
        self.refusals += 1;
        self.refusal = Some(why);
    }

    /// Returns why groups do not become durable, if that has lasted for some time.
    pub(crate) fn lasting_failure(&self) -> Option<String> {
        let is_away = self.lost_at.is_some_and(|at| at.elapsed() >= self.options.patience);
        match &self.refusal {
            Some(why) => Some(why.clone()),
            None => is_away.then(|| self.link.reasons()),
        }
    }

    /// Sends and receives on the connection.
    fn advance(&mut self, now: Instant) -> Result<(), LinkError> {
        let advanced = self.link.advance(now);
        // Replies that arrived before the connection was lost still count.
        for (tag, reply) in self.link.take_replies() {
            self.take_reply(tag, reply)?;
        }
        advanced?;
        self.send(now);
        self.link.flush()
    }

    fn take_reply(&mut self, tag: PipelineTag, reply: PipelineReply) -> Result<(), LinkError> {
        match (tag, reply) {
            (_, PipelineReply::Role(None)) => {
                Err(LinkError::Lost("it is no longer a primary".to_owned()))
            }
            (_, PipelineReply::Role(Some(replicas))) => {
                self.figures.replicas = replicas;
                Ok(())
            }
            (_, PipelineReply::Info(text)) => {
                self.info.take(RespValue::Bulk(&text));
                Ok(())
            }
            (PipelineTag::Wait { at }, PipelineReply::Waited(replicas)) => {
                self.take_replicas(replicas, at);
                Ok(())
            }
            (PipelineTag::Write { at }, PipelineReply::Script(Some(answer))) => {
                self.take_answer(answer, at)
            }
            _ => Err(unreadable_answer()),
        }
    }

    /// Notes that `replicas` replicas have all commands queued up to `at`.
    pub(crate) fn take_replicas(&mut self, replicas: i64, at: Instant) {
        let wanted = self.options.acknowledge_replicas;
        if replicas < i64::from(wanted) {
            let server = self.link.server().map_or_else(String::new, |server| server.to_string());
            return self.note_refusal(format!(
                "{replicas} of {wanted} replicas of {server} have the last changes"
            ));
        }
        self.confirm(at);
    }

    /// Notes that the writes queued up to `at` are durable.
    fn confirm(&mut self, at: Instant) {
        self.confirmed = Some(at);
        self.refusal = None;
        self.tail.set_durable();
        self.standby.note_durable();
    }

    /// Processes the answer to a write that was queued at `at`.
    fn take_answer(&mut self, answer: ScriptAnswer, at: Instant) -> Result<(), LinkError> {
        let (last, handover, is_damaged) = match answer {
            ScriptAnswer::Written { last, handover, is_damaged } => (last, handover, is_damaged),
            ScriptAnswer::Fenced { holder } => {
                return Err(LinkError::Final(self.fence(holder)));
            }
            ScriptAnswer::Gap { last } => {
                return Err(LinkError::Lost(format!("it has changes up to {last} only")));
            }
            _ => return Err(unreadable_answer()),
        };
        self.is_handover_requested = handover;
        self.figures.last = last;
        if !self.on_refill_answer(last) && !self.tail.set_written(last) {
            return match self.is_ready {
                true => Err(LinkError::Lost("its records were changed by others".to_owned())),
                false => self.note_lost_records(last),
            };
        }
        self.note_known_records(is_damaged);
        (self.is_ready, self.lost_at) = (true, None);
        self.written_at = Some(at);
        self.standby.note_written();
        if self.options.acknowledge_replicas == 0 {
            self.confirm(at);
        }
        Ok(())
    }

    /// Queues the next commands, once the server has answered all earlier ones.
    fn send(&mut self, now: Instant) {
        if self.epoch.is_none() || self.link.in_flight() != Some(0) {
            return;
        }
        if self.queue_refill(now) {
            return;
        }
        if !self.is_ready || self.is_renewal_due(now) {
            self.queue_renewal(now);
        }
        if self.is_ready && !self.queue_standby(now) {
            self.queue_groups(now);
        }
        // Also without new writes, if too few replicas had the earlier ones.
        if self.link.in_flight() != Some(0) || self.written_at > self.confirmed {
            self.queue_wait(now);
        }
    }

    fn is_renewal_due(&self, now: Instant) -> bool {
        let third = self.options.lease / 3;
        let interval = third.saturating_sub(CALLER_INTERVAL.min(third / 2)).min(RENEWAL_MAX);
        self.queued_at.is_none_or(|at| now.saturating_duration_since(at) >= interval)
    }

    fn queue_renewal(&mut self, now: Instant) {
        let words = WriteWords::new(self, GroupPosition::default(), GroupNumber(0));
        let script = self.scripts.command(Script::Write, &self.keys);
        self.link.command(PipelineTag::Write { at: now }, &words.command(&script, None), now);
        self.link.command(PipelineTag::Role, &[b"ROLE"], now);
        let is_due = self.informed_at.is_none_or(|at| now.duration_since(at) >= INFO_INTERVAL);
        let sections: &[&[u8]] = if is_due { &[b"INFO"] } else { &[b"INFO", b"memory"] };
        self.link.command(PipelineTag::Info, sections, now);
        if is_due {
            self.informed_at = Some(now);
        }
        self.queued_at = Some(now);
    }

    /// Queues the next groups that the server does not have.
    fn queue_groups(&mut self, now: Instant) {
        let mut octets = 0;
        let fits = |item: &(GroupPosition, &QueuedGroup)| {
            octets += item.1.changes.len();
            octets <= BATCH_OCTETS_MAX
        };
        let batch = self.tail.unwritten().take(BATCH_GROUPS_MAX).take_while(fits);
        let script = self.scripts.command(Script::Write, &self.keys);
        let (mut count, mut again, mut sent) = (0, 0, self.sent);
        for (before, group) in batch {
            let words = WriteWords::new(self, before, group.number);
            let changes = GroupWords::new(&group.changes);
            let command = words.command(&script, Some(&changes));
            if !self.link.command(PipelineTag::Write { at: now }, &command, now) {
                break;
            }
            count += 1;
            again += u64::from(group.number <= sent);
            sent = sent.max(group.number);
        }
        if count > 0 {
            self.queued_at = Some(now);
        }
        self.sent = sent;
        self.figures.groups += count;
        self.figures.groups_resent += again;
    }

    /// Queues the name of the standby if the server does not have it; true if it did. Nothing else
    /// is in flight then, so that the next answer belongs to the name.
    fn queue_standby(&mut self, now: Instant) -> bool {
        let is_answered = self.link.in_flight() == Some(0);
        let Some(entry) = self.standby.unwritten().filter(|_| is_answered) else { return false };
        let mut name = Vec::new();
        write_name(&mut name, RecordKey::number(RecordKind::Standby, 0));
        let value = match entry {
            NameEntry::Empty => Vec::new(),
            NameEntry::Standby(incarnation) => incarnation.0.to_be_bytes().to_vec(),
        };
        let sum = checksum(&[&name, b"=", &value]);
        let epoch = self.epoch.unwrap_or(0).to_string();
        let mut command = self.scripts.command(Script::Name, &self.keys);
        command.extend([epoch.as_bytes(), self.holder.as_bytes(), &value, &sum]);
        self.link.command(PipelineTag::Write { at: now }, &command, now);
        self.queued_at = Some(now);
        self.standby.note_sent(entry);
        true
    }

    /// Queues `WAIT`, which returns how many replicas have everything that was sent before.
    fn queue_wait(&mut self, now: Instant) {
        let wanted = self.options.acknowledge_replicas;
        if wanted == 0 {
            return;
        }
        let at = if self.link.in_flight() == Some(0) { self.written_at } else { Some(now) };
        let (wanted, limit) = (wanted.to_string(), self.wait_limit());
        let words = [&b"WAIT"[..], wanted.as_bytes(), limit.as_bytes()];
        self.link.command(PipelineTag::Wait { at: at.unwrap_or(now) }, &words, now);
    }

    /// Returns how long a server waits for its replicas: shorter than the silence that closes a
    /// connection.
    pub(crate) fn wait_limit(&self) -> String {
        (self.options.silence() / 2).as_millis().max(1).to_string()
    }
}

/// Returns the error for an answer that does not fit the command.
pub(crate) fn unreadable_answer() -> LinkError {
    LinkError::Lost("its answer cannot be read".to_owned())
}

/// The arguments of the write script that precede the changes.
struct WriteWords {
    epoch: String,
    holder: String,
    lease_ms: String,
    before: String,
    number: String,
    trim: String,
    epoch_before: String,
    holder_before: String,
}

impl WriteWords {
    fn new<T: Transport>(
        store: &SharedStore<T>,
        before: GroupPosition,
        number: GroupNumber,
    ) -> Self {
        Self {
            epoch: store.epoch.unwrap_or(0).to_string(),
            holder: store.holder.clone(),
            lease_ms: store.options.lease_ms(),
            before: before.to_string(),
            number: number.0.to_string(),
            trim: store.tail.trim().to_string(),
            epoch_before: store.before.0.to_string(),
            holder_before: store.before.1.clone(),
        }
    }

    fn command<'a>(
        &'a self,
        script: &[&'a [u8]],
        group: Option<&'a GroupWords>,
    ) -> CommandWords<'a> {
        let Self { epoch, holder, lease_ms, before, number, trim, .. } = self;
        let mut words = script.to_vec();
        words.extend([epoch, holder, lease_ms, before, number, trim].map(String::as_bytes));
        words.extend([&self.epoch_before, &self.holder_before].map(String::as_bytes));
        words.extend(group.into_iter().flat_map(GroupWords::words));
        words
    }
}
