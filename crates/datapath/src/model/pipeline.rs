//! The pipeline model: receivers poll the ports and hand each packet to a worker, which processes
//! and transmits it.
//!
//! A receiver does only the work that the hand-over needs: a glance at the headers ([`Glance`]),
//! and the choice of a worker ([`Spread`]). It writes no data of a session. The workers run the
//! packets that they take over to completion. Packets that belong to no UE (ARP, neighbor
//! discovery, ICMP, GTP-U path management) have a separate ring to the signaling worker, a worker
//! that owns no session, so that they neither delay user packets nor wait behind them.

use core::net::IpAddr;

use adit_pktio::{Burst, PacketBuf, PacketIo};
use adit_rules::rule::ue_ipv6_key;
use adit_tables::{TablesReader, TablesView, UeTable};
use adit_types::limits::BURST_MAX;
use adit_types::{Nanos, PortId, SessionIndex, VlanId, WorkerId};
use adit_wire::rss::{Toeplitz, ToeplitzKey};
use adit_wire::{Glance, UeAddress, vlan_of};

use super::run_to_completion::StepReport;
use crate::columns::BurstColumn;
use crate::handoff::Handoff;
use crate::interfaces::{Interfaces, PortLinks, VlanLink};
use crate::selection::glance_on_link;
use crate::tally::{StepTally, WaitingCounts};

/// How a receiver chooses the worker of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Chooses the owner of the packet's session, which the receiver looks up.
    Owner,
    /// Chooses by the Toeplitz hash of the UE's address, as a NIC chooses a queue. The receiver
    /// looks up no session; a worker hands on packets of sessions that others own. Packets between
    /// the same two addresses keep their order. A packet without an inner address goes to its
    /// session's owner, where an End Marker waits until the other workers have handed on earlier
    /// packets ([`crate::sweeps`]).
    Rss,
}

/// Configuration of a receiver.
#[derive(Debug, Clone)]
pub struct ReceiverConfig {
    /// The ports to poll, in this order; a port is listed once for each of its queues.
    pub ports: Vec<PortId>,
    /// Maximum of packets to receive from a queue per step; clamped to 1..=`BURST_MAX`.
    pub burst: usize,
    /// How the receiver chooses workers.
    pub spread: Spread,
}

/// A thread that only receives.
///
/// The packet identity: every packet that it receives is handed off, or dropped because a ring is
/// full.
///
/// Threads: owned by one thread, which shares the tables with the control thread, and one ring with
///          each worker.
pub struct Receiver<Io: PacketIo> {
    config: ReceiverConfig,
    reader: TablesReader,
    interfaces: Interfaces,
    handoff: Handoff<Io::Buf>,
    signaling: WorkerId,
    hash: Toeplitz,
    tally: StepTally,
    rx: Burst<Io::Buf>,
}

impl<Io: PacketIo> core::fmt::Debug for Receiver<Io> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Receiver").field("config", &self.config).finish_non_exhaustive()
    }
}

/// A frame that a receiver has classified.
#[derive(Clone, Copy)]
pub(super) struct ClassifiedFrame<'l> {
    pub(super) glance: Glance,
    /// The link that the frame arrived on; `None` for a VLAN without interfaces.
    pub(super) link: Option<&'l VlanLink>,
}

impl<Io: PacketIo> Receiver<Io> {
    /// Creates a receiver over the tables and interfaces of `reader`; `handoff` has its ends of the
    /// rings to the workers. Packets that belong to no UE go to the worker `signaling`. Allocates
    /// all memory that the receiver will use.
    #[must_use]
    pub fn new(
        mut config: ReceiverConfig,
        reader: TablesReader,
        handoff: Handoff<Io::Buf>,
        signaling: WorkerId,
    ) -> Self {
        debug_assert_eq!(handoff.worker(), reader.worker(), "the ends of another thread");
        config.burst = config.burst.clamp(1, BURST_MAX);
        Self {
            config,
            interfaces: Interfaces::new(reader.interfaces()),
            reader,
            handoff,
            signaling,
            hash: Toeplitz::new(ToeplitzKey::SYMMETRIC),
            tally: StepTally::new(),
            rx: Burst::new(),
        }
    }

    /// Uses `hash` for [`Spread::Rss`] instead of the fastest form of [`ToeplitzKey::SYMMETRIC`].
    #[must_use]
    pub fn with_hash(self, hash: Toeplitz) -> Self {
        Self { hash, ..self }
    }

