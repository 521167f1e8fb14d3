//! A UPF in memory: two N3 and three N6 interfaces, one session, resolved neighbors.

use core::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;

use adit_datapath::{KernelTwins, TapPort, Worker, WorkerConfig};
use adit_pktio::mem::{MemBuf, MemIo};
use adit_pktio::{Burst, PacketBuf, PacketIo, PortInfo};
use adit_rules::rule::ue_ipv6_key;
use adit_rules::{
    ApplyAction, DeltaId, DestinationInterface, DropReason, FarEntry, Gate, GtpuTunnel,
    HeaderCreation, HeaderRemoval, KeyChange, NextHops, OuterTos, PdrEntry, PuntReason, QerEntry,
    RateLimit, RuleDelta, SdfSet, SessionKey, SessionRules, SourceInterface, TapDropFilter,
    TapFilter, TapId, TapItem, TapKey, TapOrigin, TapOutcome, TapRequest, UeAddresses,
    WorkerCommand, WorkerEvent,
};
use adit_tables::{Interface, Publisher, Route, Snapshot, TablesConfig, build};
use adit_testkit::packet::PacketBuilder;
use adit_types::limits::TAP_LATE_PACKETS_PER_STEP_MAX;
use adit_types::{
    FarId, GtpuPeerIndex, InterfaceId, InterfaceRole, InterfaceSet, MacAddr, Nanos, NextHopIndex,
    PdrId, PortId, Precedence, QerId, Qfi, Seid, SessionIndex, TcpMss, Teid, VlanId, WorkerId,
};
use rtrb::{Consumer, Producer, RingBuffer};

pub(crate) const N3: PortId = PortId(0);
pub(crate) const N6: PortId = PortId(1);
/// Carries N3 with VLAN 30, and N3 and N6 together untagged.
pub(crate) const MIXED: PortId = PortId(2);

pub(crate) const IF_N3: InterfaceId = InterfaceId(0);
pub(crate) const IF_N6: InterfaceId = InterfaceId(1);
pub(crate) const IF_N6_VLAN: InterfaceId = InterfaceId(2);
pub(crate) const IF_N3_VLAN: InterfaceId = InterfaceId(3);

pub(crate) const N3_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa0]);
pub(crate) const N6_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa1]);
pub(crate) const MIXED_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa2]);
pub(crate) const GNB_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb0]);
pub(crate) const GATEWAY_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xc0]);
pub(crate) const VLAN_GATEWAY_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xc1]);

pub(crate) const N3_ADDR: &str = "192.168.10.1";
pub(crate) const N3_V6: &str = "2001:db8:10::1";
pub(crate) const GNB: &str = "192.168.10.2";
pub(crate) const GNB_V6: &str = "2001:db8:10::2";
pub(crate) const N6_ADDR: &str = "10.6.0.1";
pub(crate) const N6_V6: &str = "2001:db8:6::1";
/// Where N4 listens: no interface of the datapath.
pub(crate) const N4_ADDR: &str = "203.0.113.4";
pub(crate) const N4_V6: &str = "2001:db8:4::4";
pub(crate) const UE: &str = "10.45.0.2";
pub(crate) const UE_V6: &str = "2001:db8:45::2";
pub(crate) const SERVER: &str = "8.8.8.8";
pub(crate) const SERVER_V6: &str = "2001:db8:ffff::8";
pub(crate) const TEID: u32 = 0x100;
pub(crate) const GNB_TEID: u32 = 0xabcd;
/// When the UPF started, as it reports to GTP-U peers.
pub(crate) const STARTED: u32 = 3_900_000_000;
pub(crate) const SESSION: SessionIndex = SessionIndex(7);
pub(crate) const SESSIONS_MAX: usize = 64;

/// A hook in the middle of a step.
pub(crate) trait MidStep {
    /// Called before a burst is received from `port`.
    fn before_receive(&mut self, port: PortId, io: &mut MemIo);

    /// Called before a buffer is taken for a packet of the worker's own.
    fn before_alloc(&mut self) {}
}

