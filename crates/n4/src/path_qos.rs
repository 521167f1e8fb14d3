//! Measures the delays of GTP-U paths for CP functions that request it.
//!
//! For each path and traffic class that was requested, an Echo Request is sent each second; half of
//! the round-trip time is the packet delay. For each CP function, the delays of a path are gathered
//! in a separate window, which ends with a periodic report; without a period it ends with the
//! report of a crossed threshold. Paths whose requests are not answered have no delay; module
//! `path` reports their failure. Spec: TS 29.244 §5.24.5, §7.4.4.1.3, §7.4.5.1.5; TS 23.501
//! §5.33.3.3.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use adit_pfcp::grouped::GtpuPathQosControlInformation;
use adit_pfcp::ie::{GtpuPathInterfaceType, QosReportTrigger, TransportLevelMarking};
use adit_pfcp::{Cause, IeType};
use adit_rules::WorkerCommand;
use adit_session::{OwnerId, PeerSides};
use adit_types::limits::{
    COMMAND_RING_LEN, PATH_PROBES_MAX, PATH_TRAFFIC_CLASSES_MAX, PEER_VISITS_PER_TURN_MAX,
    TIMERS_PER_TURN_MAX,
};
use adit_types::{InterfaceSet, Nanos};

use crate::refusal::Rejected;

/// Time between two measurements of a path: one per period, if reports have the shortest period.
const PROBE_INTERVAL: Nanos = Nanos::from_secs(1);

/// How many phases of the interval the measurements of all paths are spread over.
const PROBE_PHASES: u64 = 64;

/// How many measurements end a window if the control has no period.
const WINDOW_SAMPLES: u64 = 10;

/// The bit of a sequence number that is set in Echo Requests that measure; those of module `path`
/// have it clear.
pub(crate) const MEASURES_DELAY_BIT: u16 = 0x8000;

/// The key of a measurement: the GTP-U peer, and the ToS or Traffic Class of the Echo Request.
type PathClassKey = (IpAddr, u8);

/// The average, the minimum and the maximum of delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PacketDelays<T> {
    pub average: T,
    pub least: T,
    pub greatest: T,
}

/// The contents of one GTP-U Path QoS Control Information.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathQosControl {
    pub peers: BTreeSet<IpAddr>,
    pub interfaces: GtpuPathInterfaceType,
    pub triggers: QosReportTrigger,
    pub markings: Vec<TransportLevelMarking>,
    /// Time between periodic reports; `Nanos(0)` for no periodic reports.
    pub period: Nanos,
    pub thresholds: PacketDelays<Option<Nanos>>,
    pub wait: Nanos,
}

impl PathQosControl {
    /// Decodes and checks the IE.
    ///
    /// # Errors
    /// Cause 67 if the IE lacks paths, or an IE that its triggers need; 69 if it has no trigger; 75
    /// if it has too many traffic classes. Spec: TS 29.244 §7.4.4.1.3.
    pub(crate) fn from_ie(ie: &GtpuPathQosControlInformation<'_>) -> Result<Self, Rejected> {
        let missing = |ie| Err(Rejected::with_ie(Cause::ConditionalIeMissing, ie));
        let peers = ie.remote_gtpu_peers.into_iter();
        let peers: BTreeSet<IpAddr> =
            peers.flat_map(|at| [at.v4.map(IpAddr::V4), at.v6.map(IpAddr::V6)]).flatten().collect();
        let millis = |value: u32| Nanos::from_millis(value.into());
        let control = Self {
            peers,
            interfaces: ie.interface_type.unwrap_or_default(),
            triggers: ie.qos_report_trigger,
            markings: ie.transport_level_markings.into_iter().collect(),
            period: ie.measurement_period.map_or(Nanos(0), |s| Nanos::from_secs(s.0.into())),
            thresholds: PacketDelays {
                average: ie.average_packet_delay.map(|delay| millis(delay.0)),
                least: ie.minimum_packet_delay.map(|delay| millis(delay.0)),
                greatest: ie.maximum_packet_delay.map(|delay| millis(delay.0)),
            },
            wait: ie.minimum_waiting_time.map_or(Nanos(0), |timer| {
                timer.0.as_secs().map_or(Nanos::NEVER, |s| Nanos::from_secs(s.into()))
            }),
        };
        let PacketDelays { average, least, greatest } = control.thresholds;
        let known = QosReportTrigger::PER | QosReportTrigger::THR | QosReportTrigger::IRE;
        if !control.triggers.intersects(known) {
            let trigger = IeType::QOS_REPORT_TRIGGER;
            return Err(Rejected::with_ie(Cause::MandatoryIeIncorrect, trigger));
        }
        if control.peers.is_empty() && control.interfaces.is_empty() {
            return missing(IeType::REMOTE_GTP_U_PEER);
        }
        if control.triggers.contains(QosReportTrigger::PER) && control.period == Nanos(0) {
            return missing(IeType::MEASUREMENT_PERIOD);
        }
        let unlimited = average.or(least).or(greatest).is_none();
        if control.triggers.contains(QosReportTrigger::THR) && unlimited {
            return missing(IeType::AVERAGE_PACKET_DELAY);
        }
        if control.markings.len() > PATH_TRAFFIC_CLASSES_MAX {
            return Err(Rejected::beyond_limit(
                "traffic classes in one GTP-U Path QoS Control Information",
                PATH_TRAFFIC_CLASSES_MAX,
            ));
        }
        Ok(control)
    }

