//! The layout of rules from tunnel to tunnel.
//!
//! Word 0 has the TEID of the local tunnel, word 1 the key of the UE's IPv6 prefix. The others:
//!
//! | word | bits 63..32 | bits 31..0 |
//! |---|---|---|
//! | 2 | interfaces that packets arrive on | next hop |
//! | 3 | usage slot of a URR | its generation |
//! | 4 | TEID of the far end | IPv4 address of the far end |

use core::net::Ipv4Addr;

use adit_types::{Direction, InterfaceSet, Qfi, Teid};

use super::{
    ANY_QFI, FIRST_URR_WORD, HAS_QFI, NO_QFI, PackedFastRule, RELAY, TOS_SHIFT, flow_of, halves,
    pack_marking, unpack_urr,
};
use crate::fast_rule::{
    FAST_RULE_RELAY_QFIS_MAX, FAST_RULE_RELAY_URRS_MAX, FastRuleForwarding, FastRuleTunnel,
    FastRuleUrr,
};

const _: () = assert!(FAST_RULE_RELAY_QFIS_MAX == 2 && FAST_RULE_RELAY_URRS_MAX == 1);

/// Index of the word with the far end.
pub(super) const ONWARD_WORD: usize = FIRST_URR_WORD + FAST_RULE_RELAY_URRS_MAX;

/// Set if the packet's own container is considered: `keeps_container` of [`FastRuleForwarding`].
const KEEPS_CONTAINER: u64 = 1 << 47;
/// Position of two QFIs, one octet each.
const RELAY_QFIS_SHIFT: u32 = 48;

/// Returns the flags by which a rule from tunnel to tunnel forwards packets; zero for another rule.
pub(super) fn flags(forwarding: &FastRuleForwarding) -> u64 {
    let FastRuleForwarding::Relay { teid: _, qfis, onward, marking, keeps_container } = forwarding
    else {
        return 0;
    };
    let mut flows = [NO_QFI; FAST_RULE_RELAY_QFIS_MAX];
    for (flow, qfi) in flows.iter_mut().zip(qfis) {
        *flow = qfi.value();
    }
    let mut flags = u64::from(u16::from_le_bytes(flows)) << RELAY_QFIS_SHIFT;
    flags |= if qfis.is_empty() { ANY_QFI } else { 0 };
    flags |= u64::from(onward.tos.octet()) << TOS_SHIFT;
    flags |= pack_marking(*marking);
    flags | RELAY | if *keeps_container { KEEPS_CONTAINER } else { 0 }
}

impl PackedFastRule {
    /// True for a rule from tunnel to tunnel: call only methods for such rules.
    #[inline]
    #[must_use]
    pub const fn is_relay(&self) -> bool {
        self.flags & RELAY != 0
    }

    /// Returns the TEID of the local tunnel of a rule from tunnel to tunnel.
    #[inline]
    #[must_use]
    pub const fn relayed_teid(&self) -> Teid {
        Teid(halves(self.words[0]).0)
    }

    /// Same as [`PackedFastRule::matches_uplink`], for a rule from tunnel to tunnel in either
    /// direction. The caller compares the UE-side address ([`PackedFastRule::source`]).
    #[inline(always)]
    #[must_use]
    pub fn matches_relayed(&self, on: InterfaceSet, teid: Teid, qfi: Option<Qfi>) -> bool {
        // PERF (adit-bench datapath --n9): one branch for two conditions that nearly all packets
        // meet.
        let is_here = (halves(self.words[0]).0 == teid.0)
            & InterfaceSet(halves(self.words[2]).0).intersects(on);
        is_here && (self.flags & ANY_QFI != 0 || self.has_relayed_qfi(qfi))
    }

    #[inline]
    fn has_relayed_qfi(&self, qfi: Option<Qfi>) -> bool {
        let [.., first, second] = self.flags.to_le_bytes();
        [first, second].contains(&flow_of(qfi))
    }

    /// Returns the tunnel that a packet leaves in by a rule from tunnel to tunnel.
    #[inline]
    #[must_use]
    pub fn onward(&self) -> FastRuleTunnel {
        let (teid, addr) = halves(self.words[ONWARD_WORD]);
        FastRuleTunnel {
            teid: Teid(teid),
            addr: Ipv4Addr::from_bits(addr),
            next_hop: self.next_hop(),
            tos: self.tos(),
        }
    }

    /// Returns QoS flow and reflective QoS indication of the PDU Session Container that a packet of
    /// `direction` leaves with by a rule from tunnel to tunnel. `qfi`: the QoS flow of the
    /// container that the packet arrived with; `arrived` reads that container.
    ///
    /// Spec: TS 29.244 §8.2.64, §8.2.89; TS 38.415 §5.4.1.
    #[inline(always)]
    #[must_use]
    pub fn relayed_marking(
        &self,
        direction: Direction,
        qfi: Option<Qfi>,
        arrived: impl FnOnce() -> Option<(Qfi, bool)>,
    ) -> Option<(Qfi, bool)> {
        let kept = qfi.filter(|_| self.flags & KEEPS_CONTAINER != 0);
        match direction {
            Direction::Uplink if let Some(kept) = kept => Some((kept, false)),
            Direction::Downlink if self.flags & HAS_QFI == 0 => kept.and_then(|_| arrived()),
            _ => self.marking(),
        }
    }

