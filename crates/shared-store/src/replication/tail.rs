//! The tail: groups of changes that the standby has not found in the shared store yet.

use std::cmp::Ordering;

use adit_store::{
    GroupNumber, GroupPosition, GroupQueue, Incarnation, QueuedGroup, decode_changes,
};
use adit_transport::resp::{RespCommand, RespReplies, RespValue, write_command};

use crate::replication::command::{ReplicationCommand, ReplicationRefusal};
use crate::replication::error::TailError;

/// The result of running a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandOutcome {
    /// `ADIT.HELLO` was accepted; an earlier connection that began so is obsolete.
    Greeted,
    /// Another command was run.
    Done,
    /// The command was refused.
    Refused(ReplicationRefusal),
}

/// The groups that a standby keeps for its active adit.
///
/// The tail has every group of its epoch after [`ReplicationTail::base`] up to
/// [`ReplicationTail::last`]; the shared store had every group up to the base. Memory: at most the
/// octets given to [`ReplicationTail::new`].
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
    /// How many `ADIT.HELLO` commands were accepted.
    greetings: u64,
    promise: TakeoverPromise,
}

/// The standby's promise not to take over for some time.
#[derive(Debug, Clone, Copy, Default)]
struct TakeoverPromise {
    /// For how long after each `PING` the standby does not take over. Unit: ms.
    ms: u64,
    /// True if a `PING` was answered with the promise since the last
    /// [`ReplicationTail::take_given_promise`].
    is_given: bool,
}

impl ReplicationTail {
    /// Creates a tail without groups for the records `name`, of at most `octets_max` octets.
    #[must_use]
    pub fn new(name: &str, incarnation: Incarnation, octets_max: usize) -> Self {
        Self {
            name: name.as_bytes().to_vec(),
            incarnation,
            epoch: 0,
            groups_epoch: 0,
            groups: GroupQueue::new(GroupNumber(0)),
            octets_max,
            greetings: 0,
            promise: TakeoverPromise::default(),
        }
    }

    /// Sets the promise to active adits: this standby does not take over for `ms` milliseconds
    /// after each reply to a `PING`.
    pub fn set_promise(&mut self, ms: u64) {
        self.promise.ms = ms;
    }

    /// Returns for how long the standby has promised not to take over, if it has answered a `PING`
    /// since the last call. Unit: ms.
    pub(crate) fn take_given_promise(&mut self) -> Option<u64> {
        let TakeoverPromise { ms, is_given } = self.promise;
        self.promise.is_given = false;
        (is_given && ms > 0).then_some(ms)
    }

    /// Returns the incarnation of this standby.
    #[must_use]
    pub const fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Returns the newest epoch that the shared store has shown.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the group that precedes the tail's first one.
    #[must_use]
    pub fn base(&self) -> GroupNumber {
        self.groups.base()
    }

    /// Returns the last group of the tail; the base if the tail is empty.
    #[must_use]
    pub fn last(&self) -> GroupNumber {
        self.groups.last()
    }

