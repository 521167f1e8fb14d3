//! The tail: change groups that the standby has not found in the shared store yet.

use std::cmp::Ordering;

use adit_store::{
    GroupPosition, GroupQueue, Incarnation, QueuedGroup, RecordNumber, decode_changes,
};
use adit_transport::resp::{RespCommand, RespReplies, RespValue, write_command};

use crate::replication::command::{ReplicationCommand, ReplicationRefusal};
use crate::replication::error::TailError;

/// The result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Executed {
    /// The active adit begins; a connection that did so before is obsolete.
    Greeted,
    /// Another command, which was carried out.
    Done,
    /// A command that was refused.
    Refused(ReplicationRefusal),
}

/// The groups that a standby keeps for its active adit.
///
/// The tail has every group of its epoch behind [`ReplicationTail::base`] up to
/// [`ReplicationTail::last`], and the shared store had every group up to the base. Memory: at most
/// so many octets as allowed.
#[derive(Debug)]
pub struct ReplicationTail {
    name: Vec<u8>,
    incarnation: Incarnation,
    /// The newest epoch that the shared store has shown.
    epoch: u64,
    /// The epoch of the groups. Older than `epoch` once another adit has taken the records over.
    groups_epoch: u64,
    groups: GroupQueue,
    octets_max: usize,
    /// How often an active adit began.
    greetings: u64,
    promise: TakeoverPromise,
}

/// The promise of a standby about the time of its takeover.
#[derive(Debug, Clone, Copy, Default)]
struct TakeoverPromise {
    /// How long it does not take over after each `PING`. Unit: ms.
    ms: u64,
    /// The promise was given since [`ReplicationTail::take_promised`].
    is_given: bool,
}

impl ReplicationTail {
    /// Without groups, for the records `name`, with at most `octets_max` octets.
    #[must_use]
    pub fn new(name: &str, incarnation: Incarnation, octets_max: usize) -> Self {
        Self {
            name: name.as_bytes().to_vec(),
            incarnation,
            epoch: 0,
            groups_epoch: 0,
            groups: GroupQueue::new(RecordNumber(0)),
            octets_max,
            greetings: 0,
            promise: TakeoverPromise::default(),
        }
    }

    /// From now on the active adit may count on it that this standby does not take over for `ms`
    /// milliseconds after it says so.
    pub fn set_promise(&mut self, ms: u64) {
        self.promise.ms = ms;
    }

    /// How long the active adit counts on this standby at most, if that was said since the last
    /// call. Unit: ms.
    pub(crate) fn take_promised(&mut self) -> Option<u64> {
        let TakeoverPromise { ms, is_given } = self.promise;
        self.promise.is_given = false;
        (is_given && ms > 0).then_some(ms)
    }

    /// This life of the standby.
    #[must_use]
    pub const fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The newest epoch that the shared store has shown.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The group behind which the tail begins.
    #[must_use]
    pub fn base(&self) -> RecordNumber {
        self.groups.base()
    }

    /// The last group of the tail, or the base.
    #[must_use]
    pub fn last(&self) -> RecordNumber {
        self.groups.last()
    }

