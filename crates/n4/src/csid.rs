//! Our own FQ-CSID: the set of all sessions of CP functions that handle partial failures.
//!
//! A CP function that names an FQ-CSID in a session establishment gets ours in the answer. By it
//! it may delete the sessions of this run of ours, and we announce by it that all of them are gone,
//! when this node stops and the CP function did not release them in time. A restart changes the
//! CSID. Spec: TS 29.244 §6.2.9, §7.4.6, §8.2.43; TS 23.007 §23.

use core::net::IpAddr;

use adit_pfcp::ie::{FqCsid, FqCsidNode};

use crate::config::NodeConfig;
use crate::session_state::SetKey;

/// The CSID of this run; zero is none.
pub(crate) fn own_csid(config: &NodeConfig) -> [u8; 2] {
    let [.., high, low] = config.recovery_time_stamp.to_be_bytes();
    [high, low | 1]
}

fn set_node(config: &NodeConfig) -> FqCsidNode {
    match config.address {
        IpAddr::V4(addr) => FqCsidNode::Ipv4(addr),
        IpAddr::V6(addr) => FqCsidNode::Ipv6(addr),
    }
}

/// Our FQ-CSID with the CSID of this run.
pub(crate) fn own_fq_csid<'a>(config: &NodeConfig, csid: &'a [u8; 2]) -> Option<FqCsid<'a>> {
    FqCsid::new(set_node(config), csid, None)
}

/// The key of our set.
pub(crate) fn own_set_key(config: &NodeConfig) -> SetKey {
    SetKey::Csid(set_node(config), u16::from_be_bytes(own_csid(config)))
}
