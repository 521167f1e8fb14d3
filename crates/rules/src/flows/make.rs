//! Turns a fast rule into flows with the same effect, and makes the exceptions that all flows need.
//!
//! A flow compares fields with constants. Packets whose treatment depends on more go to the
//! workers: either by an exception, a flow of higher priority for certain frames of a port, or
//! because the rule gets no flows at all.

use core::net::Ipv4Addr;

use crate::{
    FastRule, FastRuleForwarding, FastRulePeer, FastRuleTransport, FastRuleUe, FastRuleUsage,
    OffloadChoice, OffloadInterface, OffloadRefusal, OffloadRule,
};
use adit_types::{
    InterfaceId, InterfaceRole, InterfaceSet, Ipv4Prefix, MacAddr, Qfi, Teid, VlanId,
};

use crate::flows::flow::{Flow, FlowAction, FlowHeader, FlowItem, FlowPriority};

/// Lengths: an Ethernet header, a VLAN tag, IPv4, UDP and GTP-U headers of a tunnel, and what a PDU
/// Session Container adds to these. Unit: octets.
pub(crate) const ETHERNET_LEN: usize = 14;
pub(crate) const VLAN_LEN: usize = 4;
pub(crate) const TUNNEL_LEN: usize = 36;
pub(crate) const CONTAINER_LEN: usize = 8;

/// Ethernet pads shorter IP packets; a card would count and forward the padding. Unit: octets.
const UNPADDED_LEN_MIN: u16 = 64;

/// Prefixes (address, length) that no source or destination may be in. Spec: RFC 1812 §5.3.7,
/// §4.2.2.11; RFC 3927 §2.7.
const RESERVED_PREFIXES: [(u32, u8); 5] =
    [(0, 8), (0x7f00_0000, 8), (0xa9fe_0000, 16), (0xe000_0000, 4), (u32::MAX, 32)];

/// The properties of a card, and how to choose the sessions that get flows.
#[derive(Debug, Clone)]
pub struct FlowConfig {
    /// Maximum number of sessions with flows.
    pub sessions_max: usize,
    /// The logical interfaces on ports with flows.
    pub interfaces: Vec<OffloadInterface>,
    /// The directions of the packets that the card forwards.
    pub directions: FlowDirections,
    /// How to choose the sessions that get flows.
    pub choice: OffloadChoice,
}

/// The directions of packets that a card forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowDirections {
    /// Uplink only.
    Uplink,
    /// Both directions. For downlink the card writes lengths into added headers, also GTP-U.
    Both,
}

/// A flow of a session, and how to convert its counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFlow {
    /// The flow.
    pub flow: Flow,
    /// The interface on which frames arrive.
    pub arrival: InterfaceId,
    /// Octets in front of the user's packet in an arriving frame.
    pub arrival_len: usize,
    /// Octets in front of the user's packet in a leaving frame.
    pub departure_len: usize,
}

/// Where packets leave, and to whom.
#[derive(Debug, Clone, Copy)]
pub struct FlowDeparture<'c> {
    /// The interface through which packets leave.
    pub interface: &'c OffloadInterface,
    /// The link-layer address of the next hop.
    pub station: MacAddr,
}

/// Frames of an interface that go to the workers although they match the flow of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowException {
    /// The time to live of the user's packet is 0 or 1.
    HopsUsedUp,
    /// The network-side address of the user's packet is in this prefix (address, length).
    Address(u32, u8),
    /// The length of the user's packet equals the first value in the bits of the second.
    Length(u16, u16),
    /// The user's packet is a TCP SYN.
    Syn,
}

