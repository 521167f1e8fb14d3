//! A target with planted faults, to test that the engine detects them: a forwarder between two
//! ports that drops, duplicates, reorders or delays one packet in N.

use std::collections::VecDeque;

use adit_pktio::{Burst, PacketBuf, PacketIo};
use adit_types::PortId;
use adit_types::limits::BURST_MAX;

use super::clock::ns_of_ticks;
use super::inspect::probe;
use super::stamp::TIME_SHIFT;
use super::trial::{StreamOutcome, TrialOutcome};

/// The planted fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    /// The forwarder drops the packet.
    Drop,
    /// The forwarder sends the packet twice.
    Duplicate,
    /// The forwarder sends the packet after the next one.
    Reorder,
    /// The forwarder sends the packet [`DELAY_NS`] later.
    Delay,
}

/// Delay of [`Fault::Delay`]. Unit: ns.
pub const DELAY_NS: u64 = 1_000_000;

impl Fault {
    /// Returns the name of the fault in reports.
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

/// Returns how many packets of a trial show `fault`; with `None`, how many show any fault but a
/// delay. Packets that the forwarder refused for lack of CPU time do not count. `hz` is the
/// frequency of the engine's clock.
#[must_use]
pub fn packets_with_fault(fault: Option<Fault>, outcome: &TrialOutcome, hz: u64) -> u64 {
    let vanished = |stream: &StreamOutcome| stream.lost().saturating_sub(stream.sending.refused);
    match fault {
        None => outcome.sum(|stream| {
            vanished(stream) + stream.arrivals.duplicates + stream.arrivals.reordered
        }),
        Some(Fault::Drop) => outcome.sum(vanished),
        Some(Fault::Duplicate) => outcome.sum(|stream| stream.arrivals.duplicates),
        Some(Fault::Reorder) => outcome.sum(|stream| stream.arrivals.reordered),
        // A delayed packet arrives after its successors: it is reordered, and its latency is at
        // least the delay.
        Some(Fault::Delay) => outcome.sum(|stream| {
            let least = stream.arrivals.reorder_latency_min.unwrap_or(0);
            let is_late = ns_of_ticks(u64::from(least) << TIME_SHIFT, hz) >= DELAY_NS;
            if is_late { stream.arrivals.reordered } else { 0 }
        }),
    }
}

/// Injects a fault into one probe packet in `one_in`.
#[derive(Debug)]
pub struct FaultInjector<B> {
    fault: Option<Fault>,
    one_in: u64,
    passed: u64,
    delay: u64,
    held: VecDeque<(u64, B)>,
    behind_next: Option<B>,
    /// Number of packets that got the fault.
    pub injected: u64,
}

impl<B: PacketBuf> FaultInjector<B> {
    /// Creates an injector that gives `fault` to one of every `one_in` probe packets: the middle
    /// one, so that other packets follow even the last faulty one. `delay` is [`DELAY_NS`] in
    /// ticks.
    #[must_use]
    pub fn new(fault: Option<Fault>, one_in: u64, delay: u64) -> Self {
        let one_in = one_in.max(1);
        let held = VecDeque::with_capacity(1024);
        Self { fault, one_in, passed: one_in / 2, delay, held, behind_next: None, injected: 0 }
    }

    /// Restarts the counts with another fault. Drops held packets.
    fn plant(&mut self, fault: Option<Fault>) {
        *self = Self::new(fault, self.one_in, self.delay);
    }

    /// Processes one received packet and appends the packets to send to `out`. `copy` makes a
    /// duplicate.
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
        let is_chosen = probe(buf.data()).is_some() && {
            self.passed += 1;
            self.passed.is_multiple_of(self.one_in)
        };
        let Some(fault) = self.fault.filter(|_| is_chosen) else {
            push(buf);
            if let Some(held) = self.behind_next.take() {
                push(held);
            }
            return;
        };
        self.injected += 1;
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

    /// Appends delayed packets that are due.
    pub fn release(&mut self, now: u64, out: &mut Burst<B>) {
        while !out.is_full() && self.held.front().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, buf)) = self.held.pop_front() {
                out.push(buf);
            }
        }
    }
}

/// Forwards between port 0 and port 1 with a fault in each direction. Only faults lose packets: a
/// direction does not receive while its transmit port is full.
#[derive(Debug)]
pub struct Forwarder<I: PacketIo> {
    /// The two ports.
    pub io: I,
    links: [FaultyLink<I::Buf>; 2],
}

#[derive(Debug)]
struct FaultyLink<B> {
    injector: FaultInjector<B>,
    from: PortId,
    to: PortId,
    out: Burst<B>,
}

impl<I: PacketIo> Forwarder<I> {
    /// Makes a forwarder with the same fault in both directions; see [`FaultInjector::new`].
    #[must_use]
    pub fn new(io: I, fault: Option<Fault>, one_in: u64, delay: u64) -> Self {
        let links = [(PortId(0), PortId(1)), (PortId(1), PortId(0))].map(|(from, to)| FaultyLink {
            injector: FaultInjector::new(fault, one_in, delay),
            from,
            to,
            out: Burst::new(),
        });
        Self { io, links }
    }

    /// Returns how many packets have got the fault.
    #[must_use]
    pub fn faults_injected(&self) -> u64 {
        self.links.iter().map(|link| link.injector.injected).sum()
    }

    /// Changes the fault and resets the counts. Drops held packets.
    pub fn plant(&mut self, fault: Option<Fault>) {
        self.links.iter_mut().for_each(|link| link.injector.plant(fault));
    }

    /// Forwards one burst in each direction.
    pub fn step(&mut self, now: u64) {
        for link in &mut self.links {
            if link.out.is_empty() {
                let mut burst = Burst::new();
                // A quarter of a burst, so that duplicates and delayed packets also fit.
                self.io.rx_burst(link.from, BURST_MAX / 4, &mut burst);
                for buf in burst.drain(..) {
                    let io = &mut self.io;
                    link.injector.pass(now, buf, &mut link.out, |original| {
                        let mut copy = io.alloc()?;
                        copy.append(original.data().len())?.copy_from_slice(original.data());
                        Some(copy)
                    });
                }
                link.injector.release(now, &mut link.out);
            }
            if !link.out.is_empty() {
                self.io.tx_burst(link.to, &mut link.out);
            }
        }
    }
}
