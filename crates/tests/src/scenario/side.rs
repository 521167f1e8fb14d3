//! Rules of the CP function, and of data that the RAN sends back to the RAN.

use adit_rules::{ApplyAction, DestinationInterface, HeaderRemoval, SourceInterface};
use adit_session::{
    Change, FTeidSpec, Far, FarUpdate, Forwarding, ForwardingUpdate, PdiSpec, PdrSpec, PdrTimes,
    SdfSpec, SessionChange,
};
use adit_types::{FarId, PdrId, Precedence};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::{one_chance_in, qers_of_pdr, tunnel, urrs_of_pdr};

const CHOOSE: FTeidSpec = FTeidSpec::Choose { v4: true, v6: true, choose_id: None };

/// The FAR that leads to the CP function.
const TO_CP: FarId = FarId(8);

/// A PDR and a FAR to the CP function, and a PDR from it.
pub(super) fn cp_function(rng: &mut StdRng, change: &mut SessionChange) {
    let forwarding = Forwarding {
        outer_header_creation: Some(tunnel(rng)),
        ..Forwarding::new(DestinationInterface::CpFunction)
    };
    change.create_fars.push(Far {
        id: TO_CP,
        action: ApplyAction::FORW,
        bar: None,
        forwarding: Some(forwarding),
        duplicating: Vec::new(),
    });
    let f_teid =
        change.create_pdrs[0].pdi.f_teid.filter(|_| !one_chance_in(rng, 4)).unwrap_or(CHOOSE);
    let texts = [
        "permit out 58 from ff02::2/128 to assigned",
        "permit out ip from ff00::/8 to assigned",
        "permit out 17 from any to assigned",
        "permit out ip from 255.255.255.255 to assigned",
    ];
    let mut to_cp = pdr(rng, 5, SourceInterface::Access, f_teid, TO_CP);
    let text = *texts.choose(rng).unwrap();
    to_cp.pdi.sdf.push(SdfSpec { flow_description: Some(text.into()), ..SdfSpec::default() });
    // Mostly to the UE, sometimes to a data network.
    let far = if one_chance_in(rng, 5) { rng.random_range(1..=3) } else { rng.random_range(4..=6) };
    let from_cp = pdr(rng, 15, SourceInterface::CpFunction, CHOOSE, FarId(far));
    change.create_pdrs.extend([to_cp, from_cp]);
}

/// A PDR of indirect data forwarding.
pub(super) fn forwarding(rng: &mut StdRng, change: &mut SessionChange) {
    let far = FarId(rng.random_range(4..=6));
    change.create_pdrs.push(pdr(rng, 16, SourceInterface::Access, CHOOSE, far));
}

/// A FAR that leads to another side than before an update.
pub(super) fn turned_far(rng: &mut StdRng, id: FarId) -> FarUpdate {
    let destination = *[
        DestinationInterface::Access,
        DestinationInterface::Core,
        DestinationInterface::CpFunction,
    ]
    .choose(rng)
    .unwrap();
    let forwarding = ForwardingUpdate {
        destination: Change::Set(destination),
        outer_header_creation: Change::Set(tunnel(rng)),
        ..ForwardingUpdate::default()
    };
    FarUpdate {
        id,
        action: Change::Set(ApplyAction::FORW),
        forwarding: Some(forwarding),
        ..FarUpdate::default()
    }
}

fn pdr(
    rng: &mut StdRng,
    id: u16,
    source: SourceInterface,
    f_teid: FTeidSpec,
    far: FarId,
) -> PdrSpec {
    PdrSpec {
        id: PdrId(id),
        precedence: Precedence(rng.random_range(0..6)),
        pdi: PdiSpec {
            source,
            traffic_endpoints: Vec::new(),
            interface_type: None,
            further_ues: Vec::new(),
            framed_routes: Vec::new(),
            choose_ue: None,
            f_teid: Some(f_teid),
            network_instance: None,
            ue: None,
            qfis: Vec::new(),
            sdf: Vec::new(),
            application: None,
        },
        outer_header_removal: (!one_chance_in(rng, 12)).then_some(HeaderRemoval::GtpuUdpIp),
        container_deletion: one_chance_in(rng, 6),
        far: Some(far),
        qers: if one_chance_in(rng, 2) { qers_of_pdr(rng) } else { Vec::new() },
        urrs: urrs_of_pdr(rng),
        times: PdrTimes::default(),
        predefined: Vec::new(),
    }
}
