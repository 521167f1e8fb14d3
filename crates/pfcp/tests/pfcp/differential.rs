//! Random valid messages, made from the tables, mean the same to tshark and to us.
//!
//! `ADIT_SEED=n` runs other messages.

use std::collections::BTreeMap;
use std::process::Command;

use adit_pfcp::ie::*;
use adit_pfcp::message::{MESSAGE_TABLE, members};
use adit_pfcp::{
    Cause, Member, Message, MessageType, NoRoom, PfcpDatagram, PfcpWriter, Presence, grouped,
};
use adit_types::{BarId, FarId, PdrId, QerId, Qfi, Seid, UrrId};

const MESSAGES_PER_TYPE: u64 = 32;
const SEID: Seid = Seid(0x1122_3344_5566_7788);

/// A pseudorandom generator: SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn octets(&mut self) -> Vec<u8> {
        let len = 24 + self.below(40);
        // Small octets make flags and lengths that are often consistent.
        let limit = [10, 64, 256][usize::try_from(self.below(3)).unwrap()];
        (0..len).map(|_| u8::try_from(self.below(limit)).unwrap()).collect()
    }
}

fn fill(w: &mut PfcpWriter<'_>, rng: &mut Rng, members: &[Member]) -> Result<(), NoRoom> {
    for member in members {
        let wanted = member.presence == Presence::Mandatory || rng.below(3) == 0;
        let copies = u64::from(wanted) * if member.repeatable { 1 + rng.below(2) } else { 1 };
        for _ in 0..copies {
            match member.ie.info().unwrap().shape {
                IeShape::Grouped => {
                    w.group(member.ie, |w| fill(w, rng, grouped::members(member.ie)))?;
                }
                IeShape::Leaf => {
                    let value = leaf(rng, member.ie);
                    w.group(member.ie, |w| w.bytes(&value))?;
                }
            }
        }
    }
    Ok(())
}

fn leaf(rng: &mut Rng, ie: IeType) -> Vec<u8> {
    let mut tries = (0..1000).filter_map(|_| crate::leaves::canonical(ie, &rng.octets()));
    tries
        .find(|value| ie != IeType::USER_ID || has_whole_numbers(value))
        .unwrap_or_else(|| unreachable!("{ie} never decodes"))
}

/// tshark reads MCC and MNC in an IMSI, and a country code in an MSISDN, however short they are.
fn has_whole_numbers(value: &[u8]) -> bool {
    let user = UserId::decode(value).unwrap();
    user.imsi.is_none_or(|imsi| imsi.len() >= 5) && user.msisdn.is_none_or(|n| n.len() >= 5)
}

fn message(rng: &mut Rng, message_type: MessageType, sequence: u32) -> Vec<u8> {
    let mut buf = vec![0; 16_384];
    let seid = message_type.is_session_related().then_some(SEID);
    let len = PfcpWriter::new(&mut buf)
        .message(message_type, seid, sequence, |w| fill(w, rng, members(message_type)))
        .unwrap();
    buf.truncate(len);
    buf
}

/// Values of fields by tshark's name, in the order of the message.
type Fields = BTreeMap<&'static str, Vec<String>>;

struct Seen<'f>(&'f mut Fields);

impl Seen<'_> {
    fn put(&mut self, field: &'static str, value: impl ToString) {
        self.0.entry(field).or_default().push(value.to_string());
    }

    fn maybe(&mut self, field: &'static str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.put(field, value);
        }
    }
}

/// Identifiers of four octets: tshark masks the bit of predefined rules.
fn dynamic(id: u32) -> u32 {
    id & 0x7fff_ffff
}

/// The value of an IE.
fn typed<'a, T: Ie<'a>>(ie: &RawIe<'a>) -> T {
    T::decode(ie.value).unwrap()
}

/// Reads the fields of an IE, under tshark's names.
fn read(seen: &mut Seen<'_>, ie: &RawIe<'_>) {
    read_identifier(seen, ie);
    read_interface(seen, ie);
    read_address(seen, ie);
    read_rate(seen, ie);
    read_usage(seen, ie);
}

