//! One PFCP session.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_rules::PacketRateMeter;
use adit_types::{Nanos, QerId, Seid, SessionIndex};

use crate::alloc::seid_index;
use crate::cp_function::{CpFSeid, OwnerId};
use crate::index::PacketRates;
use crate::packed_record::{PackedRecord, RecordParts};
use crate::record::{Bar, Far, Pdr, Qer, Records, TrafficEndpoint, Urr};
use crate::usage::SessionUsage;

/// A PFCP session in the store, with packed rule records. Spec: TS 29.244 §5.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Contains the session's index.
    pub(crate) up_seid: Seid,
    pub(crate) owner: OwnerId,
    /// The owner that established the session.
    origin: OwnerId,
    cp_seid: Seid,
    cp_addresses: CpAddresses,
    record: PackedRecord,
}

/// The addresses of a [`CpFSeid`], compact for the usual case of one IPv4 address.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CpAddresses {
    /// One IPv4 address.
    V4(Ipv4Addr),
    /// Any other addresses.
    Other(Box<(Option<Ipv4Addr>, Option<Ipv6Addr>)>),
}

impl CpAddresses {
    fn of(cp: CpFSeid) -> Self {
        match (cp.v4, cp.v6) {
            (Some(addr), None) => Self::V4(addr),
            others => Self::Other(Box::new(others)),
        }
    }
}

/// Values that are compiled into the rules of a session in addition to its records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionIdentity<'a> {
    pub up_seid: Seid,
    /// The owner that established the session; QER correlation IDs are unique per owner.
    pub origin: OwnerId,
    pub buffer_epoch: u32,
    /// The packet rates of the session's QERs.
    pub packet_rates: &'a [(QerId, PacketRateMeter)],
}

const _: () = assert!(size_of::<Session>() == 56, "of millions");

/// A PFCP session, unpacked to be read or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenSession {
    pub up_seid: Seid,
    pub index: SessionIndex,
    pub owner: OwnerId,
    pub origin: OwnerId,
    pub cp: CpFSeid,
    pub records: Records,
    pub buffer_epoch: u32,
    pub usage: SessionUsage,
}

impl OpenSession {
    /// Returns the values that are compiled into the session's rules.
    pub(crate) fn identity<'a>(&self, packet_rates: &'a PacketRates) -> SessionIdentity<'a> {
        let &Self { up_seid, index, origin, buffer_epoch, .. } = self;
        SessionIdentity { up_seid, origin, buffer_epoch, packet_rates: packet_rates.of(index) }
    }

    /// Packs the session for the store, with `record` as its packed contents.
    pub(crate) fn close(&self, record: PackedRecord) -> Session {
        let &Self { up_seid, index, owner, origin, cp, .. } = self;
        debug_assert_eq!(seid_index(up_seid), index, "a SEID names its session's index");
        Session {
            up_seid,
            owner,
            origin,
            cp_seid: cp.seid,
            cp_addresses: CpAddresses::of(cp),
            record,
        }
    }
}

impl Session {
    /// Unpacks the session, to read it, or to change and [`OpenSession::close`] it.
    pub(crate) fn open(&self) -> OpenSession {
        let &Self { up_seid, owner, origin, .. } = self;
        let (index, cp) = (self.index(), self.cp_f_seid());
        let RecordParts { records, usage, buffer_epoch } = self.record.parts();
        OpenSession { up_seid, index, owner, origin, cp, records, buffer_epoch, usage }
    }

    /// Replaces records and measurements. Pass the session's unchanged `buffer_epoch`.
    pub(crate) fn write_back(
        &mut self,
        records: &Records,
        usage: &SessionUsage,
        buffer_epoch: u32,
    ) {
        self.record = PackedRecord::pack(records, usage, buffer_epoch);
    }

    /// Returns the packed record, as this store and stores outside of this process keep it.
    #[must_use]
    pub const fn packed_record(&self) -> &PackedRecord {
        &self.record
    }

    /// Returns all rules, each kind in the order of creation.
    ///
    /// Cost: unpacks all rules, as do the accessors of each kind below.
    #[must_use]
    pub fn records(&self) -> Records {
        self.record.records()
    }

    /// Returns our SEID of the session.
    #[must_use]
    pub const fn up_seid(&self) -> Seid {
        self.up_seid
    }

    /// Returns the dense index by which workers identify the session.
    #[must_use]
    pub const fn index(&self) -> SessionIndex {
        seid_index(self.up_seid)
    }

    /// Returns the association to which the session belongs.
    #[must_use]
    pub const fn owner(&self) -> OwnerId {
        self.owner
    }

    /// Returns the association that established the session and chose its QER Correlation IDs.
    #[must_use]
    pub const fn origin(&self) -> OwnerId {
        self.origin
    }

    /// Returns the control plane's endpoint of the session.
    #[must_use]
    pub fn cp_f_seid(&self) -> CpFSeid {
        let (v4, v6) = match &self.cp_addresses {
            CpAddresses::V4(addr) => (Some(*addr), None),
            CpAddresses::Other(addresses) => **addresses,
        };
        CpFSeid { seid: self.cp_seid, v4, v6 }
    }

    pub(crate) fn set_cp_f_seid(&mut self, cp: CpFSeid) {
        self.cp_seid = cp.seid;
        self.cp_addresses = CpAddresses::of(cp);
    }

    /// Returns the UE addresses that the session's rules name: IPv4 addresses, and the first
    /// address of each IPv6 prefix.
    #[must_use]
    pub fn ue_addresses(&self) -> Vec<IpAddr> {
        self.records().ue_addresses()
    }

    /// Returns the PDRs in the order of creation.
    #[must_use]
    pub fn pdrs(&self) -> Vec<Pdr> {
        self.records().pdrs
    }

    /// Returns the traffic endpoints in the order of creation.
    #[must_use]
    pub fn traffic_endpoints(&self) -> Vec<TrafficEndpoint> {
        self.records().traffic_endpoints
    }

    /// Returns the FARs in the order of creation.
    #[must_use]
    pub fn fars(&self) -> Vec<Far> {
        self.records().fars
    }

    /// Returns the BARs in the order of creation.
    #[must_use]
    pub fn bars(&self) -> Vec<Bar> {
        self.records().bars
    }

    /// Returns the QERs in the order of creation.
    #[must_use]
    pub fn qers(&self) -> Vec<Qer> {
        self.records().qers
    }

    /// Returns the URRs in the order of creation.
    #[must_use]
    pub fn urrs(&self) -> Vec<Urr> {
        self.records().urrs
    }

    /// Returns the time without packets after which the session reports inactivity, if it does.
    #[must_use]
    pub fn inactivity_timer(&self) -> Option<Nanos> {
        self.records().inactivity_timer
    }
}
