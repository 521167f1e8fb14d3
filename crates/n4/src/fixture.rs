//! Sessions for unit tests of parts of a node.

use core::net::Ipv4Addr;

use adit_rules::{
    ApplyAction, DestinationInterface, GtpuTunnel, HeaderCreation, HeaderRemoval, SourceInterface,
    UeAddresses,
};
use adit_session::{
    CpFSeid, FTeidSpec, Far, Forwarding, LocalAddresses, LocalInterface, OwnerId, OwnerNodes,
    PdiSpec, PdrSpec, PdrTimes, Provisioning, SessionChange, StoreConfig, UeMatch, UeSide,
};
use adit_types::{FarId, InterfaceRole, PdrId, Precedence, Seid, Teid};

use crate::session_state::{RemainingReports, SessionInformation, SetKey};
use crate::sessions::{EstablishmentContext, NewSession, Sessions};

/// The tunnel that [`forwarding`] sends into.
pub(crate) const TUNNEL: GtpuTunnel =
    GtpuTunnel { teid: Teid(5), addr: core::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)) };

/// Returns an empty session store with an N3 and an N6 interface.
pub(crate) fn sessions() -> Sessions {
    let own = Ipv4Addr::new(192, 0, 2, 1);
    let n3 = LocalAddresses { v4: Some(own), v6: None };
    let interfaces = vec![
        LocalInterface::of_role(InterfaceRole::N3, n3),
        LocalInterface::of_role(InterfaceRole::N6, LocalAddresses::default()),
    ];
    let provisioning = Provisioning { interfaces, ..Provisioning::default() };
    let config =
        StoreConfig { sessions_max: 16, provisioning, seed: 1, owner_nodes: OwnerNodes::default() };
    Sessions::new(config, SetKey::Group(vec![0]), None)
}

/// Returns one PDR from the RAN, with an F-TEID to be chosen and a UE address, and its FAR, which
/// sends into [`TUNNEL`].
pub(crate) fn forwarding(last: u8) -> SessionChange {
    let addresses = UeAddresses { v4: Some(Ipv4Addr::new(10, 45, 0, last)), v6: None };
    let pdi = PdiSpec {
        source: SourceInterface::Access,
        traffic_endpoints: Vec::new(),
        interface_type: None,
        further_ues: Vec::new(),
        framed_routes: Vec::new(),
        choose_ue: None,
        f_teid: Some(FTeidSpec::Choose { v4: true, v6: false, choose_id: None }),
        network_instance: None,
        ue: Some(UeMatch { addresses, side: UeSide::Source }),
        qfis: Vec::new(),
        sdf: Vec::new(),
        application: None,
    };
    let pdr = PdrSpec {
        id: PdrId(1),
        precedence: Precedence(100),
        pdi,
        outer_header_removal: Some(HeaderRemoval::GtpuUdpIpv4),
        container_deletion: false,
        far: Some(FarId(1)),
        qers: Vec::new(),
        urrs: Vec::new(),
        times: PdrTimes::default(),
        predefined: Vec::new(),
    };
    let outer_header_creation = Some(HeaderCreation::Gtpu(TUNNEL));
    let forwarding =
        Forwarding { outer_header_creation, ..Forwarding::new(DestinationInterface::Core) };
    let far = Far {
        id: FarId(1),
        action: ApplyAction::FORW,
        bar: None,
        forwarding: Some(forwarding),
        duplicating: Vec::new(),
    };
    SessionChange { create_pdrs: vec![pdr], create_fars: vec![far], ..SessionChange::default() }
}

/// Establishes a session of the association `owner`, in the set `Group([7])`.
pub(crate) fn establish(sessions: &mut Sessions, owner: OwnerId, last: u8) -> NewSession {
    let information = SessionInformation { dnn: Some("ims".into()), ..Default::default() };
    let cp = CpFSeid { seid: Seid(9), v4: Some(Ipv4Addr::LOCALHOST), v6: None };
    let sets = vec![SetKey::Group(vec![7])];
    let context = EstablishmentContext { owner, cp, information, sets };
    sessions.establish(context, forwarding(last), |_, _| RemainingReports::Discard).unwrap()
}