fn read_identifier(seen: &mut Seen<'_>, ie: &RawIe<'_>) {
    match ie.ie_type {
        IeType::PDR_ID => seen.put("pfcp.pdr_id", typed::<PdrId>(ie).0),
        IeType::FAR_ID => seen.put("pfcp.far_id", dynamic(typed::<FarId>(ie).0)),
        IeType::QER_ID => seen.put("pfcp.qer_id", dynamic(typed::<QerId>(ie).0)),
        IeType::URR_ID => seen.put("pfcp.urr_id", dynamic(typed::<UrrId>(ie).0)),
        IeType::LINKED_URR_ID => seen.put("pfcp.urr_id", dynamic(typed::<LinkedUrrId>(ie).0)),
        IeType::AGGREGATED_URR_ID => {
            seen.put("pfcp.urr_id", dynamic(typed::<AggregatedUrrId>(ie).0));
        }
        IeType::BAR_ID => seen.put("pfcp.bar_id", typed::<BarId>(ie).0),
        IeType::FAILED_RULE_ID => match typed::<FailedRuleId>(ie) {
            FailedRuleId::Pdr(id) => seen.put("pfcp.pdr_id", id.0),
            FailedRuleId::Far(id) => seen.put("pfcp.far_id", dynamic(id.0)),
            FailedRuleId::Qer(id) => seen.put("pfcp.qer_id", dynamic(id.0)),
            FailedRuleId::Urr(id) => seen.put("pfcp.urr_id", dynamic(id.0)),
            FailedRuleId::Bar(id) => seen.put("pfcp.bar_id", id.0),
            _ => {}
        },
        IeType::CAUSE => seen.put("pfcp.cause", typed::<Cause>(ie).code()),
        _ => {}
    }
}

fn read_interface(seen: &mut Seen<'_>, ie: &RawIe<'_>) {
    match ie.ie_type {
        IeType::SOURCE_INTERFACE => {
            seen.put("pfcp.source_interface", typed::<SourceInterface>(ie).code());
        }
        IeType::DESTINATION_INTERFACE => {
            seen.put("pfcp.dst_interface", typed::<DestinationInterface>(ie).code());
        }
        IeType::REMOTE_GTP_U_PEER => {
            let interface = typed::<RemoteGtpuPeer>(ie).destination_interface;
            seen.maybe("pfcp.dst_interface", interface.map(DestinationInterface::code));
        }
        IeType::USER_PLANE_IP_RESOURCE_INFORMATION => {
            let interface = typed::<UserPlaneIpResourceInformation>(ie).source_interface;
            seen.maybe("pfcp.source_interface", interface.map(SourceInterface::code));
        }
        IeType::PDN_TYPE => seen.put("pfcp.pdn_type", typed::<PdnType>(ie).code()),
        IeType::QFI => seen.put("pfcp.qfi_value", format!("{:#04x}", typed::<Qfi>(ie).value())),
        IeType::DOWNLINK_DATA_SERVICE_INFORMATION => {
            let info = typed::<DownlinkDataServiceInformation>(ie);
            seen.maybe("pfcp.qfi_value", info.qfi.map(|qfi| format!("{:#04x}", qfi.value())));
        }
        _ => {}
    }
}

fn read_address(seen: &mut Seen<'_>, ie: &RawIe<'_>) {
    match ie.ie_type {
        IeType::F_TEID => {
            if let FTeid::Given { teid, addr } = typed::<FTeid>(ie) {
                seen.put("pfcp.f_teid.teid", format!("{:#010x}", teid.0));
                seen.maybe("pfcp.f_teid.ipv4_addr", addr.v4());
            }
        }
        IeType::F_SEID => seen.put("pfcp.seid", format!("{:#018x}", typed::<FSeid>(ie).seid.0)),
        IeType::UE_IP_ADDRESS => seen.maybe("pfcp.ue_ip_addr_ipv4", typed::<UeIpAddress>(ie).v4),
        IeType::OUTER_HEADER_CREATION => {
            let creation = typed::<OuterHeaderCreation>(ie);
            let teid = creation.teid.map(|teid| format!("{:#010x}", teid.0));
            seen.maybe("pfcp.outer_hdr_creation.teid", teid);
            seen.maybe("pfcp.outer_hdr_creation.ipv4", creation.v4);
            seen.maybe("pfcp.outer_hdr_creation.ipv6", creation.v6);
        }
        _ => {}
    }
}

fn read_rate(seen: &mut Seen<'_>, ie: &RawIe<'_>) {
    match ie.ie_type {
        IeType::GATE_STATUS => {
            let code = |gate| u8::from(gate == GateState::Closed);
            seen.put("pfcp.gate_status.ulgate", code(typed::<GateStatus>(ie).uplink));
            seen.put("pfcp.gate_status.dlgate", code(typed::<GateStatus>(ie).downlink));
        }
        IeType::MBR => {
            seen.put("pfcp.ul_mbr", typed::<Mbr>(ie).0.uplink.as_bps() / 1000);
            seen.put("pfcp.dl_mbr", typed::<Mbr>(ie).0.downlink.as_bps() / 1000);
        }
        IeType::GBR => {
            seen.put("pfcp.ul_gbr", typed::<Gbr>(ie).0.uplink.as_bps() / 1000);
            seen.put("pfcp.dl_gbr", typed::<Gbr>(ie).0.downlink.as_bps() / 1000);
        }
        _ => {}
    }
}

