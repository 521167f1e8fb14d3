//! The control thread's side of taps: starts taps at the workers, passes the workers' records to
//! the clients' threads, and stops taps in time.
//!
//! A tap ends after its number of packets, after its time, or when its client is gone. Its `TapId`
//! is free again when every worker has confirmed that it reports nothing more.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

use adit_kernel::idle::Doorbell;
use adit_rules::{
    DropReason, TapDropFilter, TapFilter, TapId, TapItem, TapKey, TapRequest, WorkerCommand,
};
use adit_session::SessionStore;
use adit_tables::Publisher;
use adit_types::limits::TAPS_MAX;
use adit_types::{InterfaceId, Nanos, SessionIndex};
use rtrb::{Consumer, Producer};

use super::news::{TapEnd, TapMessage, TapNames};
use super::question::{RequestedTapKey, TapQuestion};
use super::stream::TapStream;

/// Length of the channel from the control thread to a client's thread. Unit: records.
const TAP_CHANNEL_LEN: usize = 1024;

/// Octets of a frame that a worker reports if the client requests headers only: enough for all
/// headers, also in tunnels over IPv6.
const HEADER_SNAP_BYTES: u16 = 224;

/// Most items that are read from one worker's ring in one iteration of the control thread.
const ITEMS_PER_TURN_MAX: usize = 4096;

/// Time within which a tap notices that its client is gone.
const TICK_INTERVAL: Nanos = Nanos::from_millis(500);

/// Limits of taps in this configuration: drops that workers do not see, or no taps at all.
#[derive(Debug, Clone, Default)]
pub(crate) struct TapLimits {
    /// Why no tap can be started; `None` if taps can.
    pub refusal: Option<String>,
    /// Drop reasons of threads without taps: packets dropped so cannot be traced.
    pub unseen: Vec<DropReason>,
}

impl TapLimits {
    /// Refuses a tap of drops that no worker sees, and every tap if no tap can be started.
    fn check(&self, drop: Option<TapDropFilter>) -> Result<(), TapRefusal> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone().into());
        }
        match drop {
            Some(TapDropFilter::Only(reason)) if self.unseen.contains(&reason) => Err(format!(
                "packets are dropped as {} before a worker sees them, so that no trace follows them; \
                 see `adit show counters` and `adit show workers`",
                reason.name()
            )
            .into()),
            _ => Ok(()),
        }
    }
}

/// The context in which a tap is started.
pub(crate) struct TapContext<'a> {
    pub now: Nanos,
    pub store: &'a SessionStore,
    pub publisher: &'a mut Publisher,
    /// Names of the interfaces, by `InterfaceId`.
    pub interfaces: &'a [String],
    pub ports: Vec<String>,
    /// Time of day at which the process clock was zero. Unit: nanoseconds since 1970-01-01 00:00
    /// UTC.
    pub zero_unix_ns: u64,
    pub commands: &'a mut [Producer<WorkerCommand>],
    pub bells: &'a [Doorbell],
}

/// The taps of a running adit.
#[derive(Debug)]
pub(crate) struct TapHub {
    rings: Vec<TapItemRing>,
    taps: [Option<HubTap>; TAPS_MAX],
    limits: TapLimits,
    /// Number of taps started so far.
    started: u64,
}

/// Why a tap is not started, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TapRefusal {
    /// The request is wrong, or the tap cannot be started now.
    Refused(String),
    /// The request names something that does not exist.
    Unknown(String),
}

impl From<String> for TapRefusal {
    fn from(why: String) -> Self {
        Self::Refused(why)
    }
}

/// A tap that runs, for `adit show taps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HubTapState {
    /// The tap's number, counted since adit began.
    pub number: u64,
    /// "trace" or "capture".
    pub kind: &'static str,
    /// Description of the packets that the tap selects.
    pub subject: String,
    /// For how long it has been running.
    pub age: Nanos,
    /// Packets that the tap's client got.
    pub pkts: u64,
    /// Packets for which workers or the client had no room, by the workers' reports so far.
    pub skipped: u64,
}

/// The ring of one worker's tap items.
#[derive(Debug)]
struct TapItemRing {
    items: Consumer<TapItem>,
    /// Items so far of a record that has begun.
    record: Vec<TapItem>,
}

#[derive(Debug)]
struct HubTap {
    number: u64,
    kind: &'static str,
    subject: String,
    news: SyncSender<TapMessage>,
    since: Nanos,
    until: Nanos,
    pkts: u64,
    left: u64,
    skipped: u64,
    /// The session whose packets an offload leaves to the workers while the tap runs.
    withheld: Option<SessionIndex>,
    next_tick: Nanos,
    /// Why the tap ends; `None` while workers report to it.
    why: Option<&'static str>,
    /// Workers that have yet to get the command to stop.
    unstopped: Vec<usize>,
    /// Number of workers that have yet to confirm that they stopped.
    unconfirmed: usize,
    /// True if the client has been notified of the end, or is gone.
    is_told: bool,
}