    fn covers(&self, peer: IpAddr, interfaces: GtpuPathInterfaceType) -> bool {
        self.peers.contains(&peer) || self.interfaces.intersects(interfaces)
    }

    /// Returns the ToS octets to measure with; zero if no class was requested.
    fn classes(&self) -> impl Iterator<Item = u8> {
        let default = self.markings.is_empty().then_some(0);
        default.into_iter().chain(self.markings.iter().map(|&marking| tos_of(marking)))
    }

    /// Returns the marking as it was requested; `None` for a class that was not requested.
    fn marking(&self, tos: u8) -> Option<TransportLevelMarking> {
        self.markings.iter().copied().find(|&marking| tos_of(marking) == tos)
    }

    fn is_crossed(&self, delays: &PacketDelays<Nanos>) -> bool {
        let above = |limit: Option<Nanos>, delay| limit.is_some_and(|limit| delay > limit);
        above(self.thresholds.average, delays.average)
            || above(self.thresholds.least, delays.least)
            || above(self.thresholds.greatest, delays.greatest)
    }
}

/// Returns the ToS octet that a marking stands for. The ECN field is zero: our own messages are
/// Not-ECT. Spec: RFC 3168 §22.
fn tos_of(marking: TransportLevelMarking) -> u8 {
    let [value, mask] = marking.0.to_be_bytes();
    value & mask & 0xfc
}

/// Delays of a path in one traffic class since the last report.
#[derive(Debug, Clone, Copy)]
struct DelayWindow {
    start: Nanos,
    count: u64,
    sum: u64,
    least: Nanos,
    greatest: Nanos,
    /// True if the next measurement is reported at once.
    immediate: bool,
    /// Until when no crossed threshold is reported.
    quiet_until: Nanos,
}

impl DelayWindow {
    const fn new(start: Nanos) -> Self {
        let (least, greatest) = (Nanos::NEVER, Nanos(0));
        let (immediate, quiet_until) = (false, Nanos(0));
        Self { start, count: 0, sum: 0, least, greatest, immediate, quiet_until }
    }

    fn restart(&mut self, start: Nanos) {
        *self = Self { quiet_until: self.quiet_until, ..Self::new(start) };
    }

    fn add(&mut self, delay: Nanos) {
        self.count += 1;
        self.sum = self.sum.saturating_add(delay.0);
        self.least = self.least.min(delay);
        self.greatest = self.greatest.max(delay);
    }

    /// Returns the delays of the window; `None` before the first measurement.
    fn delays(&self) -> Option<PacketDelays<Nanos>> {
        let average = Nanos(self.sum.checked_div(self.count)?);
        Some(PacketDelays { average, least: self.least, greatest: self.greatest })
    }
}

