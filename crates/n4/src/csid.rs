//! Our own FQ-CSID: identifies all sessions of CP functions that handle partial failures.
//!
//! A CP function that sends an FQ-CSID in a session establishment gets ours in the response. With
//! it the CP function may delete all sessions that this process has established. When this node
//! stops and the CP function has not released the sessions in time, we send our FQ-CSID to announce
//! that they are gone. A restart changes the CSID. Spec: TS 29.244 §6.2.9, §7.4.6, §8.2.43; TS
//! 23.007 §23.

use core::net::IpAddr;

use adit_pfcp::ie::{FqCsid, FqCsidNode};

use crate::config::NodeConfig;
use crate::session_state::SetKey;

/// Returns the CSID of this process: the low bits of its start time, never zero.
pub(crate) fn own_csid(config: &NodeConfig) -> [u8; 2] {
    let [.., high, low] = config.recovery_time_stamp.to_be_bytes();
    [high, low | 1]
}

fn own_set_node(config: &NodeConfig) -> FqCsidNode {
    match config.address {
        IpAddr::V4(addr) => FqCsidNode::Ipv4(addr),
        IpAddr::V6(addr) => FqCsidNode::Ipv6(addr),
    }
}

/// Returns our FQ-CSID, with the CSID of this process.
pub(crate) fn own_fq_csid<'a>(config: &NodeConfig, csid: &'a [u8; 2]) -> Option<FqCsid<'a>> {
    FqCsid::new(own_set_node(config), csid, None)
}

/// Returns the key of the set that our FQ-CSID identifies.
pub(crate) fn own_set_key(config: &NodeConfig) -> SetKey {
    SetKey::Csid(own_set_node(config), u16::from_be_bytes(own_csid(config)))
}