    /// Returns the URR besides the session's own one, of a rule from tunnel to tunnel.
    #[inline]
    #[must_use]
    pub fn relayed_urr(&self) -> Option<FastRuleUrr> {
        unpack_urr(self.words[FIRST_URR_WORD])
    }
}

#[cfg(test)]
mod tests {
    use adit_types::NextHopIndex;

    use super::super::tests::{KEY, downlink, on, qfi, uplink, urrs};
    use super::*;
    use crate::fast_rule::{FastRule, FastRuleUe, FastRuleUsage};
    use crate::outer_tos::OuterTos;

    fn relay(flows: &[u8], marking: Option<(Qfi, bool)>, keeps_container: bool) -> FastRule {
        let forwarding = FastRuleForwarding::Relay {
            teid: Teid(9),
            qfis: flows.iter().map(|flow| qfi(*flow)).collect(),
            onward: ONWARD_TUNNEL,
            marking,
            keeps_container,
        };
        let (ue_v4, ue_v6) = (FastRuleUe::Only(Ipv4Addr::new(10, 0, 0, 1)), FastRuleUe::Only(KEY));
        FastRule { forwarding, ..uplink(&[], ue_v4, ue_v6) }
    }

    const ONWARD_TUNNEL: FastRuleTunnel = FastRuleTunnel {
        teid: Teid(u32::MAX),
        addr: Ipv4Addr::BROADCAST,
        next_hop: NextHopIndex(u32::MAX - 1),
        tos: OuterTos::from_octet(0xff),
    };

    #[test]
    fn rule_from_tunnel_to_tunnel_is_read_as_it_was_packed() {
        for urrs_of_rule in 0..=1 {
            let usage = FastRuleUsage { urrs: urrs(urrs_of_rule), counts_apart: false };
            let rule = FastRule { usage, ..relay(&[], None, true) };
            let rule = PackedFastRule::from(&rule);
            assert!(rule.is_relay());
            assert_eq!(rule.flags() & PackedFastRule::PUBLISHER_FLAGS, 0);
            assert_eq!((rule.onward(), rule.relayed_teid()), (ONWARD_TUNNEL, Teid(9)));
            assert!(rule.relayed_urr().into_iter().eq(urrs(urrs_of_rule)));
            assert_eq!(rule.source(false), FastRuleUe::Only(0x0a00_0001));
            assert_eq!((rule.source(true), rule.meters()), (FastRuleUe::Only(KEY), 0b01));
            assert!(rule.is_only_ue(false, 0x0a00_0001) && rule.is_only_ue(true, KEY));
            assert!(!rule.is_only_ue(true, 0x0a00_0001) && !rule.is_only_ue(false, KEY));
        }
        let (ue_v4, ue_v6) = (FastRuleUe::Any, FastRuleUe::Any);
        assert!(!PackedFastRule::from(&uplink(&[63; 4], ue_v4, ue_v6)).is_relay());
        assert!(!PackedFastRule::from(&downlink(u32::MAX, Some((qfi(63), true)))).is_relay());
    }

    #[test]
    fn packet_between_tunnels_fits_by_arrival_tunnel_and_flow() {
        let rule = PackedFastRule::from(&relay(&[5, 9], None, true));
        assert!(rule.matches_relayed(on(3), Teid(9), Some(qfi(9))));
        assert!(rule.matches_relayed(on(3), Teid(9), Some(qfi(5))));
        assert!(!rule.matches_relayed(on(4), Teid(9), Some(qfi(9))));
        assert!(!rule.matches_relayed(on(3), Teid(8), Some(qfi(9))));
        assert!(!rule.matches_relayed(on(3), Teid(9), Some(qfi(63))));
        assert!(!rule.matches_relayed(on(3), Teid(9), None));
        let any = PackedFastRule::from(&relay(&[], Some((qfi(63), true)), true));
        assert!(any.matches_relayed(on(3), Teid(9), None));
    }

    #[test]
    fn own_container_goes_before_that_of_the_rule_in_uplink_and_after_it_in_downlink() {
        use Direction::{Downlink, Uplink};
        let marking = |of_qers, keeps, direction, arrived: Option<(Qfi, bool)>| {
            let rule = PackedFastRule::from(&relay(&[], of_qers, keeps));
            rule.relayed_marking(direction, arrived.map(|(qfi, _)| qfi), || arrived)
        };
        let (own, demanded) = (Some((qfi(5), true)), Some((qfi(63), false)));
        assert_eq!(marking(demanded, true, Uplink, own), Some((qfi(5), false)));
        assert_eq!(marking(demanded, true, Uplink, None), demanded);
        assert_eq!(marking(demanded, false, Uplink, own), demanded);
        assert_eq!(marking(None, true, Uplink, own), Some((qfi(5), false)));
        assert_eq!(marking(demanded, true, Downlink, own), demanded);
        assert_eq!(marking(None, true, Downlink, own), own);
        assert_eq!(marking(Some((qfi(0), true)), false, Downlink, own), Some((qfi(0), true)));
        for direction in [Uplink, Downlink] {
            assert_eq!(marking(None, false, direction, own), None);
        }
    }
}