/// Ports with a hook.
pub(crate) struct HookedPorts<H> {
    pub io: MemIo,
    pub hook: H,
}

impl<H> HookedPorts<H> {
    /// N3 and N6.
    pub(crate) fn new(hook: H) -> Self {
        Self { io: MemIo::new(&[N3_MAC, N6_MAC]), hook }
    }
}

impl<H: MidStep> PacketIo for HookedPorts<H> {
    type Buf = MemBuf;

    fn rx_burst(&mut self, port: PortId, limit: usize, burst: &mut Burst<MemBuf>) -> usize {
        self.hook.before_receive(port, &mut self.io);
        self.io.rx_burst(port, limit, burst)
    }

    fn tx_burst(&mut self, port: PortId, burst: &mut Burst<MemBuf>) -> usize {
        self.io.tx_burst(port, burst)
    }

    fn alloc(&mut self) -> Option<MemBuf> {
        self.hook.before_alloc();
        self.io.alloc()
    }

    fn port_info(&self, port: PortId) -> PortInfo {
        self.io.port_info(port)
    }
}

/// Set in the second run of all tests; see [`taps_drops`].
pub(crate) const TAPS_DROPS: &str = "ADIT_TEST_TAPS_DROPS";

/// All tests run twice: the second time a tap reports each packet that is dropped, and every step
/// checks that it does.
pub(crate) fn taps_drops() -> bool {
    static TAPS: LazyLock<bool> = LazyLock::new(|| std::env::var_os(TAPS_DROPS).is_some());
    *TAPS
}

/// The start of a tap without an end.
pub(crate) fn tap(filter: TapFilter) -> WorkerCommand {
    let request = TapRequest {
        filter,
        has_stages: true,
        has_path: true,
        snap_bytes: 128,
        pkts_max: u64::MAX,
        until: Nanos(u64::MAX),
    };
    WorkerCommand::StartTap(TapId(0), request)
}

/// A worker that polls `ports`.
pub(crate) fn worker_config(ports: &[PortId]) -> WorkerConfig {
    WorkerConfig {
        id: WorkerId(0),
        ports: ports.to_vec(),
        burst: 32,
        buffer_pkts_max: 512,
        shaped_pkts_max: 512,
        recovery_time_stamp: Some(STARTED),
    }
}

pub(crate) struct PipelineFixture {
    pub io: MemIo,
    pub worker: Worker<MemIo>,
    pub publisher: Publisher,
    pub events: Consumer<WorkerEvent>,
    pub commands: Producer<WorkerCommand>,
    pub now: Nanos,
    pub deltas: u64,
    records: Consumer<TapItem>,
    /// Drops counted before the last step.
    drops_before: Vec<u64>,
}

fn interface(
    id: InterfaceId,
    role: InterfaceRole,
    (port, vlan): (PortId, u16),
    mac: MacAddr,
    v4: &str,
    v6: Option<&str>,
) -> Interface {
    Interface {
        id,
        role,
        domain: adit_types::DomainId(0),
        port,
        vlan: VlanId::new(vlan).unwrap_or(VlanId::UNTAGGED),
        mac,
        mtu_bytes: 1500,
        unfragmented_bytes: 1500,
        outer_df: true,
        tcp_mss: TcpMss::Off,
        station: None,
        v4: Some((v4.parse().unwrap(), 24)),
        v6: v6.map(|addr| (addr.parse().unwrap(), 64)),
    }
}

