//! Checks of single rules: that they have all parts that they need, and that we support these.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_rules::{ApplyAction, DestinationInterface, HeaderCreation, HeaderRemoval, Redirect};
use adit_types::limits::{
    DUPLICATES_PER_FAR_MAX, MONITORING_TIMES_PER_URR_MAX, QERS_PER_PDR_MAX, REDIRECT_URL_BYTES_MAX,
    SDF_FILTERS_PER_PDR_MAX, UE_NETWORKS_PER_PDI_MAX, URRS_PER_PDR_MAX,
};
use adit_types::{FarId, IpPrefix, Ipv6Prefix, PdrId};

use crate::direction;
use crate::provisioning::Provisioning;
use crate::record::{
    Far, Forwarding, LocalFTeid, MeasurementMethod, Pdi, Pdr, Records, UeMatch, UeSide, Urr,
    UsageTriggers,
};
use crate::refusal::Refusal;

/// Checks a PDR by itself. Spec: TS 29.244 §7.5.2.2.
pub(super) fn pdr(own: &Provisioning, records: &Records, pdr: &Pdr) -> Result<(), Refusal> {
    let id = pdr.id;
    if pdr.qers.len() > QERS_PER_PDR_MAX {
        return Err(Refusal::TooManyQers { pdr: id });
    }
    if pdr.urrs.len() > URRS_PER_PDR_MAX {
        return Err(Refusal::TooManyUrrs { pdr: id });
    }
    if pdr.pdi.sdf.len() > SDF_FILTERS_PER_PDR_MAX {
        return Err(Refusal::TooManySdfFilters { pdr: id });
    }
    let is_of_ue = direction::is_of_ue(records, pdr);
    pdr.pdi.each().try_for_each(|alternative| pdi(own, pdr, is_of_ue, alternative))
}

/// Checks one of the alternatives of which packets of a PDR must match one.
fn pdi(own: &Provisioning, pdr: &Pdr, is_of_ue: bool, pdi: &Pdi) -> Result<(), Refusal> {
    let id = pdr.id;
    if let Some(given) = &pdi.f_teid {
        f_teid(own, id, given, pdi.network_instance.as_deref())?;
    }
    if let Some(ue) = &pdi.ue {
        ue_match(own, id, is_of_ue, ue)?;
    }
    ue_networks(own, id, pdi)
}

/// Checks the networks of and behind the UE: they must contain hosts, and no address of ours.
fn ue_networks(own: &Provisioning, pdr: PdrId, pdi: &Pdi) -> Result<(), Refusal> {
    if pdi.ue_networks().count() > UE_NETWORKS_PER_PDI_MAX {
        return Err(Refusal::TooManyUeNetworks { pdr });
    }
    let is_network = |prefix: &IpPrefix| match *prefix {
        IpPrefix::V4(v4) => is_host(v4.addr()) && !own.has_address_in(*prefix),
        IpPrefix::V6(prefix) => is_ue_prefix(own, prefix),
    };
    if let Some(&prefix) = pdi.framed_routes.iter().find(|prefix| !is_network(prefix)) {
        return Err(Refusal::FramedRouteInvalid { pdr, prefix });
    }
    match pdi.further_ues.iter().find(|prefix| !is_network(prefix)) {
        Some(&prefix) => Err(Refusal::UePrefixInvalid { pdr, prefix }),
        None => Ok(()),
    }
}

/// Checks the outer header removal of a PDR. GTP-U headers may always be removed. UDP and IP
/// headers may be removed only from packets that a data network sends to the UE's own address: the
/// PDR must name the UE, and neither have nor request an F-TEID. Spec: TS 29.244 §8.2.64; TS 23.501
/// §5.6.10.3 (N6 tunnels).
pub(super) fn outer_header_removal(pdr: &Pdr, pdi: &Pdi, tunneled: bool) -> Result<(), Refusal> {
    let Some(removal) = pdr.outer_header_removal else { return Ok(()) };
    match removal {
        HeaderRemoval::GtpuUdpIpv4 | HeaderRemoval::GtpuUdpIpv6 | HeaderRemoval::GtpuUdpIp => {
            Ok(())
        }
        HeaderRemoval::UdpIpv4
        | HeaderRemoval::UdpIpv6
        | HeaderRemoval::Ipv4
        | HeaderRemoval::Ipv6 => {
            let is_plain = pdi.source.is_network() && !tunneled && !pdi.is_of_any_ue();
            match is_plain {
                true => Ok(()),
                false => Err(Refusal::UnsupportedOuterHeaderRemoval { pdr: pdr.id, removal }),
            }
        }
    }
}

fn f_teid(
    own: &Provisioning,
    pdr: PdrId,
    f_teid: &LocalFTeid,
    network_instance: Option<&str>,
) -> Result<(), Refusal> {
    if f_teid.teid.0 == 0 {
        return Err(Refusal::FTeidZero { pdr });
    }
    if f_teid.v4.is_none() && f_teid.v6.is_none() {
        return Err(Refusal::FTeidWithoutAddress { pdr });
    }
    let mut addrs = f_teid.v4.map(IpAddr::V4).into_iter().chain(f_teid.v6.map(IpAddr::V6));
    match addrs.find(|&addr| !own.is_tunnel_end(addr, network_instance)) {
        Some(addr) => Err(Refusal::ForeignAddress { pdr, addr }),
        None => Ok(()),
    }
}

