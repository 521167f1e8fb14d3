//! Refuses IEs that require a function which this UP function does not have.
//!
//! An optional IE may be ignored only if nothing is lost by that. The IEs here are refused instead,
//! in messages and at any depth of their rules. Unknown IEs are ignored. Spec: TS 29.244 §7.6.9.

use adit_pfcp::ie::PdnType;
use adit_pfcp::{Ie, IeIter, IeType};
use adit_session::RuleId;
use adit_types::{BarId, FarId, PdrId, QerId, UrrId};

use crate::refusal::Rejected;
use crate::support::{ies, unannounced};

/// Grouped IEs whose members are checked.
const GROUPS: &[IeType] = ies! {
    CREATE_PDR, UPDATE_PDR, PDI, CREATE_TRAFFIC_ENDPOINT, UPDATE_TRAFFIC_ENDPOINT, CREATE_FAR,
    UPDATE_FAR, FORWARDING_PARAMETERS, UPDATE_FORWARDING_PARAMETERS, DUPLICATING_PARAMETERS,
    UPDATE_DUPLICATING_PARAMETERS, CREATE_QER, UPDATE_QER, CREATE_URR, UPDATE_URR, CREATE_BAR,
    UPDATE_BAR_SESSION_MODIFICATION_REQUEST,
};

/// Maximum depth of nested groups, such as PDI within Create PDR. Deeper nesting is illegal, so a
/// peer cannot make the check recurse further.
const DEPTH_MAX: u8 = 2;

/// IEs that are refused at any place, in addition to those of functions that we do not announce
/// (`support::unannounced`).
pub(crate) const DEMANDS: &[IeType] = ies! {
    ETHERNET_INACTIVITY_TIMER, CREATE_MAR, UPDATE_MAR, REMOVE_MAR, MAR_ID, ETHERNET_PACKET_FILTER,
    ETHERNET_PDU_SESSION_INFORMATION, PROXYING, CREATE_BRIDGE_INFO_FOR_TSC,
    PROVIDE_ATSSS_CONTROL_INFORMATION, L2TP_TUNNEL_INFORMATION, L2TP_SESSION_INFORMATION_REQUEST,
    MBS_SESSION_N4_CONTROL_INFORMATION, MBS_SESSION_N4MB_CONTROL_INFORMATION,
    MBS_MULTICAST_PARAMETERS, ADD_MBS_UNICAST_PARAMETERS, REMOVE_MBS_UNICAST_PARAMETERS,
    QER_INDICATIONS, TSC_MANAGEMENT_INFORMATION_MODIFICATION_REQUEST, ETHERNET_CONTEXT_INFORMATION,
};

/// Refuses a body with an IE that requires a function which we do not have.
///
/// # Errors
/// Cause 76 with the first of these IEs, and the rule that contains it.
pub(crate) fn check(body: &[u8]) -> Result<(), Rejected> {
    check_to(body, DEPTH_MAX)
}

fn check_to(body: &[u8], depth: u8) -> Result<(), Rejected> {
    for ie in IeIter::new(body).flatten() {
        if ie.enterprise_id.is_some() {
            continue;
        }
        if is_demand(ie.ie_type) || demands_other_pdn(ie.ie_type, ie.value) {
            return Err(Rejected::unsupported(ie.ie_type));
        }
        if depth > 0 && GROUPS.contains(&ie.ie_type) {
            check_to(ie.value, depth - 1).map_err(|rejected| {
                match rule_of(ie.ie_type, ie.value) {
                    Some(rule) => rejected.in_rule(rule),
                    None => rejected,
                }
            })?;
        }
    }
    Ok(())
}

/// True for an IE that is refused at any place.
pub(crate) fn is_demand(ie: IeType) -> bool {
    DEMANDS.contains(&ie) || unannounced::is_refused(ie)
}

fn demands_other_pdn(ie_type: IeType, value: &[u8]) -> bool {
    ie_type == IeType::PDN_TYPE
        && matches!(PdnType::decode(value), Ok(PdnType::Ethernet | PdnType::NonIp))
}