    /// The number of groups in the tail.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// True if the tail has no group.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.len() == 0
    }

    /// Notes an epoch that the shared store shows: commands of earlier ones are refused from now
    /// on, as are those of later ones until the store shows them. The groups stay.
    pub fn note_epoch(&mut self, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
    }

    /// Refuses further groups of the adit whose groups these are: this process has taken the
    /// records over in `epoch`, which is not a later one if the store has lost its records.
    pub fn fence(&mut self, epoch: u64) {
        self.note_epoch(epoch.max(self.groups_epoch.saturating_add(1)));
    }

    /// The groups that the shared store may lack, for the adit that has taken the records over from
    /// this tail's. The tail is fenced, and the store names this incarnation.
    ///
    /// If the store has groups of a later epoch, a writer has copied a part of the tail and did not
    /// finish. All of the tail follows then, because a later change of a record overrides an
    /// earlier one.
    ///
    /// # Errors
    /// [`TailError`].
    pub fn groups_after(
        &self,
        store: GroupPosition,
    ) -> Result<impl Iterator<Item = &QueuedGroup>, TailError> {
        let base = self.base();
        let last = match store.epoch.cmp(&self.groups_epoch) {
            Ordering::Less => RecordNumber(0),
            Ordering::Equal => store.number,
            Ordering::Greater => base,
        };
        if last < base {
            return Err(TailError { store: last, base });
        }
        Ok(self.groups.after(last))
    }

    /// The groups behind `after` up to `through`, if it has all of them: a process that finds them
    /// in the shared store need not read them there.
    pub fn between(
        &self,
        after: GroupPosition,
        through: GroupPosition,
    ) -> Option<impl Iterator<Item = &QueuedGroup>> {
        let is_here = [after, through].iter().all(|of| of.epoch == self.groups_epoch);
        let has_all = is_here && self.base() <= after.number && through.number <= self.last();
        let groups = self.groups.after(after.number);
        has_all.then(|| groups.take_while(move |group| group.number <= through.number))
    }

    /// Drops the groups that this process has found in the shared store.
    pub fn drop_found(&mut self, through: GroupPosition) {
        if through.epoch == self.groups_epoch {
            self.groups.drop_through(through.number);
        }
    }

    /// Carries a command out and replies.
    pub fn execute(&mut self, command: RespCommand<'_>, replies: &mut RespReplies) -> Executed {
        let executed = ReplicationCommand::parse(command).and_then(|command| match command {
            ReplicationCommand::Hello { name, epoch, after, newest, greeting } => {
                self.check_name_and_epoch(name, epoch)?;
                if greeting == self.greetings && epoch == self.groups_epoch {
                    self.groups.drop_behind(newest, after);
                }
                self.greet(epoch, after);
                let words = [self.incarnation.0, self.last().0, self.greetings];
                let words = words.map(|number| number.to_string());
                reply_array(replies, &words.each_ref().map(|word| word.as_bytes()));
                Ok(Executed::Greeted)
            }
            ReplicationCommand::Group { epoch, previous, number, changes } => {
                self.append(epoch, previous, number, changes)?;
                reply_number(replies, number);
                Ok(Executed::Done)
            }
            ReplicationCommand::Ping => {
                self.promise.is_given = true;
                reply_number(replies, RecordNumber(self.promise.ms));
                Ok(Executed::Done)
            }
        });
        executed.unwrap_or_else(|refusal| {
            replies.reply(&RespValue::Error(refusal.to_string().as_bytes()));
            Executed::Refused(refusal)
        })
    }

    /// The active adit of `epoch` begins or comes back.
    fn greet(&mut self, epoch: u64, after: RecordNumber) {
        self.greetings += 1;
        if self.groups_epoch == epoch {
            // Groups missing before `after` are in the shared store.
            self.groups.drop_through(after);
        } else {
            // A new writer has taken over the groups of the tail.
            self.groups = GroupQueue::new(after);
            self.groups_epoch = epoch;
        }
    }

    fn append(
        &mut self,
        epoch: u64,
        previous: RecordNumber,
        number: RecordNumber,
        changes: &[u8],
    ) -> Result<(), ReplicationRefusal> {
        self.check_sender(epoch)?;
        if number <= previous || i64::try_from(number.0).is_err() {
            return Err(ReplicationRefusal::Order);
        }
        if number <= self.base() {
            // The group was found in the shared store before it arrived.
            return Ok(());
        }
        if previous != self.last() {
            return Err(ReplicationRefusal::Gap(self.last()));
        }
        if decode_changes(changes).any(|change| change.is_err()) {
            return Err(ReplicationRefusal::Changes);
        }
        if self.groups.octets() + size_of::<QueuedGroup>() + changes.len() > self.octets_max {
            return Err(ReplicationRefusal::Full);
        }
        self.groups.push(number, changes.to_vec());
        Ok(())
    }

    fn check_name_and_epoch(&self, name: &[u8], epoch: u64) -> Result<(), ReplicationRefusal> {
        if name != self.name {
            return Err(ReplicationRefusal::Name);
        }
        self.check_epoch(epoch)
    }

    /// Accepts only the adit whose groups the tail has.
    fn check_sender(&self, epoch: u64) -> Result<(), ReplicationRefusal> {
        self.check_epoch(epoch)?;
        if epoch != self.groups_epoch {
            return Err(ReplicationRefusal::NoHello);
        }
        Ok(())
    }

    /// Accepts only the newest holder of the lease that the shared store has shown. No sender can
    /// change that.
    const fn check_epoch(&self, epoch: u64) -> Result<(), ReplicationRefusal> {
        if epoch < self.epoch {
            return Err(ReplicationRefusal::Fenced(self.epoch));
        }
        if epoch > self.epoch {
            return Err(ReplicationRefusal::Later(self.epoch));
        }
        Ok(())
    }
}

fn reply_number(replies: &mut RespReplies, number: RecordNumber) {
    replies.reply(&RespValue::Integer(i64::try_from(number.0).unwrap_or(i64::MAX)));
}

fn reply_array(replies: &mut RespReplies, words: &[&[u8]]) {
    let mut array = Vec::new();
    // A command is an array of bulk strings, and so is the reply.
    write_command(&mut array, words);
    if let Ok(Some((value, _))) = RespValue::read(&array) {
        replies.reply(&value);
    }
}
