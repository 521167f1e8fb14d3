//! One stream: packets of one direction, sent on one port and expected on another.

use std::sync::Arc;

use adit_pktio::{Burst, PacketBuf};
use adit_types::PortId;

use super::clock::{TickClock, low32};
use super::frame::Template;
use super::histogram::Latency;
use super::pacer::Schedule;
use super::plan::PlannedPacket;
use super::stamp::{Stamp, time_units};
use super::tally::StreamTally;
use super::traffic_io::TrafficIo;

/// Configuration of a stream, for many trials.
#[derive(Debug, Clone)]
pub struct StreamConfig {
    /// Port that sends the packets.
    pub tx: PortId,
    /// Port on which they must arrive.
    pub rx: PortId,
    /// One template for each frame size of the plan.
    pub templates: Arc<[Template]>,
    /// Sequence of sessions and frame sizes.
    pub plan: Arc<[PlannedPacket]>,
    /// TEID with which packets of session 0 must arrive; session *k* has this TEID plus *k*. `None`
    /// if packets arrive without a tunnel, or in the tunnel in which they were sent: not checked.
    pub rx_teid: Option<u32>,
}

impl StreamConfig {
    /// Returns the lowest session of the plan, and the number of sessions from it to the highest.
    #[must_use]
    pub fn session_range(&self) -> (u32, usize) {
        let sessions = || self.plan.iter().map(|entry| entry.session);
        let (first, last) = (sessions().min().unwrap_or(0), sessions().max().unwrap_or(0));
        (first, usize::try_from(last - first).map_or(usize::MAX, |count| count + 1))
    }
}

/// Counts of sent and unsent packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sending {
    /// Packets that the port accepted.
    pub sent: u64,
    /// Octets of the sent frames.
    pub bytes: u64,
    /// Packets skipped because the port was full for too long: the target is too slow.
    pub refused: u64,
    /// Packets skipped because the tester was late or out of buffers.
    pub missed: u64,
}

/// One stream in one trial.
#[derive(Debug)]
pub struct TrialStream<B> {
    /// Configuration of the stream.
    pub config: StreamConfig,
    /// Tag of the stream's packets.
    pub tag: u8,
    schedule: Schedule,
    cursor: usize,
    next_sequence: u64,
    pending: Burst<B>,
    /// True if the port has refused packets since packets were last created.
    blocked: bool,
    /// Sent packets.
    pub sending: Sending,
    /// Received packets.
    pub tally: StreamTally,
    /// Delay of the first packet of each burst behind its intended time.
    pub lateness: Latency,
}

/// Limits of lateness and burst size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatenessLimits {
    /// The stream skips packets that are later than this. Unit: ticks.
    pub late_max: u64,
    /// Maximum number of packets per burst.
    pub burst: usize,
}

impl<B: PacketBuf> TrialStream<B> {
    /// Makes a stream before its first packet.
    #[must_use]
    pub fn new(config: StreamConfig, tag: u8, schedule: Schedule, tally: StreamTally) -> Self {
        // The two directions start at different positions of the plan.
        let cursor = if tag & 1 == 0 { 0 } else { config.plan.len() / 2 };
        Self {
            config,
            tag,
            schedule,
            cursor,
            next_sequence: 0,
            pending: Burst::new(),
            blocked: false,
            sending: Sending::default(),
            tally,
            lateness: Latency::new(),
        }
    }

    /// Returns how many sequence numbers the stream has used.
    #[inline]
    #[must_use]
    pub fn sequence_numbers_used(&self) -> u64 {
        self.next_sequence
    }

    /// True if the stream will send no further packet.
    #[must_use]
    pub fn is_over(&self, now: u64) -> bool {
        self.pending.is_empty() && self.schedule.is_over(now)
    }

    /// Sends the packets due at `now`. Cost: no allocation; each frame is written once.
    #[inline]
    pub fn send<I, C>(&mut self, io: &mut I, clock: &mut C, now: u64, limits: LatenessLimits)
    where
        I: TrafficIo<Buf = B>,
        C: TickClock,
    {
        if I::IS_DIRECT {
            return self.write(io, clock, now, limits);
        }
        if self.pending.is_empty() {
            self.fill(io, now, limits);
            if self.pending.is_empty() {
                return;
            }
        }
        let bytes = bytes_of(&self.pending);
        let sent = io.tx_burst(self.config.tx, &mut self.pending);
        if sent > 0 {
            self.sending.sent += sent as u64;
            let rest = if self.pending.is_empty() { 0 } else { bytes_of(&self.pending) };
            self.sending.bytes += bytes - rest;
        }
        if !self.pending.is_empty() {
            self.blocked = true;
            let now = clock.ticks();
            self.sending.refused += self.schedule.skip_late(now, limits.late_max);
        }
    }

