//! The sessions of four control planes.

use adit_pfcp::IeType;
use adit_types::Seid;

use super::octets::{accepted, establishment, group, ie, labels, text};
use crate::smf::*;

/// Open5GS: PDRs 1 and 2 of an IPv4 session; all else that stands in its establishment.
pub(crate) fn open5gs_rest() -> Vec<Vec<u8>> {
    use IeType as T;
    vec![
        group(
            T::CREATE_FAR,
            [ie(T::FAR_ID, "00000001"), ie(T::APPLY_ACTION, "0c00"), ie(T::BAR_ID, "01")],
        ),
        group(
            T::CREATE_FAR,
            [
                ie(T::FAR_ID, "00000002"),
                ie(T::APPLY_ACTION, "0200"),
                group(
                    T::FORWARDING_PARAMETERS,
                    [
                        ie(T::DESTINATION_INTERFACE, "01"),
                        labels("internet"),
                        ie(T::TGPP_INTERFACE_TYPE, "11"),
                    ],
                ),
            ],
        ),
        group(
            T::CREATE_URR,
            [
                ie(T::URR_ID, "00000001"),
                ie(T::MEASUREMENT_METHOD, "02"),
                ie(T::REPORTING_TRIGGERS, "020000"),
                ie(T::VOLUME_THRESHOLD, "01 0000000006400000"),
            ],
        ),
        group(
            T::CREATE_QER,
            [
                ie(T::QER_ID, "00000001"),
                ie(T::GATE_STATUS, "00"),
                ie(T::MBR, "00000f4240 00000f4240"),
                ie(T::QFI, "01"),
            ],
        ),
        group(T::CREATE_BAR, [ie(T::BAR_ID, "01")]),
        ie(T::PDN_TYPE, "01"),
        ie(T::USER_ID, "07 08 0910101032547698 08 5311111111111111 06 911032547698"),
        ie(T::APN_DNN, "08 696e7465726e6574"),
        ie(T::S_NSSAI, "01ffffff"),
    ]
}

pub(crate) fn open5gs_pdrs() -> Vec<Vec<u8>> {
    open5gs_pdrs_of("06 0a2d0002")
}

/// As [`open5gs_pdrs`], for a UE with these addresses.
pub(crate) fn open5gs_pdrs_of(ue: &str) -> Vec<Vec<u8>> {
    open5gs_pdrs_with(ue, "0f05")
}

/// As [`open5gs_pdrs_of`], with this F-TEID towards the RAN.
pub(crate) fn open5gs_pdrs_with(ue: &str, f_teid: &str) -> Vec<Vec<u8>> {
    use IeType as T;
    let down = group(
        T::PDI,
        [
            ie(T::SOURCE_INTERFACE, "01"),
            labels("internet"),
            ie(T::UE_IP_ADDRESS, ue),
            ie(T::TGPP_INTERFACE_TYPE, "11"),
        ],
    );
    let up = group(
        T::PDI,
        [
            ie(T::SOURCE_INTERFACE, "00"),
            ie(T::F_TEID, f_teid),
            labels("internet"),
            ie(T::QFI, "01"),
            ie(T::TGPP_INTERFACE_TYPE, "0b"),
        ],
    );
    vec![
        group(
            T::CREATE_PDR,
            [
                ie(T::PDR_ID, "0001"),
                ie(T::PRECEDENCE, "0000ffff"),
                down,
                ie(T::FAR_ID, "00000001"),
                ie(T::URR_ID, "00000001"),
                ie(T::QER_ID, "00000001"),
            ],
        ),
        group(
            T::CREATE_PDR,
            [
                ie(T::PDR_ID, "0002"),
                ie(T::PRECEDENCE, "0000ffff"),
                up,
                ie(T::OUTER_HEADER_REMOVAL, "06"),
                ie(T::FAR_ID, "00000002"),
                ie(T::QER_ID, "00000001"),
            ],
        ),
    ]
}

/// Open5GS: PDR 3 from the CP function to the UE, PDR 4 and FAR 3 for router solicitations to it.
pub(crate) fn open5gs_cp_function() -> Vec<Vec<u8>> {
    open5gs_cp_function_with("07", "0f05")
}