/// The tables of every scene.
pub(crate) fn config() -> TablesConfig {
    let (n3, n6) = (InterfaceRole::N3, InterfaceRole::N6);
    let route = |interface, prefix: &str, next_hop: &str| Route {
        interface,
        prefix: prefix.parse().unwrap(),
        next_hop: next_hop.parse().unwrap(),
    };
    TablesConfig {
        sessions_max: SESSIONS_MAX,
        teid_slot_bits: 8,
        workers: 1,
        next_hops_max: 1024,
        seed: 1,
        interfaces: vec![
            interface(IF_N3, n3, (N3, 0), N3_MAC, N3_ADDR, Some(N3_V6)),
            interface(IF_N6, n6, (N6, 0), N6_MAC, N6_ADDR, Some(N6_V6)),
            interface(IF_N6_VLAN, n6, (N6, 100), N6_MAC, "10.7.0.1", None),
            interface(IF_N3_VLAN, n3, (MIXED, 30), MIXED_MAC, "192.168.30.1", None),
            interface(InterfaceId(4), n3, (MIXED, 0), MIXED_MAC, "192.168.40.1", None),
            interface(InterfaceId(5), n6, (MIXED, 0), MIXED_MAC, "10.8.0.1", None),
        ],
        own_addrs: vec![N4_ADDR.parse().unwrap(), N4_V6.parse().unwrap()],
        routes: vec![
            route(IF_N6, "0.0.0.0/0", "10.6.0.254"),
            route(IF_N6, "::/0", "2001:db8:6::254"),
            route(IF_N6_VLAN, "172.16.0.0/12", "10.7.0.254"),
        ],
        aggregates: Vec::new(),
        ue_pools_v4: Vec::new(),
        local_switching_domains: vec![adit_types::DomainId(0)],
    }
}

/// The tables of scenes whose ports carry one interface each.
pub(crate) fn usual_config() -> TablesConfig {
    let mut config = config();
    config.interfaces.truncate(2);
    config.routes.retain(|route| route.interface == IF_N6);
    config
}

/// The session of [`UE`]: both families, QFI 9, one PDR and FAR each way.
pub(crate) fn rules() -> SessionRules {
    let ue = UeAddresses {
        v4: Some(UE.parse().unwrap()),
        v6: Some("2001:db8:45::/64".parse().unwrap()),
    };
    let [uplink, downlink] = pdrs(ue);
    let qer = QerEntry {
        id: QerId(1),
        gate_uplink: Gate::Open,
        gate_downlink: Gate::Open,
        qfi: Qfi::new(9),
        rqi: false,
        ppi: None,
        flow_tos: None,
        service_class: None,
        meter: None,
        packet_rate: None,
    };
    SessionRules {
        generation: DeltaId::default(),
        slice: adit_types::SliceId(0),
        buffer_epoch: 0,
        up_seid: Seid(1),
        ue: vec![ue],
        ue_networks: vec![],
        tunnel_sides: vec![],
        uplink: vec![uplink],
        downlink: vec![downlink],
        matchers: None,
        fars: fars().into(),
        qers: vec![qer],
        urrs: Vec::new(),
        own_urr: None,
    }
}

/// The PDRs of [`rules`]: uplink and downlink.
fn pdrs(ue: UeAddresses) -> [PdrEntry; 2] {
    let uplink = PdrEntry {
        id: PdrId(1),
        precedence: Precedence(100),
        source: SourceInterface::Access,
        interfaces: InterfaceSet::ALL,
        teid: Some(Teid(TEID)),
        qfis: vec![],
        ue,
        ue_networks: vec![],
        sdf: SdfSet::default(),
        outer_header_removal: Some(HeaderRemoval::GtpuUdpIp),
        container_deletion: false,
        far: 0,
        qers: [0].into_iter().collect(),
        urrs: [].into_iter().collect(),
    };
    let downlink = PdrEntry {
        id: PdrId(2),
        source: SourceInterface::SgiLanN6Lan,
        teid: None,
        outer_header_removal: None,
        container_deletion: false,
        far: 1,
        ..uplink.clone()
    };
    [uplink, downlink]
}

