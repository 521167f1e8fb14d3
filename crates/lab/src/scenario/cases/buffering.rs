//! FARs that buffer, and Downlink Data Reports. Spec: TS 29.244 §5.2.4, §7.5.8.2.

use adit_pfcp::grouped::{CreateBar, UpdateFar};
use adit_pfcp::ie::{ApplyAction, DownlinkDataNotificationDelay, PfcpSmReqFlags, ReportType};
use adit_pfcp::message::SessionModificationRequest;
use adit_types::BarId;
use anyhow::{Result, ensure};

use super::PORT;
use crate::scenario::expect::{all, both, none};
use crate::scenario::probe::{DATAGRAMS, ProbeSockets};
use crate::scenario::session::{
    DOWNLINK, ScenarioContext, ScenarioRules, ScenarioSession, TO_ACCESS,
};

const BAR: BarId = BarId(1);

fn establish<'a>(context: &'a ScenarioContext<'a>) -> Result<ScenarioSession<'a>> {
    let delay = DownlinkDataNotificationDelay(2);
    let bars = [CreateBar { downlink_data_notification_delay: Some(delay), ..CreateBar::new(BAR) }];
    context.establish_with(&ScenarioRules { bars: &bars, ..ScenarioRules::USUAL })
}

/// Makes the UE idle: adit buffers packets and reports the first one. After paging, the buffered
/// packets arrive first and in order.
pub(super) fn buffer(context: &ScenarioContext<'_>) -> Result<String> {
    let session = establish(context)?;
    let probe = ProbeSockets::open(context, PORT)?;
    both("FORW", &probe)?;
    session.apply(TO_ACCESS, ApplyAction::BUFF | ApplyAction::NOCP)?;
    none("BUFF, downlink", &probe.downlink()?)?;
    let pdrs = session.report("Downlink Data Report", |report| {
        let data = report.downlink_data_report?;
        let is_data_report = report.report_type.contains(ReportType::DLDR);
        is_data_report.then(|| data.pdr_ids.iter().collect::<Vec<_>>())
    })?;
    ensure!(pdrs == [DOWNLINK], "the report names {pdrs:?}");
    all("BUFF, uplink", &probe.uplink()?)?;
    session.apply(TO_ACCESS, ApplyAction::FORW)?;
    probe.send_downlink(DATAGRAMS..2 * DATAGRAMS)?;
    let arrived = probe.receive_downlink(2 * DATAGRAMS)?;
    ensure!(arrived.iter().copied().eq(0..2 * DATAGRAMS), "after FORW arrived {arrived:?}");
    session.end()?;
    Ok(format!("one report, then {DATAGRAMS} buffered and {DATAGRAMS} new packets, in order"))
}

/// Checks that DROBU discards buffered packets, and that later packets pass. Spec: TS 29.244
/// §8.2.31.
pub(super) fn discard(context: &ScenarioContext<'_>) -> Result<String> {
    let session = establish(context)?;
    let probe = ProbeSockets::open(context, PORT)?;
    session.apply(TO_ACCESS, ApplyAction::BUFF)?;
    none("BUFF", &probe.downlink()?)?;
    let fars = [UpdateFar { apply_action: Some(ApplyAction::FORW), ..UpdateFar::new(TO_ACCESS) }];
    session.modify(&SessionModificationRequest {
        update_fars: (&fars).into(),
        pfcp_sm_req_flags: Some(PfcpSmReqFlags::DROBU),
        ..SessionModificationRequest::new()
    })?;
    none("DROBU and FORW", &probe.receive_downlink(DATAGRAMS)?)?;
    all("afterwards", &probe.downlink()?)?;
    session.end()?;
    Ok(format!("{DATAGRAMS} buffered packets were discarded, later ones pass"))
}
