//! Estimates, before rules are checked, on which interfaces packets of a new session will arrive.

use adit_rules::SourceInterface;
use adit_types::{InterfaceId, InterfaceSet, Teid};

use crate::change::{FTeidSpec, PdiSpec, SessionChange};
use crate::provisioning::{GtpuSide, Provisioning};
use crate::record::LocalFTeid;

/// Returns the interfaces at which the tunnels of a new session end, those from Access first.
pub(crate) fn arrival_interfaces<'a>(
    provisioning: &'a Provisioning,
    change: &'a SessionChange,
) -> impl Iterator<Item = InterfaceId> + 'a {
    let is_access = |pdi: &&PdiSpec| pdi.source == SourceInterface::Access;
    let pdis = || change.create_pdrs.iter().map(|pdr| &pdr.pdi);
    let ordered = pdis().filter(is_access).chain(pdis().filter(move |pdi| !is_access(pdi)));
    ordered.filter_map(|pdi| arrival_interface(provisioning, change, pdi))
}

/// Returns the first interface at which the tunnel of `pdi` ends. If we are to choose the F-TEID,
/// this is the interface whose address the F-TEID gets.
fn arrival_interface(
    provisioning: &Provisioning,
    change: &SessionChange,
    pdi: &PdiSpec,
) -> Option<InterfaceId> {
    let endpoints = &change.create_traffic_endpoints;
    let endpoint = endpoints.iter().find(|known| pdi.traffic_endpoints.contains(&known.id));
    let f_teid = pdi.f_teid.or_else(|| endpoint?.f_teid)?;
    let name = pdi.network_instance.as_deref();
    let name = name.or_else(|| endpoint?.network_instance.as_set().map(|name| &**name));
    let reference = pdi.interface_type.or_else(|| endpoint?.interface_type.set());
    let interfaces = match f_teid {
        FTeidSpec::Given { v4, v6, .. } => {
            provisioning.owners(&LocalFTeid { teid: Teid(0), v4, v6 })
        }
        FTeidSpec::Choose { v4, v6, .. } => {
            let side = GtpuSide::of_source(pdi.source, reference, name);
            provisioning.with_address(provisioning.tunnel_interfaces(side), v4, v6)
        }
    };
    lowest_interface(interfaces)
}

fn lowest_interface(interfaces: InterfaceSet) -> Option<InterfaceId> {
    let number = u8::try_from(interfaces.0.trailing_zeros()).ok()?;
    (!interfaces.is_empty()).then_some(InterfaceId(number))
}