fn read_usage(seen: &mut Seen<'_>, ie: &RawIe<'_>) {
    match ie.ie_type {
        IeType::VOLUME_THRESHOLD => {
            let volume = typed::<VolumeThreshold>(ie);
            seen.maybe("pfcp.volume_threshold.tovol", volume.total);
            seen.maybe("pfcp.volume_threshold.ulvol", volume.uplink);
            seen.maybe("pfcp.volume_threshold.dlvol", volume.downlink);
        }
        IeType::VOLUME_QUOTA => {
            let volume = typed::<VolumeQuota>(ie);
            seen.maybe("pfcp.volume_quota.tovol", volume.total);
            seen.maybe("pfcp.volume_quota.ulvol", volume.uplink);
            seen.maybe("pfcp.volume_quota.dlvol", volume.downlink);
        }
        IeType::VOLUME_MEASUREMENT => {
            let volume = typed::<VolumeMeasurement>(ie);
            seen.maybe("pfcp.volume_measurement.tovol", volume.total);
            seen.maybe("pfcp.volume_measurement.dlvol", volume.downlink);
            seen.maybe("pfcp.volume_measurement.ulnop", volume.uplink_packets);
        }
        IeType::TIME_THRESHOLD => seen.put("pfcp.time_threshold", typed::<TimeThreshold>(ie).0),
        IeType::TIME_QUOTA => seen.put("pfcp.time_quota", typed::<TimeQuota>(ie).0),
        IeType::QUOTA_HOLDING_TIME => {
            seen.put("pfcp.quota_holding_time", typed::<QuotaHoldingTime>(ie).0);
        }
        IeType::MEASUREMENT_PERIOD => {
            seen.put("pfcp.measurement_period", typed::<MeasurementPeriod>(ie).0);
        }
        IeType::INACTIVITY_DETECTION_TIME => {
            seen.put("pfcp.inactivity_detection_time", typed::<InactivityDetectionTime>(ie).0);
        }
        IeType::METRIC => seen.put("pfcp.metric", typed::<Metric>(ie).0),
        IeType::SEQUENCE_NUMBER => seen.put("pfcp.sequence_number", typed::<SequenceNumber>(ie).0),
        IeType::UR_SEQN => seen.put("pfcp.ur_seqn", typed::<UrSeqn>(ie).0),
        _ => {}
    }
}

const FIELDS: &[&str] = &[
    "pfcp.msg_type",
    "pfcp.ie_type",
    "pfcp.ie_len",
    "pfcp.pdr_id",
    "pfcp.far_id",
    "pfcp.qer_id",
    "pfcp.urr_id",
    "pfcp.bar_id",
    "pfcp.cause",
    "pfcp.source_interface",
    "pfcp.dst_interface",
    "pfcp.pdn_type",
    "pfcp.qfi_value",
    "pfcp.f_teid.teid",
    "pfcp.f_teid.ipv4_addr",
    "pfcp.seid",
    "pfcp.ue_ip_addr_ipv4",
    "pfcp.outer_hdr_creation.teid",
    "pfcp.outer_hdr_creation.ipv4",
    "pfcp.outer_hdr_creation.ipv6",
    "pfcp.gate_status.ulgate",
    "pfcp.gate_status.dlgate",
    "pfcp.ul_mbr",
    "pfcp.dl_mbr",
    "pfcp.ul_gbr",
    "pfcp.dl_gbr",
    "pfcp.volume_threshold.tovol",
    "pfcp.volume_threshold.ulvol",
    "pfcp.volume_threshold.dlvol",
    "pfcp.volume_quota.tovol",
    "pfcp.volume_quota.ulvol",
    "pfcp.volume_quota.dlvol",
    "pfcp.volume_measurement.tovol",
    "pfcp.volume_measurement.dlvol",
    "pfcp.volume_measurement.ulnop",
    "pfcp.time_threshold",
    "pfcp.time_quota",
    "pfcp.quota_holding_time",
    "pfcp.measurement_period",
    "pfcp.inactivity_detection_time",
    "pfcp.metric",
    "pfcp.sequence_number",
    "pfcp.ur_seqn",
];

