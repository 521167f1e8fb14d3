//! Sessions of the bench, as the SMF of a private network sets them up.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_n4::{Node, NodeConfig, NodeIdentity, RecordConfig};
use adit_rules::{
    ApplyAction, DeltaId, DestinationInterface, Excess, Gate, GtpuTunnel, HeaderCreation,
    HeaderRemoval, NextHops, Offload, RateLimit, SourceInterface, UeAddresses,
};
use adit_session::{
    CpFSeid, Enforcement, FTeidSpec, Far, Forwarding, LocalAddresses, LocalInterface,
    MeasurementMethod, OwnerId, OwnerNodes, PdiSpec, PdrSpec, PdrTimes, Provisioning, Qer,
    QerGates, QosPolicy, SdfSpec, SessionChange, SessionStore, StoreConfig, UeMatch, UeSide, Urr,
    UrrSettings, UsageTriggers, Volumes,
};
use adit_tables::{Interface, IpPrefix, Publisher, Route, TablesConfig, TablesReader};
use adit_types::{
    BitRate, DomainId, FarId, InterfaceId, InterfaceRole, Ipv4Prefix, Ipv6Prefix, Nanos, PdrId,
    PortId, Precedence, QerId, Qfi, Seid, TcpMss, Teid, UrrId, VlanId,
};
use anyhow::Context;

use super::network::{
    BURST_TIME, BenchIpVersion, BenchSession, DN_ADDR, DN_MAC, FILTER_PORT, FILTERED_PDRS,
    GNB_ADDR, GNBS_MAX, INNER_LEN, MACS, N3_ADDR, N3_ADDR6, N3_PREFIX_LEN, N6_ADDR, QFI, VLAN, gnb,
    gnb6, ue6,
};

const DN6_ADDR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 6, 0, 0, 0, 0, 1);
const N6_ADDR6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 6, 0, 0, 0, 0, 2);
const SESSION_QER: QerId = QerId(1);
const FLOW_QER: QerId = QerId(2);

/// Address of the UE of session 0; session *n* has this address plus *n*.
const UES_START: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 0);

/// Makes tables of a UPF with an N3 and an N6 or N9 interface and resolved neighbors.
fn tables(
    sessions_max: usize,
    teid_slot_bits: u32,
    workers: usize,
    profile: &BenchProfile,
    offload: impl FnOnce(&TablesConfig) -> Option<Box<dyn Offload>>,
) -> anyhow::Result<(Publisher, Vec<TablesReader>)> {
    let vlan = profile.vlan();
    let interface = |id: u8, role, addr| Interface {
        id: InterfaceId(id),
        role,
        domain: DomainId(0),
        port: PortId(id.into()),
        vlan,
        mac: MACS[usize::from(id)],
        mtu_bytes: 1500,
        unfragmented_bytes: 1500,
        outer_df: true,
        tcp_mss: TcpMss::Off,
        station: None,
        v4: Some((addr, if role == InterfaceRole::N3 { N3_PREFIX_LEN } else { 24 })),
        v6: match role {
            InterfaceRole::N3 => profile.n3_v6.then_some((N3_ADDR6, 64)),
            _ => Some((N6_ADDR6, 64)),
        },
    };
    let pool = Ipv4Prefix::containing(UES_START, 9).filter(|_| !profile.given_keys);
    let config = TablesConfig {
        sessions_max,
        teid_slot_bits: u8::try_from(teid_slot_bits)?,
        workers,
        next_hops_max: 64 + 2 * usize::from(profile.gnbs),
        seed: 1,
        interfaces: vec![
            interface(0, InterfaceRole::N3, N3_ADDR),
            interface(1, profile.far_role(), N6_ADDR),
        ],
        own_addrs: Vec::new(),
        routes: vec![route("0.0.0.0/0", DN_ADDR.into())?, route("::/0", DN6_ADDR.into())?],
        aggregates: profile.rates.aggregates(),
        local_switching_domains: vec![DomainId(0)],
        ue_pools_v4: pool.into_iter().map(|pool| (DomainId(0), pool)).collect(),
    };
    let offload = offload(&config);
    let (mut publisher, readers) = adit_tables::build_with_offload(config, offload)?;
    let gnbs = (0..profile.gnbs).map(|number| (0, profile.gnb_addr(number), gnb(number).1));
    let network = [(1, DN_ADDR.into(), DN_MAC), (1, DN6_ADDR.into(), DN_MAC)];
    for (id, addr, mac) in gnbs.chain(network) {
        let index =
            publisher.ensure_next_hop(InterfaceId(id), addr).context("room for a next hop")?;
        publisher.set_mac(index, mac, false);
    }
    Ok((publisher, readers))
}

