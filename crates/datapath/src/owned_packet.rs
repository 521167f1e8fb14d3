//! A user packet that owns all data that it carries from one stage to the next.
//!
//! In a burst, a packet refers to published rules, which are valid on this core until the end of
//! the step. A packet that leaves the burst, to be buffered or for a stage on another core, keeps
//! identifiers instead; they are resolved by the rules that are in force when it goes on.

use adit_rules::{DropReason, PublishedFar, PublishedPdr, PublishedRules};
use adit_tables::TablesView;
use adit_types::{Direction, FarId, PdrId, SessionIndex};
use adit_wire::IpPacket;

use crate::columns::{BurstLane, LaneKind, Matched, PacketArrival, PacketVerdict};

/// A packet between two stages.
pub(crate) struct OwnedPacket<B> {
    pub buf: B,
    pub session: SessionIndex,
    pub arrival: PacketArrival,
    /// The user's IP header.
    pub ip: IpPacket,
    /// The rules that it matched.
    pub matched: MatchedIds,
}

/// Identifiers of the rules that a packet matched; they survive changes of other rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MatchedIds {
    direction: Direction,
    pdr: PdrId,
    /// Index of the PDR's alternative ([`entries_of_pdr`]) that matched.
    alternative: usize,
    far: FarId,
}

impl MatchedIds {
    /// Returns the identifiers of `matched`.
    pub(crate) fn new(matched: &Matched<'_>) -> Self {
        let Matched { rules, pdr, far, direction, .. } = *matched;
        let before = entries_of_pdr(rules, direction, pdr.id)
            .take_while(|other| !core::ptr::eq(*other, pdr));
        Self { direction, pdr: pdr.id, alternative: before.count(), far: far.id }
    }

    /// Returns the PDR and FAR by the present rules. The FAR is the one that buffered the packet;
    /// if that FAR is removed or still buffers, it is the one that the PDR refers to now. Without
    /// its PDR the packet is dropped, because no other rule names its QoS flow and usage report.
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
        let pdrs = || entries_of_pdr(rules, self.direction, self.pdr);
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

/// Returns the published entries of a PDR: one for each traffic endpoint and predefined rule.
fn entries_of_pdr(
    rules: &PublishedRules,
    direction: Direction,
    id: PdrId,
) -> impl Iterator<Item = &PublishedPdr> {
    rules.pdrs(direction).iter().filter(move |pdr| pdr.id == id)
}

impl<'v, B, K: LaneKind> BurstLane<'v, B, K> {
    /// Appends a packet that was classified before; resolves its rules.
    pub(crate) fn push_owned(&mut self, packet: OwnedPacket<B>, view: &TablesView<'v>) {
        self.verdicts.push(packet.matched.resolve(view, packet.session));
        self.bufs.push(packet.buf);
        self.arrivals.push(packet.arrival);
        self.ips.push(packet.ip);
        self.sessions.push(packet.session);
    }
}
