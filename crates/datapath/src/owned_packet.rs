//! A user packet that owns all that it carries from one stage to the next.
//!
//! In a burst a packet refers to published rules, which are valid until the end of the step on this
//! core. A packet that leaves the burst, to be buffered or for a stage on another core, keeps
//! identifiers instead: they are resolved by the rules of the moment in which it goes on.

use adit_rules::{DropReason, PublishedFar, PublishedPdr, PublishedRules};
use adit_tables::TablesView;
use adit_types::{Direction, FarId, PdrId, SessionIndex};
use adit_wire::IpPacket;

use crate::columns::{BurstLane, LaneKind, Matched, PacketArrival, PacketVerdict};

/// A packet between two stages.
pub(crate) struct OwnedPacket<B> {
    /// The packet.
    pub buf: B,
    /// Its session.
    pub session: SessionIndex,
    /// How it arrived.
    pub arrival: PacketArrival,
    /// The user's IP header.
    pub ip: IpPacket,
    /// The rules that it matched.
    pub matched: MatchedIds,
}

/// The rules that a packet matched, by identifiers that survive changes of other rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MatchedIds {
    direction: Direction,
    pdr: PdrId,
    /// Which of the PDR's alternatives matched, counted from zero.
    alternative: usize,
    far: FarId,
}

impl MatchedIds {
    /// The identifiers of `matched`.
    pub(crate) fn new(matched: &Matched<'_>) -> Self {
        let Matched { rules, pdr, far, direction, .. } = *matched;
        let before =
            alternatives(rules, direction, pdr.id).take_while(|other| !core::ptr::eq(*other, pdr));
        Self { direction, pdr: pdr.id, alternative: before.count(), far: far.id }
    }

    /// The PDR and FAR by the rules of now. The FAR that buffered the packet decides, unless it is
    /// gone or still buffers: then the FAR that the PDR refers to now. Without its PDR the packet
    /// is dropped: it has no QoS flow and no usage report.
    fn resolve<'v>(self, view: &TablesView<'v>, session: SessionIndex) -> PacketVerdict<'v> {
        let found = view.rules(session).and_then(|rules| {
            let Self { direction, .. } = self;
            let pdr = self.find_pdr(rules)?;
            let far = self.find_far(rules, pdr)?;
            Some(Matched { rules, pdr, far, direction, must_queue: false, is_guaranteed: false })
        });
        found.map_or(PacketVerdict::Drop(DropReason::BufferDiscarded), PacketVerdict::Pass)
    }

    fn find_pdr(self, rules: &PublishedRules) -> Option<&PublishedPdr> {
        let pdrs = || alternatives(rules, self.direction, self.pdr);
        pdrs().nth(self.alternative).or_else(|| pdrs().next())
    }

    fn find_far<'v>(
        self,
        rules: &'v PublishedRules,
        pdr: &PublishedPdr,
    ) -> Option<&'v PublishedFar> {
        let holder = rules.fars.iter().find(|far| far.id == self.far);
        holder.filter(|far| !far.buffers()).or_else(|| rules.fars.get(usize::from(pdr.far)))
    }
}

/// The published entries of a PDR: one for each traffic endpoint and predefined rule.
fn alternatives(
    rules: &PublishedRules,
    direction: Direction,
    id: PdrId,
) -> impl Iterator<Item = &PublishedPdr> {
    rules.pdrs(direction).iter().filter(move |pdr| pdr.id == id)
}

impl<'v, B, K: LaneKind> BurstLane<'v, B, K> {
    /// Appends a packet that was classified before, with its rules of now.
    pub(crate) fn push_owned(&mut self, packet: OwnedPacket<B>, view: &TablesView<'v>) {
        self.verdicts.push(packet.matched.resolve(view, packet.session));
        self.bufs.push(packet.buf);
        self.arrivals.push(packet.arrival);
        self.ips.push(packet.ip);
        self.sessions.push(packet.session);
    }
}