    /// Polls every queue of the configuration once, and hands over the frames that arrived.
    ///
    /// Cost:    no allocation, lock, system call or clock of its own. Per packet one cache line of
    ///          the frame, and with [`Spread::Owner`] one of the key table, prefetched; one store
    ///          release per burst and worker.
    /// Units:   `now` is not used: no packet waits in a receiver.
    /// Threads: like [`Worker::step`](crate::Worker::step).
    #[inline(never)]
    pub fn step(&mut self, _now: Nanos, io: &mut Io) -> StepReport {
        let Self { config, reader, interfaces, handoff, signaling, hash, tally, rx } = self;
        let view = reader.observe();
        interfaces.update_from(&view);
        handoff.read_owners();
        let received = poll(io, &config.ports, config.burst, rx, |port, rx| {
            tally.burst();
            let frames = classify_frames(&view, interfaces.of_port(port), rx, tally);
            let chooser = WorkerChooser { view: &view, handoff, signaling: *signaling };
            let workers = match config.spread {
                Spread::Owner => chooser.by_owner(&frames),
                Spread::Rss => chooser.by_hash(hash, &frames, rx),
            };
            for (buf, worker) in rx.drain(..).zip(workers) {
                handoff.hand_to(worker, port, buf, tally);
            }
            handoff.flush(tally);
        });
        if received > 0 {
            debug_assert!(tally.identity_holds(0, 0), "a packet has no outcome: {tally:?}");
            tally.flush(view.counters(), 0, || WaitingCounts::NONE);
        }
        StepReport { received, idle: received == 0, handed_to: handoff.take_notified() }
    }

    /// Declares the receiver offline until its next step, so that publication does not wait for it.
    /// To be called before a pause.
    pub fn rest(&mut self) {
        self.reader.go_offline();
    }
}

/// Receives a burst from each port, and passes the burst to `process` if it has packets. Returns
/// how many packets were received. `rx` provides the room for a burst.
#[inline(always)]
// PERF (adit-bench models): part of a step.
pub(super) fn poll<Io: PacketIo>(
    io: &mut Io,
    ports: &[PortId],
    burst: usize,
    rx: &mut Burst<Io::Buf>,
    mut process: impl FnMut(PortId, &mut Burst<Io::Buf>),
) -> usize {
    let mut received = 0;
    for &port in ports {
        let count = io.rx_burst(port, burst, rx);
        if count > 0 {
            received += count;
            process(port, rx);
        }
    }
    received
}

/// Classifies the frames of a burst, counts their arrival, and prefetches the cache lines of the
/// tables in which their sessions are looked up.
pub(super) fn classify_frames<'l, B: PacketBuf>(
    view: &TablesView<'_>,
    links: PortLinks<'l>,
    rx: &Burst<B>,
    tally: &mut StepTally,
) -> BurstColumn<ClassifiedFrame<'l>> {
    let mut frames = BurstColumn::new();
    // The link of the last frame is kept: most ports have only one.
    let mut last: Option<(VlanId, Option<&VlanLink>)> = None;
    for buf in rx {
        let frame = buf.data();
        tally.receive(frame.len());
        let vlan = vlan_of(frame);
        let link = match last {
            Some((known, link)) if known == vlan => link,
            _ => links.find(vlan).map(|(_, link)| link),
        };
        last = Some((vlan, link));
        let glance = link.map_or(Glance::Signaling, |link| {
            let (glance, interface) = glance_on_link(link, frame);
            if let Some(interface) = interface {
                tally.count_first_seen_on(interface, frame.len());
            }
            prefetch(view, link, glance);
            glance
        });
        frames.push(ClassifiedFrame { glance, link });
    }
    frames
}

fn prefetch(view: &TablesView<'_>, link: &VlanLink, glance: Glance) {
    match glance {
        Glance::Tunneled { teid, .. } => view.prefetch_teid(teid),
        Glance::PlainV4(addr) => ues(view, link).prefetch_v4(addr.to_bits()),
        Glance::PlainV6(addr) => ues(view, link).prefetch_v6(ue_ipv6_key(addr)),
        Glance::TunnelFragment(_) | Glance::Signaling => {}
    }
}

pub(super) fn ues<'v>(view: &TablesView<'v>, link: &VlanLink) -> &'v UeTable {
    view.ues(link.domain())
}

/// Chooses the workers of packets by the state that it refers to.
struct WorkerChooser<'a, 'v, B> {
    view: &'a TablesView<'v>,
    handoff: &'a Handoff<B>,
    signaling: WorkerId,
}