/// As [`open5gs_cp_function`], with these F-TEIDs towards the SMF and the RAN.
pub(crate) fn open5gs_cp_function_with(cp: &str, ran: &str) -> Vec<Vec<u8>> {
    use IeType as T;
    let from_cp = [ie(T::SOURCE_INTERFACE, "03"), ie(T::F_TEID, cp)];
    let solicitation = [
        ie(T::SOURCE_INTERFACE, "00"),
        ie(T::F_TEID, ran),
        labels("internet"),
        super::octets::sdf("permit out 58 from ff02::2/128 to assigned"),
        ie(T::TGPP_INTERFACE_TYPE, "0b"),
    ];
    let pdr = |id, pdi: Vec<u8>, far| {
        group(
            T::CREATE_PDR,
            [
                ie(T::PDR_ID, id),
                ie(T::PRECEDENCE, "000000ff"),
                pdi,
                ie(T::OUTER_HEADER_REMOVAL, "06"),
                ie(T::FAR_ID, far),
            ],
        )
    };
    let to_cp = [
        ie(T::DESTINATION_INTERFACE, "03"),
        ie(T::OUTER_HEADER_CREATION, "0100 00000001 c000020a"),
    ];
    vec![
        pdr("0003", group(T::PDI, from_cp), "00000001"),
        pdr("0004", group(T::PDI, solicitation), "00000003"),
        group(
            T::CREATE_FAR,
            [
                ie(T::FAR_ID, "00000003"),
                ie(T::APPLY_ACTION, "0200"),
                group(T::FORWARDING_PARAMETERS, to_cp),
            ],
        ),
    ]
}

/// An Open5GS session of PDRs 1 and 2, and the contents of its answer.
pub(crate) fn open5gs(bench: &mut Bench) -> super::octets::Outcome {
    accepted(bench, &establishment(2, &[open5gs_pdrs(), open5gs_rest()].concat()))
}

/// Open5GS's first modification: the tunnel of the gNB.
pub(crate) fn open5gs_tunnel(far: &str, flags: Option<&str>) -> Vec<u8> {
    use IeType as T;
    let flags = flags.map(|flags| ie(T::PFCPSMREQ_FLAGS, flags)).unwrap_or_default();
    group(
        T::UPDATE_FAR,
        [
            ie(T::FAR_ID, far),
            ie(T::APPLY_ACTION, "0200"),
            group(
                T::UPDATE_FORWARDING_PARAMETERS,
                [
                    ie(T::DESTINATION_INTERFACE, "00"),
                    labels("internet"),
                    ie(
                        T::OUTER_HEADER_CREATION,
                        "0300 00000101 c6336402 20010db8000300000000000000000002",
                    ),
                    flags,
                    ie(T::TGPP_INTERFACE_TYPE, "0b"),
                ],
            ),
        ],
    )
}

/// Open5GS's second QoS flow: PDRs 5 and 6, which requests CHOOSE ID 5 again, FARs 4 and 5, QER 2.
pub(crate) fn open5gs_flow(filters: &[Vec<u8>]) -> Vec<Vec<u8>> {
    use IeType as T;
    let filters = filters.concat();
    let pdr = |id, pdi: [Vec<u8>; 2], removal: Vec<u8>, far| {
        group(
            T::CREATE_PDR,
            [
                ie(T::PDR_ID, id),
                ie(T::PRECEDENCE, "00000001"),
                group(T::PDI, pdi),
                removal,
                ie(T::FAR_ID, far),
                ie(T::QER_ID, "00000002"),
            ],
        )
    };
    let down = [ie(T::SOURCE_INTERFACE, "01"), [labels("internet"), filters.clone()].concat()];
    let up = [
        ie(T::SOURCE_INTERFACE, "00"),
        [ie(T::F_TEID, "0f05"), labels("internet"), filters, ie(T::QFI, "02")].concat(),
    ];
    let forwarding =
        group(T::FORWARDING_PARAMETERS, [ie(T::DESTINATION_INTERFACE, "01"), labels("internet")]);
    let far = |id, action, rest: Vec<u8>| {
        group(T::CREATE_FAR, [ie(T::FAR_ID, id), ie(T::APPLY_ACTION, action), rest])
    };
    vec![
        pdr("0005", down, Vec::new(), "00000004"),
        pdr("0006", up, ie(T::OUTER_HEADER_REMOVAL, "06"), "00000005"),
        far("00000004", "0c00", ie(T::BAR_ID, "01")),
        far("00000005", "0200", forwarding),
        group(
            T::CREATE_QER,
            [
                ie(T::QER_ID, "00000002"),
                ie(T::GATE_STATUS, "00"),
                ie(T::MBR, "0000000080 0000000080"),
                ie(T::GBR, "0000000080 0000000080"),
                ie(T::QFI, "02"),
            ],
        ),
    ]
}

