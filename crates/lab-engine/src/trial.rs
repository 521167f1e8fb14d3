//! One trial: traffic for some seconds, and its outcome.
//!
//! The loop sends the due packets of each stream, then receives on each port. It ends when all
//! packets have returned or the wait for stragglers is over.

use std::sync::atomic::{AtomicU64, Ordering};

use adit_pktio::{Burst, PacketBuf};
use adit_types::PortId;

use super::clock::{NS_PER_S, TickClock, ns_of_ticks, scaled};
use super::histogram::Latency;
use super::inspect::{ip_len, probe};
use super::neighbor::Neighbors;
use super::pacer::{RateStep, Schedule};
use super::stamp::{STREAMS_MAX, TRIAL_TAGS_MAX, stream_of, tag, time_units};
use super::stream::{LatenessLimits, Sending, StreamConfig, TrialStream};
use super::tally::{Arrivals, StreamTally};
use super::traffic_io::TrafficIo;
use super::windows::Windows;
use adit_lab_process::stop::Stop;

/// Configuration of a trial.
#[derive(Debug, Clone)]
pub struct TrialConfig {
    /// Sequence of rates of each stream. A stream without rates sends nothing.
    pub courses: Vec<Vec<RateStep>>,
    /// Duration of sending. Unit: ns.
    pub duration_ns: u64,
    /// Maximum wait for the last packets. Unit: ns.
    pub drain_ns: u64,
    /// The wait ends earlier if no packet has arrived for this long. Unit: ns.
    pub quiet_ns: u64,
    /// The tester skips packets that are later than this. Unit: ns.
    pub late_max_ns: u64,
    /// The tester counts as absent if it neither sent nor received for this long. Unit: ns.
    pub absence_ns_min: u64,
    /// Maximum number of packets per burst, 1 to 64.
    pub burst: usize,
    /// True to record latencies by second.
    pub timeline: bool,
    /// Length of the windows in which octets are counted per session; zero for no counts. Unit: ns.
    pub window_ns: u64,
}

/// Progress of a trial. The engine's thread writes, any thread reads.
#[derive(Debug, Default)]
pub struct TrialProgress {
    /// Packets sent in this trial.
    pub sent: AtomicU64,
    /// Packets received in this trial.
    pub received: AtomicU64,
    /// Rate of this trial, summed over the streams; zero if it varies. Unit: packets per second.
    pub rate_pps: AtomicU64,
}

impl TrialProgress {
    /// Resets the counts for a new trial.
    pub fn restart(&self) {
        self.sent.store(0, Ordering::Relaxed);
        self.received.store(0, Ordering::Relaxed);
    }
}

/// Outcome of one stream.
#[derive(Debug, Clone)]
pub struct StreamOutcome {
    /// Sent packets.
    pub sending: Sending,
    /// Received packets.
    pub arrivals: Arrivals,
    /// Latency of all packets.
    pub latency: Latency,
    /// Latency of each second; empty unless [`TrialConfig::timeline`] is set.
    pub seconds: Vec<Latency>,
    /// Delay of sent packets behind their intended time.
    pub lateness: Latency,
    /// Octets by window and session, if recorded.
    pub windows: Option<Windows>,
}

impl StreamOutcome {
    /// Returns how many packets should arrive: the sent ones and those that the target refused.
    #[must_use]
    pub fn offered(&self) -> u64 {
        self.sending.sent + self.sending.refused
    }

    /// Returns how many packets did not arrive.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.offered().saturating_sub(self.arrivals.received)
    }
}

/// Outcome of one trial.
#[derive(Debug, Clone)]
pub struct TrialOutcome {
    /// The streams in order.
    pub streams: Vec<StreamOutcome>,
    /// Duration of sending: as configured, unless the tester was late at the end or interrupted.
    /// Unit: ns.
    pub sending_ns: u64,
    /// Longest gap in which the tester neither sent nor received. Unit: ns.
    pub gap_ns_max: u64,
    /// Longest gap that ended in each window; empty if windows are not recorded. Unit: ns.
    pub window_gaps_ns: Vec<u64>,
    /// Number of gaps of at least [`TrialConfig::absence_ns_min`].
    pub absences: u64,
    /// Total duration of the gaps that `absences` counts. Unit: ns.
    pub absent_ns: u64,
    /// Number of received frames other than probe packets of this trial.
    pub other_frames: u64,
    /// False if the trial was interrupted.
    pub complete: bool,
}

impl TrialOutcome {
    /// Returns the sum of a figure over the streams.
    #[must_use]
    pub fn sum(&self, figure: impl Fn(&StreamOutcome) -> u64) -> u64 {
        self.streams.iter().map(figure).sum()
    }