/// Makes the flows of a rule for uplink packets, which leave through `departure`.
///
/// # Errors
/// The reason why flows cannot express the rule.
pub fn uplink(
    config: &FlowConfig,
    rule: &OffloadRule<'_>,
    departure: FlowDeparture<'_>,
) -> Result<Vec<SessionFlow>, OffloadRefusal> {
    let ue = check(rule)?;
    let FastRuleForwarding::Uplink { teid, transport, qfis, .. } = &rule.rule.forwarding else {
        return Err(refusal("packets leave a tunnel for another one"));
    };
    if *transport == FastRuleTransport::V6 {
        return Err(refusal("packets arrive in a tunnel over IPv6"));
    }
    let flows: Vec<Option<Option<Qfi>>> = match qfis.is_empty() {
        true => vec![None, Some(None)],
        false => qfis.iter().map(|qfi| Some(Some(*qfi))).collect(),
    };
    let on = arrival_interfaces(config, rule.rule.arrival, InterfaceRole::is_gtpu)?;
    let each = on.filter_map(|from| Some((from, from.v4?)));
    let flow = |(from, own): (&OffloadInterface, Ipv4Addr), container: Option<Option<Qfi>>| {
        let mut items = tunnel_items(from, own, Some(*teid), container);
        items.push(ipv4().exactly(0, &[0x45]).exactly(12, &ue.octets()));
        items.extend([FlowItem::any(FlowHeader::Intact(1)), FlowItem::any(FlowHeader::Intact(2))]);
        let arrival_len =
            ethernet_len(from) + TUNNEL_LEN + if container.is_some() { CONTAINER_LEN } else { 0 };
        let link = ethernet_octets(departure.interface, departure.station);
        let departure_len = link.len();
        let actions = vec![
            FlowAction::Count,
            FlowAction::Decapsulate(vec![0; arrival_len]),
            FlowAction::Encapsulate(link),
            FlowAction::DecrementHops,
            FlowAction::Send(departure.interface.port),
        ];
        let flow = Flow { port: from.port, priority: FlowPriority::Session, items, actions };
        SessionFlow { flow, arrival: from.id, arrival_len, departure_len }
    };
    Ok(each.flat_map(|from| flows.iter().map(move |of| flow(from, *of))).collect())
}

/// Makes the flows of a rule for downlink packets, which leave through `departure`.
///
/// # Errors
/// The reason why flows cannot express the rule.
pub fn downlink(
    config: &FlowConfig,
    rule: &OffloadRule<'_>,
    departure: FlowDeparture<'_>,
) -> Result<Vec<SessionFlow>, OffloadRefusal> {
    let ue = check(rule)?;
    let FastRuleForwarding::Downlink { teid, peer, tos, marking, .. } = &rule.rule.forwarding
    else {
        return Err(refusal("packets leave a tunnel for another one"));
    };
    if config.directions != FlowDirections::Both {
        return Err(refusal("flow_offload has uplink only"));
    }
    let FastRulePeer::V4(peer) = peer else {
        return Err(refusal("packets leave in a tunnel over IPv6"));
    };
    if tos.is_copied() {
        return Err(refusal("the outer header copies DSCP or ECN of packets"));
    }
    let own = departure.interface.v4;
    let own = own.ok_or_else(|| refusal("packets leave through an interface without IPv4"))?;
    let mut headers = ethernet_octets(departure.interface, departure.station);
    headers.extend(tunnel_octets(own, *peer, tos.octet(), *teid, *marking));
    let on = arrival_interfaces(config, rule.rule.arrival, |role| role == InterfaceRole::N6)?;
    let flow = |from: &OffloadInterface| {
        let mut items = ethernet_items(from);
        items.push(ipv4().exactly(0, &[0x45]).exactly(16, &ue.octets()));
        items.push(FlowItem::any(FlowHeader::Intact(1)));
        let arrival_len = ethernet_len(from);
        let actions = vec![
            FlowAction::Count,
            FlowAction::DecrementHops,
            FlowAction::Decapsulate(vec![0; arrival_len]),
            FlowAction::Encapsulate(headers.clone()),
            FlowAction::Send(departure.interface.port),
        ];
        let flow = Flow { port: from.port, priority: FlowPriority::Session, items, actions };
        SessionFlow { flow, arrival: from.id, arrival_len, departure_len: headers.len() }
    };
    Ok(on.map(flow).collect())
}

