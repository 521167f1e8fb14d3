//! Determines where reports of a session go. Spec: TS 29.244 §5.18, §5.22, §7.2.2.4.2, §7.5.8.1.

use core::net::{IpAddr, SocketAddr};

use adit_pfcp::PFCP_PORT;
use adit_pfcp::ie::CpFunctionFeatures;
use adit_session::{CpFSeid, OwnerId};
use adit_types::Seid;

use crate::config::NodeConfig;
use crate::peers::Peers;
use crate::session_state::{EndedSession, RemainingReports, SessionStates};

/// The receiver of a session's reports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReportDestination {
    pub to: SocketAddr,
    /// The receiver's SEID; zero if the request contains the F-SEID of the previous SMF instead.
    pub cp_seid: Seid,
    pub owner: OwnerId,
    /// The CP F-SEID that the previous SMF of the set assigned.
    pub former: Option<CpFSeid>,
}

/// A session that may have reports to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReportingSession {
    pub up_seid: Seid,
    pub owner: OwnerId,
    pub cp: CpFSeid,
}

impl ReportingSession {
    /// Returns where the session's reports go; `None` without an association.
    pub(crate) fn destination(
        self,
        config: &NodeConfig,
        peers: &Peers,
        states: &SessionStates,
    ) -> Option<ReportDestination> {
        let Self { up_seid, owner, cp } = self;
        let association = peers.association_of(owner)?;
        let (v4, v6) = (cp.v4.map(IpAddr::V4), cp.v6.map(IpAddr::V6));
        let address = if config.address.is_ipv4() { v4 } else { v6 };
        let address = address.unwrap_or(association.address);
        let redirect = states.report_redirect(up_seid);
        let former = states.former_cp(up_seid);
        let former = former.or(redirect.map(|_| cp));
        let address = redirect.unwrap_or(address);
        let known = peers.association(address).map(|association| association.port);
        let to = SocketAddr::new(address, known.unwrap_or(PFCP_PORT));
        let cp_seid = if former.is_some() { Seid(0) } else { cp.seid };
        Some(ReportDestination { to, cp_seid, owner, former })
    }

    /// Decides what happens to the reports of a session that a new session replaces.
    pub(crate) fn reports_when_replaced(
        self,
        config: &NodeConfig,
        peers: &Peers,
        states: &SessionStates,
    ) -> RemainingReports {
        let destination = self.destination(config, peers, states);
        let ended = destination.map(|ReportDestination { to, cp_seid, owner, .. }| EndedSession {
            to,
            cp_seid,
            owner,
            by_us: false,
            is_read: true,
        });
        let takes =
            |ended: &EndedSession| peers.cp_function_has(ended.owner, CpFunctionFeatures::EPFAR);
        match ended {
            Some(ended) if takes(&ended) => {
                RemainingReports::Deliver(EndedSession { by_us: true, is_read: false, ..ended })
            }
            ended => RemainingReports::KeepUsageInFlight(ended),
        }
    }
}