fn walk(seen: &mut Seen<'_>, body: &[u8]) {
    for ie in IeIter::new(body) {
        let ie = ie.unwrap();
        seen.put("pfcp.ie_type", ie.ie_type.0);
        seen.put("pfcp.ie_len", ie.value.len());
        match ie.ie_type.info().unwrap().shape {
            IeShape::Grouped => walk(seen, ie.value),
            IeShape::Leaf => read(seen, &ie),
        }
    }
}

fn ours(octets: &[u8]) -> Fields {
    let raw = PfcpDatagram::new(octets).next().unwrap().unwrap();
    let message = Message::decode(&raw).unwrap();
    let mut fields = Fields::new();
    let mut seen = Seen(&mut fields);
    seen.put("pfcp.msg_type", message.message_type().0);
    seen.maybe("pfcp.seid", raw.header.seid.map(|seid| format!("{:#018x}", seid.0)));
    walk(&mut seen, raw.body);
    fields
}

/// The fields of each frame; `None` without tshark.
fn theirs(datagrams: &[Vec<u8>]) -> Option<Vec<Fields>> {
    let mut tshark = Command::new("tshark");
    tshark.args(["-T", "fields", "-E", "separator=;", "-E", "occurrence=a", "-E", "aggregator=|"]);
    for field in FIELDS {
        tshark.args(["-e", field]);
    }
    let text = crate::capture::read_with(tshark, datagrams)?;
    let frame = |line: &str| {
        let values = FIELDS.iter().zip(line.split(';'));
        let present = values.filter(|(_, values)| !values.is_empty());
        present
            .map(|(field, values)| (*field, values.split('|').map(str::to_owned).collect()))
            .collect()
    };
    Some(text.lines().map(frame).collect())
}

#[test]
fn random_messages_mean_the_same_to_tshark() {
    let seed = std::env::var("ADIT_SEED").map_or(1, |seed| seed.parse().unwrap());
    let mut rng = Rng(seed);
    let mut datagrams = Vec::new();
    for _ in 0..MESSAGES_PER_TYPE {
        for info in MESSAGE_TABLE {
            datagrams.push(message(&mut rng, info.message_type, 7));
        }
    }
    let ours: Vec<Fields> = datagrams.iter().map(|octets| ours(octets)).collect();
    let Some(theirs) = theirs(&datagrams) else { return };
    assert_eq!(ours.len(), theirs.len());
    for ((ours, theirs), octets) in ours.iter().zip(&theirs).zip(&datagrams) {
        for field in FIELDS {
            let (our, their) = (ours.get(field), theirs.get(field));
            assert_eq!(our, their, "{field} of {octets:02x?}");
        }
    }
    for field in FIELDS {
        assert!(ours.iter().any(|fields| fields.contains_key(field)), "{field} never occurs");
    }
}

/// Each feature alone is the one that tshark calls supported.
#[test]
fn features_have_the_bits_that_tshark_knows() {
    let named: Vec<(&str, UpFunctionFeatures)> =
        UpFunctionFeatures::all().iter_names().filter(|(name, _)| *name != "_").collect();
    let datagrams: Vec<Vec<u8>> = named
        .iter()
        .map(|(_, feature)| {
            let mut buf = [0; 64];
            let len = PfcpWriter::new(&mut buf)
                .message(MessageType::HEARTBEAT_REQUEST, None, 1, |w| w.put(feature))
                .unwrap();
            buf[..len].to_vec()
        })
        .collect();
    let mut tshark = Command::new("tshark");
    tshark.args(["-V", "-O", "pfcp"]);
    let Some(text) = crate::capture::read_with(tshark, &datagrams) else { return };
    let frames: Vec<&str> = text.split("\nFrame ").collect();
    assert_eq!(frames.len(), named.len());
    for ((name, _), frame) in named.iter().zip(frames) {
        let on: Vec<&str> =
            frame.lines().filter(|line| line.contains(": Supported")).map(str::trim).collect();
        assert_eq!(on.len(), 1, "{name}: {on:?}");
        let letters = |text: &str| text.replace(['_', '-', ' '], "").to_uppercase();
        let word = on[0].split("= ").nth(1).unwrap().split(':').next().unwrap();
        // tshark gives two neighboring bits one name.
        let name = if *name == "PSUPRM" { "MBSN4" } else { name };
        let same = letters(word).starts_with(&letters(name));
        assert!(same, "{name} is {word} to tshark");
    }
}