fn route(prefix: &str, next_hop: IpAddr) -> anyhow::Result<Route> {
    Ok(Route { interface: InterfaceId(1), prefix: prefix.parse::<IpPrefix>()?, next_hop })
}

fn store(sessions_max: usize, profile: &BenchProfile) -> StoreConfig {
    let owner_nodes = OwnerNodes::default();
    StoreConfig { sessions_max, provisioning: provisioning(profile), seed: 1, owner_nodes }
}

/// Returns the interfaces and the QoS policy that rules may use.
pub(crate) fn provisioning(profile: &BenchProfile) -> Provisioning {
    let gtpu = |addr| LocalAddresses { v4: Some(addr), v6: None };
    let far = if profile.n9 { gtpu(N6_ADDR) } else { LocalAddresses::default() };
    let n3 = match profile.n3_v6 {
        false => gtpu(N3_ADDR),
        true => LocalAddresses { v4: None, v6: Some(N3_ADDR6) },
    };
    let interfaces = vec![
        LocalInterface::of_role(InterfaceRole::N3, n3),
        LocalInterface::of_role(profile.far_role(), far),
    ];
    let qos = profile.rates.policy();
    Provisioning { interfaces, qos, ..Provisioning::default() }
}

/// Makes a PFCP node, the publisher of its changes, and a reader per worker.
pub(crate) fn control_side(
    sessions_max: usize,
    workers: usize,
    records: Option<RecordConfig>,
) -> anyhow::Result<(Node, Publisher, Vec<TablesReader>)> {
    let node = Node::new(NodeConfig {
        node_id: NodeIdentity::Ipv4(N3_ADDR),
        address: IpAddr::V4(N3_ADDR),
        connect: Vec::new(),
        heartbeat_interval: Nanos::from_secs(3600),
        sessions_outlive_peer: Nanos::from_secs(3600),
        t1: Nanos::from_secs(3),
        n1: 3,
        recovery_time_stamp: 1,
        seed: 1,
        policy: adit_n4::PeerPolicy::default(),
        paths: adit_n4::PathConfig::OFF,
        store: store(sessions_max, &BenchProfile::USUAL),
        records,
    });
    let (publisher, readers) =
        tables(sessions_max, node.store().slot_bits(), workers, &BenchProfile::USUAL, |_| None)?;
    Ok((node, publisher, readers))
}

/// Returns the IPv4 address of the UE of session `number`.
fn ue4(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(UES_START.to_bits() + number)
}

/// Tables with established sessions, for workers that do not exist yet.
pub(crate) struct Populated {
    pub store: SessionStore,
    pub publisher: Publisher,
    /// Readers of the workers, in the order of workers.
    pub readers: Vec<TablesReader>,
    pub sessions: Vec<BenchSession>,
}

/// Establishes and publishes `count` sessions for workers that the caller creates.
pub(crate) fn populate(
    profile: BenchProfile,
    count: usize,
    workers: usize,
) -> anyhow::Result<Populated> {
    populate_with(profile, count, workers, |_| None)
}