/// Returns the UE's address, or an error if flows cannot express the rule.
fn check(rule: &OffloadRule<'_>) -> Result<Ipv4Addr, OffloadRefusal> {
    let OffloadRule { rule, is_limited: _, has_shared_rates } = *rule;
    // Lists every field, so that a new field does not compile until it is considered here.
    let FastRule {
        arrival: _,
        ue_v4,
        ue_v6: _,
        forwarding: _,
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
    match ue_v4 {
        FastRuleUe::Only(ue) => Ok(*ue),
        FastRuleUe::Any => Err(refusal("packets have any IPv4 address")),
        FastRuleUe::None => Err(refusal("the UE has no IPv4 address")),
    }
}

/// Returns the interfaces on which packets arrive, if they have a suitable role. An error if there
/// is none.
fn arrival_interfaces(
    config: &FlowConfig,
    arrival: InterfaceSet,
    role: fn(InterfaceRole) -> bool,
) -> Result<impl Iterator<Item = &OffloadInterface> + Clone, OffloadRefusal> {
    let on = config.interfaces.iter().filter(move |of| arrival.contains(of.id) && role(of.role));
    match on.clone().next() {
        Some(_) => Ok(on),
        None => Err(refusal("packets arrive on ports without flow_offload")),
    }
}

pub(crate) const fn refusal(words: &'static str) -> OffloadRefusal {
    OffloadRefusal(std::borrow::Cow::Borrowed(words))
}

/// Returns the exceptions of an interface. `others`: destinations that packets reach through other
/// gateways than the usual one.
#[must_use]
pub fn exceptions(
    config: &FlowConfig,
    interface: &OffloadInterface,
    others: &[Ipv4Prefix],
) -> Vec<FlowException> {
    let mtu = |of: &OffloadInterface| of.mtu_bytes;
    let is_gtpu = |of: &&OffloadInterface| of.role.is_gtpu();
    let overhead = u16::try_from(TUNNEL_LEN + CONTAINER_LEN).unwrap_or_default();
    let mut all = vec![FlowException::HopsUsedUp];
    all.extend(RESERVED_PREFIXES.map(|(addr, len)| FlowException::Address(addr, len)));
    // A tunneled packet can go to any data network, which only its session determines.
    let keeps_syns = match interface.role.is_gtpu() {
        true => config.interfaces.iter().any(|of| of.keeps_syns),
        false => interface.keeps_syns,
    };
    all.extend(keeps_syns.then_some(FlowException::Syn));
    let longest = if interface.role.is_gtpu() {
        all.extend(others.iter().map(|of| FlowException::Address(of.addr().to_bits(), of.len())));
        config.interfaces.iter().filter(|of| !is_gtpu(of)).map(mtu).min()
    } else {
        all.push(FlowException::Length(0, !(UNPADDED_LEN_MIN - 1)));
        let tunnels = config.interfaces.iter().filter(is_gtpu).map(mtu).min();
        tunnels.map(|mtu| mtu.saturating_sub(overhead))
    };
    all.extend(longer_than(longest.unwrap_or(u16::MAX)));
    all
}

/// Returns exceptions that together match all lengths above `limit`.
fn longer_than(limit: u16) -> impl Iterator<Item = FlowException> {
    (0..u16::BITS).filter(move |bit| limit >> bit & 1 == 0).map(move |bit| {
        let mask = u16::MAX << bit;
        FlowException::Length(limit & mask | 1 << bit, mask)
    })
}

/// Returns the flows of an exception, one for each stack of headers before the user's packet.
#[must_use]
pub fn exception_flows(interface: &OffloadInterface, exception: FlowException) -> Vec<Flow> {
    let is_tunnel = interface.role.is_gtpu();
    let is_syn = || FlowItem::any(FlowHeader::Tcp).field(13, &[2], &[2]);
    let fields = match exception {
        FlowException::HopsUsedUp => vec![ipv4().field(8, &[0], &[!1])],
        FlowException::Address(addr, len) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
            let at = if is_tunnel { 16 } else { 12 };
            vec![ipv4().field(at, &addr.to_be_bytes(), &mask.to_be_bytes())]
        }
        FlowException::Length(value, mask) => {
            vec![ipv4().field(2, &value.to_be_bytes(), &mask.to_be_bytes())]
        }
        FlowException::Syn => vec![ipv4().exactly(0, &[0x45]).exactly(9, &[6]), is_syn()],
    };
    let fronts = match (is_tunnel, interface.v4) {
        (false, _) => vec![ethernet_items(interface)],
        (true, None) => Vec::new(),
        (true, Some(own)) => {
            [None, Some(None)].map(|of| tunnel_items(interface, own, None, of)).to_vec()
        }
    };
    let flow = |mut items: Vec<FlowItem>| {
        items.extend(fields.iter().cloned());
        let actions = vec![FlowAction::ToWorker];
        Flow { port: interface.port, priority: FlowPriority::Exception, items, actions }
    };
    fronts.into_iter().map(flow).collect()
}

