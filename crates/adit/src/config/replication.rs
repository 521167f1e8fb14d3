//! `[store.replication]`: records on the other adit of a pair as well.

use std::net::SocketAddr;

use adit_replication::Acknowledge;
use adit_transport::KernelWait;

use super::section::ConfigSection;

/// Where the two adits of a pair reach each other, and whose word counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplicationSettings {
    /// The address that this adit listens at while it is the standby.
    pub listen: SocketAddr,
    /// The address that the other one listens at.
    pub standby: SocketAddr,
    pub acknowledge: Acknowledge,
    /// What threads do while nothing arrives.
    pub wait: KernelWait,
}

/// Reads the section, if the file has it.
pub(super) fn read(store: &mut ConfigSection<'_, '_>) -> Option<ReplicationSettings> {
    let is_present = store.has("replication");
    let mut replication = store.table("replication");
    if !is_present {
        return None;
    }
    let expects = "an address with a port such as \"10.0.9.1:7000\" or \"[2001:db8::1]:7000\"";
    let listen: Option<SocketAddr> = replication.parsed("listen", expects);
    let standby: Option<SocketAddr> = replication.parsed("standby", expects);
    if listen.is_some() && listen == standby {
        replication.problem("standby", "takes the address of the other adit");
    }
    let words = [("standby", Acknowledge::Standby), ("store", Acknowledge::Store)];
    let acknowledge = replication.choice("acknowledge", &words, Some(Acknowledge::Standby));
    let transports = [("blocking", KernelWait::Sleep), ("polled", KernelWait::Poll)];
    let wait = replication.choice("transport", &transports, Some(KernelWait::Sleep));
    replication.finish();
    Some(ReplicationSettings {
        listen: listen?,
        standby: standby?,
        acknowledge: acknowledge?,
        wait: wait?,
    })
}