    /// Converts a number of packets of this trial to packets per second.
    #[must_use]
    pub fn pps(&self, packets: u64) -> u64 {
        scaled(packets, NS_PER_S, self.sending_ns)
    }

    /// Returns the share of the offered packets that did not arrive. Unit: parts per billion.
    #[must_use]
    pub fn loss_ppb(&self) -> u64 {
        let offered = self.sum(StreamOutcome::offered);
        scaled(self.sum(StreamOutcome::lost), 1_000_000_000, offered)
    }
}

/// The engine: ports, clock and streams; owned by one thread.
#[derive(Debug)]
pub struct Engine<I: TrafficIo, C> {
    /// The ports.
    pub io: I,
    /// The clock.
    pub clock: C,
    /// Answers ARP, neighbor discovery and GTP-U Echo Requests.
    pub neighbors: Neighbors,
    ports: Vec<PortId>,
    streams: Vec<StreamConfig>,
    trial: u8,
}

/// State of a trial's loop.
struct TrialState {
    start: u64,
    second: usize,
    second_end: u64,
    gap_max: u64,
    /// Gaps of at least this length are absences. Unit: ticks.
    absence_min: u64,
    absences: u64,
    absent: u64,
    last: u64,
    other_frames: u64,
    /// Length of a window; zero for no windows. Unit: ticks.
    window: u64,
    /// Longest gap of each window. Unit: ticks.
    window_gaps: Vec<u64>,
}

impl<I: TrafficIo, C: TickClock> Engine<I, C> {
    /// Makes an engine on the ports 0 to `port_count - 1`, without streams.
    #[must_use]
    pub fn new(io: I, clock: C, neighbors: Neighbors, port_count: usize) -> Self {
        let ports = (0..).map(PortId).take(port_count).collect();
        Self { io, clock, neighbors, ports, streams: Vec::new(), trial: 0 }
    }

    /// Replaces the streams. Ignores streams beyond [`STREAMS_MAX`].
    pub fn set_streams(&mut self, mut streams: Vec<StreamConfig>) {
        streams.truncate(STREAMS_MAX);
        self.streams = streams;
    }

    /// Receives and answers frames on all ports, and discards probe packets.
    pub fn serve(&mut self) {
        self.discard_received();
    }

    /// Runs one trial. If `stop` is raised, ends early with an incomplete outcome.
    pub fn run(&mut self, config: &TrialConfig, live: &TrialProgress, stop: &Stop) -> TrialOutcome {
        self.run_with_callback(config, live, stop, &mut || {})
    }

    /// Runs one trial, and calls `beside` every few hundred microseconds. `beside` must not block.
    pub fn run_with_callback(
        &mut self,
        config: &TrialConfig,
        live: &TrialProgress,
        stop: &Stop,
        beside: &mut dyn FnMut(),
    ) -> TrialOutcome {
        self.trial = self.trial % TRIAL_TAGS_MAX + 1;
        self.discard_received();
        let hz = self.clock.hz();
        let ticks = |ns: u64| scaled(ns, hz, NS_PER_S);
        let (duration, drain) = (ticks(config.duration_ns), ticks(config.drain_ns));
        let burst = config.burst.clamp(1, adit_types::limits::BURST_MAX);
        let limits = LatenessLimits { late_max: ticks(config.late_max_ns), burst };
        // Allocate before the start, since it takes time.
        let tallies = self.tallies(config);
        let start = self.clock.ticks() + ticks(START_DELAY_NS);
        let mut streams = self.start(config, tallies, start, duration);
        let mut run = TrialState::new(config, start, hz);
        let quiet = ticks(config.quiet_ns);
        let mut last_arrival = (0, 0);
        let ports = self.ports.clone();
        let mut sending_end = None;
        let mut complete = true;
        for turn in 0u64.. {
            let now = self.clock.ticks();
            run.begin_iteration(now, hz);
            match sending_end {
                None => {
                    for stream in &mut streams {
                        stream.send(&mut self.io, &mut self.clock, now, limits);
                    }
                    complete = !stop.is_raised();
                    let over = streams.iter().all(|stream| stream.is_over(now));
                    // Do not wait for a port that accepts no packets at the end.
                    let stuck = now > start + duration + limits.late_max;
                    if over || stuck || !complete {
                        streams.iter_mut().for_each(TrialStream::abandon);
                        sending_end = Some(now);
                    }
                }
                Some(end) => {
                    let received: u64 = streams.iter().map(|s| s.tally.arrivals.received).sum();
                    let sent: u64 = streams.iter().map(|s| s.sending.sent).sum();
                    if received != last_arrival.0 {
                        last_arrival = (received, now);
                    }
                    let nothing_comes = now > last_arrival.1.max(end) + quiet;
                    let all_came = received == sent && now > end + duplicate_wait_ticks(hz);
                    if now > end + drain || nothing_comes || all_came {
                        break;
                    }
                }
            }
            self.receive(&ports, &mut streams, &mut run);
            if turn.is_multiple_of(CALLBACK_ITERATIONS) {
                beside();
            }
            if turn.is_multiple_of(PROGRESS_ITERATIONS) {
                publish(live, &streams);
            }
        }
        publish(live, &streams);
        let planned_end = if complete { start + duration } else { start };
        let end = sending_end.unwrap_or(start).max(planned_end).max(start + 1);
        let streams = streams.into_iter().map(|stream| outcome(stream, config.timeline)).collect();
        run.outcome(end, hz, complete, streams)
    }

