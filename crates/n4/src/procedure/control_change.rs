//! Changes of control that a response to a report requests: redirection to another SMF of the set,
//! or a new CP F-SEID. Spec: TS 29.244 §5.22, §7.5.9.1.

use core::net::IpAddr;

use adit_pfcp::ie::FTeid;
use adit_pfcp::message::SessionReportResponse;
use adit_rules::{DestinationInterface, GtpuTunnel, HeaderCreation};
use adit_session::{CpFSeid, FarUpdate, ForwardingUpdate};
use adit_types::Seid;

use crate::node::{Node, ReceivedMessage};

impl Node {
    /// Sends the report again to the SMF that the response names. False if it names none, or one
    /// that is not known as a member of the set.
    pub(crate) fn follow_redirection(
        &mut self,
        up_seid: Seid,
        message: &SessionReportResponse<'_>,
    ) -> bool {
        let Some(given) = message.alternative_smf_ip_address else { return false };
        let (v4, v6) = (given.v4.map(IpAddr::V4), given.v6.map(IpAddr::V6));
        let address = if self.config.address.is_ipv4() { v4 } else { v6 };
        let owner = self.sessions.store().session(up_seid).map(adit_session::Session::owner);
        let (Some(address), Some(owner)) = (address, owner) else { return false };
        let follows = self.peers.controls(address, owner)
            && self.sessions.states.redirect_report(up_seid, address);
        self.counters.scalars.reports_redirected += u64::from(follows);
        follows
    }

    /// Sets the new CP F-SEID of a session from an accepting response; the sender of the response
    /// controls the session from now on.
    pub(crate) fn apply_control(
        &mut self,
        response: &ReceivedMessage<'_>,
        up_seid: Seid,
        message: &SessionReportResponse<'_>,
    ) {
        let Some(given) = message.cp_f_seid else { return };
        let Some(session) = self.sessions.store().session(up_seid) else { return };
        if given.seid == Seid(0) {
            self.counters.scalars.report_responses_not_applied += 1;
            return;
        }
        let before = session.owner();
        let owner =
            self.peers.association_for(response.peer()).map(|association| association.owner);
        let owner =
            owner.filter(|&owner| self.peers.shares_control(owner, before)).unwrap_or(before);
        let cp = CpFSeid { seid: given.seid, v4: given.v4, v6: given.v6 };
        self.sessions.set_control(up_seid, owner, cp);
        self.sessions.states.forget_former_cp(up_seid);
        self.counters.scalars.sessions_moved += u64::from(owner != before);
    }

    /// Returns updates that make the FARs which send packets to the CP function use another tunnel.
    pub(crate) fn updates_to_cp_tunnel(&self, up_seid: Seid, f_teid: FTeid) -> Vec<FarUpdate> {
        let FTeid::Given { teid, addr } = f_teid else { return Vec::new() };
        let (v4, v6) = (addr.v4().map(IpAddr::V4), addr.v6().map(IpAddr::V6));
        let tunnel_in = |known: GtpuTunnel| {
            let addr = if known.addr.is_ipv4() { v4.or(v6) } else { v6.or(v4) };
            addr.map(|addr| GtpuTunnel { teid, addr })
        };
        let fars = self
            .sessions
            .store()
            .session(up_seid)
            .into_iter()
            .flat_map(adit_session::Session::fars);
        let towards_cp = fars.filter(|far| {
            let destination = far.forwarding.as_ref().map(|forwarding| forwarding.destination);
            destination == Some(DestinationInterface::CpFunction)
        });
        let update = |far: adit_session::Far| {
            let header = HeaderCreation::Gtpu(tunnel_in(far.tunnel()?)?);
            let forwarding =
                ForwardingUpdate { outer_header_creation: header.into(), ..Default::default() };
            Some(FarUpdate { id: far.id, forwarding: Some(forwarding), ..FarUpdate::default() })
        };
        towards_cp.filter_map(update).collect()
    }
}
