//! Sessions and packets of the bench: what an SMF of a private network would set up for each UE.

use std::net::{IpAddr, Ipv4Addr};

use adit_n4::{Node, NodeConfig, NodeId};
use adit_rules::{
    ApplyAction, DeltaId, DestinationInterface, Gate, GtpuTunnel, OuterHeaderCreation,
    OuterHeaderRemoval, SourceInterface, UeAddresses,
};
use adit_session::{
    Change, CpFSeid, FTeidSpec, Far, Forwarding, GateStatus, LocalAddresses, MeasurementMethod,
    OwnerId, PdiSpec, PdrSpec, PdrTimes, Provisioning, Qer, SessionStore, StoreConfig, UeMatch,
    UeSide, Urr, UrrSettings, UsageTriggers, Volumes,
};
use adit_tables::{Interface, IpPrefix, Publisher, Reader, Route, TablesConfig};
use adit_types::{
    FarId, InterfaceId, InterfaceRole, Ipv4Prefix, MacAddr, Nanos, PdrId, PortId, Precedence,
    QerId, Qfi, Seid, Teid, UrrId, VlanId,
};
use anyhow::Context;

pub const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 3, 2]), MacAddr([2, 0, 0, 0, 6, 2])];
pub const GNB_MAC: MacAddr = MacAddr([2, 0, 0, 0, 3, 1]);
pub const DN_MAC: MacAddr = MacAddr([2, 0, 0, 0, 6, 1]);
pub const N3_ADDR: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 2);
pub const GNB_ADDR: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 1);
pub const DN_ADDR: Ipv4Addr = Ipv4Addr::new(10, 0, 6, 1);
const N6_ADDR: Ipv4Addr = Ipv4Addr::new(10, 0, 6, 2);
const QFI: u8 = 9;

/// The first UE's address; those of the others follow.
const UES_START: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 0);

/// One established session, as far as packets need it.
#[derive(Clone, Copy)]
pub struct BenchSession {
    pub teid: Teid,
    pub ue: Ipv4Addr,
}

/// The tables with `count` sessions in them.
pub struct Resident {
    pub publisher: Publisher,
    /// One for each worker that measures.
    pub readers: Vec<Reader>,
    pub sessions: Vec<BenchSession>,
}

/// Rules of one session, as the report names them.
pub const RULES_PER_SESSION: &str = "2 PDR, 2 FAR, 2 QER, 1 URR";

/// The tables of a UPF with an N3 and an N6 interface, whose neighbors are known.
fn tables(
    sessions_max: usize,
    teid_slot_bits: u32,
    workers: usize,
) -> anyhow::Result<(Publisher, Vec<Reader>)> {
    let interface = |id: u8, role, addr| Interface {
        id: InterfaceId(id),
        role,
        port: PortId(id.into()),
        vlan: VlanId::UNTAGGED,
        mac: MACS[usize::from(id)],
        mtu_bytes: 1500,
        v4: Some((addr, 24)),
        v6: None,
    };
    let (mut publisher, readers) = adit_tables::build(TablesConfig {
        sessions_max,
        teid_slot_bits: u8::try_from(teid_slot_bits)?,
        workers,
        next_hops_max: 64,
        seed: 1,
        interfaces: vec![
            interface(0, InterfaceRole::N3, N3_ADDR),
            interface(1, InterfaceRole::N6, N6_ADDR),
        ],
        routes: vec![Route {
            interface: InterfaceId(1),
            prefix: IpPrefix::V4(
                Ipv4Prefix::containing(Ipv4Addr::UNSPECIFIED, 0).context("a default route")?,
            ),
            next_hop: IpAddr::V4(DN_ADDR),
        }],
        ue_pools_v4: Ipv4Prefix::containing(UES_START, 9).into_iter().collect(),
    })?;
    for (id, addr, mac) in [(0, GNB_ADDR, GNB_MAC), (1, DN_ADDR, DN_MAC)] {
        let index = publisher
            .ensure_next_hop(InterfaceId(id), IpAddr::V4(addr))
            .context("room for two next hops")?;
        publisher.set_mac(index, mac, false);
    }
    Ok((publisher, readers))
}

fn store(sessions_max: usize) -> StoreConfig {
    let n3_addresses = LocalAddresses { v4: Some(N3_ADDR), v6: None };
    StoreConfig { sessions_max, n3_addresses, provisioning: Provisioning::default(), seed: 1 }
}

