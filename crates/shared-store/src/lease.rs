//! The lease: taking it, releasing it, and requesting it from its holder.

use std::time::{Duration, Instant};

use adit_store::{GroupNumber, GroupPosition, Incarnation, StoreError};
use adit_transport::Transport;

use crate::connection::LinkError;
use crate::keys::FORMAT_VERSION;
use crate::lease_clock::LeaseReading;
use crate::pipeline::unreadable_answer;
use crate::scripts::{Script, ScriptAnswer, octets};
use crate::shared_store::SharedStore;
use crate::standby_name::StandbyName;

/// How long a request for a handover lasts. Unit: ms.
const HANDOVER_MS: &[u8] = b"10000";

/// The result of an attempt to take the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// This process holds the lease now.
    Taken {
        /// The fencing token of this process.
        epoch: u64,
    },
    /// Another process has the lease.
    Held(LeaseView),
    /// Nobody holds the lease, and only this standby may take it: it may have acknowledged groups
    /// that the server lacks.
    Named(Incarnation),
}

/// A lease as a server shows it, and for how long it lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseView {
    /// Name of the process that holds the lease.
    pub holder: String,
    /// The fencing token of the holder.
    pub epoch: u64,
    /// How long the lease lasts unless it is prolonged, by this process's own clock: its whole
    /// length when it is first read, and when it is first read on another connection.
    pub left: Duration,
    /// How often this process has seen the lease prolonged, or has restarted its clock on the same
    /// connection.
    pub renewals: u64,
}

impl<T: Transport> SharedStore<T> {
    /// Takes the lease if it is free, a previous process of this instance holds it, or its holder
    /// has not prolonged it for its whole length while this process watched. From then on the
    /// server refuses writes of previous holders, and this process may append. If the server names
    /// a standby, only that standby gets the lease: see [`SharedStore::set_incarnation`].
    ///
    /// # Errors
    /// No server can be used, the server evicts records, or a newer program wrote the records.
    pub fn acquire(&mut self) -> Result<LeaseAnswer, StoreError> {
        self.on_primary(&mut |store| {
            if let Some(why) = store.info.eviction_warning() {
                let server = store.link.server().map_or_else(String::new, |at| at.to_string());
                return Err(LinkError::Refused(format!("{server}: {why}")));
            }
            let began = Instant::now();
            match store.run_acquire_script()? {
                ScriptAnswer::Taken { epoch, last, before, are_checked, standby } => {
                    // If replicas did not have it, one that becomes the primary might give the same
                    // epoch to another process.
                    store.wait_for_replicas(began)?;
                    let is_incomplete = store.read_refill_mark()?;
                    if is_incomplete && store.refill.marked_until.is_none() {
                        store.refill.marked_until = Some(GroupNumber(u64::MAX));
                        store.figures.is_incomplete = true;
                    }
                    if store.epoch != Some(epoch) && before.0 < epoch {
                        store.before = before;
                    }
                    store.epoch = Some(epoch);
                    (store.queued_at, store.written_at) = (Some(began), Some(began));
                    store.tail.begin(epoch, last);
                    (store.former_standby, store.standby) = (standby, StandbyName::default());
                    store.figures.last = last;
                    store.is_handover_requested = false;
                    store.figures.holder.clone_from(&store.holder);
                    store.keep_followed_records(last, is_incomplete);
                    if !are_checked {
                        store.add_checksums()?;
                    }
                    Ok(LeaseAnswer::Taken { epoch })
                }
                ScriptAnswer::Named(standby) => Ok(LeaseAnswer::Named(standby)),
                ScriptAnswer::Held(sight) => Ok(LeaseAnswer::Held(store.update_lease_clock(sight))),
                _ => Err(unreadable_answer()),
            }
        })
    }

    /// Keeps the followed records, to write them again, if they are whole and the server has only
    /// groups up to `last`, before the last followed one, or does not have all records.
    fn keep_followed_records(&mut self, last: GroupPosition, is_incomplete: bool) {
        let lacks = self.followed.is_some_and(|reached| reached > last) || is_incomplete;
        if lacks && self.is_followed_whole {
            self.kept = self.followed.replace(last);
            self.refill.is_wanted = true;
        }
    }

    /// Returns the standby that the server named when this process took the lease: the server may
    /// lack groups that this standby acknowledged.
    #[must_use]
    pub const fn former_standby(&self) -> Option<Incarnation> {
        self.former_standby
    }

