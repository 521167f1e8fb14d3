//! A target with planted faults: a forwarder between two ports that drops, duplicates, reorders or
//! delays one packet in N. It shows that the engine detects them.

use std::collections::VecDeque;

use adit_pktio::{Burst, PacketBuf, PacketIo};
use adit_types::PortId;
use adit_types::limits::BURST_MAX;

use super::clock::ns_of_ticks;
use super::inspect::probe;
use super::stamp::TIME_SHIFT;
use super::trial::{StreamOutcome, TrialOutcome};

/// What happens to the chosen packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    /// They vanish.
    Drop,
    /// They leave twice.
    Duplicate,
    /// They leave after the packet behind them.
    Reorder,
    /// They leave [`DELAY_NS`] later.
    Delay,
}

/// Time by which [`Fault::Delay`] holds a packet. Unit: ns.
pub const DELAY_NS: u64 = 1_000_000;

impl Fault {
    /// The word for it in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Duplicate => "duplicate",
            Self::Reorder => "reorder",
            Self::Delay => "delay",
        }
    }
}

/// Packets in which the figures of a trial show the fault; without one, any fault. What the
/// forwarder did not take for want of CPU time met no fault. `hz` is the frequency of the engine's
/// clock.
#[must_use]
pub fn found(fault: Option<Fault>, outcome: &TrialOutcome, hz: u64) -> u64 {
    let vanished = |stream: &StreamOutcome| stream.lost().saturating_sub(stream.sending.refused);
    match fault {
        None => outcome.sum(|stream| {
            vanished(stream) + stream.arrivals.duplicates + stream.arrivals.reordered
        }),
        Some(Fault::Drop) => outcome.sum(vanished),
        Some(Fault::Duplicate) => outcome.sum(|stream| stream.arrivals.duplicates),
        Some(Fault::Reorder) => outcome.sum(|stream| stream.arrivals.reordered),
        // Others overtake a packet that is held, and each that was overtaken must be as late as that.
        Some(Fault::Delay) => outcome.sum(|stream| {
            let least = stream.arrivals.reorder_latency_min.unwrap_or(0);
            let is_late = ns_of_ticks(u64::from(least) << TIME_SHIFT, hz) >= DELAY_NS;
            if is_late { stream.arrivals.reordered } else { 0 }
        }),
    }
}

/// A fault for one probe packet in `one_in`.
#[derive(Debug)]
pub struct FaultInjector<B> {
    fault: Option<Fault>,
    one_in: u64,
    passed: u64,
    delay: u64,
    held: VecDeque<(u64, B)>,
    behind_next: Option<B>,
    /// Packets that the fault met.
    pub met: u64,
}

impl<B: PacketBuf> FaultInjector<B> {
    /// The fault meets the probe packet in the middle of each `one_in`, so that a trial of any number
    /// of them has packets behind the last that was met; `delay` is [`DELAY_NS`] in ticks.
    #[must_use]
    pub fn new(fault: Option<Fault>, one_in: u64, delay: u64) -> Self {
        let one_in = one_in.max(1);
        let held = VecDeque::with_capacity(1024);
        Self { fault, one_in, passed: one_in / 2, delay, held, behind_next: None, met: 0 }
    }

    /// Begins anew with another fault. Packets that are held are dropped.
    fn plant(&mut self, fault: Option<Fault>) {
        *self = Self::new(fault, self.one_in, self.delay);
    }

    /// Takes one received packet and appends what leaves now to `out`. `copy` makes the second
    /// packet of a duplicate.
    pub fn pass(
        &mut self,
        now: u64,
        buf: B,
        out: &mut Burst<B>,
        copy: impl FnOnce(&B) -> Option<B>,
    ) {
        let mut push = |buf: B| {
            if !out.is_full() {
                out.push(buf);
            }
        };
        let is_met = probe(buf.data()).is_some() && {
            self.passed += 1;
            self.passed.is_multiple_of(self.one_in)
        };
        let Some(fault) = self.fault.filter(|_| is_met) else {
            push(buf);
            if let Some(held) = self.behind_next.take() {
                push(held);
            }
            return;
        };
        self.met += 1;
        match fault {
            Fault::Drop => {}
            Fault::Duplicate => {
                let second = copy(&buf);
                push(buf);
                if let Some(second) = second {
                    push(second);
                }
            }
            Fault::Reorder => {
                if let Some(held) = self.behind_next.replace(buf) {
                    push(held);
                }
            }
            Fault::Delay => self.held.push_back((now + self.delay, buf)),
        }
    }

    /// Appends delayed packets whose time has come.
    pub fn release(&mut self, now: u64, out: &mut Burst<B>) {
        while !out.is_full() && self.held.front().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, buf)) = self.held.pop_front() {
                out.push(buf);
            }
        }
    }
}

/// Forwards between port 0 and port 1, with a fault each way. Nothing is lost here but by a fault: a
/// way whose port takes nothing receives nothing.
#[derive(Debug)]
pub struct Forwarder<I: PacketIo> {
    /// The two ports.
    pub io: I,
    ways: [FaultyLink<I::Buf>; 2],
}

#[derive(Debug)]
struct FaultyLink<B> {
    injector: FaultInjector<B>,
    from: PortId,
    to: PortId,
    out: Burst<B>,
}

impl<I: PacketIo> Forwarder<I> {
    /// The same fault both ways.
    #[must_use]
    pub fn new(io: I, fault: Option<Fault>, one_in: u64, delay: u64) -> Self {
        let ways = [(PortId(0), PortId(1)), (PortId(1), PortId(0))].map(|(from, to)| FaultyLink {
            injector: FaultInjector::new(fault, one_in, delay),
            from,
            to,
            out: Burst::new(),
        });
        Self { io, ways }
    }

    /// Packets that the fault met so far.
    #[must_use]
    pub fn faults_injected(&self) -> u64 {
        self.ways.iter().map(|way| way.injector.met).sum()
    }

    /// Changes the fault and counts anew; packets that are held are dropped.
    pub fn plant(&mut self, fault: Option<Fault>) {
        self.ways.iter_mut().for_each(|way| way.injector.plant(fault));
    }

    /// Forwards one burst each way.
    pub fn step(&mut self, now: u64) {
        for way in &mut self.ways {
            if way.out.is_empty() {
                let mut burst = Burst::new();
                // Less than half a burst, so that duplicates and released packets have room.
                self.io.rx_burst(way.from, BURST_MAX / 4, &mut burst);
                for buf in burst.drain(..) {
                    let io = &mut self.io;
                    way.injector.pass(now, buf, &mut way.out, |original| {
                        let mut copy = io.alloc()?;
                        copy.append(original.data().len())?.copy_from_slice(original.data());
                        Some(copy)
                    });
                }
                way.injector.release(now, &mut way.out);
            }
            if !way.out.is_empty() {
                self.io.tx_burst(way.to, &mut way.out);
            }
        }
    }
}
