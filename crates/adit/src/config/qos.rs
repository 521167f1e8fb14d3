//! The `[qos]` section: enforcement of rates, and aggregate rates.

use adit_rules::Excess;
use adit_session::{Enforcement, QosPolicy, Rates, Slice};
use adit_types::limits::{SHAPED_PKTS_MAX, SLICES_MAX};
use adit_types::{BitRate, InterfaceRole, Nanos};

use super::InterfaceSettings;
use super::fields::{HALF_OF_MBUFS, read_network_instance};
use super::provisioning::SliceText;
use super::section::ConfigSection;

/// Default maximum of packets queued for rates, at most half of the packet buffers.
const QUEUE_PKTS_DEFAULT: usize = 4096;

/// The highest rate. Unit: Mb/s.
const MBPS_MAX: u64 = 100_000_000;

/// The values of one direction.
struct QosDirectionSection {
    enforcement: Enforcement,
    gbr_max: BitRate,
    total: BitRate,
}

/// Reads the section, and the maximum number of queued packets, at most `half` of the packet buffers.
pub(super) fn read(
    mut qos: ConfigSection<'_, '_>,
    half: usize,
    interfaces: &[InterfaceSettings],
) -> (QosPolicy, usize) {
    let queue_default = QUEUE_PKTS_DEFAULT.min(half);
    let queue_pkts_max = qos.integer("queue_pkts_max", 0..=SHAPED_PKTS_MAX, Some(queue_default));
    if queue_pkts_max > half {
        let what = format!("takes at most {half}, {HALF_OF_MBUFS}");
        qos.problem("queue_pkts_max", what);
    }
    let burst = Nanos::from_millis(qos.integer("burst_ms", 1..=2000u64, Some(20)));
    let shaping_burst =
        Nanos::from_micros(qos.integer("shaping_burst_us", 100..=100_000u64, Some(10_000)));
    let (uplink, downlink) = (direction(qos.table("uplink")), direction(qos.table("downlink")));
    let slices = slices(&mut qos, interfaces);
    qos.finish();
    let policy = QosPolicy {
        uplink: uplink.enforcement,
        downlink: downlink.enforcement,
        burst,
        shaping_burst,
        gbr_max: Rates { uplink: uplink.gbr_max, downlink: downlink.gbr_max },
        total: Rates { uplink: uplink.total, downlink: downlink.total },
        slices,
    };
    (policy, queue_pkts_max)
}

fn direction(mut section: ConfigSection<'_, '_>) -> QosDirectionSection {
    const CHOICES: [(&str, Excess); 2] = [("drop", Excess::Policed), ("wait", Excess::Shaped)];
    let mut excess =
        |key, default| section.choice(key, &CHOICES, Some(default)).unwrap_or_default();
    // Guaranteed flows are real-time. Most others are TCP, which suffers less from delay than from loss.
    let gbr = excess("gbr", Excess::Policed);
    let (flow, session) = (excess("flow", Excess::Shaped), excess("session", Excess::Shaped));
    let shared = excess("shared", Excess::Shaped);
    let gbr_max = mbps(section.integer_optional("gbr_mbps_max", 0..=MBPS_MAX));
    let total = mbps(section.integer_optional("mbps_max", 1..=MBPS_MAX));
    section.finish();
    QosDirectionSection { enforcement: Enforcement { gbr, flow, session, shared }, gbr_max, total }
}

/// Converts a rate; `None` is no limit.
fn mbps(rate: Option<u64>) -> BitRate {
    rate.map_or(BitRate::from_bps(u64::MAX), |mbps| BitRate::from_kbps(mbps * 1000))
}

fn slices(qos: &mut ConfigSection<'_, '_>, interfaces: &[InterfaceSettings]) -> Vec<Slice> {
    let sections = qos.tables("slice");
    if sections.len() > SLICES_MAX {
        qos.problem("slice", format!("write at most {SLICES_MAX} slices"));
    }
    let mut slices: Vec<Slice> = Vec::new();
    for mut section in sections {
        let s_nssai: Option<SliceText> = section.parsed_optional("s_nssai", SliceText::EXPECTS);
        let s_nssai = s_nssai.map(|slice| slice.0);
        let network_instance = read_network_instance(&mut section);
        let rates = Rates {
            uplink: mbps(section.integer_optional("uplink_mbps_max", 1..=MBPS_MAX)),
            downlink: mbps(section.integer_optional("downlink_mbps_max", 1..=MBPS_MAX)),
        };
        if !section.has("s_nssai") && !section.has("network_instance") {
            let what = "is missing, and so is network_instance: write one of them; for all sessions write qos.uplink.mbps_max and qos.downlink.mbps_max";
            section.problem("s_nssai", what);
        }
        let serves = |name: &str| {
            let mut n6 = interfaces.iter().filter(|known| known.role == InterfaceRole::N6);
            n6.any(|known| known.serves(Some(name)))
        };
        if let Some(name) = network_instance.as_deref().filter(|name| !serves(name)) {
            section.problem("network_instance", format!("no N6 interface serves \"{name}\""));
        }
        let has_all = |known: &Slice| {
            let own = network_instance.as_deref();
            known.s_nssai.is_none_or(|known| s_nssai == Some(known))
                && known
                    .network_instance
                    .as_deref()
                    .is_none_or(|known| own.is_some_and(|own| own.eq_ignore_ascii_case(known)))
        };
        if slices.iter().any(has_all) {
            section.problem("s_nssai", "an earlier slice has all sessions of this one");
        }
        section.finish();
        let network_instance = network_instance.as_deref().map(Box::from);
        slices.push(Slice { s_nssai, network_instance, rates });
    }
    slices
}