/// True if the control plane may give this F-TEID: its TEID is not zero, and its addresses are ours
/// on interfaces of the network instance.
pub(super) fn is_local(
    own: &Provisioning,
    given: &LocalFTeid,
    network_instance: Option<&str>,
) -> bool {
    f_teid(own, PdrId(0), given, network_instance).is_ok()
}

fn ue_match(own: &Provisioning, pdr: PdrId, is_of_ue: bool, ue: &UeMatch) -> Result<(), Refusal> {
    if ue.addresses.is_empty() {
        return Err(Refusal::UeAddressMissing { pdr });
    }
    if is_of_ue && ue.side == UeSide::Destination {
        return Err(Refusal::UeSideUnsupported { pdr });
    }
    if let Some(prefix) = ue.addresses.v6.filter(|p| p.len() < adit_rules::rule::UE_IPV6_KEY_BITS) {
        return Err(Refusal::UePrefixTooShort { pdr, prefix });
    }
    let v4_fits =
        ue.addresses.v4.is_none_or(|addr| is_host(addr) && !own.is_own_gtpu_address(addr.into()));
    let v6_fits = ue.addresses.v6.is_none_or(|prefix| is_ue_prefix(own, prefix));
    if !v4_fits || !v6_fits {
        return Err(Refusal::UeAddressInvalid { pdr, ue: ue.addresses });
    }
    Ok(())
}

const fn is_host(addr: Ipv4Addr) -> bool {
    !(addr.is_unspecified() || addr.is_loopback() || addr.is_multicast() || addr.is_broadcast())
}

/// True unless the prefix is special (the first /64 contains the unspecified and the loopback
/// address) or contains an address of ours.
fn is_ue_prefix(own: &Provisioning, prefix: Ipv6Prefix) -> bool {
    let addr = prefix.addr();
    let is_special = adit_rules::rule::ue_ipv6_key(addr) == 0
        || addr.is_multicast()
        || addr.is_unicast_link_local();
    !is_special && !own.has_address_in(IpPrefix::V6(prefix))
}

/// Checks a URR by itself: each requested report needs the time or the limit at which it is due.
/// Spec:
/// TS 29.244 §7.5.2.4.
pub(super) fn urr(urr: &Urr) -> Result<(), Refusal> {
    if urr.method == MeasurementMethod::default() {
        return Err(Refusal::MeasuresNothing { urr: urr.id });
    }
    let settings = &urr.settings;
    if settings.monitoring.len() > MONITORING_TIMES_PER_URR_MAX {
        return Err(Refusal::TooManyMonitoringTimes { urr: urr.id });
    }
    if settings.time_mechanism.is_some_and(|mechanism| mechanism.interval.0 == 0) {
        return Err(Refusal::TimeIntervalZero { urr: urr.id });
    }
    let needs = [
        (UsageTriggers::PERIODIC, settings.period.is_some_and(|period| period.0 != 0)),
        (UsageTriggers::VOLUME_THRESHOLD, settings.volume_threshold.is_some()),
        (UsageTriggers::TIME_THRESHOLD, settings.time_threshold.is_some()),
        (UsageTriggers::EVENT_THRESHOLD, settings.event_threshold.is_some()),
        (UsageTriggers::ENVELOPE_CLOSURE, settings.time_mechanism.is_some()),
        (UsageTriggers::QUOTA_HOLDING_TIME, settings.quota_holding_time.is_some()),
        (UsageTriggers::DROPPED_DL, settings.dropped_threshold.is_some()),
        (UsageTriggers::LINKED, settings.linked.is_some()),
        (UsageTriggers::QUOTA_VALIDITY_TIME, settings.quota_validity_time.is_some()),
    ];
    let missing =
        needs.into_iter().find(|&(trigger, is_there)| urr.triggers.contains(trigger) && !is_there);
    match missing {
        Some((trigger, _)) => Err(Refusal::TriggerIncomplete { urr: urr.id, trigger }),
        None => Ok(()),
    }
}

/// Checks a FAR by itself. Spec: TS 29.244 §7.5.2.3, §8.2.26.
pub(super) fn far(own: &Provisioning, far: &Far) -> Result<(), Refusal> {
    let Far { id, action, .. } = *far;
    apply_action(id, action)?;
    let forwards = action.contains(ApplyAction::FORW);
    duplicating(own, far)?;
    let Some(forwarding) = &far.forwarding else {
        return match forwards {
            true => Err(Refusal::FarWithoutForwardingParameters { far: id }),
            false => Ok(()),
        };
    };
    use DestinationInterface::{CpFunction, LiFunction};
    if forwarding.destination == LiFunction {
        return Err(Refusal::UnsupportedInterface { far: id });
    }
    if let Some(redirect) = &forwarding.redirect {
        redirection(own, id, redirect)?;
    }
    match &forwarding.outer_header_creation {
        // INTEROP: pfcpsim 1.2.0, like SMFs derived from it, gives a dropping FAR a tunnel of
        // zeros.
        _ if !forwards => Ok(()),
        Some(outer) => outer_header_creation(own, id, forwarding, outer),
        None if forwarding.destination == CpFunction => {
            Err(Refusal::FarWithoutOuterHeader { far: id })
        }
        // INTEROP: FORW to Access may lack its tunnel at first; workers drop until then
        // (s3_compile).
        None => Ok(()),
    }
}

