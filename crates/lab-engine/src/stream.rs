//! One stream: packets of one direction from a port, expected on another.

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

/// What a stream is made of; the same over many trials.
#[derive(Debug, Clone)]
pub struct StreamConfig {
    /// Where packets are sent.
    pub tx: PortId,
    /// Where they must arrive.
    pub rx: PortId,
    /// One frame for each size of the plan.
    pub templates: Arc<[Template]>,
    /// Sessions and sizes.
    pub plan: Arc<[PlannedPacket]>,
    /// TEID of session 0 on the receiving side; session *k* has the *k*-th after it. `None` where
    /// packets come back without tunnel, or in the one they were sent in.
    pub rx_teid: Option<u32>,
}

impl StreamConfig {
    /// The lowest session of the plan, and how many there are from it to the highest.
    #[must_use]
    pub fn sessions(&self) -> (u32, usize) {
        let sessions = || self.plan.iter().map(|entry| entry.session);
        let (first, last) = (sessions().min().unwrap_or(0), sessions().max().unwrap_or(0));
        (first, usize::try_from(last - first).map_or(usize::MAX, |count| count + 1))
    }
}

/// What was sent, and what could not be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sending {
    /// Packets that the port took.
    pub sent: u64,
    /// Octets of their frames.
    pub bytes: u64,
    /// Packets given up because the port took none for too long: the target is at fault.
    pub refused: u64,
    /// Packets given up because this side was late or out of buffers.
    pub missed: u64,
}

/// One stream in one trial.
#[derive(Debug)]
pub struct TrialStream<B> {
    /// What it is made of.
    pub config: StreamConfig,
    /// Tag of its packets.
    pub tag: u8,
    schedule: Schedule,
    cursor: usize,
    next_sequence: u64,
    pending: Burst<B>,
    /// The port did not take all at once since packets were made last.
    blocked: bool,
    /// What was sent.
    pub sending: Sending,
    /// What arrived.
    pub tally: StreamTally,
    /// How late packets left, by the first of each burst.
    pub lateness: Latency,
}

/// When a packet that could not leave is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatenessLimits {
    /// Longest delay behind the intended time. Unit: ticks.
    pub late_max: u64,
    /// Packets of one burst at most.
    pub burst: usize,
}

impl<B: PacketBuf> TrialStream<B> {
    /// A stream about to start.
    #[must_use]
    pub fn new(config: StreamConfig, tag: u8, schedule: Schedule, tally: StreamTally) -> Self {
        // The two directions walk the plan from different places.
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

    /// Numbers that were given to packets.
    #[inline]
    #[must_use]
    pub fn numbered(&self) -> u64 {
        self.next_sequence
    }

    /// True when nothing will be sent any more.
    #[must_use]
    pub fn is_over(&self, now: u64) -> bool {
        self.pending.is_empty() && self.schedule.is_over(now)
    }

    /// Sends what is due at `now`. Cost: no allocation; each frame is written once.
    #[inline]
    pub fn send<I, C>(&mut self, io: &mut I, clock: &mut C, now: u64, patience: LatenessLimits)
    where
        I: TrafficIo<Buf = B>,
        C: TickClock,
    {
        if I::IS_DIRECT {
            return self.write(io, clock, now, patience);
        }
        if self.pending.is_empty() {
            self.fill(io, now, patience);
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
            self.sending.refused += self.schedule.skip_late(now, patience.late_max);
        }
    }

    /// Makes the packets that are due.
    #[inline]
    fn fill<I: TrafficIo<Buf = B>>(&mut self, io: &mut I, now: u64, patience: LatenessLimits) {
        self.give_up_late(now, patience);
        let mut intended = [0u64; adit_types::limits::BURST_MAX];
        let mut count = 0;
        let mut first = None;
        for slot in intended.iter_mut().take(patience.burst) {
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

    /// Counts packets that are too late to be sent.
    #[inline]
    fn give_up_late(&mut self, now: u64, patience: LatenessLimits) {
        let late = self.schedule.skip_late(now, patience.late_max);
        // What is late behind packets that the port took late is so because of the port.
        if std::mem::take(&mut self.blocked) {
            self.sending.refused += late;
        } else {
            self.sending.missed += late;
        }
    }

    /// Writes the next packet of the plan where `room` says; returns the octets of its frame, or
    /// zero without that much room.
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

    /// Writes what is due at `now` into the memory of a direct port, as far as there is room.
    #[inline]
    fn write<I, C>(&mut self, io: &mut I, clock: &mut C, now: u64, patience: LatenessLimits)
    where
        I: TrafficIo<Buf = B>,
        C: TickClock,
    {
        self.give_up_late(now, patience);
        let port = self.config.tx;
        let room = io.room(port);
        let mut count = 0;
        while count < room.min(patience.burst) {
            let Some(intended) = self.schedule.take_due(now) else { break };
            if count == 0 {
                self.lateness.record(time_units(now - intended));
            }
            let bytes = self.make(intended, |len| io.slot(port, count, len));
            if bytes == 0 {
                // A frame longer than the port's buffers.
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
        if count == room && room < patience.burst {
            self.blocked = true;
            self.sending.refused += self.schedule.skip_late(clock.ticks(), patience.late_max);
        }
    }

    /// Gives up what the port did not take. Without a pace it was not due yet.
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
