//! The direction of the traffic that PDRs detect.
//!
//! Packets from data networks are downlink. For packets from the RAN and from the CP function, the
//! FAR decides: those that it sends to the RAN are downlink, for example data forwarded in a
//! handover or messages of the CP function to the UE. All packets of a tunnel have the same
//! direction, because the PDRs of one direction are matched together.
//! Spec: TS 29.244 §5.3; TS 23.502 §4.9.1.3 (indirect data forwarding).

use adit_rules::{DestinationInterface, SourceInterface};
use adit_types::{Direction, Teid};

use crate::record::{Pdi, Pdr, Records};

/// Where the FARs of a tunnel's PDRs send packets; FARs without a destination are ignored.
#[derive(Debug, Clone, Copy, Default)]
struct TunnelDestinations {
    to_access: bool,
    elsewhere: bool,
}

impl TunnelDestinations {
    fn of(records: &Records, pdr: &Pdr) -> Self {
        let far = records.fars.iter().find(|far| Some(far.id) == pdr.far);
        let forwarding = far.and_then(|far| far.forwarding.as_ref());
        let destination = forwarding.map(|forwarding| forwarding.destination);
        let to_access = destination == Some(DestinationInterface::Access);
        Self { to_access, elsewhere: destination.is_some() && !to_access }
    }

    const fn direction(self, source: SourceInterface) -> Direction {
        let is_downlink = match source {
            SourceInterface::Core | SourceInterface::SgiLanN6Lan => true,
            // If only some PDRs return packets to the RAN, the tunnel is taken as one from the UE.
            SourceInterface::Access => self.to_access && !self.elsewhere,
            SourceInterface::CpFunction => self.to_access || !self.elsewhere,
        };
        if is_downlink { Direction::Downlink } else { Direction::Uplink }
    }
}

/// The directions of all PDRs of a session.
#[derive(Debug)]
pub(crate) struct Directions<'r> {
    records: &'r Records,
    /// Tunnels from the RAN and from the CP function, in ascending order.
    tunnels: Vec<(Teid, TunnelDestinations)>,
}

impl<'r> Directions<'r> {
    pub(crate) fn new(records: &'r Records) -> Self {
        let mut tunnels: Vec<(Teid, TunnelDestinations)> = Vec::new();
        for pdr in &records.pdrs {
            for pdi in pdr.pdi.each().filter(|pdi| !pdi.source.is_network()) {
                let Some(teid) = pdi.f_teid.map(|f_teid| f_teid.teid) else { continue };
                let TunnelDestinations { to_access, elsewhere } =
                    TunnelDestinations::of(records, pdr);
                match tunnels.binary_search_by_key(&teid, |(teid, _)| *teid) {
                    Ok(at) => {
                        let (_, leads) = &mut tunnels[at];
                        leads.to_access |= to_access;
                        leads.elsewhere |= elsewhere;
                    }
                    Err(at) => {
                        tunnels.insert(at, (teid, TunnelDestinations { to_access, elsewhere }))
                    }
                }
            }
        }
        Self { records, tunnels }
    }

    /// Returns the direction of packets that match `pdi`, which belongs to `pdr`.
    pub(crate) fn of(&self, pdr: &Pdr, pdi: &Pdi) -> Direction {
        let leads = match (pdi.source, pdi.f_teid) {
            (SourceInterface::Core | SourceInterface::SgiLanN6Lan, _) => {
                TunnelDestinations::default()
            }
            (_, Some(f_teid)) => self.leads(f_teid.teid),
            (SourceInterface::CpFunction, None) => TunnelDestinations::of(self.records, pdr),
            // Such a PDR matches every tunnel from the RAN, so its FAR decides about none.
            (SourceInterface::Access, None) => TunnelDestinations::default(),
        };
        leads.direction(pdi.source)
    }

    /// True if some packets of the tunnel go to the RAN and others elsewhere.
    pub(crate) fn is_mixed(&self, teid: Teid) -> bool {
        let TunnelDestinations { to_access, elsewhere } = self.leads(teid);
        to_access && elsewhere
    }

    fn leads(&self, teid: Teid) -> TunnelDestinations {
        let found = self.tunnels.binary_search_by_key(&teid, |(teid, _)| *teid);
        found
            .ok()
            .and_then(|at| self.tunnels.get(at))
            .map_or(TunnelDestinations::default(), |(_, leads)| *leads)
    }
}

/// True if the PDR detects packets from the UE: packets that arrive from the RAN and that the PDR's
/// own FAR does not send back to the RAN.
pub(crate) fn is_of_ue(records: &Records, pdr: &Pdr) -> bool {
    pdr.pdi.source == SourceInterface::Access && !TunnelDestinations::of(records, pdr).to_access
}