impl<B: PacketBuf> WorkerChooser<'_, '_, B> {
    /// Returns the owners of the packets' sessions.
    fn by_owner(&self, frames: &[ClassifiedFrame<'_>]) -> BurstColumn<WorkerId> {
        frames.iter().map(|frame| self.owner(frame)).collect()
    }

    /// Returns the owner of a packet's session; for a packet without a session, one worker for all
    /// packets with the same key.
    fn owner(&self, frame: &ClassifiedFrame<'_>) -> WorkerId {
        let Some(link) = frame.link else { return self.signaling };
        let (session, hash) = match frame.glance {
            Glance::Signaling => return self.signaling,
            Glance::TunnelFragment(hash) => (SessionIndex::NONE, hash.into()),
            Glance::Tunneled { teid, .. } => (self.view.session_of_teid(teid), teid.0.into()),
            Glance::PlainV4(addr) => {
                let key = addr.to_bits();
                (ues(self.view, link).session_v4(key), key.into())
            }
            Glance::PlainV6(addr) => {
                let key = ue_ipv6_key(addr);
                (ues(self.view, link).session_v6(key), key)
            }
        };
        match (session.is_some(), frame.glance) {
            (true, _) => self.handoff.owner_of(session),
            (false, glance) if is_own(link, glance) => self.signaling,
            (false, _) => self.handoff.of_hash(hash),
        }
    }

    /// Returns workers by the hashes of UE addresses. Packets without a visible UE address go to
    /// the owners of their sessions.
    fn by_hash(
        &self,
        hash: &Toeplitz,
        frames: &[ClassifiedFrame<'_>],
        rx: &Burst<B>,
    ) -> BurstColumn<WorkerId> {
        let mut workers = BurstColumn::new();
        let mut v4 = HashBatch::<4>::new();
        let mut v6 = HashBatch::<8>::new();
        for (at, (frame, buf)) in (0..).zip(frames.iter().zip(rx)) {
            match ue_address(frame, buf) {
                Some(UeAddress::V4(addr)) => v4.push(at, addr),
                Some(UeAddress::V6(addr)) => v6.push(at, addr),
                None => {
                    workers.push(self.owner(frame));
                    continue;
                }
            }
            workers.push(self.signaling);
        }
        v4.choose(hash, self.handoff, &mut workers);
        v6.choose(hash, self.handoff, &mut workers);
        workers
    }
}

/// Returns the address of the UE that a frame comes from or goes to; `None` if it is not visible.
fn ue_address<B: PacketBuf>(frame: &ClassifiedFrame<'_>, buf: &B) -> Option<UeAddress> {
    match frame.glance {
        Glance::Tunneled { gtpu_at, .. } => {
            Glance::inner_source(buf.data().get(gtpu_at..).unwrap_or_default())
        }
        Glance::PlainV4(addr) => Some(UeAddress::of(addr.into())),
        Glance::PlainV6(addr) => Some(UeAddress::of(addr.into())),
        Glance::TunnelFragment(_) | Glance::Signaling => None,
    }
    .filter(|_| frame.link.is_some_and(|link| !is_own(link, frame.glance)))
}

/// True if a plain packet is to one of our addresses.
fn is_own(link: &VlanLink, glance: Glance) -> bool {
    let dst: Option<IpAddr> = match glance {
        Glance::PlainV4(addr) => Some(addr.into()),
        Glance::PlainV6(addr) => Some(addr.into()),
        _ => None,
    };
    dst.is_some_and(|dst| link.owner(dst).is_some())
}

/// Addresses of one length, which are hashed together, and the positions of their packets.
struct HashBatch<const LEN: usize> {
    addrs: BurstColumn<[u8; LEN]>,
    at: BurstColumn<usize>,
}

impl<const LEN: usize> HashBatch<LEN> {
    const fn new() -> Self {
        Self { addrs: BurstColumn::new_const(), at: BurstColumn::new_const() }
    }

    fn push(&mut self, at: usize, addr: [u8; LEN]) {
        self.addrs.push(addr);
        self.at.push(at);
    }

    fn choose<B>(
        &self,
        hash: &Toeplitz,
        handoff: &Handoff<B>,
        workers: &mut BurstColumn<WorkerId>,
    ) {
        let mut hashes = [0; BURST_MAX];
        hash.hash_all(&self.addrs, &mut hashes);
        for (at, hash) in self.at.iter().zip(hashes) {
            if let Some(worker) = workers.get_mut(*at) {
                *worker = handoff.of_hash(hash.into());
            }
        }
    }
}