    fn tallies(&self, config: &TrialConfig) -> Vec<StreamTally> {
        let seconds = if config.timeline { config.duration_ns / NS_PER_S + 1 } else { 1 };
        let seconds = usize::try_from(seconds).unwrap_or(1);
        self.streams.iter().map(|_| StreamTally::new(seconds)).collect()
    }

    fn start(
        &self,
        config: &TrialConfig,
        tallies: Vec<StreamTally>,
        start: u64,
        duration: u64,
    ) -> Vec<TrialStream<I::Buf>> {
        let hz = self.clock.hz();
        let courses = config.courses.iter().map(Vec::as_slice).chain(std::iter::repeat(&[][..]));
        let parts = self.streams.iter().zip(tallies).zip(courses).zip(0u8..);
        let window = scaled(config.window_ns, hz, NS_PER_S);
        parts
            .map(|(((stream, mut tally), course), index)| {
                let schedule = Schedule::new(course, hz, start, duration);
                if window > 0 {
                    let (first, sessions) = stream.session_range();
                    let count = window_count(config);
                    tally.windows = Some(Windows::new(start, window, count, first, sessions));
                }
                TrialStream::new(stream.clone(), tag(self.trial, index), schedule, tally)
            })
            .collect()
    }

    /// Discards earlier probe packets in the receive queues, and answers other frames there.
    fn discard_received(&mut self) {
        let mut burst = Burst::new();
        for port in self.ports.clone() {
            for _ in 0..DISCARD_BURSTS_MAX {
                if self.io.rx_burst(port, adit_types::limits::BURST_MAX, &mut burst) == 0 {
                    break;
                }
                for buf in burst.drain(..) {
                    if probe(buf.data()).is_none() {
                        self.neighbors.receive(&mut self.io, port, buf);
                    }
                }
            }
        }
    }

    /// Receives one burst from each port.
    #[inline]
    fn receive(
        &mut self,
        ports: &[PortId],
        streams: &mut [TrialStream<I::Buf>],
        run: &mut TrialState,
    ) {
        for &port in ports {
            let Self { io, clock, .. } = self;
            let (mut now, mut rest) = (None, Burst::new());
            let take = |frame: &[u8]| {
                let now = *now.get_or_insert_with(|| clock.ticks());
                note(frame, port, now, streams, run.second)
            };
            io.receive(port, take, &mut rest);
            if !rest.is_empty() {
                run.other_frames += rest.len() as u64;
                self.receive_others(port, &mut rest);
            }
        }
    }

    /// Passes frames that are not probe packets to [`Neighbors`].
    #[cold]
    fn receive_others(&mut self, port: PortId, burst: &mut Burst<I::Buf>) {
        for buf in burst.drain(..) {
            if probe(buf.data()).is_none() {
                self.neighbors.receive(&mut self.io, port, buf);
            }
        }
    }
}

/// Time from a trial's start to its first packet, in which the engine touches memory. Unit: ns.
const START_DELAY_NS: u64 = 100_000;
/// Maximum number of bursts to discard before a trial.
const DISCARD_BURSTS_MAX: usize = 1 << 12;
/// Iterations of the loop between two calls of `beside`.
const CALLBACK_ITERATIONS: u64 = 1 << 8;
/// Iterations of the loop between two updates of [`TrialProgress`].
const PROGRESS_ITERATIONS: u64 = 1 << 10;

/// Returns a millisecond, in which duplicates of the last packets may still arrive. Unit: ticks.
fn duplicate_wait_ticks(hz: u64) -> u64 {
    hz / 1000
}