/// Establishes and publishes `count` sessions, with an offload.
pub(crate) fn populate_with(
    profile: BenchProfile,
    count: usize,
    workers: usize,
    offload: impl FnOnce(&TablesConfig) -> Option<Box<dyn Offload>>,
) -> anyhow::Result<Populated> {
    let mut store = SessionStore::new(store(count, &profile));
    let (mut publisher, readers) = tables(count, store.slot_bits(), workers, &profile, offload)?;
    let mut sessions = Vec::with_capacity(count);
    let limit = profile.rates.limit(count);
    for number in 0..u32::try_from(count)? {
        let cp = CpFSeid { seid: Seid(u64::from(number) + 1), v4: Some(GNB_ADDR), v6: None };
        let established = store
            .establish(OwnerId(1), cp, change(profile, number, limit)?)
            .map_err(|refusal| anyhow::anyhow!("session {number} refused: {refusal:?}"))?;
        let created = |id| {
            let mut created = established.created.iter().filter(move |created| created.pdr == id);
            created.next().map(|created| created.f_teid.teid)
        };
        let given = Some(given_teid(number)).filter(|_| profile.given_keys);
        let teid = given.or(created(pdr_id(None, true)));
        let teid = teid.context("the uplink PDR has an F-TEID")?;
        sessions.push(BenchSession {
            teid,
            ue: ue4(number),
            up_seid: established.up_seid,
            vlan: profile.vlan(),
            gnb: profile.gnb_of(number),
            n3_v6: profile.n3_v6,
            n9_teid: created(pdr_id(None, false)),
        });
        publisher.apply(DeltaId(number.into()), established.delta);
        while publisher.poll_observed().is_some() {}
    }
    Ok(Populated { store, publisher, readers, sessions })
}

/// Properties of the sessions of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
pub(crate) struct BenchProfile {
    /// UEs have an IPv6 prefix instead of an IPv4 address.
    #[arg(long, conflicts_with = "dual")]
    pub v6: bool,
    /// UEs have addresses of both families, and half of the packets are IPv6.
    #[arg(long = "mixed")]
    pub dual: bool,
    /// The SMF chooses TEIDs and UE addresses: the datapath looks them up by hash instead of index.
    #[arg(long)]
    pub given_keys: bool,
    /// True for a QER with a QFI, which adds a PDU Session Container on downlink.
    #[arg(skip = true)]
    pub qfi: bool,
    /// Gate status of the QERs.
    #[arg(skip = Gate::Open)]
    pub gate: Gate,
    /// Apply Action of the FARs.
    #[arg(skip = ApplyAction::FORW)]
    pub action: ApplyAction,
    /// Packets go to another UPF and come from there in tunnels (N9) instead of N6.
    #[arg(long)]
    pub n9: bool,
    /// Tunnels of N3 are over IPv6.
    #[arg(long, conflicts_with = "n9")]
    pub n3_v6: bool,
    /// URRs of each session, which all its packets count for.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=4))]
    pub urrs: u32,
    /// SDF filters of each session; without a value several, for both families.
    #[arg(long = "sdf", value_enum, value_name = "FILTERS", num_args = 0..=1, require_equals = true,
          default_value = "none", default_missing_value = "several")]
    pub filters: BenchFilters,
    /// Maximum bit rates of the QERs of each session.
    #[arg(long, value_enum, default_value = "none")]
    pub rates: BenchRates,
    /// Frames have a VLAN tag on either side.
    #[arg(long = "vlan")]
    pub is_tagged: bool,
    /// Number of gNBs, which the sessions are spread over.
    #[arg(long, default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=i64::from(GNBS_MAX)))]
    pub gnbs: u16,
}

/// SDF filters of the PDRs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum BenchFilters {
    /// None.
    None,
    /// One filter in each PDR, which matches every packet of the UE.
    Any,
    /// One filter in each PDR, on protocol and ports.
    One,
    /// A PDR with a filter that half of the packets match, before the one that matches everything.
    Dedicated,
    /// Eight PDRs with a filter, half of them for each family, before the two that match
    /// everything.
    Several,
}