impl TapHub {
    /// Creates a hub without taps. `rings`: one of each worker, in the order of their command
    /// rings.
    pub(crate) fn new(rings: Vec<Consumer<TapItem>>, limits: TapLimits) -> Self {
        let rings = rings.into_iter().map(|items| TapItemRing { items, record: Vec::new() });
        Self { rings: rings.collect(), taps: [const { None }; TAPS_MAX], limits, started: 0 }
    }

    /// Returns the taps that run, in the order of their start.
    pub(crate) fn running(&self, now: Nanos) -> Vec<HubTapState> {
        let running = self.taps.iter().flatten().filter(|tap| tap.why.is_none());
        let mut states: Vec<HubTapState> = running
            .map(|tap| HubTapState {
                number: tap.number,
                kind: tap.kind,
                subject: tap.subject.clone(),
                age: now.since(tap.since),
                pkts: tap.pkts,
                skipped: tap.skipped,
            })
            .collect();
        states.sort_unstable_by_key(|state| state.number);
        states
    }

    /// Ends the tap with this number. False if no running tap has it.
    pub(crate) fn end(&mut self, number: u64) -> bool {
        let mut running = self.taps.iter_mut().flatten().filter(|tap| tap.why.is_none());
        let found = running.find(|tap| tap.number == number);
        found.map(|tap| tap.why = Some("ended")).is_some()
    }

    /// Starts a tap.
    ///
    /// # Errors
    /// The tap cannot be started: why, and what to do.
    pub(crate) fn start(
        &mut self,
        question: TapQuestion,
        context: TapContext<'_>,
    ) -> Result<TapStream, TapRefusal> {
        self.limits.check(question.drop)?;
        let place = self.taps.iter().position(Option::is_none).ok_or_else(|| {
            format!("{TAPS_MAX} traces and captures run already; end one of them, or wait")
        })?;
        let id = TapId(u8::try_from(place).unwrap_or_default());
        let TapContext { now, store, publisher, commands, bells, .. } = context;
        if commands.iter().any(|ring| ring.slots() < 2) {
            return Err("a worker has yet to run its last commands; try again".to_owned().into());
        }
        let (key, session) = resolve(&question, store, publisher, context.interfaces)?;
        let notes = notes(publisher, session, &question);
        if let Some(session) = session {
            publisher.withhold(session);
        }
        let filter = TapFilter { key, drop: question.drop, one_of: question.one_of };
        let until = now + question.time_max;
        let request = TapRequest {
            filter,
            has_stages: question.stages,
            has_path: question.path,
            snap_bytes: question.snap_bytes.unwrap_or(HEADER_SNAP_BYTES),
            pkts_max: question.pkts_max,
            until,
        };
        for (ring, bell) in commands.iter_mut().zip(bells) {
            // The push succeeds: room was checked above.
            let _ = ring.push(WorkerCommand::StartTap(id, request));
            bell.ring();
        }
        let (sender, news) = sync_channel(TAP_CHANNEL_LEN);
        self.started += 1;
        self.taps[place] = Some(HubTap {
            number: self.started,
            kind: question.kind(),
            subject: question.subject(),
            news: sender,
            since: now,
            until,
            pkts: 0,
            left: question.pkts_max,
            skipped: 0,
            withheld: session,
            next_tick: now,
            why: None,
            unstopped: (0..commands.len()).collect(),
            unconfirmed: commands.len(),
            is_told: false,
        });
        let names = Arc::new(TapNames {
            interfaces: context.interfaces.to_vec(),
            ports: context.ports,
            zero_unix_ns: context.zero_unix_ns,
        });
        Ok(TapStream { question, names, notes, news })
    }

    /// Passes records on, and ends taps. Returns the sessions of ended taps whose packets offloads
    /// may forward again.
    pub(crate) fn turn(
        &mut self,
        now: Nanos,
        commands: &mut [Producer<WorkerCommand>],
        bells: &[Doorbell],
    ) -> Vec<SessionIndex> {
        let mut freed = Vec::new();
        if self.taps.iter().all(Option::is_none) {
            return freed;
        }
        for ring in &mut self.rings {
            for _ in 0..ITEMS_PER_TURN_MAX {
                let Ok(item) = ring.items.pop() else { break };
                process_item(&mut self.taps, &mut ring.record, item);
            }
        }
        for (id, place) in (0..).map(TapId).zip(&mut self.taps) {
            let Some(tap) = place else { continue };
            tap.check(now);
            tap.stop(id, commands, bells);
            if tap.is_over() {
                freed.extend(tap.withheld);
                *place = None;
            }
        }
        freed
    }
}

/// Processes an item of a worker: collects the items of a record, and sends the complete record to
/// the taps of its packet.
fn process_item(taps: &mut [Option<HubTap>], record: &mut Vec<TapItem>, item: TapItem) {
    let at = |TapId(id)| usize::from(id);
    match item {
        TapItem::Skipped(id, pkts) => {
            taps.get_mut(at(id)).into_iter().flatten().for_each(|tap| tap.skipped += pkts);
        }
        TapItem::Stopped(id) => {
            for tap in taps.get_mut(at(id)).into_iter().flatten() {
                tap.unconfirmed = tap.unconfirmed.saturating_sub(1);
            }
        }
        TapItem::Packet(_) => {
            record.clear();
            record.push(item);
        }
        TapItem::End(_) => {
            record.push(item);
            let record = core::mem::take(record);
            let Some(TapItem::Packet(packet)) = record.first() else { return };
            for (id, place) in (0..).map(TapId).zip(taps) {
                if let Some(tap) = place.as_mut().filter(|_| packet.taps.contains(id)) {
                    tap.send_record(record.clone());
                }
            }
        }
        _ => record.push(item),
    }
}

