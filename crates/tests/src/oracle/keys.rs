//! Keys of sessions in packets: local TEIDs, and addresses of UEs.

use core::net::IpAddr;

use adit_rules::UeAddresses;
use adit_session::{FTeidSpec, PdrSpec};
use adit_types::IpPrefix;

use super::in_prefix;
use super::records::OracleSession;

/// Addresses of the UE and networks behind it: first address and length.
pub(super) fn networks(pdr: &PdrSpec) -> Vec<(IpAddr, u8)> {
    let UeAddresses { v4, v6 } = pdr.pdi.ue.map(|ue| ue.addresses).unwrap_or_default();
    let own = v4.map(|addr| (IpAddr::V4(addr), 32)).into_iter();
    let own = own.chain(v6.map(|prefix| (prefix.addr().into(), prefix.len())));
    let further = pdr.pdi.further_ues.iter().chain(&pdr.pdi.framed_routes);
    let further = further.map(|prefix| match prefix {
        IpPrefix::V4(prefix) => (prefix.addr().into(), prefix.len()),
        IpPrefix::V6(prefix) => (prefix.addr().into(), prefix.len()),
    });
    own.chain(further).collect()
}

/// The TEID that packets of the PDR arrive with.
pub(super) fn local_teid(pdr: &PdrSpec) -> Option<u32> {
    match pdr.pdi.f_teid? {
        FTeidSpec::Given { teid, .. } => Some(teid.0),
        FTeidSpec::Choose { .. } => unreachable!("the answer to the request filled it in"),
    }
}

pub(super) fn contains_address(networks: &[(IpAddr, u8)], addr: IpAddr) -> bool {
    networks.iter().any(|(first, len)| in_prefix(addr, *first, *len))
}

/// True if a PDR of the session names the address, or if none names any.
pub(super) fn is_ue(session: &OracleSession, addr: IpAddr) -> bool {
    let named: Vec<(IpAddr, u8)> = session.pdrs.iter().flat_map(networks).collect();
    named.is_empty() || contains_address(&named, addr)
}
