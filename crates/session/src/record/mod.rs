//! Rule records: the rules that the control plane provided, with references by identifier.
//!
//! This is the control plane's view, kept for modification and display. Workers never see it: they
//! run the rules that `update::s3_compile` makes from it.

mod bar;
mod f_teid;
mod far;
mod interface_type;
mod packed;
mod pdr;
mod pdr_times;
mod qer;
mod sdf;
mod slice_identity;
mod traffic_endpoint;
mod ue_match;
mod urr;

pub use bar::{Bar, BarUpdate};
pub use f_teid::{ChosenFTeid, LocalFTeid};
pub use far::{Far, Forwarding, ForwardingUpdate};
pub use interface_type::InterfaceType;
pub use pdr::{Pdi, Pdr, ReplaceablePdiParts};
pub use pdr_times::{PdrTimes, PdrTimesUpdate};
pub use qer::{PacketAllowance, PacketLimits, PacketStatus, Qer, QerGates, QerUpdate, Rates};
pub(crate) use sdf::SdfError;
pub use sdf::{Sdf, SdfSpec};
pub use slice_identity::SliceIdentity;
pub use traffic_endpoint::{TrafficEndpoint, TrafficEndpointId};
pub use ue_match::{UeMatch, UeSide};
pub use urr::{
    Aggregated, DroppedThreshold, Exempted, MeasurementInformation, MeasurementMethod, Monitoring,
    TimeMechanism, Urr, UrrSettings, UrrSettingsUpdate, UrrUpdate, UsageTriggers, Volumes,
};

use core::cmp::Reverse;
use core::net::IpAddr;
use std::collections::BTreeSet;

use adit_types::Nanos;

use crate::pack::packed;

packed! {
    /// All rules of one session, each kind in the order of creation.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct Records {
        /// PDRs.
        pub pdrs: Vec<Pdr>,
        /// FARs.
        pub fars: Vec<Far>,
        /// QERs.
        pub qers: Vec<Qer>,
        /// BARs.
        pub bars: Vec<Bar>,
        /// Traffic endpoints.
        pub traffic_endpoints: Vec<TrafficEndpoint>,
        /// URRs.
        pub urrs: Vec<Urr>,
        /// Time without packets after which the session reports inactivity.
        pub inactivity_timer: Option<Nanos>,
        /// F-TEIDs of PDRs and traffic endpoints that we chose, with their CHOOSE IDs; the latest
        /// last.
        pub chosen: Vec<ChosenFTeid>,
        /// The network slice, if the control plane named one.
        pub s_nssai: Option<SliceIdentity>,
    }
}

impl Records {
    /// Returns the QER whose QFI marks the packets of a PDR. Among the PDR's QERs with a QFI, it is
    /// the one that the fewest PDRs name; if several are equal in this, the one with the highest
    /// identifier. INTEROP: a QER that limits several flows together may name the default flow.
    pub(crate) fn marking_qer(&self, pdr: &Pdr) -> Option<&Qer> {
        let marks = |id| self.qers.iter().find(|qer| qer.id == id && qer.qfi.is_some());
        let users = |id| self.pdrs.iter().filter(|other| other.qers.contains(&id)).count();
        let marking = pdr.qers.iter().filter_map(|id| marks(*id));
        marking.min_by_key(|qer| (users(qer.id), Reverse(qer.id)))
    }

    /// Returns the UE addresses: IPv4 addresses, and the first address of each IPv6 prefix.
    pub(crate) fn ue_addresses(&self) -> Vec<IpAddr> {
        let of_pdrs = self.pdrs.iter().map(|pdr| pdr.pdi.ue);
        let all = of_pdrs.chain(self.traffic_endpoints.iter().map(|endpoint| endpoint.ue));
        let of_each = all.flatten().flat_map(|UeMatch { addresses, .. }| {
            let v6 = addresses.v6.map(|prefix| IpAddr::V6(prefix.addr()));
            addresses.v4.map(IpAddr::V4).into_iter().chain(v6)
        });
        let addresses: BTreeSet<IpAddr> = of_each.collect();
        addresses.into_iter().collect()
    }
}