/// free5GC: two pairs of PDRs with one TEID of its own; the FARs to Access have no tunnel.
pub(crate) fn free5gc_establishment() -> Vec<u8> {
    use IeType as T;
    let uplink = |id, filter: Vec<u8>| {
        let pdi = [
            ie(T::SOURCE_INTERFACE, "00"),
            ie(T::F_TEID, "01 00000001 c6336401"),
            text("internet"),
            ie(T::UE_IP_ADDRESS, "02 0a3c0001"),
            filter,
        ];
        pdr(id, group(T::PDI, pdi), ie(T::OUTER_HEADER_REMOVAL, "00"), "00000003")
    };
    let downlink = |id, filter: Vec<u8>| {
        let pdi = [
            ie(T::SOURCE_INTERFACE, "01"),
            text("internet"),
            ie(T::UE_IP_ADDRESS, "06 0a3c0001"),
            filter,
        ];
        pdr(id, group(T::PDI, pdi), Vec::new(), "00000004")
    };
    let filter = || super::octets::sdf("permit out 17 from 1.1.1.1 to assigned");
    let qer = |id, rates: Vec<u8>| {
        group(T::CREATE_QER, [ie(T::QER_ID, id), ie(T::GATE_STATUS, "00"), rates, ie(T::QFI, "01")])
    };
    let to = |id, interface, rest: Vec<u8>| {
        let parts =
            group(T::FORWARDING_PARAMETERS, [ie(T::DESTINATION_INTERFACE, interface), rest]);
        group(T::CREATE_FAR, [ie(T::FAR_ID, id), ie(T::APPLY_ACTION, "02"), parts])
    };
    let ies = [
        uplink("0003", Vec::new()),
        downlink("0004", Vec::new()),
        uplink("0007", filter()),
        downlink("0008", filter()),
        to("00000003", "01", text("internet")),
        to("00000004", "00", Vec::new()),
        qer("00000009", Vec::new()),
        qer("00000005", ie(T::MBR, "00000f4240 00000f4240")),
        ie(T::PDN_TYPE, "01"),
    ];
    let mut request = establishment(2, &ies);
    // MP is set, and the priority is 0.
    request[0] = 0x23;
    request
}

fn pdr(id: &str, pdi: Vec<u8>, removal: Vec<u8>, far: &str) -> Vec<u8> {
    use IeType as T;
    group(
        T::CREATE_PDR,
        [
            ie(T::PDR_ID, id),
            ie(T::PRECEDENCE, "000000ff"),
            pdi,
            removal,
            ie(T::FAR_ID, far),
            ie(T::QER_ID, "00000009"),
            ie(T::QER_ID, "00000005"),
        ],
    )
}

/// free5GC's tunnel of the gNB.
pub(crate) fn free5gc_tunnel(action: &str, teid: &str, flags: &str) -> Vec<u8> {
    use IeType as T;
    let header = ie(T::OUTER_HEADER_CREATION, &format!("0100 {teid} c6336402"));
    let parts = [
        ie(T::DESTINATION_INTERFACE, "00"),
        text("internet"),
        header,
        ie(T::PFCPSMREQ_FLAGS, flags),
    ];
    let parts = group(T::UPDATE_FORWARDING_PARAMETERS, parts);
    group(T::UPDATE_FAR, [ie(T::FAR_ID, "00000004"), ie(T::APPLY_ACTION, action), parts])
}