/// A GTP-U Path QoS Control Information of a CP function, and the delays measured for it.
#[derive(Debug)]
struct PathMonitor {
    control: PathQosControl,
    windows: BTreeMap<PathClassKey, DelayWindow>,
    next_report: Nanos,
}

impl PathMonitor {
    fn new(now: Nanos, control: PathQosControl) -> Self {
        let is_periodic = control.triggers.contains(QosReportTrigger::PER);
        let next_report = if is_periodic { now + control.period } else { Nanos::NEVER };
        Self { control, windows: BTreeMap::new(), next_report }
    }

    /// Begins to gather the delays of a path in one traffic class.
    fn add_path(&mut self, now: Nanos, key: PathClassKey) {
        let immediate = self.control.triggers.contains(QosReportTrigger::IRE);
        self.windows.entry(key).or_insert(DelayWindow { immediate, ..DelayWindow::new(now) });
    }

    /// Drops the windows of all paths to a peer, and returns their keys.
    fn remove_peer(&mut self, peer: IpAddr) -> Vec<PathClassKey> {
        let of_peer = self.windows.range((peer, 0)..=(peer, u8::MAX));
        let keys: Vec<PathClassKey> = of_peer.map(|(key, _)| *key).collect();
        for key in &keys {
            self.windows.remove(key);
        }
        keys
    }

    /// Adds a measurement. Returns a report if one is due.
    fn add_measurement(
        &mut self,
        now: Nanos,
        key: PathClassKey,
        delay: Nanos,
    ) -> Option<PathDelays> {
        let control = &self.control;
        let window = self.windows.get_mut(&key)?;
        window.add(delay);
        let delays = window.delays()?;
        let mut triggers = QosReportTrigger::default();
        if core::mem::take(&mut window.immediate) {
            triggers |= QosReportTrigger::IRE;
        }
        let watches = control.triggers.contains(QosReportTrigger::THR);
        if watches && now >= window.quiet_until && control.is_crossed(&delays) {
            triggers |= QosReportTrigger::THR;
            window.quiet_until = now + control.wait;
        }
        let start = window.start;
        let crossed = triggers.contains(QosReportTrigger::THR);
        if self.next_report == Nanos::NEVER && (crossed || window.count >= WINDOW_SAMPLES) {
            window.restart(now);
        }
        let delays = vec![(control.marking(key.1), delays)];
        (!triggers.is_empty()).then_some(PathDelays {
            peer: key.0,
            triggers,
            start,
            at: now,
            delays,
        })
    }

    /// Returns the periodic reports if they are due: one for each path with measurements.
    fn take_periodic_reports(&mut self, now: Nanos) -> Vec<PathDelays> {
        let mut reports: Vec<PathDelays> = Vec::new();
        if now < self.next_report {
            return reports;
        }
        self.next_report = now + self.control.period;
        for (&(peer, tos), window) in &mut self.windows {
            let (start, delays) = (window.start, window.delays());
            window.restart(now);
            let Some(delays) = delays else { continue };
            let entry = (self.control.marking(tos), delays);
            match reports.last_mut().filter(|report| report.peer == peer) {
                Some(report) => report.delays.push(entry),
                None => {
                    let triggers = QosReportTrigger::PER;
                    reports.push(PathDelays {
                        peer,
                        triggers,
                        start,
                        at: now,
                        delays: vec![entry],
                    });
                }
            }
        }
        reports
    }
}

/// The delays of one path, for a report to a CP function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathDelays {
    pub peer: IpAddr,
    pub triggers: QosReportTrigger,
    /// When the measurements of this report began.
    pub start: Nanos,
    /// When the report was made.
    pub at: Nanos,
    /// The delays for each traffic class.
    pub delays: Vec<(Option<TransportLevelMarking>, PacketDelays<Nanos>)>,
}

/// The state of measuring one path with Echo Requests.
#[derive(Debug, Clone, Copy)]
struct DelayProbe {
    /// How many windows need the measurements; never zero.
    windows: usize,
    due: Nanos,
    sequence: Option<u16>,
    sent: Option<Nanos>,
    answered: Option<Nanos>,
}