impl BenchFilters {
    /// Returns the PDRs of one direction: the numbered ones, then the last one (`None`).
    fn pdrs(self) -> impl Iterator<Item = Option<u16>> {
        let numbers = match self {
            Self::Several => FILTERED_PDRS,
            Self::Dedicated => 1,
            _ => 0,
        };
        (0..numbers).map(Some).chain([None])
    }

    /// Returns the flow description of PDR `number`, or of the last PDR if `number` is `None`.
    fn flow(self, number: Option<u16>) -> Option<String> {
        match (self, number) {
            // The first half of the filters is for IPv4, the second for IPv6.
            (Self::Several, Some(number)) => {
                let (is_v4, port) = (number < FILTERED_PDRS / 2, FILTER_PORT + number);
                let remote = if is_v4 { "0.0.0.0/1" } else { "2001:db8::/32" };
                Some(format!("permit out 17 from {remote} {port} to assigned"))
            }
            (Self::Any, _) => Some("permit out ip from any to assigned".into()),
            (Self::Dedicated, Some(_)) => {
                let last = FILTER_PORT + FILTERED_PDRS / 2 - 1;
                Some(format!("permit out 17 from any {FILTER_PORT}-{last} to assigned"))
            }
            (Self::One, _) => {
                let last = FILTER_PORT + FILTERED_PDRS - 1;
                Some(format!("permit out 17 from any {FILTER_PORT}-{last} to assigned"))
            }
            _ => None,
        }
    }
}

/// Maximum bit rates of the QERs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum BenchRates {
    /// No maximum bit rates.
    None,
    /// Above the offered rate, policed.
    Police,
    /// Above the offered rate, shaped: no packet is queued.
    Shape,
    /// Only the rate of the session QER, above the offered rate, policed.
    Session,
    /// 90 % of the offered rate, policed.
    Exceed,
    /// Only an aggregate rate of all sessions, above the offered rate.
    Shared,
    /// 111 % of the mean offered rate, shaped without bursts, so that most packets are queued.
    Wait,
}

/// A rate above any offered rate.
const PLENTIFUL_RATE: BitRate = BitRate::from_kbps(1_000_000_000);

impl BenchRates {
    /// Returns the maximum bit rate of each session if `sessions` share the traffic at random.
    fn limit(self, sessions: usize) -> Option<BitRate> {
        let offered = 32 * 8 * INNER_LEN as u64 * 1_000_000_000 / BURST_TIME.0;
        let share = offered / (sessions as u64).max(1);
        match self {
            Self::None | Self::Shared => None,
            Self::Police | Self::Shape | Self::Session => Some(PLENTIFUL_RATE),
            Self::Exceed => Some(BitRate::from_bps(share * 9 / 10)),
            Self::Wait => Some(BitRate::from_bps(share * 10 / 9)),
        }
    }

    /// Returns the aggregate rates by slice and direction.
    fn aggregates(self) -> Vec<[RateLimit; 2]> {
        let limit = RateLimit::new(PLENTIFUL_RATE, Nanos::from_millis(20), Excess::Shaped);
        if self == Self::Shared { vec![[limit; 2]] } else { Vec::new() }
    }

    fn policy(self) -> QosPolicy {
        let excess = match self {
            Self::None | Self::Shared | Self::Police | Self::Session | Self::Exceed => {
                Excess::Policed
            }
            Self::Shape | Self::Wait => Excess::Shaped,
        };
        let of = Enforcement { gbr: excess, flow: excess, session: excess, shared: excess };
        let shaping_burst = match self {
            Self::Wait => Nanos(0),
            _ => Nanos::from_millis(2),
        };
        QosPolicy { uplink: of, downlink: of, shaping_burst, ..QosPolicy::default() }
    }
}

impl BenchProfile {
    /// Two PDRs with a FAR each, a session QER and a flow QER with open gates, and a URR.
    pub(crate) const USUAL: Self = Self {
        v6: false,
        dual: false,
        given_keys: false,
        qfi: true,
        gate: Gate::Open,
        action: ApplyAction::FORW,
        n9: false,
        n3_v6: false,
        urrs: 1,
        filters: BenchFilters::None,
        rates: BenchRates::None,
        is_tagged: false,
        gnbs: 1,
    };

