//! The client of a shared store: calls that wait for the primary, and its side as a
//! [`RecordStore`].

use std::fmt;
use std::time::{Duration, Instant};

use adit_store::{
    AppendError, GroupNumber, GroupPosition, GroupQueue, Incarnation, RecordKey, RecordKind,
    RecordStore, StoreChange, StoreError, Upkeep,
};
use adit_transport::Transport;
use adit_transport::resp::RespValue;
use adit_types::Nanos;

use crate::checksum::RecordDamage;
use crate::connection::LinkError;
use crate::figures::SharedStoreFigures;
use crate::greeting::GreetingCommands;
use crate::keys::StoreKeys;
use crate::lease_clock::LeaseClock;
use crate::link::{LinkTimes, ServerLink};
use crate::options::SharedStoreOptions;
use crate::refill_progress::RefillProgress;
use crate::scan_findings::ScanFindings;
use crate::scripts::ScriptDigests;
use crate::server_info::ServerInfo;
use crate::standby_name::StandbyName;
use crate::tail::GroupTail;

/// Maximum of changes in a group: the arguments that a script can pass on are limited.
const GROUP_CHANGES_MAX: usize = 3900;
/// Maximum of connections that one call tries.
const CONNECTIONS_PER_CALL_MAX: usize = 4;
/// How long upkeep waits for a primary, so that one is found soon though the caller pauses between
/// calls.
const UPKEEP_WAIT_MAX: Duration = Duration::from_millis(100);

/// The records of one name in a shared store.
///
/// Threads: used by one thread at a time.
pub struct SharedStore<T: Transport> {
    pub(crate) link: ServerLink<T>,
    pub(crate) keys: StoreKeys,
    pub(crate) scripts: ScriptDigests,
    pub(crate) options: SharedStoreOptions,
    pub(crate) holder: String,
    /// The fencing token; `None` while this process does not hold the lease.
    pub(crate) epoch: Option<u64>,
    pub(crate) tail: GroupTail,
    pub(crate) standby: StandbyName,
    pub(crate) former_standby: Option<Incarnation>,
    /// The incarnation of this process, if it is a standby.
    pub(crate) incarnation: Option<Incarnation>,
    pub(crate) gives_up_standby: bool,
    /// True if the connection can be used: for a holder, once it has read which groups the server
    /// has.
    pub(crate) is_ready: bool,
    /// Since when there has been no usable connection.
    pub(crate) lost_at: Option<Instant>,
    /// Why a server refused the last write, or that too few replicas have it; and how often that
    /// happened.
    pub(crate) refusal: Option<String>,
    pub(crate) refusals: u64,
    /// When the last renewal of the lease was queued; when the last one was that the server has;
    /// when the last one was that enough replicas have as well.
    pub(crate) queued_at: Option<Instant>,
    pub(crate) written_at: Option<Instant>,
    pub(crate) confirmed: Option<Instant>,
    /// The process that took the lease from this one.
    fenced_by: Option<String>,
    /// The epoch before that of this holder, and the holder of that epoch.
    pub(crate) before: (u64, String),
    pub(crate) lease_clock: LeaseClock,
    /// Values of the server's replies to `INFO`, and the time of the last reply.
    pub(crate) info: ServerInfo,
    pub(crate) informed_at: Option<Instant>,
    pub(crate) refill: RefillProgress,
    accepts_loss: bool,
    losses_accepted: Vec<String>,
    pub(crate) is_handover_requested: bool,
    /// The last group that [`SharedStore::follow`] has passed to its visitor.
    pub(crate) followed: Option<GroupPosition>,
    /// True if the visitor has got all records up to that group.
    pub(crate) is_followed_whole: bool,
    /// The last followed group, if the server lacked some of the followed groups when this process
    /// took the lease.
    pub(crate) kept: Option<GroupPosition>,
    /// When the server was first seen to lack some of the followed groups.
    pub(crate) lacking_since: Option<Instant>,
    pub(crate) figures: SharedStoreFigures,
    /// The last group that was sent to any server.
    pub(crate) sent: GroupNumber,
}