/// All measurements of path delays.
#[derive(Debug, Default)]
pub(crate) struct PathQos {
    monitors: BTreeMap<OwnerId, Vec<PathMonitor>>,
    probes: BTreeMap<PathClassKey, DelayProbe>,
    deadlines: BTreeSet<(Nanos, PathClassKey)>,
    commands: VecDeque<WorkerCommand>,
    last_sequence: u16,
    /// Peers that CP functions named in their requests and that are not processed yet.
    named_peers: VecDeque<(OwnerId, IpAddr)>,
    scan: PeerScan,
    /// True if a path was left out for lack of room since the last scan began.
    has_left_out: bool,
}

/// The state of the scan of all peers for new controls; each iteration scans a bounded number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum PeerScan {
    #[default]
    Done,
    /// Scanning: the peers after `peer` are left, or all if it is `None`. `again`: another scan
    /// follows.
    Behind { peer: Option<IpAddr>, again: bool },
}

impl PathQos {
    /// Replaces the controls of a CP function.
    pub(crate) fn set(&mut self, now: Nanos, owner: OwnerId, controls: Vec<PathQosControl>) {
        self.forget(owner);
        if controls.is_empty() {
            return;
        }
        let told = controls.iter().flat_map(|control| &control.peers);
        self.named_peers.extend(told.map(|&peer| (owner, peer)));
        let watches = controls.into_iter().map(|control| PathMonitor::new(now, control));
        self.monitors.insert(owner, watches.collect());
        self.begin_scan();
    }

    /// Returns the controls that a CP function has requested.
    pub(crate) fn controls(&self, owner: OwnerId) -> impl Iterator<Item = PathQosControl> {
        let monitors = self.monitors.get(&owner).map_or(&[][..], Vec::as_slice);
        monitors.iter().map(|monitor| monitor.control.clone())
    }

    /// Removes the controls of a CP function.
    pub(crate) fn forget(&mut self, owner: OwnerId) {
        self.named_peers.retain(|&(of, _)| of != owner);
        for watch in self.monitors.remove(&owner).into_iter().flatten() {
            watch.windows.into_keys().for_each(|key| self.release(key));
        }
    }

    /// Returns how many peers may be processed in one iteration.
    pub(crate) fn peers_per_turn(&self) -> usize {
        let watches: usize = self.monitors.values().map(Vec::len).sum();
        (PEER_VISITS_PER_TURN_MAX / (1 + watches)).max(1)
    }

    fn begin_scan(&mut self) {
        self.scan = match self.scan {
            PeerScan::Done => PeerScan::Behind { peer: None, again: false },
            PeerScan::Behind { peer, .. } => PeerScan::Behind { peer, again: true },
        };
    }

    /// Returns the next named peer to process.
    pub(crate) fn take_named_peer(&mut self) -> Option<(OwnerId, IpAddr)> {
        self.named_peers.pop_front()
    }

    /// Returns the peer after which the scan continues; `Some(None)` at its start, `None` if no
    /// scan runs.
    pub(crate) fn scan_position(&mut self) -> Option<Option<IpAddr>> {
        match self.scan {
            PeerScan::Behind { .. } if self.monitors.is_empty() => self.scan = PeerScan::Done,
            PeerScan::Behind { peer, .. } => {
                self.has_left_out &= peer.is_some();
                return Some(peer);
            }
            PeerScan::Done => {}
        }
        None
    }

    /// Notes that the peers up to `last` were scanned; all peers if it is `None`.
    pub(crate) const fn note_scanned(&mut self, last: Option<IpAddr>) {
        self.scan = match (self.scan, last) {
            (PeerScan::Behind { again, .. }, Some(_)) => PeerScan::Behind { peer: last, again },
            (PeerScan::Behind { again: true, .. }, None) => {
                PeerScan::Behind { peer: None, again: false }
            }
            _ => PeerScan::Done,
        };
    }

    /// Sets the reference points at which a GTP-U peer is. Returns how many paths found no room.
    pub(crate) fn set_peer(&mut self, now: Nanos, peer: IpAddr, sides: PeerSides) -> usize {
        let owners: Vec<OwnerId> = self.monitors.keys().copied().collect();
        let left_out = owners.into_iter().map(|owner| self.set_peer_of(now, owner, peer, sides));
        left_out.sum()
    }