/// The FARs of [`rules`]: to the data network and to the gNB.
fn fars() -> [FarEntry; 2] {
    let to_n6 = FarEntry {
        id: FarId(1),
        action: ApplyAction::FORW,
        destination: DestinationInterface::SgiLanN6Lan,
        interfaces: InterfaceSet::ALL,
        outer_header_creation: None,
        outer_tos: OuterTos::default(),
        next_hop: NextHopIndex::NONE,
        peer: GtpuPeerIndex::NONE,
        buffer_pkts_max: 64,
        steering: None,
        dscp: None,
        redirect: None,
        local_switching: InterfaceSet::ALL,
        duplicates: [].into_iter().collect(),
    };
    let to_gnb = FarEntry {
        id: FarId(2),
        destination: DestinationInterface::Access,
        outer_header_creation: Some(tunnel(GNB_TEID, GNB)),
        local_switching: InterfaceSet::NONE,
        ..to_n6.clone()
    };
    [to_n6, to_gnb]
}

pub(crate) fn tunnel(teid: u32, addr: &str) -> HeaderCreation {
    HeaderCreation::Gtpu(GtpuTunnel { teid: Teid(teid), addr: addr.parse().unwrap() })
}

impl PipelineFixture {
    /// Session installed, gateways and gNB resolved.
    pub(crate) fn new() -> Self {
        Self::with(rules())
    }

    /// The scene with kernel twins.
    pub(crate) fn with_kernel(self, twins: Option<KernelTwins>) -> Self {
        Self { worker: self.worker.with_kernel(twins), ..self }
    }

    /// As [`Self::new`], with other rules.
    pub(crate) fn with(rules: SessionRules) -> Self {
        let mut scene = Self::unresolved(rules);
        scene.resolve(IF_N3, GNB, GNB_MAC);
        scene.resolve(IF_N3, GNB_V6, GNB_MAC);
        scene.resolve(IF_N6, "10.6.0.254", GATEWAY_MAC);
        scene.resolve(IF_N6, "2001:db8:6::254", GATEWAY_MAC);
        scene.resolve(IF_N6_VLAN, "10.7.0.254", VLAN_GATEWAY_MAC);
        scene
    }

    /// As [`Self::with`], without VLANs, so that usual packets take the fast path.
    pub(crate) fn usual(rules: SessionRules) -> Self {
        Self::usual_of(64, rules)
    }

    /// As [`Self::usual`], with tables for `sessions_max` sessions.
    pub(crate) fn usual_of(sessions_max: usize, rules: SessionRules) -> Self {
        Self::usual_with(TablesConfig { sessions_max, ..usual_config() }, rules)
    }

    /// As [`Self::usual`], with any tables whose ports carry one interface each.
    pub(crate) fn usual_with(tables: TablesConfig, rules: SessionRules) -> Self {
        let mut scene = Self::built(tables, rules);
        scene.resolve(IF_N3, GNB, GNB_MAC);
        scene.resolve(IF_N6, "10.6.0.254", GATEWAY_MAC);
        scene
    }

    /// As [`Self::usual`], with N3 and N6 on one link, where usual packets of both directions
    /// arrive together.
    pub(crate) fn on_one_link(rules: SessionRules) -> Self {
        let mut tables = usual_config();
        for interface in &mut tables.interfaces {
            (interface.port, interface.mac) = (N3, N3_MAC);
        }
        let mut scene = Self::built(tables, rules);
        scene.resolve(IF_N3, GNB, GNB_MAC);
        scene.resolve(IF_N6, "10.6.0.254", GATEWAY_MAC);
        scene
    }

    /// As [`Self::with`], with rates that sessions share, uplink and downlink: of all, then by
    /// slice.
    pub(crate) fn sharing(aggregates: Vec<[RateLimit; 2]>, rules: SessionRules) -> Self {
        let mut scene = Self::built(TablesConfig { aggregates, ..config() }, rules);
        scene.resolve(IF_N3, GNB, GNB_MAC);
        scene.resolve(IF_N6, "10.6.0.254", GATEWAY_MAC);
        scene
    }