impl<T: Transport> fmt::Debug for SharedStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = (&self.holder, &self.epoch, &self.figures);
        f.debug_tuple("SharedStore").field(&all).finish_non_exhaustive()
    }
}

impl<T: Transport> SharedStore<T> {
    /// Creates a client without a connection; the first call connects.
    #[must_use]
    pub fn new(transport: T, options: SharedStoreOptions) -> Self {
        let keys = StoreKeys::new(&options.name);
        let commands = GreetingCommands::new(&keys, options.login.as_ref());
        let times = LinkTimes { silence: options.silence(), grace: options.grace() };
        Self {
            link: ServerLink::new(transport, &options.servers, commands, times),
            keys,
            scripts: ScriptDigests::default(),
            holder: options.holder(),
            options,
            epoch: None,
            tail: GroupTail::default(),
            standby: StandbyName::default(),
            former_standby: None,
            incarnation: None,
            gives_up_standby: false,
            is_ready: false,
            lost_at: Some(Instant::now()),
            refusal: None,
            refusals: 0,
            queued_at: None,
            written_at: None,
            confirmed: None,
            fenced_by: None,
            before: (0, String::new()),
            lease_clock: LeaseClock::default(),
            info: ServerInfo::default(),
            informed_at: None,
            refill: RefillProgress::default(),
            accepts_loss: false,
            losses_accepted: Vec::new(),
            is_handover_requested: false,
            followed: None,
            is_followed_whole: false,
            kept: None,
            lacking_since: None,
            figures: SharedStoreFigures::default(),
            sent: GroupNumber(0),
        }
    }

    /// Returns the figures, for operators.
    #[must_use]
    pub fn figures(&self) -> SharedStoreFigures {
        SharedStoreFigures {
            server: self.link.server(),
            epoch: self.epoch.unwrap_or(0),
            lease_valid_until: self.lease_valid_until(),
            connection_failures: self.link.failures,
            pending_octets: self.tail.groups().waiting_octets(),
            warnings: self.warnings(),
            ..self.figures.clone()
        }
    }

    /// Goes on without records that the store has lost or that are damaged, from the next check on.
    pub fn accept_loss(&mut self) {
        self.accepts_loss = true;
    }

    /// Checks whether records are missing, and whether a process ended before it had written all
    /// records again. The lease must be held.
    ///
    /// # Errors
    /// Records are lost, and the loss is not accepted; or the store cannot be read.
    pub fn check_records(&mut self) -> Result<(), StoreError> {
        if self.figures.is_incomplete {
            if !self.accepts_loss {
                return Err(StoreError::Incomplete);
            }
            self.losses_accepted.push("the records were not all written again".to_owned());
            self.end_refill_mark();
        }
        let missing = self.on_primary(&mut Self::missing_records)?;
        self.accept_or_refuse_damage(&missing)
    }

    /// Returns the last followed group, if the server lacked some followed groups when this process
    /// took the lease: then the followed records count, and are written again.
    #[must_use]
    pub const fn kept_through(&self) -> Option<GroupPosition> {
        self.kept
    }

    /// Returns the losses that were accepted since the last call, as sentences.
    pub fn take_accepted_losses(&mut self) -> Vec<String> {
        std::mem::take(&mut self.losses_accepted)
    }

    /// Returns an error for damage, unless losses are accepted: then all records are written again
    /// as soon as possible.
    pub(crate) fn accept_or_refuse_damage(
        &mut self,
        damage: &RecordDamage,
    ) -> Result<(), StoreError> {
        if damage.is_empty() {
            return Ok(());
        }
        if !self.accepts_loss {
            return Err(damage.error());
        }
        self.losses_accepted.extend(damage.sentences());
        self.refill.is_wanted = true;
        Ok(())
    }