    /// Creates the packets that are due.
    #[inline]
    fn fill<I: TrafficIo<Buf = B>>(&mut self, io: &mut I, now: u64, limits: LatenessLimits) {
        self.give_up_late(now, limits);
        let mut intended = [0u64; adit_types::limits::BURST_MAX];
        let mut count = 0;
        let mut first = None;
        for slot in intended.iter_mut().take(limits.burst) {
            let Some(time) = self.schedule.take_due(now) else { break };
            first.get_or_insert(time);
            *slot = time;
            count += 1;
        }
        let Some(first) = first else { return };
        self.lateness.record(time_units(now - first));
        let made = io.alloc_burst(count, &mut self.pending);
        self.sending.missed += (count - made) as u64;
        let mut pending = std::mem::take(&mut self.pending);
        for (buf, intended) in pending.iter_mut().zip(intended) {
            self.make(intended, |len| buf.append(len));
        }
        self.pending = pending;
    }

    /// Skips and counts packets that are too late.
    #[inline]
    fn give_up_late(&mut self, now: u64, limits: LatenessLimits) {
        let late = self.schedule.skip_late(now, limits.late_max);
        // After a refusal by the port, lateness is the port's fault.
        if std::mem::take(&mut self.blocked) {
            self.sending.refused += late;
        } else {
            self.sending.missed += late;
        }
    }

    /// Writes the next packet of the plan into the memory that `room` returns for a frame of the
    /// given length. Returns that length; zero if `room` returns `None`.
    #[inline]
    fn make<'r>(&mut self, intended: u64, room: impl FnOnce(usize) -> Option<&'r mut [u8]>) -> u64 {
        let Some(entry) = self.config.plan.get(self.cursor) else { return 0 };
        self.cursor += 1;
        if self.cursor == self.config.plan.len() {
            self.cursor = 0;
        }
        let sequence = low32(self.next_sequence);
        self.next_sequence += 1;
        let session = entry.session;
        let stamp = Stamp { tag: self.tag, session, sequence, intended: time_units(intended) };
        let template = self.config.templates.get(usize::from(entry.size));
        let Some(template) = template else { return 0 };
        if let Some(windows) = &mut self.tally.windows {
            windows.offer(intended, session, template.ip_len());
        }
        let Some(out) = room(template.frame_len()) else { return 0 };
        template.write(out, entry, stamp);
        template.frame_len() as u64
    }

    /// Writes the packets due at `now` into the memory of a direct port while there is room.
    #[inline]
    fn write<I, C>(&mut self, io: &mut I, clock: &mut C, now: u64, limits: LatenessLimits)
    where
        I: TrafficIo<Buf = B>,
        C: TickClock,
    {
        self.give_up_late(now, limits);
        let port = self.config.tx;
        let room = io.room(port);
        let mut count = 0;
        while count < room.min(limits.burst) {
            let Some(intended) = self.schedule.take_due(now) else { break };
            if count == 0 {
                self.lateness.record(time_units(now - intended));
            }
            let bytes = self.make(intended, |len| io.slot(port, count, len));
            if bytes == 0 {
                // The frame is longer than the port's buffers.
                self.sending.refused += 1;
                break;
            }
            self.sending.bytes += bytes;
            count += 1;
        }
        if count > 0 {
            io.commit(port, count);
            self.sending.sent += count as u64;
        }
        if count == room && room < limits.burst {
            self.blocked = true;
            self.sending.refused += self.schedule.skip_late(clock.ticks(), limits.late_max);
        }
    }

    /// Discards the packets that the port did not accept, and counts them as refused. Without
    /// pacing they do not count: they were not due yet.
    pub fn abandon(&mut self) {
        if !self.schedule.is_unpaced() {
            self.sending.refused += self.pending.len() as u64;
        }
        self.pending.clear();
    }
}

fn bytes_of<B: PacketBuf>(burst: &Burst<B>) -> u64 {
    burst.iter().map(|buf| buf.data().len() as u64).sum()
}
