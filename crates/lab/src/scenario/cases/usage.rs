//! URRs: adit reports exactly the octets that were sent. Spec: TS 29.244 §5.2.2.

use adit_pfcp::grouped::{CreateUrr, UpdateUrr};
use adit_pfcp::ie::{
    MeasurementMethod, ReportType, ReportingTriggers, UsageReportTrigger, UserPlaneInactivityTimer,
    VolumeQuota, VolumeThreshold,
};
use adit_pfcp::message::SessionModificationRequest;
use adit_types::UrrId;
use anyhow::{Context, Result, ensure};

use super::PORT;
use crate::scenario::expect::{all, both, none};
use crate::scenario::probe::{DATAGRAMS, PACKET_BYTES, ProbeSockets};
use crate::scenario::session::{ScenarioContext, ScenarioRules, ScenarioSession};
use adit_lab_smf::inbox::ReportedUsage;

const URR: UrrId = UrrId(1);
/// Octets that one probe sends in one direction.
const PROBE_BYTES: u64 = PACKET_BYTES * DATAGRAMS as u64;

fn urr(triggers: ReportingTriggers) -> CreateUrr<'static> {
    CreateUrr::new(URR, MeasurementMethod::VOLUM, triggers)
}

fn establish<'a>(
    context: &'a ScenarioContext<'a>,
    urr: CreateUrr<'_>,
) -> Result<ScenarioSession<'a>> {
    context.establish_with(&ScenarioRules { urrs: &[urr], ..ScenarioRules::USUAL })
}

/// Checks that adit reports each time the volume reaches the threshold. Together with the final
/// report, the reports must contain exactly the octets sent.
pub(super) fn threshold(context: &ScenarioContext<'_>) -> Result<String> {
    let total = Some(3 * PROBE_BYTES);
    let session = establish(
        context,
        CreateUrr {
            volume_threshold: Some(VolumeThreshold { total, ..VolumeThreshold::default() }),
            ..urr(ReportingTriggers::VOLTH)
        },
    )?;
    let probe = ProbeSockets::open(context, PORT)?;
    let mut usages = Vec::new();
    for round in 1..=4u64 {
        both("traffic", &probe)?;
        // A round has two probes, so the volume reaches the threshold in rounds two and three.
        if matches!(round, 2 | 3) {
            usages.push(session.usage("report of VOLTH", UsageReportTrigger::VOLTH)?);
        }
    }
    let reports = usages.len();
    usages.extend(session.end()?);
    let sum = |part: fn(&ReportedUsage) -> Option<u64>| usages.iter().filter_map(part).sum::<u64>();
    let (uplink, downlink) = (sum(|usage| usage.volume.uplink), sum(|usage| usage.volume.downlink));
    let sent = 4 * PROBE_BYTES;
    ensure!(
        (uplink, downlink) == (sent, sent),
        "sent {sent} octets each way; the {} reports contain {uplink} and {downlink}",
        usages.len()
    );
    let last = usages.last().context("the deletion has no report")?;
    ensure!(last.trigger.contains(UsageReportTrigger::TERMR), "the last report is {last:?}");
    Ok(format!("{reports} reports and the final one contain all {} octets", 2 * sent))
}

/// Checks that traffic passes up to the quota, that adit reports its end, and that a new quota lets
/// traffic pass again.
pub(super) fn quota(context: &ScenarioContext<'_>) -> Result<String> {
    let quota = || VolumeQuota { total: Some(2 * PROBE_BYTES), ..VolumeQuota::default() };
    let session = establish(
        context,
        CreateUrr { volume_quota: Some(quota()), ..urr(ReportingTriggers::VOLQU) },
    )?;
    let probe = ProbeSockets::open(context, PORT)?;
    both("within the quota", &probe)?;
    let usage = session.usage("report of VOLQU", UsageReportTrigger::VOLQU)?;
    ensure!(usage.total() == 2 * PROBE_BYTES, "the report says {:?}", usage.volume);
    none("quota exhausted, uplink", &probe.uplink()?)?;
    none("quota exhausted, downlink", &probe.downlink()?)?;
    let urrs = [UpdateUrr { volume_quota: Some(quota()), ..UpdateUrr::new(URR) }];
    let request = SessionModificationRequest::new();
    session.modify(&SessionModificationRequest { update_urrs: (&urrs).into(), ..request })?;
    all("a new quota", &probe.uplink()?)?;
    session.end()?;
    Ok(format!(
        "stopped after {} octets, as reported, and continued with a new quota",
        usage.total()
    ))
}

/// Checks that adit reports the first packet.
pub(super) fn start_of_traffic(context: &ScenarioContext<'_>) -> Result<String> {
    let session = establish(context, urr(ReportingTriggers::START))?;
    let probe = ProbeSockets::open(context, PORT)?;
    all("traffic", &probe.uplink()?)?;
    let usage = session.usage("report of START", UsageReportTrigger::START)?;
    session.end()?;
    ensure!(usage.urr == URR, "the report is about {:?}", usage.urr);
    Ok("adit reported the first packet".to_owned())
}

/// Checks that adit reports a session without traffic. Spec: TS 29.244 §5.11.3.
pub(super) fn inactivity(context: &ScenarioContext<'_>) -> Result<String> {
    let inactivity = Some(UserPlaneInactivityTimer(1));
    let session = context.establish_with(&ScenarioRules { inactivity, ..ScenarioRules::USUAL })?;
    let probe = ProbeSockets::open(context, PORT)?;
    both("traffic", &probe)?;
    session.report("User Plane Inactivity Report", |report| {
        report.report_type.contains(ReportType::UPIR).then_some(())
    })?;
    session.end()?;
    Ok("adit reported one second without packets".to_owned())
}