/// Returns the rule that a Create or Update group concerns.
fn rule_of(ie_type: IeType, group: &[u8]) -> Option<RuleId> {
    match ie_type {
        IeType::CREATE_PDR | IeType::UPDATE_PDR => member::<PdrId>(group).map(RuleId::Pdr),
        IeType::CREATE_FAR | IeType::UPDATE_FAR => member::<FarId>(group).map(RuleId::Far),
        IeType::CREATE_QER | IeType::UPDATE_QER => member::<QerId>(group).map(RuleId::Qer),
        IeType::CREATE_URR | IeType::UPDATE_URR => member::<UrrId>(group).map(RuleId::Urr),
        IeType::CREATE_BAR | IeType::UPDATE_BAR_SESSION_MODIFICATION_REQUEST => {
            member::<BarId>(group).map(RuleId::Bar)
        }
        _ => None,
    }
}

fn member<'a, T: Ie<'a>>(group: &'a [u8]) -> Option<T> {
    let ie = IeIter::new(group).flatten().find(|ie| ie.ie_type == T::TYPE)?;
    T::decode(ie.value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::unannounced::UNANNOUNCED;

    fn tlv(ie: IeType, value: &[u8]) -> Vec<u8> {
        let mut octets = ie.0.to_be_bytes().to_vec();
        octets.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        octets.extend(value);
        octets
    }

    /// Returns a group of this kind with an identifier and `inner`, and the rule that the
    /// identifier names.
    fn group(kind: IeType, inner: &[u8]) -> (Vec<u8>, Option<RuleId>) {
        let (id, rule) = match kind {
            IeType::CREATE_PDR | IeType::UPDATE_PDR => {
                (tlv(IeType::PDR_ID, &[0, 7]), Some(RuleId::Pdr(PdrId(7))))
            }
            IeType::CREATE_FAR | IeType::UPDATE_FAR => {
                (tlv(IeType::FAR_ID, &[0, 0, 0, 7]), Some(RuleId::Far(FarId(7))))
            }
            IeType::CREATE_QER | IeType::UPDATE_QER => {
                (tlv(IeType::QER_ID, &[0, 0, 0, 7]), Some(RuleId::Qer(QerId(7))))
            }
            IeType::CREATE_URR | IeType::UPDATE_URR => {
                (tlv(IeType::URR_ID, &[0, 0, 0, 7]), Some(RuleId::Urr(UrrId(7))))
            }
            IeType::CREATE_BAR | IeType::UPDATE_BAR_SESSION_MODIFICATION_REQUEST => {
                (tlv(IeType::BAR_ID, &[7]), Some(RuleId::Bar(BarId(7))))
            }
            _ => (Vec::new(), None),
        };
        (tlv(kind, &[&id, inner].concat()), rule)
    }

    fn all() -> impl Iterator<Item = IeType> {
        let unannounced = UNANNOUNCED.iter().flat_map(|row| row.refused);
        DEMANDS.iter().chain(unannounced).copied()
    }

    /// Covers every place where a request may contain IEs. Spec: TS 29.244 §7.5.2, §7.5.4.
    #[test]
    fn demand_is_refused_by_name_in_the_message_and_in_every_group_and_its_rule_is_named() {
        for ie in all() {
            let octets = tlv(ie, &[0; 8]);
            assert_eq!(check(&octets), Err(Rejected::unsupported(ie)), "{ie}");
            for &outer in GROUPS {
                let (body, rule) = group(outer, &octets);
                let in_rule = |rejected: Rejected| match rule {
                    Some(rule) => rejected.in_rule(rule),
                    None => rejected,
                };
                let expected = Err(in_rule(Rejected::unsupported(ie)));
                assert_eq!(check(&body), expected, "{ie} in {outer}");
                for &inner in &[
                    IeType::PDI,
                    IeType::FORWARDING_PARAMETERS,
                    IeType::UPDATE_FORWARDING_PARAMETERS,
                ] {
                    let (body, _) = group(outer, &tlv(inner, &octets));
                    assert_eq!(check(&body), expected, "{ie} in {inner} in {outer}");
                }
            }
        }
    }

    #[test]
    fn ie_of_another_enterprise_demands_nothing() {
        let mut octets = tlv(IeType(IeType::TRACE_INFORMATION.0 | 0x8000), &[0, 9, 1]);
        assert_eq!(check(&octets), Ok(()));
        octets.extend(tlv(IeType::PDN_TYPE, &[1]));
        assert_eq!(check(&octets), Ok(()));
        octets.extend(tlv(IeType::PDN_TYPE, &[5]));
        assert_eq!(check(&octets), Err(Rejected::unsupported(IeType::PDN_TYPE)));
    }
}
