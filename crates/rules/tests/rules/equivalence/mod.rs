//! Fast path and rules decide the same for every packet: draws rules and packets from any octets,
//! walks through the rules as the standard defines it, and compares.
//!
//! Shared by the property test of this room and the fuzz target `compile`.

mod draw;
mod walk;

use adit_rules::compile::{
    CompiledSession, FastPath, FilterKey, OwnAddresses, compile, has_idle_filters,
};
use adit_rules::{
    FastRuleTunnel, FastRuleUe, FastRuleUrr, FlowKey, FlowSelector, OuterTos, PackedFastRule,
    Shapes, UsualFlow,
};
use adit_types::{Direction, InterfaceSet, NextHopIndex, Qfi, Teid};
use core::net::IpAddr;

use draw::{ByteChoices, PEER, peer_v6};
pub(super) use walk::Forwarded;

/// A packet as the fast path recognizes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct UsualPacket {
    /// The tunnel in which it arrived; a packet of a data network has none.
    pub tunnel: Option<ArrivedTunnel>,
    /// The interface that it came on.
    pub arrival: InterfaceSet,
    pub flow: FlowSelector,
}

/// A tunnel in which a packet arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArrivedTunnel {
    pub teid: Teid,
    /// QoS flow and reflective QoS indication of the PDU Session Container.
    pub container: Option<(Qfi, bool)>,
}

/// The form of the fast path that led to a fast rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Single,
    /// The packet matches the filter.
    Filter,
    /// The packet does not match the filter.
    Others,
    Selector,
}

/// Packets that took the fast path: uplink and downlink for each form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FastPathCounts {
    pub single: [usize; 2],
    pub filtered: [usize; 2],
    /// Packets that do not match the filter.
    pub others: [usize; 2],
    pub selected: [usize; 2],
    /// Packets that left a data network for a tunnel over IPv6.
    pub into_v6: usize,
    /// Packets that left a tunnel for another one.
    pub relayed: [usize; 2],
    /// Packets whose session has filters that exclude nothing.
    pub without_idle_filters: usize,
}

/// Draws rules and packets from `data`, and checks that the compiled fast rules forward each packet
/// as the rules do.
///
/// # Panics
/// When the fast path takes a packet that the rules treat in another way.
pub(super) fn run(data: &[u8]) -> FastPathCounts {
    let mut choices = ByteChoices::new(data);
    let rules = choices.rules();
    let own: OwnAddresses = draw::OWN.into_iter().collect();
    let compiled = compile(rules.clone(), &own, &mut Shapes::default());
    let has_idle_filters = rules.uplink.iter().chain(&rules.downlink).any(has_idle_filters);
    let mut counts = FastPathCounts::default();
    for _ in 0..48 {
        let packet = choices.packet();
        let tunnel_to_ue = compiled
            .tunnel_to_ue
            .filter(|rule| packet.tunnel.is_some_and(|tunnel| tunnel.teid == rule.relayed_teid()));
        let direction = match (packet.tunnel, tunnel_to_ue) {
            (Some(_), None) => Direction::Uplink,
            _ => Direction::Downlink,
        };
        let found = tunnel_to_ue.map(|rule| (rule, Form::Single));
        let found = found.or_else(|| fast_rule(&compiled, direction, &packet));
        let Some((rule, form)) = found else { continue };
        let Some(fast) = forwarded(&rule, direction, &packet) else { continue };
        let slow = walk::forwarded(&rules, &draw::OWN, &packet);
        assert_eq!(slow.as_ref(), Some(&fast), "{packet:?} {rules:#?}");
        counts.into_v6 += usize::from(packet.tunnel.is_none() && rule.leads_into_v6());
        let by_direction = match form {
            Form::Single if packet.tunnel.is_some() && rule.is_relay() => &mut counts.relayed,
            Form::Single => &mut counts.single,
            Form::Filter => &mut counts.filtered,
            Form::Others => &mut counts.others,
            Form::Selector => &mut counts.selected,
        };
        by_direction[direction.index()] += 1;
        counts.without_idle_filters += usize::from(has_idle_filters);
    }
    counts
}

