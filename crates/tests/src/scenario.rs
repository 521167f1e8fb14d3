//! Random layouts, sessions and modifications.

mod layout;
mod modification;
mod side;

pub use layout::{
    layout, plain_layout, plain_session, restarted, world, world_with_card, world_with_xdp,
};
pub use modification::modification;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_rules::{
    ApplyAction, DestinationInterface, Gate, GtpuTunnel, HeaderCreation, HeaderRemoval,
    PacketLimit, PacketQuota, Redirect, SourceInterface, UeAddresses,
};
use adit_session::{
    Bar, Change, ChooseUe, Exempted, FTeidSpec, Far, Forwarding, MeasurementInformation,
    MeasurementMethod, PacketAllowance, PacketLimits, PacketStatus, PdiSpec, PdrSpec, PdrTimes,
    Qer, QerGates, Rates, RulePart, SdfSpec, SessionChange, TrafficEndpointId, TrafficEndpointSpec,
    UeMatch, UeSide, Urr, UrrSettings, UrrUpdate, UsageTriggers, Volumes,
};
use adit_types::{
    BarId, BitRate, FarId, IpPrefix, Ipv6Prefix, Nanos, PdrId, Precedence, QerId, Qfi, Teid, UrrId,
};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::oracle::OracleSession;
use crate::oracle::predefined::RULES;
use crate::world::APPLICATIONS;

/// GTP-U peers that FARs name: two on the link (the second unresolved at first), one behind the
/// gateway, one without a route; both families.
pub const PEERS: [&str; 6] =
    ["10.0.3.1", "10.0.3.9", "10.99.1.1", "172.31.0.1", "2001:db8:3::1", "2001:db8:99::5"];

/// Hosts that UEs talk to: behind routes, on the link (the second unresolved), our own, a UE.
pub const HOSTS: [&str; 11] = [
    "8.8.8.8",
    "1.1.1.1",
    "203.0.113.9",
    "10.0.6.77",
    "10.0.6.88",
    "10.0.6.2",
    "10.45.0.3",
    "2001:db8:8::8",
    "2001:db8:f::1",
    "2001:db8:6::77",
    "2001:db8:6::88",
];