impl HubTap {
    /// Passes a record on to the client.
    fn send_record(&mut self, record: Vec<TapItem>) {
        if self.why.is_some() {
            return;
        }
        match self.news.try_send(TapMessage::Record(record)) {
            Ok(()) => {
                self.pkts += 1;
                self.left = self.left.saturating_sub(1);
                if self.left == 0 {
                    self.why = Some("packets");
                }
            }
            Err(TrySendError::Full(_)) => self.skipped += 1,
            Err(TrySendError::Disconnected(_)) => self.lose_client(),
        }
    }

    fn lose_client(&mut self) {
        self.why.get_or_insert("client");
        self.is_told = true;
    }

    /// Ends the tap when its time is over or its client is gone.
    fn check(&mut self, now: Nanos) {
        if now >= self.until {
            self.why.get_or_insert("duration");
        }
        if now >= self.next_tick && !self.is_told {
            self.next_tick = now + TICK_INTERVAL;
            if let Err(TrySendError::Disconnected(_)) = self.news.try_send(TapMessage::Tick) {
                self.lose_client();
            }
        }
    }

    /// Stops an ended tap at the workers, and then notifies the client.
    fn stop(&mut self, id: TapId, commands: &mut [Producer<WorkerCommand>], bells: &[Doorbell]) {
        let Some(why) = self.why else { return };
        self.unstopped.retain(|worker| {
            let ring = commands.get_mut(*worker);
            let is_full = ring.is_some_and(|ring| ring.push(WorkerCommand::StopTap(id)).is_err());
            bells.get(*worker).into_iter().for_each(Doorbell::ring);
            is_full
        });
        // Only after all workers have stopped is the count of skipped packets final.
        if self.unstopped.is_empty() && self.unconfirmed == 0 && !self.is_told {
            let ended = TapMessage::Ended(TapEnd { why, skipped: self.skipped });
            self.is_told = !matches!(self.news.try_send(ended), Err(TrySendError::Full(_)));
        }
    }

    fn is_over(&self) -> bool {
        self.why.is_some() && self.unstopped.is_empty() && self.unconfirmed == 0 && self.is_told
    }
}

/// Finds the key for workers, and the session that a request is about, if there is one.
fn resolve(
    question: &TapQuestion,
    store: &SessionStore,
    publisher: &Publisher,
    interfaces: &[String],
) -> Result<(TapKey, Option<SessionIndex>), TapRefusal> {
    let unknown = TapRefusal::Unknown;
    match &question.key {
        RequestedTapKey::Any => Ok((TapKey::Any, None)),
        RequestedTapKey::Session(seid) => {
            let session = store.session(*seid).ok_or_else(|| {
                unknown(format!(
                    "no session has the UP SEID {seid}; `adit show sessions` lists them"
                ))
            })?;
            let index = session.index();
            Ok((TapKey::Session(index, *seid), Some(index)))
        }
        RequestedTapKey::Ue(addr) => {
            let session = store.session_of_ue(*addr).map(adit_session::Session::index);
            Ok((TapKey::Ue(*addr), session))
        }
        RequestedTapKey::Teid(teid) => {
            let session = publisher.session_of_teid(*teid);
            Ok((TapKey::Teid(*teid), session.is_some().then_some(session)))
        }
        RequestedTapKey::Interface(name) => {
            let at = interfaces.iter().position(|known| known == name).ok_or_else(|| {
                let known = interfaces.join(", ");
                unknown(format!("no interface \"{name}\"; there are {known}"))
            })?;
            let id = u8::try_from(at).map(InterfaceId).unwrap_or_default();
            Ok((TapKey::Interface(id), None))
        }
    }
}

/// Returns notes for the client, which it gets before the first packet.
fn notes(
    publisher: &Publisher,
    session: Option<SessionIndex>,
    question: &TapQuestion,
) -> Vec<String> {
    let mut notes = Vec::new();
    match &question.key {
        RequestedTapKey::Ue(addr) if session.is_none() => {
            notes.push(format!("no session has the UE address {addr} now"));
        }
        RequestedTapKey::Teid(teid) if session.is_none() => {
            notes.push(format!("no session owns the TEID {teid} now"));
        }
        _ => {}
    }
    if let Some(offload) = publisher.offload()
        && offload.entries > 0
        && session.is_none()
    {
        notes.push(format!(
            "{} forwards packets of {} sessions before a worker sees them; only a tap of one session \
             (--session, --ue, --teid) brings them back",
            offload.name, offload.sessions
        ));
    }
    notes
}
