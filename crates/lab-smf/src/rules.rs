//! The rules of a PFCP session, and the establishment request built from them.

use adit_pfcp::grouped::{
    CreateBar, CreateFar, CreatePdr, CreateQer, CreateUrr, ForwardingParameters, Pdi,
};
use adit_pfcp::ie::{
    ActivatePredefinedRules, ApplicationId, ApplyAction, FSeid, FTeid, FTeidAddress, FramedRoute,
    NetworkInstance, OuterHeaderRemovalDescription, PdnType, SdfFilter, SourceInterface,
    UeIpAddress, UserPlaneInactivityTimer,
};
use adit_pfcp::message::SessionEstablishmentRequest;
use adit_types::{FarId, PdrId, Precedence, QerId, Seid, UrrId};

use crate::identity::SmfIdentity;

/// A PDR of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowPdr<'r> {
    /// Identifier of the PDR.
    pub id: PdrId,
    /// Precedence: the lowest value wins.
    pub precedence: u32,
    /// FAR of the PDR.
    pub far: FarId,
    /// Flow description; `None` to match every packet.
    pub sdf: Option<&'r str>,
    /// Application that packets must match.
    pub application: Option<&'r str>,
    /// Predefined rule that the PDR activates.
    pub predefined: Option<&'r str>,
}

impl FlowPdr<'_> {
    /// Makes a PDR that every packet of its direction matches.
    #[must_use]
    pub const fn all_traffic(id: PdrId, precedence: u32, far: FarId) -> Self {
        Self { id, precedence, far, sdf: None, application: None, predefined: None }
    }
}

/// The rules of one session. Its PDRs share the F-TEID, the UE address, all QERs and all URRs.
#[derive(Debug, Clone, Copy)]
pub struct LabSessionRules<'r> {
    /// The SMF's SEID, not zero.
    pub cp_seid: Seid,
    /// Local F-TEID of the uplink PDRs.
    pub f_teid: FTeid,
    /// UE address of all PDRs; [`Self::with_request`] sets whether it is source or destination.
    pub ue: UeIpAddress,
    /// Networks behind the UE.
    pub framed_routes: &'r [FramedRoute<'r>],
    /// Network instances of the access and the core side.
    pub network_instances: [Option<NetworkInstance<'r>>; 2],
    /// PDRs for packets from the access side.
    pub uplinks: &'r [FlowPdr<'r>],
    /// PDRs for packets from the core side.
    pub downlinks: &'r [FlowPdr<'r>],
    /// Further PDRs, sent unchanged.
    pub more_pdrs: &'r [CreatePdr<'r>],
    /// The FARs.
    pub fars: &'r [CreateFar<'r>],
    /// The QERs.
    pub qers: &'r [CreateQer<'r>],
    /// The URRs.
    pub urrs: &'r [CreateUrr<'r>],
    /// The BARs.
    pub bars: &'r [CreateBar<'r>],
    /// The User Plane Inactivity Timer.
    pub inactivity: Option<UserPlaneInactivityTimer>,
}

