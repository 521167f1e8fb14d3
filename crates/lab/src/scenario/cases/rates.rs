//! Packet rates of QERs. Spec: TS 29.244 §8.2.63.

use adit_pfcp::grouped::UpdateQer;
use adit_pfcp::ie::{PacketRate, PacketRateLimit};
use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{PORT, QFI};
use crate::demo::report::AditCounters;
use crate::scenario::expect::{all, both};
use crate::scenario::probe::{DATAGRAMS, ProbeSockets};
use crate::scenario::session::{ALL_UPLINK, QER, ScenarioContext};

/// Maximum number of uplink packets per hour.
const PKTS_MAX: u16 = 3;
/// Time unit of the packet rate: hour.
const HOUR: u8 = 2;

/// Limits uplink packets per hour: packets up to the maximum pass, and adit counts and drops the
/// others; downlink is not limited. A higher maximum admits more packets in the same hour.
pub(super) fn packet_rate(context: &ScenarioContext<'_>) -> Result<String> {
    let session = context.establish(&[ALL_UPLINK], QFI)?;
    let probe = ProbeSockets::open(context, PORT)?;
    both("without a packet rate", &probe)?;
    let limit = |packets_max| {
        let uplink = Some(PacketRateLimit { time_unit: HOUR, packets_max });
        let packet_rate = Some(PacketRate { uplink, ..PacketRate::default() });
        session.enforce(UpdateQer { packet_rate, ..UpdateQer::new(QER) })
    };
    limit(PKTS_MAX)?;
    let before = dropped(context)?;
    let arrived = probe.uplink()?;
    ensure!(
        arrived.iter().copied().eq(0..PKTS_MAX.into()),
        "{arrived:?} arrived in the first hour"
    );
    let drops = dropped(context)? - before;
    ensure!(
        drops == u64::from(DATAGRAMS) - u64::from(PKTS_MAX),
        "adit counts {drops} packets as packet_rate_exceeded"
    );
    all("downlink", &probe.downlink()?)?;
    ensure!(left(context)? == 0, "adit show qos reports {} packets left", left(context)?);
    limit(PKTS_MAX + 2)?;
    let arrived = probe.uplink()?;
    ensure!(arrived == [0, 1], "{arrived:?} arrived after the maximum grew by two");
    session.end()?;
    Ok(format!("{PKTS_MAX} of {DATAGRAMS} packets passed in an hour, then two more"))
}

fn dropped(context: &ScenarioContext<'_>) -> Result<u64> {
    let document = context.network.adit.admin().show("counters", context.stop)?;
    let drops = AditCounters::read(&document)?.drops;
    Ok(drops.get("packet_rate_exceeded").copied().unwrap_or(0))
}

/// Returns how many packets the scenario's UE may still send, as adit shows it.
fn left(context: &ScenarioContext<'_>) -> Result<u64> {
    let document = context.network.adit.admin().show("qos", context.stop)?;
    let ue = context.ue.ipv4().to_string();
    let is_ours = |row: &&Value| {
        let ues = row["ue"].as_array().map_or(&[][..], Vec::as_slice);
        ues.iter().any(|known| known.as_str().is_some_and(|known| known.starts_with(&ue)))
    };
    let rows = document["packet_rates"].as_array().context("no packet rates")?;
    let row = rows.iter().find(is_ours).context("no packet rate of the UE")?;
    row["left_pkts"].as_u64().context("no packets left")
}
