//! One file per PFCP procedure, and what several of them share.
//!
//! A procedure checks, changes the session store at most once, and responds; nothing fails after
//! the change. Spec: TS 29.244 §6.2, §6.3.

mod association;
mod delete;
pub(crate) mod demand;
mod establish;
pub(crate) mod load;
mod modify;
mod name;
pub(crate) mod node_report;
mod reject;
mod release;
pub(crate) mod report;
mod rule_decode;
mod session_set;
mod urr_decode;
mod usage;

use core::net::Ipv4Addr;

use adit_pfcp::Cause;
use adit_pfcp::grouped::CreatedPdr;
use adit_pfcp::ie::{FTeid, FTeidAddress};
use adit_types::Seid;

use crate::node::{Node, Request};
use crate::refusal::Rejected;

/// A refusal, and the SEID that the header of the response carries.
struct Refused {
    seid: Seid,
    rejected: Rejected,
}

impl Node {
    /// The session that a modification or deletion is about: our SEID and the CP function's.
    ///
    /// # Errors
    /// Cause 72 without an association, Cause 65 without such a session of this peer; both with
    /// SEID 0, because the peer's is not known. Spec: TS 29.244 §7.2.2.4.2.
    fn session_of(&self, request: &Request<'_>) -> Result<(Seid, Seid), Refused> {
        let refused = |cause| Refused { seid: Seid(0), rejected: Rejected::new(cause) };
        let association = self.association_for(request.peer());
        let association = association.ok_or(refused(Cause::NoEstablishedAssociation))?;
        let session = request.header.seid.and_then(|up_seid| self.store.session(up_seid));
        let session = session.filter(|s| self.shares_control(association.owner, s.owner()));
        let session = session.ok_or(refused(Cause::SessionContextNotFound))?;
        Ok((session.up_seid(), session.cp_f_seid().seid))
    }
}

/// The F-TEIDs that were chosen, in the words of the codec.
fn f_teids(created: &[adit_session::CreatedPdr]) -> Vec<FTeid> {
    let f_teid = |created: &adit_session::CreatedPdr| {
        let adit_session::FTeid { teid, v4, v6 } = created.f_teid;
        let addr = match (v4, v6) {
            (Some(v4), Some(v6)) => FTeidAddress::V4V6(v4, v6),
            (None, Some(v6)) => FTeidAddress::V6(v6),
            // The store chooses at least one address.
            (v4, None) => FTeidAddress::V4(v4.unwrap_or(Ipv4Addr::UNSPECIFIED)),
        };
        FTeid::Given { teid, addr }
    };
    created.iter().map(f_teid).collect()
}

/// Created PDR groups of `created`, whose F-TEIDs are `f_teids`. Spec: TS 29.244 §7.5.3.2.
fn created_pdrs<'a>(
    created: &[adit_session::CreatedPdr],
    f_teids: &'a [FTeid],
) -> Vec<CreatedPdr<'a>> {
    let groups = created.iter().zip(f_teids.chunks(1)).map(|(created, f_teid)| {
        let mut group = CreatedPdr::new(created.pdr);
        group.local_f_teids = f_teid.into();
        group
    });
    groups.collect()
}