    /// Returns the index of the gNB of session `number`.
    #[allow(clippy::cast_possible_truncation, reason = "below `gnbs`")]
    fn gnb_of(self, number: u32) -> u16 {
        (number % u32::from(self.gnbs.max(1))) as u16
    }

    /// Returns the address of gNB `number`.
    fn gnb_addr(self, number: u16) -> IpAddr {
        match self.n3_v6 {
            false => gnb(number).0.into(),
            true => gnb6(number).into(),
        }
    }

    /// Returns the role of the interface that is not N3.
    const fn far_role(&self) -> InterfaceRole {
        if self.n9 { InterfaceRole::N9 } else { InterfaceRole::N6 }
    }

    /// Returns the VLAN of both interfaces.
    fn vlan(self) -> VlanId {
        VlanId::new(VLAN).filter(|_| self.is_tagged).unwrap_or(VlanId::UNTAGGED)
    }

    /// Returns the IP version of the packets.
    pub(crate) const fn family(self) -> BenchIpVersion {
        match (self.dual, self.v6) {
            (true, _) => BenchIpVersion::Mixed,
            (false, true) => BenchIpVersion::V6,
            (false, false) => BenchIpVersion::V4,
        }
    }

    /// Describes the rules of one session for the report.
    pub(crate) fn rules(self) -> String {
        let pdrs = match self.filters {
            BenchFilters::None => "2 PDR",
            BenchFilters::Any => "2 PDR (2 SDF, any to assigned)",
            BenchFilters::One => "2 PDR (2 SDF)",
            BenchFilters::Dedicated => "4 PDR (2 SDF)",
            BenchFilters::Several => "10 PDR (8 SDF)",
        };
        format!("{pdrs}, 2 FAR, 2 QER, {} URR", self.urrs)
    }
}

/// Returns a TEID that does not follow the order of sessions. The mapping is a bijection.
fn given_teid(number: u32) -> Teid {
    Teid((number + 1).wrapping_mul(0x9e37_79b1))
}

fn change(
    profile: BenchProfile,
    number: u32,
    limit: Option<BitRate>,
) -> anyhow::Result<SessionChange> {
    let ue = ue4(number);
    let prefix = Ipv6Prefix::containing(ue6(ue), 64).context("64 bits")?;
    let addresses = UeAddresses {
        v4: Some(ue).filter(|_| !profile.v6 || profile.dual),
        v6: Some(prefix).filter(|_| profile.v6 || profile.dual),
    };
    let chosen = |choose_id| FTeidSpec::Choose { v4: true, v6: false, choose_id: Some(choose_id) };
    let uplink = match (profile.given_keys, profile.n3_v6) {
        (true, false) => FTeidSpec::Given { teid: given_teid(number), v4: Some(N3_ADDR), v6: None },
        (true, true) => FTeidSpec::Given { teid: given_teid(number), v4: None, v6: Some(N3_ADDR6) },
        (false, false) => chosen(1),
        (false, true) => FTeidSpec::Choose { v4: false, v6: true, choose_id: Some(1) },
    };
    let downlink = Some(chosen(2)).filter(|_| profile.n9);
    let upf = GtpuTunnel { teid: Teid(number + 1), addr: DN_ADDR.into() };
    let addr = profile.gnb_addr(profile.gnb_of(number));
    let gnb = GtpuTunnel { teid: Teid(number + 1), addr };
    let far = |id, destination, tunnel: Option<GtpuTunnel>| Far {
        bar: None,
        id: FarId(id),
        action: profile.action,
        forwarding: (profile.action == ApplyAction::FORW).then(|| Forwarding {
            outer_header_creation: tunnel.map(HeaderCreation::Gtpu),
            ..Forwarding::new(destination)
        }),
        duplicating: Vec::new(),
    };
    let flow_limit = limit.filter(|_| profile.rates != BenchRates::Session);
    let mut pdrs = Vec::new();
    for number in profile.filters.pdrs() {
        let flow = profile.filters.flow(number);
        pdrs.push(pdr(addresses, Some(uplink), number, flow.as_deref(), true));
        pdrs.push(pdr(addresses, downlink, number, flow.as_deref(), false));
    }
    let urrs: Vec<_> = (1..=profile.urrs).map(UrrId).collect();
    pdrs.iter_mut().for_each(|pdr| pdr.urrs.clone_from(&urrs));
    Ok(SessionChange {
        create_pdrs: pdrs,
        create_fars: vec![
            far(1, DestinationInterface::Core, profile.n9.then_some(upf)),
            far(2, DestinationInterface::Access, Some(gnb)),
        ],
        create_qers: vec![
            qer(SESSION_QER, None, profile.gate, limit),
            qer(FLOW_QER, Qfi::new(QFI).filter(|_| profile.qfi), profile.gate, flow_limit),
        ],
        create_urrs: urrs.into_iter().map(volume_urr).collect(),
        ..SessionChange::default()
    })
}

