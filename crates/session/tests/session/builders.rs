//! Rules with sensible parts, to be varied by the tests.

use std::net::{IpAddr, Ipv4Addr};

use adit_rules::{
    ApplyAction, DestinationInterface, GtpuTunnel, HeaderCreation, HeaderRemoval, RuleDelta,
    SourceInterface, UeAddresses,
};
use adit_session::{
    ChangedApplications, CpFSeid, FTeidSpec, Far, FormerSession, Forwarding, LocalAddresses,
    LocalInterface, OwnerId, OwnerNodes, PdiSpec, PdrSpec, PdrTimes, Provisioning, Qer, SdfSpec,
    SessionChange, SessionStore, StoreConfig, UeMatch, UeSide,
};
use adit_types::{FarId, InterfaceRole, Nanos, PdrId, Precedence, QerId, Qfi, Seid, Teid};

pub(crate) const N3: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(crate) const GNB: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
pub(crate) const OWNER: OwnerId = OwnerId(1);
pub(crate) const CP: CpFSeid = CpFSeid { seid: Seid(9), v4: None, v6: None };
pub(crate) const CHOOSE: FTeidSpec = FTeidSpec::Choose { v4: true, v6: false, choose_id: None };

pub(crate) fn store(sessions_max: usize) -> SessionStore {
    store_with(sessions_max, Provisioning::default())
}

/// With one N3 and one N6 interface that serve any network instance, unless there are others.
pub(crate) fn store_with(sessions_max: usize, mut provisioning: Provisioning) -> SessionStore {
    if provisioning.interfaces.is_empty() {
        provisioning.interfaces = interfaces();
    }
    SessionStore::new(StoreConfig {
        sessions_max,
        provisioning,
        seed: 1,
        owner_nodes: OwnerNodes::default(),
    })
}

/// The store of a later process, without sessions, that is configured like `former`. It draws other
/// random numbers.
pub(crate) fn next_store(former: &SessionStore) -> SessionStore {
    next_store_of(former, former.sessions_max())
}

/// As [`next_store`], with another size.
pub(crate) fn next_store_of(former: &SessionStore, sessions_max: usize) -> SessionStore {
    let provisioning = former.provisioning().clone();
    SessionStore::new(StoreConfig {
        sessions_max,
        provisioning,
        seed: 2,
        owner_nodes: OwnerNodes::default(),
    })
}

/// The kept state of all sessions, read back from its octets.
pub(crate) fn kept(store: &SessionStore, now: Nanos) -> Vec<FormerSession> {
    let octets =
        store.sessions().map(|session| store.kept(now, session.up_seid()).unwrap().octets());
    octets.map(|octets| FormerSession::from_octets(&octets).unwrap()).collect()
}

pub(crate) fn interfaces() -> Vec<LocalInterface> {
    vec![
        LocalInterface::of_role(InterfaceRole::N3, LocalAddresses { v4: Some(N3), v6: None }),
        LocalInterface::of_role(InterfaceRole::N6, LocalAddresses::default()),
    ]
}

/// An interface with an IPv4 address; without a name it serves any network instance.
pub(crate) fn interface(role: InterfaceRole, name: Option<&str>, v4: Ipv4Addr) -> LocalInterface {
    LocalInterface {
        network_instance: name.map(Box::from),
        ..LocalInterface::of_role(role, LocalAddresses { v4: Some(v4), v6: None })
    }
}

pub(crate) fn ue(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 45, 0, last)
}

pub(crate) fn ue_match(last: u8, side: UeSide) -> UeMatch {
    UeMatch { addresses: UeAddresses { v4: Some(ue(last)), v6: None }, side }
}

pub(crate) fn given(teid: u32) -> FTeidSpec {
    FTeidSpec::Given { teid: Teid(teid), v4: Some(N3), v6: None }
}

pub(crate) fn pdi(source: SourceInterface) -> PdiSpec {
    PdiSpec {
        source,
        traffic_endpoints: Vec::new(),
        interface_type: None,
        further_ues: Vec::new(),
        framed_routes: Vec::new(),
        choose_ue: None,
        f_teid: None,
        network_instance: None,
        ue: None,
        qfis: Vec::new(),
        sdf: Vec::new(),
        application: None,
    }
}

/// PDR 1 (uplink, chosen F-TEID) with FAR 1.
pub(crate) fn uplink(last: u8) -> PdrSpec {
    PdrSpec {
        id: PdrId(1),
        precedence: Precedence(100),
        pdi: PdiSpec {
            f_teid: Some(CHOOSE),
            ue: Some(ue_match(last, UeSide::Source)),
            qfis: vec![Qfi::new(9).unwrap()],
            ..pdi(SourceInterface::Access)
        },
        outer_header_removal: Some(HeaderRemoval::GtpuUdpIpv4),
        container_deletion: false,
        far: Some(FarId(1)),
        qers: vec![QerId(1)],
        urrs: Vec::new(),
        times: PdrTimes::default(),
        predefined: Vec::new(),
    }
}

/// PDR 2 (downlink) with FAR 2.
pub(crate) fn downlink(last: u8) -> PdrSpec {
    PdrSpec {
        id: PdrId(2),
        precedence: Precedence(100),
        pdi: PdiSpec {
            ue: Some(ue_match(last, UeSide::Destination)),
            ..pdi(SourceInterface::Core)
        },
        outer_header_removal: None,
        container_deletion: false,
        far: Some(FarId(2)),
        qers: vec![QerId(1)],
        urrs: Vec::new(),
        times: PdrTimes::default(),
        predefined: Vec::new(),
    }
}

pub(crate) fn far(id: u32, destination: DestinationInterface) -> Far {
    let outer_header_creation = (destination == DestinationInterface::Access).then(|| tunnel(5));
    Far {
        bar: None,
        id: FarId(id),
        action: ApplyAction::FORW,
        forwarding: Some(Forwarding { outer_header_creation, ..Forwarding::new(destination) }),
        duplicating: Vec::new(),
    }
}

pub(crate) fn tunnel(teid: u32) -> HeaderCreation {
    HeaderCreation::Gtpu(GtpuTunnel { teid: Teid(teid), addr: IpAddr::V4(GNB) })
}

pub(crate) fn qer(id: u32) -> Qer {
    Qer { id: QerId(id), qfi: Qfi::new(9), ..Qer::default() }
}

/// The usual session of one UE: a PDR, FAR per direction and a QER.
pub(crate) fn session(last: u8) -> SessionChange {
    SessionChange {
        create_pdrs: vec![uplink(last), downlink(last)],
        create_fars: vec![far(1, DestinationInterface::Core), far(2, DestinationInterface::Access)],
        create_qers: vec![qer(1)],
        ..SessionChange::default()
    }
}

pub(crate) fn flow(text: &str) -> SdfSpec {
    SdfSpec { flow_description: Some(text.into()), ..SdfSpec::default() }
}

/// The new rules of all sessions that name a changed application.
pub(crate) fn recompiled(
    store: &mut SessionStore,
    changed: &ChangedApplications,
) -> Vec<RuleDelta> {
    let indices: Vec<_> = store.sessions().map(adit_session::Session::index).collect();
    indices.into_iter().filter_map(|index| store.recompile_naming(index, changed)).collect()
}