    /// Sets the incarnation that this process has as a standby.
    pub const fn set_incarnation(&mut self, own: Incarnation) {
        self.incarnation = Some(own);
    }

    /// Accepts that the standby which the server names is lost, together with the groups that only
    /// this standby had: from now on this process takes the lease in spite of the name.
    pub const fn accept_loss_of_standby(&mut self) {
        self.gives_up_standby = true;
    }

    /// True if the server has the mark that a process is writing all records again, or ended before
    /// it was done.
    fn read_refill_mark(&mut self) -> Result<bool, LinkError> {
        let mut is_marked = false;
        let command = vec![&b"HGET"[..], self.keys.state(), b"filling"];
        self.link.call_server(&[command], Duration::ZERO, &mut |_, value| {
            is_marked = octets(value).is_some();
        })?;
        Ok(is_marked)
    }

    /// Updates the clock of another holder's lease with what was just read, and returns its state.
    pub(crate) fn update_lease_clock(&mut self, sight: LeaseReading) -> LeaseView {
        self.figures.holder.clone_from(&sight.holder);
        if self.figures.replicas < self.options.acknowledge_replicas {
            // The holder may write to another primary, whose writes this server does not get.
            self.lease_clock.reset();
        }
        let (holder, epoch) = (sight.holder.clone(), sight.epoch);
        let left = self.lease_clock.note(sight, Instant::now(), self.options.lease);
        LeaseView { holder, epoch, left, renewals: self.lease_clock.renewals() }
    }

    fn run_acquire_script(&mut self) -> Result<ScriptAnswer, LinkError> {
        let (instance, lease) = (self.options.instance_prefix(), self.options.lease_ms());
        let format = FORMAT_VERSION.to_string();
        let mut command = self.scripts.command(Script::Acquire, &self.keys);
        let ended = self.lease_clock.ended(Instant::now());
        let (epoch, beat) = match ended {
            Some((epoch, beat)) => (epoch.to_string(), beat.to_string()),
            None => (String::new(), String::new()),
        };
        let words = [&format, &instance, &self.holder, &lease, &epoch, &beat];
        command.extend(words.map(|word| word.as_bytes()));
        let own = self.incarnation.map(|incarnation| incarnation.0.to_be_bytes());
        command.push(match &own {
            _ if self.gives_up_standby => b"*",
            Some(own) => own,
            None => b"",
        });
        match self.link.run_script(command)? {
            Some(ScriptAnswer::Newer { format }) => {
                Err(LinkError::Final(self.newer_format_error(format)))
            }
            Some(answer) => Ok(answer),
            None => Err(unreadable_answer()),
        }
    }

    /// Returns the error for records that a newer program wrote.
    pub(crate) fn newer_format_error(&self, version: u32) -> StoreError {
        let file = format!("the shared store of \"{}\"", self.options.name);
        StoreError::Newer { file, version, newest: FORMAT_VERSION }
    }

    /// Releases the lease, so that another process need not wait until it ends. Groups that are not
    /// durable stay appended.
    ///
    /// # Errors
    /// No server can be used; the lease ends by itself.
    pub fn release(&mut self) -> Result<(), StoreError> {
        if self.epoch.take().is_none() {
            return Ok(());
        }
        self.on_primary(&mut |store| {
            let mut command = store.scripts.command(Script::Release, &store.keys);
            command.push(store.holder.as_bytes());
            match store.link.run_script(command)? {
                Some(ScriptAnswer::Released) => Ok(()),
                _ => Err(unreadable_answer()),
            }
        })
    }

    /// Requests the lease from its holder, which sees the request the next time it writes or
    /// prolongs the lease. The request lasts 10 seconds.
    ///
    /// # Errors
    /// No server can be used.
    pub fn request_handover(&mut self) -> Result<(), StoreError> {
        self.on_primary(&mut |store| {
            let holder = store.holder.as_bytes();
            let script = include_bytes!("scripts/handover.lua");
            let command =
                vec![&b"EVAL"[..], script, b"1", store.keys.handover(), holder, HANDOVER_MS];
            store.link.call_server(&[command], Duration::ZERO, &mut |_, _| {})
        })
    }

    /// True if, when this holder last wrote or prolonged the lease, another process was requesting
    /// it.
    #[must_use]
    pub const fn is_handover_requested(&self) -> bool {
        self.is_handover_requested
    }
}
