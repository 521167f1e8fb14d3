//! Finds the session or link that a frame belongs to before it is parsed, for receivers and taps.

use core::cell::Cell;
use core::net::IpAddr;

use adit_pktio::PacketBuf;
use adit_rules::rule::ue_ipv6_key;
use adit_rules::{TapKey, TapPacket, TapSet};
use adit_tables::TablesView;
use adit_types::{InterfaceId, PortId, SessionIndex};
use adit_wire::{Glance, UeAddress, tag_len, vlan_of};

use crate::books::Books;
use crate::context::StepContext;
use crate::handoff::Handoff;
use crate::interfaces::VlanLink;
use crate::tap::TapPoint;

/// Returns a glance at a frame, and the interface that the frame belongs to.
pub(crate) fn glance_on_link(link: &VlanLink, frame: &[u8]) -> (Glance, Option<InterfaceId>) {
    let tunnel_end = Cell::new(None);
    let glance = Glance::at(frame, tag_len(frame), |addr| {
        let owner = link.owner(addr).filter(|interface| interface.role.is_gtpu());
        tunnel_end.set(owner.map(|interface| interface.id));
        owner.is_some()
    });
    let interface = tunnel_end.get().or_else(|| match glance {
        Glance::PlainV4(_) | Glance::PlainV6(_) => link.n6.or(link.first()),
        _ => link.first(),
    });
    (glance, interface)
}

/// A frame that a tap may select.
pub(crate) struct TapCandidate<'a> {
    glance: Glance,
    link: Option<&'a VlanLink>,
    frame: &'a [u8],
    pub port: PortId,
    pub interface: Option<InterfaceId>,
}

impl<'a> TapCandidate<'a> {
    /// Creates a candidate from a frame that arrived on `port`.
    pub(crate) fn new(ctx: &StepContext<'a>, port: PortId, frame: &'a [u8]) -> Self {
        let link = ctx.interfaces.of_port(port).find(vlan_of(frame)).map(|(_, link)| link);
        let (glance, interface) = match link {
            Some(link) => glance_on_link(link, frame),
            None => (Glance::Signaling, None),
        };
        Self { glance, link, frame, port, interface }
    }

    /// Returns the taps that select the frame at any of `points`; none if another worker processes
    /// the frame.
    pub(crate) fn select<B: PacketBuf>(
        &self,
        ctx: &StepContext<'_>,
        points: &[TapPoint],
        handoff: &Handoff<B>,
        books: &mut Books,
    ) -> TapSet {
        let Some(tap) = &mut books.tap else { return TapSet::NONE };
        if !handoff.is_alone() && !handoff.owns(self.session(&ctx.view)) {
            return TapSet::NONE;
        }
        points.iter().fold(TapSet::NONE, |taps, point| {
            taps.union(tap.select(*point, ctx.now, |key| self.has_key(&ctx.view, key)))
        })
    }

    /// Returns the first part of the frame's record.
    pub(crate) fn packet(&self, ctx: &StepContext<'_>, taps: TapSet, books: &Books) -> TapPacket {
        TapPacket {
            taps,
            origin: books.tally.tap_origin(),
            worker: books.tap.as_ref().map(|tap| tap.worker()).unwrap_or_default(),
            at: ctx.now,
            port: Some(self.port),
            interface: self.interface,
            len: u32::try_from(self.frame.len()).unwrap_or(u32::MAX),
        }
    }

    /// Returns the session of the frame; `SessionIndex::NONE` if it is unknown.
    fn session(&self, view: &TablesView<'_>) -> SessionIndex {
        let ues = || self.link.map(|link| view.ues(link.domain()));
        let found = match self.glance {
            Glance::Tunneled { teid, .. } => Some(view.session_of_teid(teid)),
            Glance::PlainV4(addr) => ues().map(|ues| ues.session_v4(addr.to_bits())),
            Glance::PlainV6(addr) => ues().map(|ues| ues.session_v6(ue_ipv6_key(addr))),
            Glance::TunnelFragment(_) | Glance::Signaling => None,
        };
        found.unwrap_or(SessionIndex::NONE)
    }

    fn has_key(&self, view: &TablesView<'_>, key: &TapKey) -> bool {
        match *key {
            // Selects all frames: the interface on which a frame leaves is not known yet.
            TapKey::Any | TapKey::Interface(_) => true,
            TapKey::Session(index, seid) => {
                let found = self.session(view);
                found == index && view.rules(found).is_some_and(|rules| rules.up_seid == seid)
            }
            TapKey::Teid(wanted) => {
                matches!(self.glance, Glance::Tunneled { teid, .. } if teid == wanted)
            }
            TapKey::Ue(addr) => self.is_of_ue(view, addr),
        }
    }

    /// True if the frame is from or to the UE, or in a tunnel of the UE with a foreign source.
    fn is_of_ue(&self, view: &TablesView<'_>, addr: IpAddr) -> bool {
        let is_ue = |other: IpAddr| UeAddress::of(other) == UeAddress::of(addr);
        match self.glance {
            Glance::PlainV4(dst) => is_ue(dst.into()),
            Glance::PlainV6(dst) => is_ue(dst.into()),
            Glance::Tunneled { gtpu_at, .. } => {
                let gtpu = self.frame.get(gtpu_at..).unwrap_or_default();
                let Some((src, dst)) = Glance::inner_addresses(gtpu) else { return false };
                let is_spoofed = || {
                    let rules = view.rules(self.session(view));
                    rules.is_some_and(|rules| rules.names_ue(addr) && !rules.allows_ue(src))
                };
                is_ue(src) || is_ue(dst) || is_spoofed()
            }
            Glance::TunnelFragment(_) | Glance::Signaling => false,
        }
    }
}