    /// Does the same as [`Self::set_peer`] for one CP function.
    pub(crate) fn set_peer_of(
        &mut self,
        now: Nanos,
        owner: OwnerId,
        peer: IpAddr,
        sides: PeerSides,
    ) -> usize {
        let interfaces = interfaces(sides);
        let watches = self.monitors.get_mut(&owner).map(Vec::as_mut_slice).unwrap_or_default();
        let mut of_owner: usize = watches.iter().map(|watch| watch.windows.len()).sum();
        let (mut left_out, mut gone) = (0, Vec::new());
        for watch in watches {
            if !watch.control.covers(peer, interfaces) {
                gone.extend(watch.remove_peer(peer));
                continue;
            }
            let classes: BTreeSet<u8> = watch.control.classes().collect();
            for key in classes.into_iter().map(|tos| (peer, tos)) {
                if watch.windows.contains_key(&key) {
                    continue;
                }
                let has_room =
                    self.probes.contains_key(&key) || self.probes.len() < PATH_PROBES_MAX;
                if !has_room || of_owner >= PATH_PROBES_MAX {
                    left_out += 1;
                    continue;
                }
                of_owner += 1;
                watch.add_path(now, key);
                let phase = u64::try_from(self.probes.len()).unwrap_or(0) % PROBE_PHASES;
                let due = now + Nanos(PROBE_INTERVAL.0 / PROBE_PHASES * phase);
                let probe = self.probes.entry(key).or_insert_with(|| {
                    self.deadlines.insert((due, key));
                    DelayProbe { windows: 0, due, sequence: None, sent: None, answered: None }
                });
                probe.windows += 1;
            }
        }
        gone.into_iter().for_each(|key| self.release(key));
        self.has_left_out |= left_out > 0;
        left_out
    }

    /// Notes that a window over this path has ended; stops measuring after the last one.
    fn release(&mut self, key: PathClassKey) {
        let Some(probe) = self.probes.get_mut(&key) else { return };
        probe.windows -= 1;
        if probe.windows == 0 {
            self.deadlines.remove(&(probe.due, key));
            self.probes.remove(&key);
        }
        if self.has_left_out {
            self.begin_scan();
        }
    }

    /// Sends Echo Requests that are due, a bounded number of them.
    pub(crate) fn send_due_probes(&mut self, now: Nanos) {
        for _ in 0..TIMERS_PER_TURN_MAX {
            let Some(&(_, key)) = self.deadlines.first().filter(|(due, _)| *due <= now) else {
                return;
            };
            self.deadlines.pop_first();
            let Some(probe) = self.probes.get_mut(&key) else { continue };
            self.last_sequence = self.last_sequence.wrapping_add(1);
            let sequence = self.last_sequence | MEASURES_DELAY_BIT;
            let due = now + PROBE_INTERVAL;
            let sequence_sent = Some(sequence);
            *probe =
                DelayProbe { due, sequence: sequence_sent, sent: None, answered: None, ..*probe };
            self.deadlines.insert((due, key));
            // If the queue is full, the request counts as lost.
            if self.commands.len() < COMMAND_RING_LEN {
                let (peer, tos) = key;
                let interfaces = InterfaceSet::ALL;
                let command = WorkerCommand::SendEchoRequest { peer, interfaces, sequence, tos };
                self.commands.push_back(command);
            }
        }
    }

    /// Returns the next Echo Request to send through any one worker.
    pub(crate) fn poll_command(&mut self) -> Option<WorkerCommand> {
        self.commands.pop_front()
    }

    /// Notes that a worker sent an Echo Request at `at`. Returns reports that are due.
    pub(crate) fn sent(
        &mut self,
        peer: IpAddr,
        sequence: u16,
        at: Nanos,
    ) -> Vec<(OwnerId, PathDelays)> {
        self.complete(peer, sequence, |probe| probe.sent = Some(at))
    }