impl TrialState {
    fn new(config: &TrialConfig, start: u64, hz: u64) -> Self {
        let ticks = |ns: u64| scaled(ns, hz, NS_PER_S);
        Self {
            start,
            second: 0,
            second_end: if config.timeline { start + hz } else { u64::MAX },
            gap_max: 0,
            absence_min: ticks(config.absence_ns_min).max(1),
            absences: 0,
            absent: 0,
            last: start,
            other_frames: 0,
            window: ticks(config.window_ns),
            window_gaps: vec![0; window_count(config)],
        }
    }

    /// Returns the outcome of a trial that sent until `end`.
    fn outcome(
        self,
        end: u64,
        hz: u64,
        complete: bool,
        streams: Vec<StreamOutcome>,
    ) -> TrialOutcome {
        TrialOutcome {
            sending_ns: ns_of_ticks(end - self.start, hz).max(1),
            gap_ns_max: ns_of_ticks(self.gap_max, hz),
            window_gaps_ns: self.window_gaps.iter().map(|gap| ns_of_ticks(*gap, hz)).collect(),
            absences: self.absences,
            absent_ns: ns_of_ticks(self.absent, hz),
            other_frames: self.other_frames,
            complete,
            streams,
        }
    }

    #[inline]
    fn begin_iteration(&mut self, now: u64, hz: u64) {
        if now > self.last {
            let gap = now - self.last;
            self.gap_max = self.gap_max.max(gap);
            if gap >= self.absence_min {
                self.absences += 1;
                self.absent += gap;
            }
            if self.window > 0 {
                self.note_window(now);
            }
            self.last = now;
        }
        if now >= self.second_end {
            self.second += 1;
            self.second_end += hz;
        }
        debug_assert!(self.start <= self.last);
    }

    /// Records the gap that ends at `now` for the window of `now`.
    #[inline]
    fn note_window(&mut self, now: u64) {
        let window = usize::try_from(now.saturating_sub(self.start) / self.window);
        if let Some(longest) = window.ok().and_then(|at| self.window_gaps.get_mut(at)) {
            *longest = (now - self.last).max(*longest);
        }
    }
}

/// Counts a frame. False if it is not a probe packet of this trial.
#[inline]
fn note<B>(
    frame: &[u8],
    port: PortId,
    now: u64,
    streams: &mut [TrialStream<B>],
    second: usize,
) -> bool
where
    B: PacketBuf,
{
    let Some(probe) = probe(frame) else { return false };
    let stamp = probe.stamp;
    let Some(stream) = streams.get_mut(usize::from(stream_of(stamp.tag))) else { return false };
    if stream.tag != stamp.tag {
        stream.tally.arrivals.foreign += 1;
        return true;
    }
    let right_tunnel = match (stream.config.rx_teid, probe.teid) {
        (Some(first), Some(teid)) => teid.0 == first.wrapping_add(stamp.session),
        (Some(_), None) => false,
        (None, _) => true,
    };
    if stream.config.rx != port || !right_tunnel {
        stream.tally.arrivals.misdelivered += 1;
        return true;
    }
    let numbered = stream.sequence_numbers_used();
    let tally = &mut stream.tally;
    tally.arrivals.bytes += frame.len() as u64;
    let is_new = tally.note(stamp, time_units(now), numbered, second);
    if let Some(windows) = tally.windows.as_mut().filter(|_| is_new) {
        windows.receive(now, stamp.session, ip_len(frame).unwrap_or(0), stamp.sequence);
    }
    true
}

/// Returns the number of whole windows in a trial. Packets after the last one are not recorded.
fn window_count(config: &TrialConfig) -> usize {
    let count = config.duration_ns.checked_div(config.window_ns).unwrap_or(0);
    usize::try_from(count).unwrap_or(0)
}

fn publish<B: PacketBuf>(live: &TrialProgress, streams: &[TrialStream<B>]) {
    let sum = |figure: fn(&TrialStream<B>) -> u64| streams.iter().map(figure).sum();
    live.sent.store(sum(|stream| stream.sending.sent), Ordering::Relaxed);
    live.received.store(sum(|stream| stream.tally.arrivals.received), Ordering::Relaxed);
}

fn outcome<B>(stream: TrialStream<B>, timeline: bool) -> StreamOutcome {
    let mut latency = Latency::new();
    for second in &stream.tally.latency {
        latency.merge(second);
    }
    StreamOutcome {
        sending: stream.sending,
        arrivals: stream.tally.arrivals,
        latency,
        seconds: if timeline { stream.tally.latency } else { Vec::new() },
        lateness: stream.lateness,
        windows: stream.tally.windows,
    }
}