    /// As [`Self::with`], with another MTU towards the data network.
    pub(crate) fn with_n6_mtu(mtu_bytes: u16, rules: SessionRules) -> Self {
        let mut tables = config();
        tables.interfaces[usize::from(IF_N6.0)].mtu_bytes = mtu_bytes;
        let mut scene = Self::built(tables, rules);
        scene.resolve(IF_N3, GNB, GNB_MAC);
        scene.resolve(IF_N6, "10.6.0.254", GATEWAY_MAC);
        scene.resolve(IF_N6, "2001:db8:6::254", GATEWAY_MAC);
        scene
    }

    /// As [`Self::with`], without any neighbor.
    pub(crate) fn unresolved(rules: SessionRules) -> Self {
        Self::built(config(), rules)
    }

    /// As [`Self::unresolved`], with any tables.
    pub(crate) fn built(tables: TablesConfig, rules: SessionRules) -> Self {
        let (publisher, mut readers) = build(tables).unwrap();
        let (event_tx, events) = RingBuffer::new(256);
        let (mut commands, command_rx) = RingBuffer::new(64);
        if taps_drops() {
            let filter = TapFilter { key: TapKey::Any, drop: Some(TapDropFilter::Any), one_of: 1 };
            commands.push(tap(filter)).unwrap();
        }
        let config = worker_config(&[N3, N6, MIXED]);
        let (record_tx, records) = RingBuffer::new(1 << 16);
        let taps = TapPort { records: record_tx, clock: Box::new(|| Nanos(0)) };
        let worker = Worker::new(config, readers.remove(0), event_tx, command_rx).with_taps(taps);
        let io = MemIo::new(&[N3_MAC, N6_MAC, MIXED_MAC]);
        let now = Nanos::from_secs(1000);
        let drops_before = vec![0; DropReason::COUNT];
        let mut scene =
            Self { io, worker, publisher, events, commands, now, deltas: 0, records, drops_before };
        scene.install(rules);
        scene
    }

    /// Publishes rules for the session, with its keys, and lets the worker see them.
    pub(crate) fn install(&mut self, rules: SessionRules) {
        self.publish(rules);
        self.step();
        while self.publisher.poll_observed().is_some() {}
    }

    /// Publishes the session's rules, which the worker sees in its next step.
    pub(crate) fn publish(&mut self, rules: SessionRules) {
        self.deltas += 1;
        let keys = vec![
            KeyChange::Add(SessionKey::Teid(Teid(TEID))),
            KeyChange::Add(SessionKey::UeIpv4(adit_types::DomainId(0), UE.parse().unwrap())),
            KeyChange::Add(SessionKey::UeIpv6(
                adit_types::DomainId(0),
                ue_ipv6_key(UE_V6.parse().unwrap()),
            )),
        ];
        let delta = RuleDelta { session: SESSION, keys, rules: Some(Box::new(rules)) };
        self.publisher.apply(DeltaId(self.deltas), delta);
    }

    /// Publishes the hardware address of a neighbor.
    pub(crate) fn resolve(&mut self, interface: InterfaceId, addr: &str, mac: MacAddr) {
        let index = self.publisher.ensure_next_hop(interface, addr.parse().unwrap()).unwrap();
        self.publisher.set_mac(index, mac, false);
    }

    /// One step; checks the identity.
    pub(crate) fn step(&mut self) {
        self.worker.step(self.now, &mut self.io);
        let counts = self.counts();
        assert!(counts.identity_holds(), "{counts:?}");
        if taps_drops() {
            self.assert_drops_are_reported(&counts);
        }
    }

    /// The records of packets since the last call.
    pub(crate) fn take_records(&mut self) -> Vec<Vec<TapItem>> {
        let items: Vec<TapItem> = core::iter::from_fn(|| self.records.pop().ok()).collect();
        let records = items.split_inclusive(|item| matches!(item, TapItem::End(_)));
        records.map(<[TapItem]>::to_vec).collect()
    }

