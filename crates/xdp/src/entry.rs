//! Converts a fast rule into the words of an entry.

use adit_rules::{
    FastRule, FastRuleForwarding, FastRulePeer, FastRuleTransport, FastRuleUe, FastRuleUsage,
    OffloadRefusal, OffloadRule,
};
use adit_types::InterfaceSet;

use crate::layout::{HOLD_LEFT, NO_QFI, head, word};

/// The words of an entry before its budget. The number and [`head::ACTIVE`] are still zero.
pub(crate) type EntryRule = [u64; word::BUDGET];

/// Converts a rule into words. `egress` returns the number of a set of interfaces that packets
/// leave through.
///
/// # Errors
/// The part of the rule that the program cannot express.
pub(crate) fn pack_rule(
    rule: &OffloadRule<'_>,
    egress: impl FnOnce(InterfaceSet) -> Option<u32>,
) -> Result<EntryRule, OffloadRefusal> {
    let OffloadRule { rule, is_limited, has_shared_rates } = *rule;
    // Destructures every field, so that a new field must be considered here.
    let FastRule {
        arrival,
        ue_v4,
        ue_v6,
        forwarding,
        meters,
        slice: _,
        guaranteed: _,
        usage: FastRuleUsage { urrs, counts_apart },
    } = rule;
    if meters.contains(&true) || has_shared_rates {
        return Err(refusal("packets have to pass rates"));
    }
    if !urrs.is_empty() || *counts_apart {
        return Err(refusal("other URRs than that of the session's establishment count packets"));
    }
    let (v4_flags, ue_v4) = ue(*ue_v4, head::V4, head::V4_ANY, |addr| addr.to_bits().into());
    let (v6_flags, ue_v6) = ue(*ue_v6, head::V6, head::V6_ANY, |key| key);
    let mut flags = v4_flags | v6_flags | u64::from(arrival.0) << head::ARRIVAL_SHIFT;
    flags |= if is_limited { head::LIMITED } else { 0 };
    let (teid, far, hop, marking) = match forwarding {
        FastRuleForwarding::Uplink { teid, transport, qfis, egress: within } => {
            if *transport == FastRuleTransport::V6 {
                return Err(refusal("packets arrive in a tunnel over IPv6"));
            }
            let egress = egress(*within)
                .ok_or_else(|| refusal("packets leave through too many sets of interfaces"))?;
            let mut flows = [NO_QFI; 4];
            for (flow, qfi) in flows.iter_mut().zip(qfis) {
                *flow = qfi.value();
            }
            flags |= if qfis.is_empty() { head::ANY_QFI } else { 0 };
            (*teid, u32::from_le_bytes(flows), egress, 0)
        }
        FastRuleForwarding::Downlink { teid, peer, next_hop, tos, marking } => {
            let FastRulePeer::V4(peer) = peer else {
                return Err(refusal("packets leave in a tunnel over IPv6"));
            };
            let qfi = marking.map_or(0, |(qfi, is_reflective)| {
                flags |= head::HAS_QFI | if is_reflective { head::REFLECTIVE } else { 0 };
                u64::from(qfi.value())
            });
            (*teid, peer.to_bits(), next_hop.0, u64::from(tos.octet()) | qfi << 8)
        }
        FastRuleForwarding::Relay { .. } => {
            return Err(refusal("packets leave a tunnel for another one"));
        }
    };
    let mut words = [0; word::BUDGET];
    words[word::HEAD] = flags;
    words[word::TEID] = ue_v4 << 32 | u64::from(teid.0);
    words[word::UE_V6] = ue_v6;
    words[word::FAR] = u64::from(hop) << 32 | u64::from(far);
    words[word::MARKING] = marking | HOLD_LEFT;
    Ok(words)
}

const fn refusal(words: &'static str) -> OffloadRefusal {
    OffloadRefusal(std::borrow::Cow::Borrowed(words))
}

/// Returns the flags and the value for the UE's address.
fn ue<A>(ue: FastRuleUe<A>, matches: u64, any: u64, value: impl FnOnce(A) -> u64) -> (u64, u64) {
    match ue {
        FastRuleUe::None => (0, 0),
        FastRuleUe::Any => (matches | any, 0),
        FastRuleUe::Only(addr) => (matches, value(addr)),
    }
}