    /// Removes the mark of incomplete records once all groups so far are durable.
    fn end_refill_mark(&mut self) {
        if self.refill.marked_until.is_some() {
            self.refill.marked_until = Some(self.tail.groups().last());
            self.figures.is_incomplete = false;
        }
    }

    fn warnings(&self) -> Vec<String> {
        let refill = self.refill.marked_until.map(|_| {
            "it lost records, which are written again; until that is done they are in the memory of this adit alone".to_owned()
        });
        let of_server = self.info.warnings(self.options.acknowledge_replicas);
        refill.into_iter().chain(of_server).collect()
    }

    /// Returns the time until which no other process can hold the lease: its length after the last
    /// prolongation that counts was sent. A prolongation counts once the primary and as many
    /// replicas as configured have it. `None` without the lease.
    #[must_use]
    pub fn lease_valid_until(&self) -> Option<Instant> {
        self.epoch?;
        Some(self.confirmed? + self.options.lease)
    }

    /// Runs `work` on the primary, and again if the connection is lost meanwhile.
    pub(crate) fn on_primary<R>(
        &mut self,
        work: &mut dyn FnMut(&mut Self) -> Result<R, LinkError>,
    ) -> Result<R, StoreError> {
        let deadline = Instant::now() + self.options.patience;
        for _ in 0..CONNECTIONS_PER_CALL_MAX {
            self.await_primary(deadline)?;
            let error = match work(self) {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let refusal = match &error {
                LinkError::Refused(why) => Some(why.clone()),
                _ => None,
            };
            self.note_loss(error)?;
            if let Some(why) = refusal {
                return Err(StoreError::Unavailable(why));
            }
        }
        Err(StoreError::Unavailable(self.link.reasons()))
    }

    /// Waits for a usable connection.
    fn await_primary(&mut self, deadline: Instant) -> Result<(), StoreError> {
        loop {
            self.drive()?;
            if self.is_ready {
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(StoreError::Unavailable(self.link.reasons()));
            }
            self.link.wait(left);
        }
    }

    /// Waits until the replicas have all that was written on this connection; the last of it is the
    /// lease, queued at `at`.
    pub(crate) fn wait_for_replicas(&mut self, at: Instant) -> Result<(), LinkError> {
        let wanted = self.options.acknowledge_replicas;
        let mut have = 0;
        if wanted > 0 {
            let (wanted, limit) = (wanted.to_string(), self.wait_limit());
            let command = vec![&b"WAIT"[..], wanted.as_bytes(), limit.as_bytes()];
            self.link.call_server(&[command], self.options.silence(), &mut |_, value| {
                if let RespValue::Integer(replicas) = value {
                    have = replicas;
                }
            })?;
        }
        if have >= i64::from(wanted) {
            (self.confirmed, self.refusal) = (Some(at), None);
            return Ok(());
        }
        let server = self.link.server().map_or_else(String::new, |server| server.to_string());
        let why = format!("{have} of {wanted} replicas of {server} have the last changes");
        Err(LinkError::Refused(why))
    }

    /// Notes that the lease is lost for good, and returns the error.
    pub(crate) fn fence(&mut self, holder: String) -> StoreError {
        self.epoch = None;
        self.figures.holder.clone_from(&holder);
        self.fenced_by = Some(holder.clone());
        StoreError::Fenced { holder }
    }

    /// True while a group or the standby's name is not durable.
    fn is_waiting(&self) -> bool {
        self.tail.groups().is_waiting() || self.standby.is_waiting()
    }

    /// Returns an error unless this process holds the lease: only the holder may write.
    fn check_lease(&self) -> Result<(), StoreError> {
        match (&self.fenced_by, self.epoch) {
            (Some(holder), _) => Err(StoreError::Fenced { holder: holder.clone() }),
            (None, Some(_)) => Ok(()),
            (None, None) => Err(StoreError::Unavailable("its lease was not taken".to_owned())),
        }
    }

    /// Returns an error if the lease is lost or groups do not become durable.
    fn check(&self) -> Result<(), StoreError> {
        if let Some(holder) = &self.fenced_by {
            return Err(StoreError::Fenced { holder: holder.clone() });
        }
        self.lasting_failure().map_or(Ok(()), |why| Err(StoreError::Unavailable(why)))
    }
}

impl<T: Transport> RecordStore for SharedStore<T> {
    fn append(&mut self, changes: &[StoreChange<'_>]) -> Result<GroupNumber, AppendError> {
        match changes.len() <= GROUP_CHANGES_MAX {
            true => self.tail.append(changes),
            false => Err(AppendError::Group),
        }
    }

    fn commit(&mut self) -> Result<GroupNumber, StoreError> {
        self.check_lease()?;
        let (deadline, refusals) = (Instant::now() + self.options.patience, self.refusals);
        while self.is_waiting() {
            self.drive()?;
            let left = deadline.saturating_duration_since(Instant::now());
            let is_refused = self.refusals != refusals;
            if self.is_waiting() && (is_refused || left.is_zero()) {
                let why = self.lasting_failure().unwrap_or_else(|| self.link.reasons());
                return Err(StoreError::Unavailable(why));
            }
            if self.is_waiting() {
                self.link.wait(left);
            }
        }
        Ok(self.durable())
    }

    fn groups(&self) -> &GroupQueue {
        self.tail.groups()
    }

    fn set_standby(&mut self, standby: Option<Incarnation>) {
        self.standby.set_wanted(standby);
    }

    fn standby(&self) -> Option<Incarnation> {
        self.standby.durably_named()
    }

    /// True if the server is near its `maxmemory`.
    fn is_full(&self) -> bool {
        self.info.is_full()
    }

    fn losses(&self) -> u64 {
        self.refill.losses
    }

    fn set_complete(&mut self) {
        self.refill.is_possible = true;
        self.end_refill_mark();
    }

    /// Prolongs the lease when due, and searches for a primary if there is none.
    fn maintain(&mut self) -> Result<Upkeep, StoreError> {
        let deadline = Instant::now() + UPKEEP_WAIT_MAX;
        loop {
            self.poll(Nanos(0)).or_else(|error| match error {
                StoreError::Unavailable(_) => Ok(()),
                error => Err(error),
            })?;
            let left = deadline.saturating_duration_since(Instant::now());
            if self.is_ready || self.epoch.is_none() || left.is_zero() {
                break;
            }
            self.link.wait(left);
        }
        self.check()?;
        let is_waiting = self.link.in_flight() != Some(0);
        Ok(if is_waiting { Upkeep::Waiting } else { Upkeep::Idle })
    }

    fn visit(
        &mut self,
        kinds: &[RecordKind],
        visitor: &mut dyn FnMut(RecordKey<'_>, &[u8]),
    ) -> Result<(), StoreError> {
        self.on_primary(&mut |_| Ok(()))?;
        let mut findings = ScanFindings::default();
        for &kind in kinds {
            if let Err(error) = self.scan(kind, &mut findings, visitor) {
                let why = match &error {
                    LinkError::Lost(why) | LinkError::Refused(why) => why.clone(),
                    LinkError::Moved(server) => format!("the records moved to {server} meanwhile"),
                    LinkError::Final(error) => error.to_string(),
                };
                self.note_loss(error)?;
                return Err(StoreError::Unavailable(why));
            }
        }
        self.accept_or_refuse_damage(&findings.damage)
    }

    /// Makes progress without waiting, and ignores the time.
    fn poll(&mut self, _now: Nanos) -> Result<(), StoreError> {
        self.drive()?;
        self.check()
    }

    fn wait(&mut self, limit: Duration) {
        self.link.wait(limit);
    }
}