impl<'r> LabSessionRules<'r> {
    /// Builds the Session Establishment Request and passes it to `send`.
    pub fn with_request<T>(
        &self,
        identity: &SmfIdentity,
        send: impl FnOnce(&SessionEstablishmentRequest<'_>) -> T,
    ) -> T {
        let qer_ids: Vec<QerId> = self.qers.iter().map(|qer| qer.qer_id).collect();
        let urr_ids: Vec<UrrId> = self.urrs.iter().map(|urr| urr.urr_id).collect();
        let ue = |destination| [UeIpAddress { destination, ..self.ue }];
        let (from_ue, to_ue) = (ue(false), ue(true));
        let (uplinks, downlinks) = (flow_ies(self.uplinks), flow_ies(self.downlinks));
        let [access, core] = self.network_instances;
        let pdi = |source, flow: &FlowPdr<'r>| Pdi {
            framed_routes: self.framed_routes.into(),
            application_id: flow.application.map(|id| ApplicationId(id.as_bytes())),
            ..Pdi::new(source)
        };
        let mut pdrs = Vec::with_capacity(uplinks.len() + downlinks.len() + self.more_pdrs.len());
        for (flow, ies) in self.uplinks.iter().zip(&uplinks) {
            let pdi = Pdi {
                local_f_teid: Some(self.f_teid),
                network_instance: access,
                ue_ip_addresses: (&from_ue).into(),
                sdf_filters: ies.sdf.as_slice().into(),
                ..pdi(SourceInterface::Access, flow)
            };
            pdrs.push(CreatePdr {
                outer_header_removal: Some(self.outer_header().into()),
                far_id: Some(flow.far),
                qer_ids: qer_ids[..].into(),
                urr_ids: urr_ids[..].into(),
                activate_predefined_rules: ies.predefined.as_slice().into(),
                ..CreatePdr::new(flow.id, Precedence(flow.precedence), pdi)
            });
        }
        for (flow, ies) in self.downlinks.iter().zip(&downlinks) {
            let pdi = Pdi {
                network_instance: core,
                ue_ip_addresses: (&to_ue).into(),
                sdf_filters: ies.sdf.as_slice().into(),
                ..pdi(SourceInterface::Core, flow)
            };
            pdrs.push(CreatePdr {
                far_id: Some(flow.far),
                qer_ids: qer_ids[..].into(),
                urr_ids: urr_ids[..].into(),
                activate_predefined_rules: ies.predefined.as_slice().into(),
                ..CreatePdr::new(flow.id, Precedence(flow.precedence), pdi)
            });
        }
        pdrs.extend(self.more_pdrs);
        send(&SessionEstablishmentRequest {
            create_qers: self.qers.into(),
            create_urrs: self.urrs.into(),
            create_bars: self.bars.into(),
            user_plane_inactivity_timer: self.inactivity,
            pdn_type: Some(self.pdn_type()),
            ..SessionEstablishmentRequest::new(
                identity.node_id(),
                FSeid::new(self.cp_seid, identity.address),
                pdrs[..].into(),
                self.fars.into(),
            )
        })
    }

    fn pdn_type(&self) -> PdnType {
        let has_v4 = self.ue.v4.is_some() || self.ue.choose_v4;
        match (has_v4, self.ue.v6.is_some()) {
            (true, true) => PdnType::Ipv4v6,
            (false, true) => PdnType::Ipv6,
            _ => PdnType::Ipv4,
        }
    }

    /// Returns the outer header to remove from uplink packets, of the family of the F-TEID.
    fn outer_header(&self) -> OuterHeaderRemovalDescription {
        let is_v6 = match self.f_teid {
            FTeid::Given { addr, .. } => matches!(addr, FTeidAddress::V6(_)),
            FTeid::Choose { v4, v6, .. } => v6 && !v4,
        };
        match is_v6 {
            true => OuterHeaderRemovalDescription::GtpuUdpIpv6,
            false => OuterHeaderRemovalDescription::GtpuUdpIpv4,
        }
    }
}

/// The IEs that a PDR borrows.
struct FlowIes<'r> {
    sdf: Option<SdfFilter<'r>>,
    predefined: Option<ActivatePredefinedRules<'r>>,
}

fn flow_ies<'r>(flows: &[FlowPdr<'r>]) -> Vec<FlowIes<'r>> {
    let ies = |flow: &FlowPdr<'r>| FlowIes {
        sdf: flow.sdf.map(SdfFilter::from_flow_description),
        predefined: flow.predefined.map(|name| ActivatePredefinedRules(name.as_bytes())),
    };
    flows.iter().map(ies).collect()
}

/// Makes a FAR that forwards.
#[must_use]
pub fn forward(id: FarId, parameters: ForwardingParameters<'_>) -> CreateFar<'_> {
    CreateFar { forwarding_parameters: Some(parameters), ..CreateFar::new(id, ApplyAction::FORW) }
}
