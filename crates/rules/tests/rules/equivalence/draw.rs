//! Rules and packets from octets. Few values, so that packets often match.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_rules::sdf::{AddrMatch, PortRange};
use adit_rules::{
    ApplyAction, CorrelatedRateId, DeltaId, DestinationInterface, FarEntry, FlowSelector, Gate,
    GtpuTunnel, GuaranteedShare, HeaderCreation, HeaderRemoval, OuterTos, PacketFilter, PdrEntry,
    PoolMembers, QerEntry, QerMeter, RateLimit, SessionRules, SourceInterface, Steering,
    TunnelSide, UeAddresses, UrrEntry, UsageLimits,
};
use adit_types::{
    BitRate, Direction, FarId, GtpuPeerIndex, InterfaceSet, IpPrefix, Ipv4Prefix, Ipv6Prefix,
    Nanos, NextHopIndex, PdrId, Precedence, QerId, Qfi, Seid, SliceId, Teid, UrrId, UsageSlot,
};

use super::{ArrivedTunnel, UsualPacket};

/// Addresses of the UPF.
pub(super) const OWN: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 45, 0, 3)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 3, 0, 0, 0, 1)),
];

/// The peer of every tunnel.
pub(super) const PEER: GtpuPeerIndex = GtpuPeerIndex(5);

/// The address of every peer over IPv6.
pub(super) fn peer_v6() -> Ipv6Addr {
    host_v6(9)
}

/// Our tunnel, in which another UPF sends packets to the UE.
const TEID_OF_UPF: Teid = Teid(9);

const HOSTS: [Ipv4Addr; 2] = [Ipv4Addr::new(20, 0, 0, 1), Ipv4Addr::new(20, 0, 0, 2)];

fn ue_v4(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 45, 0, number)
}

fn ue_v6(number: u8) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, number.into(), 0, 0, 0, 9)
}

/// A host; the first 32 bits of two of four differ.
fn host_v6(number: u8) -> Ipv6Addr {
    let net = 0xdb8 + u16::from(number % 4 / 2);
    Ipv6Addr::new(0x2001, net, 0xff, 0, 0, 0, 0, number.into())
}

/// Filters of the PDRs of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filters {
    None,
    /// One in each direction.
    Single,
    Several,
}

/// Choices taken one after the other; past the end every choice is zero.
pub(super) struct ByteChoices<'a>(core::slice::Iter<'a, u8>);