/// Checks where copies go: into a tunnel, or to a data network. While the action does not
/// duplicate, the parameters are stored unchecked.
fn duplicating(own: &Provisioning, far: &Far) -> Result<(), Refusal> {
    let id = far.id;
    if far.duplicating.len() > DUPLICATES_PER_FAR_MAX {
        return Err(Refusal::TooManyDuplicates { far: id });
    }
    if !far.action.contains(ApplyAction::DUPL) {
        return Ok(());
    }
    if far.duplicating.is_empty() {
        return Err(Refusal::FarWithoutDuplicatingParameters { far: id });
    }
    for copy in &far.duplicating {
        use DestinationInterface::{Access, CpFunction, LiFunction};
        match (copy.destination, &copy.outer_header_creation) {
            (_, Some(outer)) => outer_header_creation(own, id, copy, outer)?,
            (Access | CpFunction | LiFunction, None) => {
                return Err(Refusal::FarWithoutOuterHeader { far: id });
            }
            (_, None) => {}
        }
    }
    Ok(())
}

/// Checks that a redirect server is a host other than us, and that a URL fits an HTTP header.
fn redirection(own: &Provisioning, far: FarId, redirect: &Redirect) -> Result<(), Refusal> {
    let is_usable = match redirect {
        Redirect::Address { v4, v6, port } => {
            v4.is_none_or(|addr| is_host(addr) && !own.is_own_gtpu_address(addr.into()))
                && v6.is_none_or(|addr| is_host_v6(addr) && !own.is_own_gtpu_address(addr.into()))
                && *port != Some(0)
                && (v4.is_some() || v6.is_some() || port.is_some())
        }
        Redirect::Url(url) => {
            (1..=REDIRECT_URL_BYTES_MAX).contains(&url.len())
                && url.bytes().all(|octet| octet.is_ascii_graphic())
        }
    };
    if is_usable { Ok(()) } else { Err(Refusal::RedirectInvalid { far }) }
}

const fn is_host_v6(addr: Ipv6Addr) -> bool {
    !(addr.is_unspecified() || addr.is_loopback() || addr.is_multicast())
}

/// Checks the flags of an action: exactly one of DROP, FORW and BUFF. NOCP and BDPN are allowed
/// with BUFF, DDPN with DROP and BUFF, DUPL with each. Spec: TS 29.244 §8.2.26.
fn apply_action(far: FarId, action: ApplyAction) -> Result<(), Refusal> {
    if action.bits() & !ApplyAction::all().bits() != 0 {
        return Err(Refusal::UnsupportedAction { far, action });
    }
    let allowed = match action.intersection(ApplyAction::FATES) {
        ApplyAction::FORW => ApplyAction::FORW,
        ApplyAction::DROP => ApplyAction::DROP.union(ApplyAction::DDPN),
        ApplyAction::BUFF => ApplyAction::BUFF.union(ApplyAction::NOTICES),
        _ => ApplyAction::empty(),
    };
    let fate = action.difference(ApplyAction::DUPL);
    match allowed.contains(fate) && !fate.is_empty() {
        true => Ok(()),
        false => Err(Refusal::ContradictoryAction { far, action }),
    }
}

/// Checks an outer header: GTP-U may lead to any side, from our address there. UDP and IP tunnels
/// may lead only to data networks, from an N6 address that routing decides.
fn outer_header_creation(
    own: &Provisioning,
    far: FarId,
    parts: &Forwarding,
    outer: &HeaderCreation,
) -> Result<(), Refusal> {
    let is_host = match outer.addr() {
        IpAddr::V4(addr) => is_host(addr),
        IpAddr::V6(addr) => is_host_v6(addr),
    };
    use DestinationInterface::{Access, CpFunction};
    let is_udp_or_ip_usable = !matches!(parts.destination, Access | CpFunction);
    let is_valid = match *outer {
        HeaderCreation::Gtpu(tunnel) => tunnel.teid.0 != 0,
        HeaderCreation::Udp { port, .. } => port != 0 && is_udp_or_ip_usable,
        HeaderCreation::Ip { .. } => is_udp_or_ip_usable,
    };
    if !is_valid || !is_host {
        return Err(Refusal::TunnelInvalid { far });
    }
    if let HeaderCreation::Gtpu(tunnel) = outer {
        let within = own.forwarding_interfaces(parts);
        // If no interface belongs to the network instance, another refusal names that as the fault.
        if !within.is_empty() && !own.addresses_on(within).has_family_of(tunnel.addr) {
            return Err(Refusal::TunnelFamilyUnavailable { far });
        }
    }
    Ok(())
}