    /// Each drop that the last step counted is reported by its reason, as far as there is room in a
    /// step.
    fn assert_drops_are_reported(&mut self, counts: &Snapshot) {
        let mut reported = vec![0; DropReason::COUNT];
        let mut late = 0;
        for record in self.take_records() {
            let [TapItem::Packet(packet), .., TapItem::End(TapOutcome::Dropped(reason))] =
                &record[..]
            else {
                panic!("not a record of a drop: {record:?}");
            };
            reported[reason.index()] += 1;
            late += usize::from(packet.origin == TapOrigin::Waited);
        }
        for reason in DropReason::ALL {
            let at = reason.index();
            let counted =
                counts.drops[at] - core::mem::replace(&mut self.drops_before[at], counts.drops[at]);
            let is_all = late < TAP_LATE_PACKETS_PER_STEP_MAX;
            let is_named = reported[at] > 0 || counted == 0 || !is_all;
            assert!(is_named, "{} counted {counted} times and reported never", reason.name());
            // A fragment may take the others of its datagram with it.
            let is_of_fragments = reason.name().starts_with("reassembly");
            if is_all && !is_of_fragments {
                assert_eq!(reported[at], counted, "{}", reason.name());
            }
        }
    }

    /// One frame in, one step, all frames out of `out`.
    pub(crate) fn pass(&mut self, port: PortId, frame: &[u8], out: PortId) -> Vec<Vec<u8>> {
        self.io.inject(port, frame);
        self.step();
        self.sent(out)
    }

    /// Frames sent on `port` so far.
    pub(crate) fn sent(&mut self, port: PortId) -> Vec<Vec<u8>> {
        self.io.take_sent(port).iter().map(|buf: &MemBuf| buf.data().to_vec()).collect()
    }

    pub(crate) fn counts(&self) -> Snapshot {
        self.publisher.snapshot()
    }

    pub(crate) fn dropped(&self, reason: DropReason) -> u64 {
        self.counts().drops[reason.index()]
    }

    pub(crate) fn punted(&self, reason: PuntReason) -> u64 {
        self.counts().punts[reason.index()]
    }

    /// Takes all events.
    pub(crate) fn take_events(&mut self) -> Vec<WorkerEvent> {
        core::iter::from_fn(|| self.events.pop().ok()).collect()
    }

    /// Injects one frame that must be dropped for `reason` and nothing else.
    #[track_caller]
    pub(crate) fn assert_drops(&mut self, port: PortId, frame: &[u8], reason: DropReason) {
        let (before, dropped) = (self.dropped(reason), self.counts().dropped_pkts());
        self.io.inject(port, frame);
        self.step();
        let found: Vec<_> = self.counts().drops().filter(|(_, n)| *n > 0).collect();
        assert_eq!(self.dropped(reason), before + 1, "{reason:?} expected, counted {found:?}");
        assert_eq!(self.counts().dropped_pkts(), dropped + 1, "counted {found:?}");
    }
}

/// An uplink frame up to and including the PDU Session Container of QFI 9.
pub(crate) fn tunneled() -> PacketBuilder {
    PacketBuilder::ethernet(N3_MAC, GNB_MAC).ipv4(GNB, N3_ADDR).gtpu(TEID).psc_ul(9)
}

/// An uplink frame with an IPv4 packet of the UE.
pub(crate) fn uplink() -> PacketBuilder {
    tunneled().ipv4(UE, SERVER).udp(4000, 53).payload(b"question")
}

/// A frame from the gateway.
pub(crate) fn from_gateway() -> PacketBuilder {
    PacketBuilder::ethernet(N6_MAC, GATEWAY_MAC)
}

/// The TEID of an untagged frame over IPv4.
pub(crate) fn teid_of(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[14 + 20 + 8 + 4..][..4].try_into().unwrap())
}

/// A downlink frame with an IPv4 packet for the UE.
pub(crate) fn downlink() -> PacketBuilder {
    from_gateway().ipv4(SERVER, UE).udp(53, 4000).payload(b"answer")
}

pub(crate) fn ip(addr: &str) -> IpAddr {
    addr.parse().unwrap()
}

pub(crate) fn v4(addr: &str) -> Ipv4Addr {
    addr.parse().unwrap()
}