const fn ipv4() -> FlowItem {
    FlowItem::any(FlowHeader::Ipv4)
}

const fn ethernet_len(interface: &OffloadInterface) -> usize {
    match interface.vlan.value() {
        0 => ETHERNET_LEN,
        _ => ETHERNET_LEN + VLAN_LEN,
    }
}

/// Returns the Ethernet header, and VLAN tag, of frames with IPv4 packets to our MAC address.
fn ethernet_items(interface: &OffloadInterface) -> Vec<FlowItem> {
    let MacAddr(mac) = interface.mac;
    let ethernet = FlowItem::any(FlowHeader::Ethernet).exactly(0, &mac);
    if interface.vlan == VlanId::UNTAGGED {
        return vec![ethernet.exactly(12, &[0x08, 0x00])];
    }
    let tag = FlowItem::any(FlowHeader::Vlan);
    let tag = tag.field(0, &interface.vlan.value().to_be_bytes(), &[0x0f, 0xff]);
    vec![ethernet.exactly(12, &[0x81, 0x00]), tag.exactly(2, &[0x08, 0x00])]
}

/// Returns the headers of G-PDUs to us. `container`: whether they have a PDU Session Container, and
/// for which QoS flow; `Some(None)` is any.
fn tunnel_items(
    interface: &OffloadInterface,
    own: Ipv4Addr,
    teid: Option<Teid>,
    container: Option<Option<Qfi>>,
) -> Vec<FlowItem> {
    let mut items = ethernet_items(interface);
    // Workers get packets with CE or ECT(1) in the outer header: these change the user's packet or
    // stop it. Spec: RFC 6040 §4.2.
    let outer = ipv4().exactly(0, &[0x45]).field(1, &[0], &[1]).field(6, &[0, 0], &[0x3f, 0xff]);
    items.push(outer.exactly(9, &[17]).exactly(16, &own.octets()));
    items.push(FlowItem::any(FlowHeader::Udp).exactly(2, &2152_u16.to_be_bytes()));
    let flags = if container.is_some() { 0x34 } else { 0x30 };
    let gtpu = FlowItem::any(FlowHeader::Gtpu).exactly(0, &[flags, 0xff]);
    items.push(teid.map_or(gtpu.clone(), |teid| gtpu.exactly(4, &teid.0.to_be_bytes())));
    if let Some(qfi) = container {
        // A container of PDU Type 1 (uplink) without optional fields. Spec: TS 38.415 §5.5.2.2.
        let container = FlowItem::any(FlowHeader::Container).exactly(0, &[1, 0x10]);
        items.push(match qfi {
            Some(qfi) => container.field(2, &[qfi.value()], &[0x3f]),
            None => container,
        });
    }
    items
}

/// Writes the Ethernet header, and VLAN tag, of frames in which IPv4 packets leave to `station`.
fn ethernet_octets(interface: &OffloadInterface, MacAddr(station): MacAddr) -> Vec<u8> {
    let MacAddr(own) = interface.mac;
    let mut octets = [station, own].concat();
    if interface.vlan != VlanId::UNTAGGED {
        octets.extend([0x81, 0x00]);
        octets.extend(interface.vlan.value().to_be_bytes());
    }
    octets.extend([0x08, 0x00]);
    octets
}

/// Writes the IPv4, UDP and GTP-U headers of a tunnel. The card sets lengths and checksum.
fn tunnel_octets(
    own: Ipv4Addr,
    peer: Ipv4Addr,
    tos: u8,
    teid: Teid,
    marking: Option<(Qfi, bool)>,
) -> Vec<u8> {
    let mut octets = vec![0x45, tos, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0];
    octets.extend(own.octets());
    octets.extend(peer.octets());
    octets.extend([2152_u16.to_be_bytes(), 2152_u16.to_be_bytes()].concat());
    octets.extend([0; 4]);
    octets.extend([if marking.is_some() { 0x34 } else { 0x30 }, 0xff, 0, 0]);
    octets.extend(teid.0.to_be_bytes());
    if let Some((qfi, is_reflective)) = marking {
        let reflective = if is_reflective { 0x40 } else { 0 };
        octets.extend([0, 0, 0, 0x85, 1, 0, qfi.value() | reflective, 0]);
    }
    octets
}