    /// Notes that a worker received an Echo Response at `at`. This event may arrive before the one
    /// of the request, since they may come from two workers. Returns reports that are due.
    pub(crate) fn answered(
        &mut self,
        peer: IpAddr,
        sequence: u16,
        at: Nanos,
    ) -> Vec<(OwnerId, PathDelays)> {
        self.complete(peer, sequence, |probe| probe.answered = Some(at))
    }

    fn complete(
        &mut self,
        peer: IpAddr,
        sequence: u16,
        learn: impl FnOnce(&mut DelayProbe),
    ) -> Vec<(OwnerId, PathDelays)> {
        let mut of_peer = self.probes.range_mut((peer, 0)..=(peer, u8::MAX));
        let found = of_peer.find(|(_, probe)| probe.sequence == Some(sequence));
        let Some((&key, probe)) = found else { return Vec::new() };
        learn(probe);
        let (Some(sent), Some(answered)) = (probe.sent, probe.answered) else { return Vec::new() };
        probe.sequence = None;
        let delay = Nanos(answered.since(sent).0 / 2);
        let watches = self.monitors.iter_mut();
        let watches = watches.flat_map(|(&owner, all)| all.iter_mut().map(move |w| (owner, w)));
        let told = watches.filter_map(|(owner, watch)| {
            Some((owner, watch.add_measurement(answered, key, delay)?))
        });
        told.collect()
    }

    /// Returns periodic reports that are due; a bounded number of windows in each iteration.
    pub(crate) fn due_reports(&mut self, now: Nanos) -> Vec<(OwnerId, PathDelays)> {
        let watches = self.monitors.iter_mut();
        let watches = watches.flat_map(|(&owner, all)| all.iter_mut().map(move |w| (owner, w)));
        let (mut reports, mut windows) = (Vec::new(), 0);
        for (owner, watch) in watches.filter(|(_, watch)| watch.next_report <= now) {
            if windows >= PEER_VISITS_PER_TURN_MAX {
                break;
            }
            windows += watch.windows.len();
            reports
                .extend(watch.take_periodic_reports(now).into_iter().map(|report| (owner, report)));
        }
        reports
    }

    /// Returns when there is something to do next.
    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        let has_peers_left = self.scan != PeerScan::Done || !self.named_peers.is_empty();
        if has_peers_left && !self.monitors.is_empty() {
            return Some(Nanos(0));
        }
        let asked = self.deadlines.first().map(|(due, _)| *due);
        let reports = self.monitors.values().flatten().map(|watch| watch.next_report);
        asked.into_iter().chain(reports.filter(|&at| at != Nanos::NEVER)).min()
    }
}

/// Converts the reference points of a peer to the flags of the IE.
fn interfaces(sides: PeerSides) -> GtpuPathInterfaceType {
    let mut interfaces = GtpuPathInterfaceType::default();
    interfaces.set(GtpuPathInterfaceType::N3, sides.n3);
    interfaces.set(GtpuPathInterfaceType::N9, sides.n9);
    interfaces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking_for(peers: BTreeSet<IpAddr>) -> PathQosControl {
        PathQosControl {
            peers,
            interfaces: GtpuPathInterfaceType::empty(),
            triggers: QosReportTrigger::IRE,
            markings: Vec::new(),
            period: Nanos(0),
            thresholds: PacketDelays { average: None, least: None, greatest: None },
            wait: Nanos(0),
        }
    }

    #[test]
    fn paths_beyond_the_bound_are_left_out_and_counted() {
        let host = |number: usize| IpAddr::V4(u32::try_from(number).unwrap().into());
        let mut paths = PathQos::default();
        let room = (0..PATH_PROBES_MAX).map(host).collect();
        paths.set(Nanos(0), OwnerId(1), vec![asking_for(room)]);
        let beyond = BTreeSet::from([host(PATH_PROBES_MAX)]);
        paths.set(Nanos(0), OwnerId(2), vec![asking_for(beyond)]);
        let set = |number| paths.set_peer(Nanos(0), host(number), PeerSides::default());
        let left_out: usize = (0..=PATH_PROBES_MAX).map(set).sum();
        assert_eq!((left_out, paths.probes.len()), (1, PATH_PROBES_MAX));
    }
}
