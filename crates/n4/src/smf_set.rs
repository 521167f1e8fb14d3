//! SMF sets: several CP functions that control the same sessions, one after another.
//!
//! A set appears in one of two ways. Either each of its SMFs has an association, with the same SMF
//! Set ID: then each may control the sessions of the others, and inherits them when another one
//! fails. Or one association serves the whole set and lists alternative addresses: requests from
//! these count as from its own address, and when that address does not answer any more, the
//! association moves to the next alternative, each of which is tried once. A peer's claim to a set
//! is accepted, as in the standard, unless the operator lists the members
//! ([`PeerPolicy::smf_sets`](crate::PeerPolicy)). Spec: TS 29.244 §5.22; TS 23.527 §4.

use core::net::IpAddr;

use adit_pfcp::ie::{AlternativeSmfIpAddress, SmfSetId};
use adit_types::limits::ALTERNATIVE_ADDRESSES_MAX;

/// The SMF set to which a CP function claims to belong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SmfSet {
    /// SMF Set ID: the FQDN as labels; `None` if the SMF belongs to no set.
    pub id: Option<Vec<u8>>,
    /// Other addresses of the SMF, preferred ones first.
    pub alternatives: Vec<IpAddr>,
}

impl SmfSet {
    /// Decodes the IEs of a setup or update; drops addresses beyond the maximum.
    pub(crate) fn from_ies(
        id: Option<SmfSetId<'_>>,
        alternatives: impl IntoIterator<Item = AlternativeSmfIpAddress>,
    ) -> Self {
        let mut listed: Vec<AlternativeSmfIpAddress> = alternatives.into_iter().collect();
        listed.sort_by_key(|alternative| !alternative.preferred);
        let addresses = listed.iter().flat_map(|alternative| {
            let (v4, v6) = (alternative.v4.map(IpAddr::V4), alternative.v6.map(IpAddr::V6));
            v4.into_iter().chain(v6)
        });
        // Octet 1 is spare.
        let id = id.and_then(|id| Some(id.0.split_first()?.1.to_ascii_lowercase()));
        Self { id, alternatives: addresses.take(ALTERNATIVE_ADDRESSES_MAX).collect() }
    }
}