/// SD-Core: two pairs of PDRs; the second pair's rule has no text.
pub(crate) fn sd_core_establishment() -> Vec<u8> {
    use IeType as T;
    let filter = || super::octets::sdf("permit out udp from 10.9.0.0/16 to assigned");
    let pdi = |interface, f_teid: Vec<u8>, filter: Vec<u8>| {
        let ue = ie(T::UE_IP_ADDRESS, "02 0afa0001");
        group(T::PDI, [ie(T::SOURCE_INTERFACE, interface), f_teid, text("internet"), ue, filter])
    };
    let choose = || ie(T::F_TEID, "04");
    let removal = || ie(T::OUTER_HEADER_REMOVAL, "0000");
    let any = || ie(T::SDF_FILTER, "0000");
    let of = |id, pdi, removal, far| {
        let qer = ie(T::QER_ID, "00000001");
        let rest = [pdi, removal, ie(T::FAR_ID, far), qer].concat();
        group(T::CREATE_PDR, [ie(T::PDR_ID, id), ie(T::PRECEDENCE, "000000ff"), rest])
    };
    let uplink = group(T::FORWARDING_PARAMETERS, [ie(T::DESTINATION_INTERFACE, "02"), text("")]);
    let ies = [
        of("0001", pdi("00", choose(), filter()), removal(), "00000001"),
        of("0002", pdi("01", Vec::new(), filter()), Vec::new(), "00000002"),
        of("0003", pdi("00", choose(), any()), removal(), "00000001"),
        of("0004", pdi("01", Vec::new(), any()), Vec::new(), "00000002"),
        group(T::CREATE_FAR, [ie(T::FAR_ID, "00000001"), ie(T::APPLY_ACTION, "02"), uplink]),
        group(T::CREATE_FAR, [ie(T::FAR_ID, "00000002"), ie(T::APPLY_ACTION, "01")]),
        group(
            T::CREATE_QER,
            [
                ie(T::QER_ID, "00000001"),
                ie(T::GATE_STATUS, "00"),
                ie(T::QFI, "09"),
                ie(T::MBR, "00000f4240 00000f4240"),
            ],
        ),
        ie(T::PDN_TYPE, "01"),
    ];
    let mut request = establishment(2, &ies);
    request[0] = 0x23;
    request
}

/// OAI: PDR 1 and FAR 1 of the uplink alone, in an establishment or at a Service Request.
pub(crate) fn oai_uplink(precedence: &str) -> [Vec<u8>; 2] {
    oai_uplink_of(precedence, "02 0c010002")
}

/// As [`oai_uplink`], for a UE with this address.
pub(crate) fn oai_uplink_of(precedence: &str, ue: &str) -> [Vec<u8>; 2] {
    use IeType as T;
    let pdi = [
        ie(T::SOURCE_INTERFACE, "00"),
        ie(T::F_TEID, "0d2a"),
        text("access.oai.org"),
        ie(T::UE_IP_ADDRESS, ue),
        ie(T::QFI, "09"),
        ie(T::TGPP_INTERFACE_TYPE, "0b"),
    ];
    let pdr = [
        ie(T::PDR_ID, "0001"),
        ie(T::PRECEDENCE, precedence),
        group(T::PDI, pdi),
        ie(T::OUTER_HEADER_REMOVAL, "00"),
        ie(T::FAR_ID, "00000001"),
    ];
    let parts = [ie(T::DESTINATION_INTERFACE, "01"), text("core.oai.org")];
    let far = [
        ie(T::FAR_ID, "00000001"),
        ie(T::APPLY_ACTION, "02"),
        group(T::FORWARDING_PARAMETERS, parts),
    ];
    [group(T::CREATE_PDR, pdr), group(T::CREATE_FAR, far)]
}

/// OAI's establishment, whose header has the SMF's own SEID.
pub(crate) fn oai_establishment() -> Vec<u8> {
    let mut request = establishment(2, &oai_uplink("00000000"));
    request[4..12].copy_from_slice(&Seid(super::octets::CP_SEID).0.to_be_bytes());
    request
}

/// OAI's downlink rules, created when the tunnel is known. The PDR from N6 has the interface type
/// S1-U.
pub(crate) fn oai_downlink() -> [Vec<u8>; 2] {
    use IeType as T;
    let parts = [
        ie(T::DESTINATION_INTERFACE, "00"),
        text("access.oai.org"),
        ie(T::OUTER_HEADER_CREATION, "0100 00000077 c6336402"),
    ];
    let far = [
        ie(T::FAR_ID, "00000002"),
        ie(T::APPLY_ACTION, "02"),
        group(T::FORWARDING_PARAMETERS, parts),
    ];
    let pdi = [
        ie(T::SOURCE_INTERFACE, "01"),
        text("core.oai.org"),
        ie(T::UE_IP_ADDRESS, "06 0c010002"),
        ie(T::TGPP_INTERFACE_TYPE, "00"),
    ];
    let pdr = [
        ie(T::PDR_ID, "0002"),
        ie(T::PRECEDENCE, "00000000"),
        group(T::PDI, pdi),
        ie(T::FAR_ID, "00000002"),
    ];
    [group(T::CREATE_FAR, far), group(T::CREATE_PDR, pdr)]
}