impl<'a> ByteChoices<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self(data.iter())
    }

    fn below(&mut self, n: u8) -> u8 {
        self.0.next().map_or(0, |octet| octet % n)
    }

    /// True in one of `n` cases.
    fn rarely(&mut self, n: u8) -> bool {
        self.below(n) == n - 1
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::from(self.below(of.len() as u8))]
    }

    fn ue(&mut self) -> UeAddresses {
        let number = 1 + self.below(3);
        let prefix = Ipv6Prefix::containing(ue_v6(number), 64);
        match self.below(4) {
            0 | 1 => UeAddresses { v4: Some(ue_v4(number)), v6: prefix },
            2 => UeAddresses { v4: Some(ue_v4(number)), v6: None },
            _ => UeAddresses { v4: None, v6: prefix },
        }
    }

    fn networks(&mut self) -> Vec<IpPrefix> {
        let network = Ipv4Prefix::containing(Ipv4Addr::new(10, 45, 0, 0), 24).map(IpPrefix::V4);
        if self.rarely(8) { network.into_iter().collect() } else { Vec::new() }
    }

    fn interfaces(&mut self) -> InterfaceSet {
        InterfaceSet([u32::MAX, 0b01, 0b10][usize::from(self.below(3))])
    }

    fn qfi(&mut self) -> Qfi {
        let number = 1 + self.below(6);
        Qfi::new(number).unwrap_or_else(|| unreachable!("QFIs have six bits"))
    }

    /// Rules of one session, bound.
    pub(super) fn rules(&mut self) -> SessionRules {
        let fars: Vec<FarEntry> = (0..4).map(|number| self.far(number)).collect();
        let qers: Vec<QerEntry> = (0..3).map(|number| self.qer(number)).collect();
        let urrs: Vec<UrrEntry> = (0..3).map(|number| self.urr(number)).collect();
        let ues = [1, 1, 1, 2, 0][usize::from(self.below(5))];
        let side = TunnelSide { source: SourceInterface::Access, direction: Direction::Downlink };
        let (uplink, downlink) = (1 + self.below(4), 1 + self.below(4));
        let filters = match self.below(4) {
            0 => Filters::None,
            2 => Filters::Single,
            _ => Filters::Several,
        };
        SessionRules {
            up_seid: Seid(1),
            generation: DeltaId::default(),
            slice: SliceId(self.below(3)),
            buffer_epoch: 0,
            ue: (0..ues).map(|_| self.ue()).collect(),
            ue_networks: self.networks(),
            tunnel_sides: if self.rarely(8) { vec![(Teid(7), side)] } else { self.upf_side() },
            uplink: (0..uplink).map(|n| self.pdr(n, Direction::Uplink, filters)).collect(),
            downlink: (0..downlink).map(|n| self.pdr(n, Direction::Downlink, filters)).collect(),
            matchers: None,
            fars,
            qers,
            urrs,
            own_urr: [None, Some(UsageSlot(0)), Some(UsageSlot(7))][usize::from(self.below(3))],
        }
    }

    /// The side of the tunnel in which another UPF sends packets to the UE, most often.
    fn upf_side(&mut self) -> Vec<(Teid, TunnelSide)> {
        let (sgi_lan, core) = (SourceInterface::SgiLanN6Lan, SourceInterface::Core);
        let side = TunnelSide {
            source: self.pick(&[sgi_lan, sgi_lan, core]),
            direction: if self.rarely(12) { Direction::Uplink } else { Direction::Downlink },
        };
        if self.rarely(6) { Vec::new() } else { vec![(TEID_OF_UPF, side)] }
    }

    fn pdr(&mut self, number: u8, direction: Direction, filters: Filters) -> PdrEntry {
        let is_uplink = direction == Direction::Uplink;
        let from_upf = !is_uplink && self.rarely(5);
        let other = [SourceInterface::CpFunction, SourceInterface::Core];
        let source = match (is_uplink, self.rarely(8)) {
            (_, true) => self.pick(&other),
            (true, false) => SourceInterface::Access,
            (false, false) => SourceInterface::SgiLanN6Lan,
        };
        let removal = match self.below(8) {
            0 => Some(HeaderRemoval::GtpuUdpIp),
            1 => Some(HeaderRemoval::GtpuUdpIpv6),
            2 => None,
            _ => Some(HeaderRemoval::GtpuUdpIpv4),
        };
        let sdf = match filters {
            Filters::Single if number == 0 => vec![self.five_tuple()],
            Filters::None | Filters::Single => Vec::new(),
            Filters::Several => (0..self.below(4)).map(|_| self.filter()).collect(),
        };
        // With a single filter, most packets meet the other conditions of every PDR.
        let is_narrow = filters != Filters::Single || self.rarely(4);
        let qfis = [0, 0, 0, 1, 5][usize::from(self.below(5))] * usize::from(is_narrow);
        PdrEntry {
            id: PdrId(number.into()),
            precedence: Precedence(number.into()),
            source,
            interfaces: self.interfaces(),
            teid: match (from_upf, is_uplink != self.rarely(16)) {
                (true, _) => Some(TEID_OF_UPF),
                (false, true) => Some(Teid(7)),
                (false, false) => None,
            },
            qfis: (0..qfis).map(|_| self.qfi()).collect(),
            ue: if self.below(2) == 1 && is_narrow { self.ue() } else { UeAddresses::default() },
            ue_networks: self.networks(),
            sdf: sdf.into(),
            outer_header_removal: removal.filter(|_| (is_uplink || from_upf) != self.rarely(16)),
            container_deletion: self.rarely(6),
            far: match is_uplink != self.rarely(8) {
                true => u16::from(self.below(2)),
                false => 2 + u16::from(self.below(2)),
            },
            qers: (0..self.below(3)).map(|at| at.into()).collect(),
            urrs: (0..self.below(4)).map(|at| at.into()).collect(),
        }
    }

    /// The UE's side of a filter.
    fn local(&mut self) -> AddrMatch {
        match self.below(4) {
            0 => Ipv4Prefix::containing(ue_v4(1), self.pick(&[0, 24, 32])).map(AddrMatch::V4),
            1 => Ipv6Prefix::containing(ue_v6(1), self.pick(&[0, 48, 64, 128])).map(AddrMatch::V6),
            _ => None,
        }
        .unwrap_or(AddrMatch::Any)
    }

    /// A filter with few conditions or none.
    fn wide_filter(&mut self) -> PacketFilter {
        let whole = Ipv4Prefix::containing(HOSTS[0], 0).map_or(AddrMatch::Any, AddrMatch::V4);
        PacketFilter {
            remote: self.pick(&[AddrMatch::Any, AddrMatch::Any, whole]),
            local: self.local(),
            tos: self.rarely(4).then_some((8, 0)),
            protocol: self.rarely(6).then_some(17),
            ..PacketFilter::ANY
        }
    }

    fn filter(&mut self) -> PacketFilter {
        if self.rarely(4) {
            return self.wide_filter();
        }
        PacketFilter {
            tos: self.rarely(6).then_some((8, 0xfc)),
            spi: self.rarely(12).then_some(1),
            flow_label: self.rarely(12).then_some(0),
            ..self.five_tuple()
        }
    }

    fn five_tuple(&mut self) -> PacketFilter {
        let remote = match self.below(4) {
            0 => AddrMatch::Any,
            1 => AddrMatch::V6(
                Ipv6Prefix::containing(host_v6(1 + self.below(4)), self.pick(&[31, 32, 128]))
                    .unwrap_or_else(|| unreachable!("a prefix of at most 128 bits")),
            ),
            _ => AddrMatch::V4(
                Ipv4Prefix::containing(self.pick(&HOSTS), 32 - self.below(3))
                    .unwrap_or_else(|| unreachable!("a prefix of at most 32 bits")),
            ),
        };
        let sides = self.below(4);
        let mut range = || {
            let first = u16::from(self.below(4));
            vec![PortRange { first, last: first + u16::from(self.below(3)) }]
        };
        let (remote_ports, local_ports) = match sides {
            0 => (Vec::new(), Vec::new()),
            1 => (range(), Vec::new()),
            2 => (Vec::new(), range()),
            _ => (range(), range()),
        };
        PacketFilter {
            protocol: [None, Some(6), Some(17)][usize::from(self.below(3))],
            remote,
            remote_ports,
            local_ports,
            ..PacketFilter::ANY
        }
    }

    /// The first two FARs lead to a data network, the others into a tunnel, most often.
    fn far(&mut self, number: u8) -> FarEntry {
        let action = match self.below(10) {
            0 => ApplyAction::DROP,
            1 => ApplyAction::BUFF.union(ApplyAction::NOCP),
            2 => ApplyAction::FORW.union(ApplyAction::DUPL),
            _ => ApplyAction::FORW,
        };
        let leads_out = (number < 2) != self.rarely(12);
        let peer = match self.rarely(8) {
            true => IpAddr::V6(peer_v6()),
            false => IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1 + self.below(2))),
        };
        let tunnel = GtpuTunnel { teid: Teid(100 + u32::from(number)), addr: peer };
        let destination = match (leads_out, self.rarely(12)) {
            (_, true) => DestinationInterface::CpFunction,
            (true, false) => DestinationInterface::SgiLanN6Lan,
            (false, false) => DestinationInterface::Access,
        };
        let steering = Steering { v4: Some(HOSTS[0]), v6: None };
        FarEntry {
            id: FarId(number.into()),
            action,
            destination,
            interfaces: self.interfaces(),
            outer_header_creation: (!leads_out || self.rarely(5))
                .then_some(HeaderCreation::Gtpu(tunnel)),
            outer_tos: OuterTos::from_octet(self.pick(&[0, 0, 0x28, 0x29, 3])),
            next_hop: if self.rarely(8) { NextHopIndex::NONE } else { NextHopIndex(3) },
            peer: PEER,
            buffer_pkts_max: 4,
            steering: self.rarely(12).then(|| Box::new(steering)),
            dscp: self.rarely(12).then_some(10),
            redirect: None,
            local_switching: InterfaceSet::NONE,
            duplicates: Default::default(),
        }
    }

    fn qer(&mut self, number: u8) -> QerEntry {
        let gate = |closed: bool| if closed { Gate::Closed } else { Gate::Open };
        let limit = RateLimit::new(BitRate::from_kbps(1000), Nanos(0), Default::default());
        let limits = [RateLimit::UNLIMITED, limit, limit, RateLimit::CLOSED];
        let shares = [
            GuaranteedShare::Nothing,
            GuaranteedShare::Nothing,
            GuaranteedShare::Whole,
            GuaranteedShare::Within(limit),
        ];
        let rate = CorrelatedRateId { cp: 1, correlation: 1 };
        let meter = QerMeter {
            uplink: self.pick(&limits),
            downlink: self.pick(&limits),
            bucket: self.below(3),
            correlated_rate: self.rarely(8).then_some(rate),
            guaranteed: [self.pick(&shares), self.pick(&shares)],
            guaranteed_bucket: None,
        };
        QerEntry {
            id: QerId(number.into()),
            gate_uplink: gate(self.rarely(10)),
            gate_downlink: gate(self.rarely(10)),
            qfi: self.rarely(2).then(|| self.qfi()),
            rqi: self.rarely(2),
            ppi: self.rarely(10).then_some(1),
            flow_tos: self.rarely(12).then_some((0xb8, 0xfc)),
            service_class: self.rarely(12).then_some((1, 0)),
            meter: (self.below(2) == 1).then_some(meter),
            packet_rate: None,
        }
    }

    fn urr(&mut self, number: u8) -> UrrEntry {
        UrrEntry {
            id: UrrId(number.into()),
            slot: UsageSlot(number.into()),
            generation: self.below(5).into(),
            report: UsageLimits::NONE,
            quota: UsageLimits::NONE,
            report_dropped: (u64::MAX, u64::MAX),
            stopped: self.rarely(10),
            quota_far: None,
            exempt: Vec::new(),
            pool: self.rarely(10).then_some(0),
            members: PoolMembers::default(),
            report_start: false,
            before_qos: false,
        }
    }

    /// A packet of the session's tunnel, or towards its UE.
    pub(super) fn packet(&mut self) -> UsualPacket {
        let number = [1, 1, 2, 3][usize::from(self.below(4))];
        let (ue, host): (IpAddr, IpAddr) = match self.below(2) {
            0 => (ue_v4(number).into(), self.pick(&HOSTS).into()),
            _ => (ue_v6(number).into(), host_v6(1 + self.below(4)).into()),
        };
        let (is_uplink, from_upf) = match self.below(8) {
            0..3 => (true, false),
            3..6 => (false, false),
            _ => (false, true),
        };
        let ports = [u16::from(self.below(4)), u16::from(self.below(4))];
        let container = (self.below(2) == 1).then(|| (self.qfi(), !is_uplink && self.rarely(2)));
        let teid = match (is_uplink != self.rarely(16), self.rarely(16)) {
            (_, true) => Teid(8),
            (true, false) => Teid(7),
            (false, false) => TEID_OF_UPF,
        };
        let (src, dst) = if is_uplink { (ue, host) } else { (host, ue) };
        UsualPacket {
            tunnel: (is_uplink || from_upf).then_some(ArrivedTunnel { teid, container }),
            arrival: InterfaceSet(1 << self.below(2)),
            flow: FlowSelector {
                src,
                dst,
                protocol: self.pick(&[6, 17]),
                src_port: ports[0],
                dst_port: ports[1],
                tos: self.pick(&[0, 8]),
                spi: None,
                flow_label: u32::from(self.below(2)),
            },
        }
    }
}