    /// Returns how many groups the tail has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// True if the tail has no groups.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.len() == 0
    }

    /// Notes an epoch that the shared store shows. Commands of earlier epochs are refused from now
    /// on, as are commands of later ones until the store shows them. The groups stay.
    pub fn note_epoch(&mut self, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
    }

    /// Refuses further groups of the adit that made those in the tail: this process has taken the
    /// records over in `epoch`. If the store has lost its records, `epoch` may not be greater than
    /// the old one.
    pub fn fence(&mut self, epoch: u64) {
        self.note_epoch(epoch.max(self.groups_epoch.saturating_add(1)));
    }

    /// Returns the groups that the shared store may lack, for the adit that takes over. Call it
    /// after the tail is fenced, while the store names this incarnation.
    ///
    /// If the store has groups of a later epoch, a process that was copying the tail did not
    /// finish. Then all groups of the tail are returned, because later changes of a record override
    /// earlier ones.
    ///
    /// # Errors
    /// [`TailError`] if the store lacks groups before the tail.
    pub fn groups_after(
        &self,
        store: GroupPosition,
    ) -> Result<impl Iterator<Item = &QueuedGroup>, TailError> {
        let base = self.base();
        let last = match store.epoch.cmp(&self.groups_epoch) {
            Ordering::Less => GroupNumber(0),
            Ordering::Equal => store.number,
            Ordering::Greater => base,
        };
        if last < base {
            return Err(TailError { store: last, base });
        }
        Ok(self.groups.after(last))
    }

    /// Returns the groups after `after` up to `through`, if the tail has all of them: a process
    /// that follows the shared store need not read these groups there. `None` otherwise.
    pub fn groups_between(
        &self,
        after: GroupPosition,
        through: GroupPosition,
    ) -> Option<impl Iterator<Item = &QueuedGroup>> {
        let is_here = [after, through].iter().all(|of| of.epoch == self.groups_epoch);
        let has_all = is_here && self.base() <= after.number && through.number <= self.last();
        let groups = self.groups.after(after.number);
        has_all.then(|| groups.take_while(move |group| group.number <= through.number))
    }

    /// Drops the groups up to `through`, which this process has found in the shared store.
    pub fn drop_found(&mut self, through: GroupPosition) {
        if through.epoch == self.groups_epoch {
            self.groups.drop_through(through.number);
        }
    }

    /// Runs a command and appends the reply.
    pub fn execute(
        &mut self,
        command: RespCommand<'_>,
        replies: &mut RespReplies,
    ) -> CommandOutcome {
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
                Ok(CommandOutcome::Greeted)
            }
            ReplicationCommand::Group { epoch, previous, number, changes } => {
                self.append(epoch, previous, number, changes)?;
                reply_number(replies, number);
                Ok(CommandOutcome::Done)
            }
            ReplicationCommand::Ping => {
                self.promise.is_given = true;
                reply_number(replies, GroupNumber(self.promise.ms));
                Ok(CommandOutcome::Done)
            }
        });
        executed.unwrap_or_else(|refusal| {
            replies.reply(&RespValue::Error(refusal.to_string().as_bytes()));
            CommandOutcome::Refused(refusal)
        })
    }

    /// Begins replication with the active adit of `epoch`, or continues it.
    fn greet(&mut self, epoch: u64, after: GroupNumber) {
        self.greetings += 1;
        if self.groups_epoch == epoch {
            // Groups before `after` that the tail lacks are in the shared store.
            self.groups.drop_through(after);
        } else {
            // The adit of this epoch has copied the former tail to the store when it took over.
            self.groups = GroupQueue::new(after);
            self.groups_epoch = epoch;
        }
    }

    fn append(
        &mut self,
        epoch: u64,
        previous: GroupNumber,
        number: GroupNumber,
        changes: &[u8],
    ) -> Result<(), ReplicationRefusal> {
        self.check_sender(epoch)?;
        if number <= previous || i64::try_from(number.0).is_err() {
            return Err(ReplicationRefusal::Order);
        }
        if number <= self.base() {
            // The group was found in the shared store before it arrived here.
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

    /// Accepts a group only from the adit that made the groups of the tail.
    fn check_sender(&self, epoch: u64) -> Result<(), ReplicationRefusal> {
        self.check_epoch(epoch)?;
        if epoch != self.groups_epoch {
            return Err(ReplicationRefusal::NoHello);
        }
        Ok(())
    }

    /// Accepts only the newest epoch that the shared store has shown: no sender can change which
    /// one that is.
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

fn reply_number(replies: &mut RespReplies, number: GroupNumber) {
    replies.reply(&RespValue::Integer(i64::try_from(number.0).unwrap_or(i64::MAX)));
}

fn reply_array(replies: &mut RespReplies, words: &[&[u8]]) {
    let mut array = Vec::new();
    // `write_command` writes an array of bulk strings, the form that the reply needs.
    write_command(&mut array, words);
    if let Ok(Some((value, _))) = RespValue::read(&array) {
        replies.reply(&value);
    }
}
