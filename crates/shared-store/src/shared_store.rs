//! The client: calls that wait for the primary, and the contract of a store.

use std::fmt;
use std::time::{Duration, Instant};

use adit_store::{
    AppendError, GroupPosition, GroupQueue, Incarnation, RecordKey, RecordKind, RecordNumber,
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

/// Changes of a group: a script cannot pass on more.
const GROUP_CHANGES_MAX: usize = 3900;
/// Connections that one call uses up.
const ROUNDS_MAX: usize = 4;
/// How long upkeep waits for a primary, so that a caller which pauses afterwards finds it soon.
const UPKEEP_WAIT: Duration = Duration::from_millis(100);

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
    pub(crate) standby: StandbyName,
    pub(crate) former_standby: Option<Incarnation>,
    /// The incarnation of this process as a standby.
    pub(crate) incarnation: Option<Incarnation>,
    pub(crate) gives_up_standby: bool,
    /// The connection can be used: a holder has read which groups its server has.
    pub(crate) is_ready: bool,
    /// Since when there is no such connection.
    pub(crate) lost_at: Option<Instant>,
    /// Why a server refused the last write, or too few replicas have it; and how often that
    /// happened.
    pub(crate) refusal: Option<String>,
    pub(crate) refusals: u64,
    /// When the lease was queued last, when the last one that the server has was, and when the last
    /// one that counts was.
    pub(crate) queued_at: Option<Instant>,
    pub(crate) written_at: Option<Instant>,
    pub(crate) confirmed: Option<Instant>,
    /// Who took the lease from this process.
    fenced_by: Option<String>,
    /// The epoch before this holder's, and its holder.
    pub(crate) before: (u64, String),
    pub(crate) lease_clock: LeaseClock,
    /// The server's replies to `INFO`, and the time of the last of them.
    pub(crate) info: ServerInfo,
    pub(crate) informed_at: Option<Instant>,
    pub(crate) refill: RefillProgress,
    accepts_loss: bool,
    losses_accepted: Vec<String>,
    pub(crate) is_handover_requested: bool,
    /// The last group that [`SharedStore::follow`] has yielded.
    pub(crate) followed: Option<GroupPosition>,
    /// It has yielded all records up to there.
    pub(crate) is_followed_whole: bool,
    /// The last yielded group, when this process took the lease of a server that lacks some of the
    /// yielded groups.
    pub(crate) kept: Option<GroupPosition>,
    /// When the server was first seen to lack some of them.
    pub(crate) lacking_since: Option<Instant>,
    pub(crate) figures: SharedStoreFigures,
    /// The last group that was sent to any server.
    pub(crate) sent: RecordNumber,
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
            sent: RecordNumber(0),
        }
    }

    /// Figures for operators.
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

    /// Goes on without records that the store has lost or that are damaged, from the next look at
    /// them on.
    pub fn accept_loss(&mut self) {
        self.accepts_loss = true;
    }

    /// Looks for records that are missing, and for a mark of a process that did not end to write
    /// them again. The lease must be held.
    ///
    /// # Errors
    /// Records are lost, and that is not accepted; or the store cannot be read.
    pub fn check_records(&mut self) -> Result<(), StoreError> {
        if self.figures.is_incomplete {
            if !self.accepts_loss {
                return Err(StoreError::Incomplete);
            }
            self.losses_accepted.push("the records were not all written again".to_owned());
            self.end_mark();
        }
        let missing = self.on_primary(&mut Self::missing_records)?;
        self.judge(&missing)
    }

    /// The last group that was followed, if the server lacked some of it when this process took the
    /// lease: the followed records count, and are written again.
    #[must_use]
    pub const fn kept(&self) -> Option<GroupPosition> {
        self.kept
    }

    /// Losses that were accepted since the last call, in sentences.
    pub fn take_accepted_losses(&mut self) -> Vec<String> {
        std::mem::take(&mut self.losses_accepted)
    }

    /// Refuses damage, or accepts it: then all records are written again as soon as that is
    /// possible.
    pub(crate) fn judge(&mut self, damage: &RecordDamage) -> Result<(), StoreError> {
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

    /// Removes the mark once all groups so far are durable.
    fn end_mark(&mut self) {
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

    /// The time until which no other process can hold the lease: its whole length after the last
    /// prolongation that counts was sent. One counts when the primary has it, and as many replicas
    /// as configured. `None` without the lease.
    #[must_use]
    pub fn lease_valid_until(&self) -> Option<Instant> {
        self.epoch?;
        Some(self.confirmed? + self.options.lease)
    }

    /// Does a piece of work on the primary, and again if the connection is lost meanwhile.
    pub(crate) fn on_primary<R>(
        &mut self,
        work: &mut dyn FnMut(&mut Self) -> Result<R, LinkError>,
    ) -> Result<R, StoreError> {
        let deadline = Instant::now() + self.options.patience;
        for _ in 0..ROUNDS_MAX {
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

    /// Waits for a connection that can be used.
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

    /// Replicas must have all that this connection wrote, the lease at `at` last.
    pub(crate) fn wait_for_replicas(&mut self, at: Instant) -> Result<(), LinkError> {
        let wanted = self.options.acknowledge_replicas;
        let mut have = 0;
        if wanted > 0 {
            let (wanted, limit) = (wanted.to_string(), self.wait_limit());
            let command = vec![&b"WAIT"[..], wanted.as_bytes(), limit.as_bytes()];
            self.link.exchange(&[command], self.options.silence(), &mut |_, value| {
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

    /// Notes that the lease is lost, for good.
    pub(crate) fn fence(&mut self, holder: String) -> StoreError {
        self.epoch = None;
        self.figures.holder.clone_from(&holder);
        self.fenced_by = Some(holder.clone());
        StoreError::Fenced { holder }
    }

    /// True while something is not durable.
    fn is_waiting(&self) -> bool {
        self.tail.groups().is_waiting() || self.standby.is_waiting()
    }

    /// Only the holder of the lease writes.
    fn check_lease(&self) -> Result<(), StoreError> {
        match (&self.fenced_by, self.epoch) {
            (Some(holder), _) => Err(StoreError::Fenced { holder: holder.clone() }),
            (None, Some(_)) => Ok(()),
            (None, None) => Err(StoreError::Unavailable("its lease was not taken".to_owned())),
        }
    }

    /// The state of the lease and of the connection.
    fn check(&self) -> Result<(), StoreError> {
        if let Some(holder) = &self.fenced_by {
            return Err(StoreError::Fenced { holder: holder.clone() });
        }
        self.trouble().map_or(Ok(()), |why| Err(StoreError::Unavailable(why)))
    }
}

impl<T: Transport> RecordStore for SharedStore<T> {
    fn append(&mut self, changes: &[StoreChange<'_>]) -> Result<RecordNumber, AppendError> {
        match changes.len() <= GROUP_CHANGES_MAX {
            true => self.tail.append(changes),
            false => Err(AppendError::Group),
        }
    }

    fn commit(&mut self) -> Result<RecordNumber, StoreError> {
        self.check_lease()?;
        let (deadline, refusals) = (Instant::now() + self.options.patience, self.refusals);
        while self.is_waiting() {
            self.drive()?;
            let left = deadline.saturating_duration_since(Instant::now());
            let is_refused = self.refusals != refusals;
            if self.is_waiting() && (is_refused || left.is_zero()) {
                let why = self.trouble().unwrap_or_else(|| self.link.reasons());
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
        self.standby.named()
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
        self.end_mark();
    }

    /// Prolongs the lease in good time, and looks for a primary if there is none.
    fn maintain(&mut self) -> Result<Upkeep, StoreError> {
        let deadline = Instant::now() + UPKEEP_WAIT;
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
        self.judge(&findings.damage)
    }

    /// Makes progress without waiting.
    fn poll(&mut self, _now: Nanos) -> Result<(), StoreError> {
        self.drive()?;
        self.check()
    }

    fn wait(&mut self, limit: Duration) {
        self.link.wait(limit);
    }
}