/// Returns the identifier of PDR `number` of one direction, or of the last PDR if it is `None`.
fn pdr_id(number: Option<u16>, uplink: bool) -> PdrId {
    PdrId(2 * number.map_or(0, |number| number + 1) + if uplink { 1 } else { 2 })
}

/// Makes PDR `number` of one direction, or the last PDR if it is `None`, with the filter `flow`.
/// `f_teid`: the tunnel in which packets arrive.
fn pdr(
    ue: UeAddresses,
    f_teid: Option<FTeidSpec>,
    number: Option<u16>,
    flow: Option<&str>,
    uplink: bool,
) -> PdrSpec {
    let (source, side, far) = if uplink {
        (SourceInterface::Access, UeSide::Source, 1)
    } else {
        (SourceInterface::Core, UeSide::Destination, 2)
    };
    let sdf =
        flow.map(|flow| SdfSpec { flow_description: Some(flow.into()), ..SdfSpec::default() });
    PdrSpec {
        id: pdr_id(number, uplink),
        precedence: Precedence(number.map_or(100, |number| u32::from(number) + 1)),
        pdi: PdiSpec {
            source,
            traffic_endpoints: Vec::new(),
            interface_type: None,
            further_ues: Vec::new(),
            framed_routes: Vec::new(),
            choose_ue: None,
            f_teid,
            network_instance: None,
            ue: Some(UeMatch { addresses: ue, side }),
            qfis: Vec::new(),
            sdf: sdf.into_iter().collect(),
            application: None,
        },
        outer_header_removal: f_teid.map(|spec| match spec {
            FTeidSpec::Choose { v6: true, .. } | FTeidSpec::Given { v6: Some(_), .. } => {
                HeaderRemoval::GtpuUdpIpv6
            }
            _ => HeaderRemoval::GtpuUdpIpv4,
        }),
        container_deletion: false,
        far: Some(FarId(far)),
        qers: vec![SESSION_QER, FLOW_QER],
        urrs: Vec::new(),
        times: PdrTimes::default(),
        predefined: Vec::new(),
    }
}

/// Makes a QER. The session QER has no QFI, the flow QER has one.
fn qer(id: QerId, qfi: Option<Qfi>, gate: Gate, limit: Option<BitRate>) -> Qer {
    Qer {
        id,
        gates: QerGates { uplink: gate, downlink: gate },
        mbr: limit.map(|rate| adit_session::Rates { uplink: rate, downlink: rate }),
        qfi,
        ..Qer::default()
    }
}

/// Makes a volume URR with a threshold that the bench does not reach.
fn volume_urr(id: UrrId) -> Urr {
    let threshold = Volumes { total: Some(1 << 50), uplink: None, downlink: None };
    Urr {
        id,
        method: MeasurementMethod { volume: true, duration: false, event: false },
        triggers: UsageTriggers::VOLUME_THRESHOLD,
        settings: UrrSettings { volume_threshold: Some(threshold), ..UrrSettings::default() },
    }
}