/// A PFCP node, the publisher that carries out its changes, and a reader for each worker.
pub fn control_side(
    sessions_max: usize,
    workers: usize,
) -> anyhow::Result<(Node, Publisher, Vec<Reader>)> {
    let node = Node::new(NodeConfig {
        node_id: NodeId::Ipv4(N3_ADDR),
        address: IpAddr::V4(N3_ADDR),
        connect: Vec::new(),
        heartbeat_interval: Nanos::from_secs(3600),
        t1: Nanos::from_secs(3),
        n1: 3,
        recovery_time_stamp: 1,
        seed: 1,
        policy: adit_n4::PeerPolicy::default(),
        paths: adit_n4::PathConfig::OFF,
        store: store(sessions_max),
    });
    let (publisher, readers) = tables(sessions_max, node.store().slot_bits(), workers)?;
    Ok((node, publisher, readers))
}

/// Establishes and publishes `count` sessions for `workers` workers.
pub fn establish(count: usize, workers: usize) -> anyhow::Result<Resident> {
    let mut store = SessionStore::new(store(count));
    let (mut publisher, readers) = tables(count, store.slot_bits(), workers)?;
    let mut sessions = Vec::with_capacity(count);
    for number in 0..u32::try_from(count)? {
        let ue = Ipv4Addr::from_bits(UES_START.to_bits() + number);
        let cp = CpFSeid { seid: Seid(u64::from(number) + 1), v4: Some(GNB_ADDR), v6: None };
        let established = store
            .establish(OwnerId(1), cp, change(ue, number + 1))
            .map_err(|refusal| anyhow::anyhow!("session {number} refused: {refusal:?}"))?;
        let created = established.created.first().context("the uplink PDR has an F-TEID")?;
        sessions.push(BenchSession { teid: created.f_teid.teid, ue });
        publisher.apply(DeltaId(number.into()), established.delta);
        while publisher.poll_observed().is_some() {}
    }
    Ok(Resident { publisher, readers, sessions })
}

fn change(ue: Ipv4Addr, gnb_teid: u32) -> Change {
    let qers = [QerId(1), QerId(2)];
    let pdr = |id, source, f_teid, side, removal, far| PdrSpec {
        id: PdrId(id),
        precedence: Precedence(100),
        pdi: PdiSpec {
            source,
            traffic_endpoints: Vec::new(),
            interface_type: None,
            further_ues: Vec::new(),
            framed_routes: Vec::new(),
            choose_ue: None,
            f_teid,
            network_instance: None,
            ue: Some(UeMatch { addresses: UeAddresses { v4: Some(ue), v6: None }, side }),
            qfis: Vec::new(),
            sdf: Vec::new(),
            application: None,
        },
        outer_header_removal: removal,
        container_deletion: false,
        far: Some(FarId(far)),
        qers: qers.to_vec(),
        urrs: vec![UrrId(1)],
        times: PdrTimes::default(),
        predefined: Vec::new(),
    };
    let far = |id, destination, tunnel: Option<GtpuTunnel>| Far {
        bar: None,
        id: FarId(id),
        action: ApplyAction::FORW,
        forwarding: Some(Forwarding {
            outer_header_creation: tunnel.map(OuterHeaderCreation::Gtpu),
            ..Forwarding::new(destination)
        }),
        duplicating: Vec::new(),
    };
    let choose = FTeidSpec::Choose { v4: true, v6: false, choose_id: None };
    let removal = Some(OuterHeaderRemoval::GtpuUdpIpv4);
    let gnb = GtpuTunnel { teid: Teid(gnb_teid), addr: IpAddr::V4(GNB_ADDR) };
    Change {
        create_pdrs: vec![
            pdr(1, SourceInterface::Access, Some(choose), UeSide::Source, removal, 1),
            pdr(2, SourceInterface::Core, None, UeSide::Destination, None, 2),
        ],
        create_fars: vec![
            far(1, DestinationInterface::Core, None),
            far(2, DestinationInterface::Access, Some(gnb)),
        ],
        create_qers: vec![qer(qers[0], None), qer(qers[1], Qfi::new(QFI))],
        create_urrs: vec![volume_urr()],
        ..Change::default()
    }
}

/// The session's QER has no QFI, the flow's has.
fn qer(id: QerId, qfi: Option<Qfi>) -> Qer {
    Qer {
        id,
        correlation: None,
        gates: GateStatus { uplink: Gate::Open, downlink: Gate::Open },
        mbr: None,
        gbr: None,
        qfi,
        rqi: false,
        ppi: None,
    }
}

/// Volume with a threshold that the bench does not reach.
fn volume_urr() -> Urr {
    let threshold = Volumes { total: Some(1 << 50), uplink: None, downlink: None };
    Urr {
        id: UrrId(1),
        method: MeasurementMethod { volume: true, duration: false, event: false },
        triggers: UsageTriggers::VOLUME_THRESHOLD,
        settings: UrrSettings { volume_threshold: Some(threshold), ..UrrSettings::default() },
    }
}