/// The fast rule that a worker finds for a packet of a direction, and the form that led to it.
fn fast_rule(
    compiled: &CompiledSession,
    direction: Direction,
    packet: &UsualPacket,
) -> Option<(PackedFastRule, Form)> {
    match compiled.fast_paths[direction.index()]? {
        FastPath::Single(rule) => Some((rule, Form::Single)),
        FastPath::Filter(filter) => {
            let flow = &packet.flow;
            let remote = if direction == Direction::Uplink { flow.dst } else { flow.src };
            let flow_key = FilterKey {
                is_v6: remote.is_ipv6(),
                remote: words(remote)[0],
                protocol: flow.protocol,
                ports: u32::from(flow.src_port) << 16 | u32::from(flow.dst_port),
            };
            let lines = filter.lines(&compiled.rules, direction)?;
            let number = filter.select(&flow_key)?;
            let rule = PackedFastRule::of_line(&lines[number]);
            let has_urrs = rule.urrs() != [None; 2];
            assert_eq!(PackedFastRule::has_urrs(rule.flags()), has_urrs);
            assert!(filter.has_urrs() || !has_urrs);
            assert!(filter.has_meters() || rule.meters() == 0);
            assert!(!filter.is_plain() || rule.meters() == 0 && !has_urrs);
            let form = [Form::Filter, Form::Others][number];
            Some((rule, form))
        }
        FastPath::Selector(selector) => {
            let flow = &packet.flow;
            let usual = UsualFlow {
                src: words(flow.src),
                dst: words(flow.dst),
                src_port: flow.src_port,
                dst_port: flow.dst_port,
                protocol: flow.protocol,
                tos: flow.tos,
            };
            let key = FlowKey::of_usual(direction, flow.src.is_ipv6(), &usual);
            let line = selector.view(&compiled.rules, direction)?.find(&key)?;
            Some((PackedFastRule::of_line(line), Form::Selector))
        }
    }
}

/// The action of a fast rule on a packet; `None` when it does not take it.
fn forwarded(
    rule: &PackedFastRule,
    direction: Direction,
    packet: &UsualPacket,
) -> Option<Forwarded> {
    let UsualPacket { tunnel, arrival, flow } = packet;
    let is_v6 = flow.src.is_ipv6();
    let urrs: Vec<FastRuleUrr> = match tunnel.is_some() && rule.is_relay() {
        true => rule.relayed_urr().into_iter().collect(),
        false => rule.urrs().into_iter().flatten().collect(),
    };
    let usual = Forwarded {
        meters: rule.meters(),
        slice: rule.slice(),
        is_guaranteed: rule.is_guaranteed(),
        urrs,
        counts_apart: rule.counts_apart(),
        ..Forwarded::default()
    };
    match *tunnel {
        Some(ArrivedTunnel { teid, container }) => {
            let is_downlink = direction == Direction::Downlink;
            let ue = match rule.source(is_v6) {
                FastRuleUe::None => false,
                FastRuleUe::Any => true,
                FastRuleUe::Only(only) => {
                    only == key(if is_downlink { flow.dst } else { flow.src })
                }
            };
            let qfi = container.map(|(qfi, _)| qfi);
            if !rule.is_relay() {
                let takes = ue && rule.matches_uplink(*arrival, teid, qfi);
                return takes.then(|| Forwarded { egress: Some(rule.egress()), ..usual });
            }
            let FastRuleTunnel { teid: onward, addr, next_hop, tos } = rule.onward();
            let takes = ue && rule.matches_relayed(*arrival, teid, qfi);
            let marking = rule.relayed_marking(direction, qfi, || container);
            let tunnel = Some((onward, addr.into(), next_hop, tos));
            takes.then_some(Forwarded { tunnel, marking, ..usual })
        }
        None => {
            let takes = match rule.tos().is_copied() {
                false => rule.matches_downlink(*arrival, key(flow.dst), is_v6),
                true => rule.matches_copying_downlink(*arrival, key(flow.dst), is_v6),
            };
            let (teid, addr): (Teid, IpAddr) = match rule.leads_into_v6() {
                false => (rule.tunnel().0, rule.tunnel().1.into()),
                true => {
                    let (teid, peer) = rule.tunnel_over_v6();
                    assert_eq!(peer, PEER);
                    (teid, peer_v6().into())
                }
            };
            let tunnel: (Teid, IpAddr, NextHopIndex, OuterTos) =
                (teid, addr, rule.next_hop(), rule.tos());
            takes.then(|| Forwarded { tunnel: Some(tunnel), marking: rule.marking(), ..usual })
        }
    }
}

/// The part of an address that the fast path compares.
fn key(addr: IpAddr) -> u64 {
    match addr {
        IpAddr::V4(addr) => addr.to_bits().into(),
        IpAddr::V6(addr) => adit_rules::rule::ue_ipv6_key(addr),
    }
}

fn words(addr: IpAddr) -> [u32; 4] {
    match addr {
        IpAddr::V4(addr) => [addr.to_bits(), 0, 0, 0],
        IpAddr::V6(addr) => core::array::from_fn(|at| (addr.to_bits() >> (96 - 32 * at)) as u32),
    }
}