fn addr(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// True with probability 1 in `n`.
pub fn one_chance_in(rng: &mut StdRng, n: u32) -> bool {
    rng.random_ratio(1, n)
}

/// Networks behind UEs: nested, around addresses of UEs, and of the length of an address.
const NETWORKS: [&str; 9] = [
    "10.60.0.0/16",
    "10.60.1.0/24",
    "10.60.1.128/25",
    "10.60.1.130/32",
    "10.45.0.0/27",
    "2001:db8:60::/48",
    "2001:db8:60:1::/63",
    "2001:db8:60:1::/64",
    "2001:db8:45::/56",
];

/// Few PDRs have any, because no two sessions can have the same.
fn networks(rng: &mut StdRng, one_in_n: u32) -> Vec<IpPrefix> {
    let count = if one_chance_in(rng, one_in_n) { rng.random_range(1..=2) } else { 0 };
    (0..count).filter_map(|_| NETWORKS.choose(rng)?.parse().ok()).collect()
}

fn ue(rng: &mut StdRng) -> UeAddresses {
    let host = rng.random_range(1..=20_u8);
    let prefix = Ipv6Addr::new(0x2001, 0xdb8, 0x45, host.into(), 0, 0, 0, 0);
    let v4 = Ipv4Addr::new(10, 45, 0, host);
    let len = if one_chance_in(rng, 10) { 80 } else { 64 };
    let v6 = Ipv6Prefix::containing(prefix, len);
    match rng.random_range(0..3) {
        0 => UeAddresses { v4: Some(v4), v6: None },
        1 => UeAddresses { v4: None, v6 },
        _ => UeAddresses { v4: Some(v4), v6 },
    }
}

/// The UE of a session: with given addresses, or with addresses that we choose.
#[derive(Debug, Clone, Copy)]
enum ScenarioUe {
    Given(UeAddresses),
    Chosen { v4: bool, v6: bool },
}

impl ScenarioUe {
    fn pick(rng: &mut StdRng) -> Self {
        match rng.random_range(0..20) {
            0 => Self::Chosen { v4: true, v6: false },
            1 => Self::Chosen { v4: false, v6: true },
            2 => Self::Chosen { v4: true, v6: true },
            _ => Self::Given(ue(rng)),
        }
    }

    fn stated(self, side: UeSide) -> (Option<UeMatch>, Option<ChooseUe>) {
        match self {
            Self::Given(addresses) => (Some(UeMatch { addresses, side }), None),
            Self::Chosen { v4, v6 } => (None, Some(ChooseUe { v4, v6, side, pools: Vec::new() })),
        }
    }
}

/// The traffic endpoints of a session: two of the uplink, one of the downlink.
const ENDPOINTS: [TrafficEndpointId; 3] =
    [TrafficEndpointId(1), TrafficEndpointId(3), TrafficEndpointId(2)];

fn endpoint(rng: &mut StdRng, id: TrafficEndpointId, ue: ScenarioUe) -> TrafficEndpointSpec {
    let is_uplink = id != ENDPOINTS[2];
    let (ue, choose_ue) = match one_chance_in(rng, 6) {
        true => (None, None),
        false => ue.stated(UeSide::Source),
    };
    let qfi_count = if is_uplink && one_chance_in(rng, 6) { rng.random_range(1..=3) } else { 0 };
    TrafficEndpointSpec {
        id,
        f_teid: is_uplink.then(|| f_teid(rng)),
        network_instance: network_instance(rng).into(),
        ue,
        framed_routes: networks(rng, 12).into_update(),
        choose_ue,
        qfis: (0..qfi_count)
            .filter_map(|_| Qfi::new(rng.random_range(0..12)))
            .collect::<Vec<_>>()
            .into_update(),
        ..TrafficEndpointSpec::default()
    }
}

/// Lets a PDI refer to traffic endpoints of its direction.
fn link(rng: &mut StdRng, pdi: &mut PdiSpec) {
    // PDRs of the CP function keep their tunnels.
    if pdi.source == SourceInterface::CpFunction {
        return;
    }
    let is_uplink = pdi.source == SourceInterface::Access;
    pdi.traffic_endpoints = match rng.random_range(0..4) {
        _ if !is_uplink => ENDPOINTS[2..].to_vec(),
        0 => ENDPOINTS[1..2].to_vec(),
        1 => ENDPOINTS[..2].to_vec(),
        _ => ENDPOINTS[..1].to_vec(),
    };
    (pdi.further_ues, pdi.framed_routes) = (Vec::new(), Vec::new());
    (pdi.f_teid, pdi.ue, pdi.choose_ue, pdi.network_instance) = (None, None, None, None);
}

/// Changes a traffic endpoint, or removes it with its PDRs.
fn endpoint_change(
    rng: &mut StdRng,
    session: &OracleSession,
    ue: ScenarioUe,
    change: &mut SessionChange,
) {
    let Some(known) = session.endpoints.choose(rng) else { return };
    if one_chance_in(rng, 4) {
        change.remove_traffic_endpoints.push(known.id);
        if one_chance_in(rng, 2) {
            change.create_traffic_endpoints.push(endpoint(rng, known.id, ue));
        }
        return;
    }
    let mut update = endpoint(rng, known.id, ue);
    if one_chance_in(rng, 2) {
        update.f_teid = None;
    }
    if one_chance_in(rng, 2) {
        (update.ue, update.choose_ue) = (None, None);
    }
    if one_chance_in(rng, 6) {
        update.network_instance = Change::Withdraw;
    }
    change.update_traffic_endpoints.push(update);
}

fn f_teid(rng: &mut StdRng) -> FTeidSpec {
    match rng.random_range(0..4) {
        0 => FTeidSpec::Given {
            teid: Teid(rng.random_range(1..=u32::MAX)),
            v4: Some(Ipv4Addr::new(10, 0, 3, 2)),
            v6: None,
        },
        1 => FTeidSpec::Choose { v4: true, v6: true, choose_id: None },
        _ => FTeidSpec::Choose { v4: true, v6: false, choose_id: Some(rng.random_range(0..2)) },
    }
}

fn sdf(rng: &mut StdRng) -> SdfSpec {
    let texts = [
        "permit out ip from any to assigned",
        "permit out 17 from any 53 to assigned",
        "permit out 17 from 8.8.8.0/24 53,5000-5100 to assigned",
        "permit out 6 from any to any 4000-5000",
        "permit out 6 from 1.1.1.1 to 10.45.0.0/16 1024-65535",
        "permit out ip from 2001:db8:8::/48 to assigned",
        "permit out 17 from 2001:db8::/32 0-1000 to assigned",
        "permit out 1 from any to assigned",
        "permit out 58 from any to assigned",
        "permit out ip from 203.0.113.0/24 to 10.45.0.3",
    ];
    let mut spec = SdfSpec::default();
    match rng.random_range(0..10) {
        0 => spec.tos = Some((0xb8, 0xfc)),
        1 => spec.spi = Some(0x1234),
        2 => spec.flow_label = Some(0x12345),
        _ => spec.flow_description = Some((*texts.choose(rng).unwrap()).into()),
    }
    if one_chance_in(rng, 8) {
        spec.tos = Some((rng.random_range(0..2) * 0x20, 0x20));
    }
    spec
}

fn pdi(rng: &mut StdRng, is_uplink: bool, ue: ScenarioUe) -> PdiSpec {
    let side = if is_uplink { UeSide::Source } else { UeSide::Destination };
    let names_ue = !one_chance_in(rng, if is_uplink { 4 } else { 12 });
    let qfi_count = if is_uplink && one_chance_in(rng, 3) { rng.random_range(1..=3) } else { 0 };
    let application = one_chance_in(rng, 10).then(|| APPLICATIONS.choose(rng).unwrap().0.into());
    let sdf_count = match application {
        None if one_chance_in(rng, 2) => rng.random_range(1..=3),
        _ => 0,
    };
    let (ue, choose_ue) = if names_ue { ue.stated(side) } else { (None, None) };
    let n6 =
        if one_chance_in(rng, 2) { SourceInterface::Core } else { SourceInterface::SgiLanN6Lan };
    let from_n9 = !is_uplink && n6 == SourceInterface::Core && one_chance_in(rng, 3);
    PdiSpec {
        source: if is_uplink { SourceInterface::Access } else { n6 },
        traffic_endpoints: Vec::new(),
        interface_type: None,
        further_ues: networks(rng, 20),
        framed_routes: networks(rng, 10),
        choose_ue,
        f_teid: match (is_uplink, from_n9) {
            (true, _) => Some(f_teid(rng)),
            (false, true) => Some(FTeidSpec::Choose { v4: true, v6: true, choose_id: None }),
            (false, false) => None,
        },
        network_instance: network_instance(rng),
        ue,
        qfis: (0..qfi_count).filter_map(|_| Qfi::new(rng.random_range(0..12))).collect(),
        sdf: (0..sdf_count).map(|_| sdf(rng)).collect(),
        application,
    }
}

fn pdr(rng: &mut StdRng, id: u16, is_uplink: bool, ue: ScenarioUe) -> PdrSpec {
    let removal = match rng.random_range(0..20) {
        0 => None,
        1 => Some(HeaderRemoval::GtpuUdpIpv6),
        2..8 => Some(HeaderRemoval::GtpuUdpIp),
        _ => Some(HeaderRemoval::GtpuUdpIpv4),
    };
    let far = if is_uplink { rng.random_range(1..=3) } else { rng.random_range(4..=6) };
    let pdi = pdi(rng, is_uplink, ue);
    let plain = match rng.random_range(0..30) {
        0 => removal,
        1 => Some(HeaderRemoval::UdpIpv4),
        2 => Some(HeaderRemoval::UdpIpv6),
        3 => Some(HeaderRemoval::Ipv4),
        4 => Some(HeaderRemoval::Ipv6),
        _ => None,
    };
    let detects = !pdi.sdf.is_empty() || pdi.application.is_some();
    let predefined = match !detects && one_chance_in(rng, 24) {
        true => vec![predefined_name(rng)],
        false => Vec::new(),
    };
    PdrSpec {
        id: PdrId(id),
        precedence: Precedence(rng.random_range(0..6)),
        outer_header_removal: if pdi.f_teid.is_some() { removal } else { plain },
        pdi,
        predefined,
        container_deletion: one_chance_in(rng, 6),
        far: Some(FarId(far)),
        qers: qers_of_pdr(rng),
        urrs: urrs_of_pdr(rng),
        times: PdrTimes::default(),
    }
}

/// The name of a rule or of a group.
fn predefined_name(rng: &mut StdRng) -> Box<str> {
    let rule = RULES.choose(rng).unwrap();
    rule.group.filter(|_| one_chance_in(rng, 2)).unwrap_or(rule.name).into()
}

fn qers_of_pdr(rng: &mut StdRng) -> Vec<QerId> {
    (1..=3).filter(|_| rng.random_ratio(2, 5)).map(QerId).collect()
}

/// URRs 1 to 3 always exist.
fn urrs_of_pdr(rng: &mut StdRng) -> Vec<UrrId> {
    (1..=3).filter(|_| rng.random_ratio(2, 5)).map(UrrId).collect()
}

fn volumes(octets: u64) -> Option<Volumes> {
    Some(Volumes { total: Some(octets), ..Volumes::default() })
}

/// URR 1 measures before QoS enforcement and has no quota, so the order in which stages process the
/// packets of a lane does not matter.
fn urr(rng: &mut StdRng, id: u32) -> Urr {
    let method = MeasurementMethod { volume: true, ..MeasurementMethod::default() };
    let mut settings = UrrSettings::default();
    let mut triggers = UsageTriggers::empty();
    if id == 1 {
        settings.information =
            Some(MeasurementInformation { before_qos: true, ..Default::default() });
    } else {
        settings.volume_quota =
            one_chance_in(rng, 2).then(|| volumes(rng.random_range(0..20_000))).flatten();
        settings.quota_far = one_chance_in(rng, 4).then_some(FarId(7));
        settings.exempted = one_chance_in(rng, 3).then(|| exempted(rng));
        triggers.set(UsageTriggers::VOLUME_QUOTA, one_chance_in(rng, 2));
    }
    if one_chance_in(rng, 2) {
        settings.volume_threshold = volumes(rng.random_range(1..5000));
        triggers |= UsageTriggers::VOLUME_THRESHOLD;
    }
    Urr { id: UrrId(id), method, triggers, settings }
}

/// One or two flows, and an application now and then.
fn exempted(rng: &mut StdRng) -> Exempted {
    let flows = (0..rng.random_range(1..=2)).map(|_| sdf(rng)).collect();
    let application = one_chance_in(rng, 4).then(|| APPLICATIONS.choose(rng).unwrap().0.into());
    Exempted { flows, applications: application.into_iter().collect() }
}

fn urr_change(rng: &mut StdRng, change: &mut SessionChange) {
    let id = rng.random_range(1..=3);
    match rng.random_range(0..4) {
        0 => change.query_urrs.push(UrrId(id)),
        1 => change.query_all_urrs = true,
        2 => {
            // Removed and created again: no PDR names it now.
            change.remove_urrs.push(UrrId(id));
            change.create_urrs.push(urr(rng, id));
        }
        _ => {
            let id = rng.random_range(2..=3);
            let volume_quota = volumes(rng.random_range(0..20_000));
            let settings = UrrSettings { volume_quota, ..UrrSettings::default() };
            change.update_urrs.push(UrrUpdate {
                id: UrrId(id),
                settings: settings.into(),
                ..Default::default()
            });
        }
    }
}

fn gate(rng: &mut StdRng) -> Gate {
    if one_chance_in(rng, 8) { Gate::Closed } else { Gate::Open }
}

fn gates(rng: &mut StdRng) -> QerGates {
    QerGates { uplink: gate(rng), downlink: gate(rng) }
}

fn tunnel(rng: &mut StdRng) -> HeaderCreation {
    let any = one_chance_in(rng, 3).then(|| PEERS.choose(rng).unwrap());
    let teid = Teid(rng.random_range(1..=u32::MAX));
    // On the link: every fourth one over IPv6.
    let usual = if teid.0.is_multiple_of(4) { PEERS[4] } else { PEERS[0] };
    let peer = any.unwrap_or(&usual);
    HeaderCreation::Gtpu(GtpuTunnel { teid, addr: addr(peer) })
}

/// Mostly none or one of every layout; sometimes one of few layouts or of none.
fn network_instance(rng: &mut StdRng) -> Option<Box<str>> {
    match rng.random_range(0..40) {
        0 => Some("nowhere".into()),
        1..4 => Some("ims".into()),
        4..16 => Some("internet".into()),
        _ => None,
    }
}

/// A UDP or IP tunnel to a host of a data network.
fn n6_tunnel(rng: &mut StdRng) -> HeaderCreation {
    let addr = addr(["8.8.8.8", "10.0.6.77", "2001:db8:6::77"].choose(rng).unwrap());
    match one_chance_in(rng, 2) {
        true => HeaderCreation::Udp { addr, port: 5000 },
        false => HeaderCreation::Ip { addr },
    }
}

fn marking(rng: &mut StdRng) -> Option<u8> {
    one_chance_in(rng, 4).then(|| rng.random())
}

fn far(rng: &mut StdRng, id: u32, is_uplink: bool) -> Far {
    if one_chance_in(rng, 8) {
        let (action, duplicating) = duplicating(rng, ApplyAction::DROP);
        return Far { id: FarId(id), action, bar: None, forwarding: None, duplicating };
    }
    let to_n9 = is_uplink && one_chance_in(rng, 5);
    let action = if one_chance_in(rng, 6) { buffering(rng) } else { ApplyAction::FORW };
    let (action, duplicating) = duplicating(rng, action);
    let n6 = [DestinationInterface::Core, DestinationInterface::SgiLanN6Lan];
    Far {
        bar: one_chance_in(rng, 2).then_some(BarId(1)),
        id: FarId(id),
        action,
        forwarding: Some(Forwarding {
            destination: if is_uplink {
                n6[rng.random_range(0..2)]
            } else {
                DestinationInterface::Access
            },
            network_instance: network_instance(rng),
            outer_header_creation: match (!is_uplink || to_n9, is_uplink && one_chance_in(rng, 8)) {
                // The tunnel to the RAN is still unknown.
                (true, _) if !is_uplink && one_chance_in(rng, 16) => None,
                (true, _) => Some(tunnel(rng)),
                (false, true) => Some(n6_tunnel(rng)),
                (false, false) => None,
            },
            transport_level_marking: marking(rng),
            interface_type: None,
            linked_endpoint: None,
            redirect: redirect(rng, is_uplink && id != 7),
            policy: policy(rng),
        }),
        duplicating,
    }
}

/// Sometimes an address, in uplink also a URL.
fn redirect(rng: &mut StdRng, may_be_url: bool) -> Option<Redirect> {
    let v4 = Some(Ipv4Addr::new(10, 0, 6, 77));
    let v6 = Some(Ipv6Addr::new(0x2001, 0xdb8, 8, 0, 0, 0, 0, 8));
    match rng.random_range(0..120) {
        0 => Some(Redirect::Address { v4, v6: None, port: None }),
        1 => Some(Redirect::Address { v4: None, v6, port: Some(8080) }),
        2 => Some(Redirect::Address { v4, v6, port: None }),
        3 => Some(Redirect::Address { v4: None, v6: None, port: Some(8080) }),
        4..=9 if may_be_url => Some(Redirect::Url("http://portal.example/".into())),
        _ => None,
    }
}

fn policy(rng: &mut StdRng) -> Option<Box<str>> {
    let ids = ["steer", "steer", "mark", "mark", "ims", "outside", "inside"];
    one_chance_in(rng, 20).then(|| Box::from(*ids.choose(rng).unwrap()))
}

/// Sometimes adds DUPL and its parameters: copies to peers, to data networks, to the destination of
/// the packet itself.
fn duplicating(rng: &mut StdRng, action: ApplyAction) -> (ApplyAction, Vec<Forwarding>) {
    if !one_chance_in(rng, 5) {
        return (action, Vec::new());
    }
    let count = rng.random_range(1..=2);
    let copy = |rng: &mut StdRng| {
        let (destination, outer_header_creation) = match rng.random_range(0..4) {
            0 => (DestinationInterface::Core, None),
            1 => (DestinationInterface::SgiLanN6Lan, Some(n6_tunnel(rng))),
            2 => (DestinationInterface::LiFunction, Some(tunnel(rng))),
            _ if one_chance_in(rng, 3) => (DestinationInterface::CpFunction, Some(tunnel(rng))),
            _ => (DestinationInterface::Access, Some(tunnel(rng))),
        };
        Forwarding {
            outer_header_creation,
            transport_level_marking: marking(rng),
            policy: policy(rng),
            ..Forwarding::new(destination)
        }
    };
    (action | ApplyAction::DUPL, (0..count).map(|_| copy(rng)).collect())
}

/// An action that buffers, with or without notices.
fn buffering(rng: &mut StdRng) -> ApplyAction {
    let notices = ApplyAction::from_bits_truncate(rng.random()) & ApplyAction::NOTICES;
    ApplyAction::BUFF | notices
}

fn bar(rng: &mut StdRng) -> Bar {
    let suggested_pkts = one_chance_in(rng, 2).then(|| rng.random_range(0..6));
    Bar { id: BarId(1), notification_delay: rng.random(), suggested_pkts }
}

fn qer(rng: &mut StdRng, id: u32) -> Qer {
    let qfi = one_chance_in(rng, 2).then(|| Qfi::new(rng.random_range(0..=63)).unwrap());
    let ppi = one_chance_in(rng, 4).then(|| rng.random_range(0..8));
    let mbr = one_chance_in(rng, 3).then(|| rates(rng));
    let averaging_window_ms = averaging_window_ms(rng);
    let correlation = correlation(rng);
    let packet_rate = one_chance_in(rng, 5).then(|| packet_limits(rng));
    let packet_status = one_chance_in(rng, 3).then(|| packet_status(rng));
    let (id, gates, rqi) = (QerId(id), gates(rng), one_chance_in(rng, 3));
    Qer {
        id,
        correlation,
        gates,
        qfi,
        rqi,
        ppi,
        mbr,
        averaging_window_ms,
        packet_rate,
        packet_status,
        flow_tos: one_chance_in(rng, 8).then(|| flow_tos(rng)),
        service_class: one_chance_in(rng, 8).then(|| (rng.random(), rng.random())),
        ..Qer::default()
    }
}

fn flow_tos(rng: &mut StdRng) -> (u8, u8) {
    (rng.random(), *[0xff, 0xfc, 0xe0, 0].choose(rng).unwrap())
}

/// Packet rates that most flows of these tests exceed, in windows that end within a test.
fn packet_limits(rng: &mut StdRng) -> PacketLimits {
    let quota = |rng: &mut StdRng| PacketQuota {
        pkts_max: *[0, 1, 2, 5, 1000].choose(rng).unwrap(),
        unit: Nanos(*[1_000, 100_000, 10_000_000, 3_600_000_000_000].choose(rng).unwrap()),
    };
    let mut limit = || {
        let additional = one_chance_in(rng, 3).then(|| quota(rng));
        one_chance_in(rng, 2).then(|| PacketLimit { plain: quota(rng), additional })
    };
    PacketLimits { uplink: limit(), downlink: limit() }
}

fn packet_status(rng: &mut StdRng) -> PacketStatus {
    let mut left = || {
        let (packets, additional) = (rng.random_range(0..4), one_chance_in(rng, 2).then_some(1));
        one_chance_in(rng, 2).then_some(PacketAllowance { packets, additional })
    };
    let (uplink, downlink) = (left(), left());
    PacketStatus { uplink, downlink, until: Nanos(rng.random_range(0..1_000_000_000)) }
}

/// Rates at which an octet takes a whole number of thirds of a nanosecond: zero, some that flows of
/// these tests exceed, and some that none exceeds.
fn rates(rng: &mut StdRng) -> Rates {
    const KBPS: [u64; 9] = [0, 8, 64, 300, 1000, 3000, 10_000, 1_000_000, 8_000_000];
    let mut rate = || BitRate::from_kbps(*KBPS.choose(rng).unwrap());
    Rates { uplink: rate(), downlink: rate() }
}

/// One of few correlation IDs, so that sessions share rates.
fn correlation(rng: &mut StdRng) -> Option<u32> {
    one_chance_in(rng, 4).then(|| rng.random_range(1..=2))
}

fn averaging_window_ms(rng: &mut StdRng) -> Option<u32> {
    one_chance_in(rng, 2).then(|| *[1, 100, 500, 2000, 30_000].choose(rng).unwrap())
}

/// A session: FARs 1–3 uplink, 4–6 downlink, 7 of quota actions, URRs 1–3, QERs 1–3, PDRs 1–4
/// uplink, 11–14 downlink.
pub fn establishment(rng: &mut StdRng) -> SessionChange {
    let mut change = if one_chance_in(rng, 3) { usual(rng) } else { unusual(rng) };
    if one_chance_in(rng, 3) {
        of_one_instance(rng, &mut change);
    }
    change
}

/// Lets all rules towards data networks name one network; in another, another session can have the
/// same addresses.
fn of_one_instance(rng: &mut StdRng, change: &mut SessionChange) {
    let name = if one_chance_in(rng, 3) { "ims" } else { "internet" };
    let pdis = change.create_pdrs.iter_mut().map(|pdr| &mut pdr.pdi);
    for pdi in pdis.filter(|pdi| pdi.source.is_network() && pdi.f_teid.is_none()) {
        pdi.network_instance = (!one_chance_in(rng, 4)).then(|| name.into());
    }
    for parts in change.create_fars.iter_mut().filter_map(|far| far.forwarding.as_mut()) {
        let is_plain = parts.outer_header_creation.is_none_or(|outer| outer.tunnel().is_none());
        if is_plain && parts.destination != DestinationInterface::Access {
            parts.network_instance = (!one_chance_in(rng, 4)).then(|| name.into());
        }
    }
}

fn unusual(rng: &mut StdRng) -> SessionChange {
    let ue = ScenarioUe::pick(rng);
    let (up, down) = (rng.random_range(1..=4), rng.random_range(1..=4));
    let mut change = SessionChange {
        create_pdrs: (1..=up).map(|id| pdr(rng, id, true, ue)).collect(),
        create_fars: (1..=7).map(|id| far(rng, id, id <= 3 || id == 7)).collect(),
        create_qers: (1..=3).map(|id| qer(rng, id)).collect(),
        create_bars: vec![bar(rng)],
        create_urrs: (1..=3).map(|id| urr(rng, id)).collect(),
        ..SessionChange::default()
    };
    change.create_pdrs.extend((11..11 + down).map(|id| pdr(rng, id, false, ue)));
    share_filter(rng, &mut change.create_pdrs);
    if one_chance_in(rng, 4) {
        side::cp_function(rng, &mut change);
    }
    if one_chance_in(rng, 6) {
        side::forwarding(rng, &mut change);
    }
    if one_chance_in(rng, 4) {
        change.create_traffic_endpoints.extend(ENDPOINTS.map(|id| endpoint(rng, id, ue)));
        for pdr in change.create_pdrs.iter_mut() {
            if one_chance_in(rng, 2) {
                link(rng, &mut pdr.pdi);
            }
        }
    }
    for catch_all in change.create_pdrs.iter_mut().filter(|pdr| [1, 11].contains(&pdr.id.0)) {
        if !one_chance_in(rng, 4) {
            catch_all.precedence = Precedence(9);
            catch_all.pdi.sdf.retain(|sdf| sdf.filter_id.is_some());
            catch_all.pdi.qfis.clear();
            catch_all.pdi.application = None;
            catch_all.predefined.clear();
        }
    }
    change
}

/// Sometimes an uplink PDR defines a bidirectional filter that a downlink PDR refers to.
/// A usual session: a PDR and a FAR each way, two QERs, and often a URR.
fn usual(rng: &mut StdRng) -> SessionChange {
    let mut change = plain_session(rng.random_range(1..=25), "10.0.3.1");
    change.create_qers.push(qer(rng, 2));
    for pdr in &mut change.create_pdrs {
        pdr.qers.push(QerId(2));
        if !one_chance_in(rng, 3) {
            pdr.urrs.push(UrrId(1));
        }
        if one_chance_in(rng, 6) {
            pdr.pdi.qfis.extend([Qfi::new(9), Qfi::new(1)].into_iter().flatten());
        }
    }
    change.create_urrs.push(urr(rng, 1));
    if one_chance_in(rng, 3) {
        change.create_fars[1].forwarding.as_mut().unwrap().transport_level_marking = Some(0xb8);
    }
    if one_chance_in(rng, 3) {
        intermediate(rng, &mut change);
    }
    change
}

/// Lets packets of a usual session go to another UPF, or come from there, in tunnels (N9).
fn intermediate(rng: &mut StdRng, change: &mut SessionChange) {
    let (to_upf, from_upf) = *[(true, true), (true, false), (false, true)].choose(rng).unwrap();
    let [uplink, downlink] = &mut change.create_pdrs[..] else { return };
    uplink.container_deletion = one_chance_in(rng, 4);
    if to_upf {
        let parts = change.create_fars[0].forwarding.as_mut().unwrap();
        parts.outer_header_creation = Some(tunnel(rng));
        parts.transport_level_marking = marking(rng);
    }
    if from_upf {
        downlink.pdi.f_teid = Some(f_teid(rng));
        downlink.outer_header_removal = Some(HeaderRemoval::GtpuUdpIp);
        downlink.container_deletion = one_chance_in(rng, 4);
        if one_chance_in(rng, 2) {
            downlink.qers.clear();
        }
        if one_chance_in(rng, 6) {
            // A PDR of the data network, which may come first.
            let precedence = Precedence(rng.random_range(99..=101));
            let pdi = PdiSpec { f_teid: None, ..downlink.pdi.clone() };
            let plain = PdrSpec {
                id: PdrId(3),
                precedence,
                pdi,
                outer_header_removal: None,
                ..downlink.clone()
            };
            change.create_pdrs.push(plain);
        }
    }
}

fn share_filter(rng: &mut StdRng, pdrs: &mut [PdrSpec]) {
    if one_chance_in(rng, 4) && pdrs.len() >= 2 {
        let definition = SdfSpec { filter_id: Some(9), bidirectional: true, ..sdf(rng) };
        let last = pdrs.len() - 1;
        pdrs[0].pdi.sdf.push(definition);
        for at in [0, last] {
            pdrs[at].predefined.clear();
        }
        pdrs[last].pdi.sdf = vec![SdfSpec { filter_id: Some(9), ..SdfSpec::default() }];
    }
}
