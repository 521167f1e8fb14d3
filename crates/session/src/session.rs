//! One PFCP session.

use core::net::{Ipv4Addr, Ipv6Addr};

use adit_types::{Nanos, Seid, SessionIndex};

use crate::record::{Bar, Far, Pdr, Qer, Records, TrafficEndpoint, Urr};
use crate::session_usage::SessionUsage;

/// Names the association (or any other owner) that a session belongs to; chosen by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OwnerId(pub u32);

/// The control plane's endpoint of a session. Spec: TS 29.244 §8.2.37.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpFSeid {
    /// Identifier that our messages about the session carry in their header.
    pub seid: Seid,
    /// IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// IPv6 address.
    pub v6: Option<Ipv6Addr>,
}

/// A PFCP session with its rule records. Spec: TS 29.244 §5.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub(crate) up_seid: Seid,
    pub(crate) index: SessionIndex,
    pub(crate) owner: OwnerId,
    pub(crate) cp: CpFSeid,
    pub(crate) records: Records,
    /// Raised when buffered packets are to be discarded.
    pub(crate) buffer_epoch: u32,
    pub(crate) usage: SessionUsage,
}

impl Session {
    /// Our identifier of the session.
    #[must_use]
    pub const fn up_seid(&self) -> Seid {
        self.up_seid
    }

    /// Dense index under which workers know the session.
    #[must_use]
    pub const fn index(&self) -> SessionIndex {
        self.index
    }

    /// To whom the session belongs.
    #[must_use]
    pub const fn owner(&self) -> OwnerId {
        self.owner
    }

    /// The control plane's endpoint.
    #[must_use]
    pub const fn cp_f_seid(&self) -> CpFSeid {
        self.cp
    }

    /// PDRs in the order of creation.
    #[must_use]
    pub fn pdrs(&self) -> &[Pdr] {
        &self.records.pdrs
    }

    /// Traffic endpoints in the order of creation.
    #[must_use]
    pub fn traffic_endpoints(&self) -> &[TrafficEndpoint] {
        &self.records.traffic_endpoints
    }

    /// FARs in the order of creation.
    #[must_use]
    pub fn fars(&self) -> &[Far] {
        &self.records.fars
    }

    /// BARs in the order of creation.
    #[must_use]
    pub fn bars(&self) -> &[Bar] {
        &self.records.bars
    }

    /// QERs in the order of creation.
    #[must_use]
    pub fn qers(&self) -> &[Qer] {
        &self.records.qers
    }

    /// URRs in the order of creation.
    #[must_use]
    pub fn urrs(&self) -> &[Urr] {
        &self.records.urrs
    }

    /// Time without packets after which the control plane is told.
    #[must_use]
    pub const fn inactivity_timer(&self) -> Option<Nanos> {
        self.records.inactivity_timer
    }
}
