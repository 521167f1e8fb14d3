//! Applications and predefined rules. Spec: TS 29.244 §5.2.1A.2, §6.2.5.

use adit_pfcp::grouped::{ApplicationIdsPfds, PfdContext, UpdatePdr};
use adit_pfcp::ie::{ApplicationId, DeactivatePredefinedRules, PfdContents};
use adit_pfcp::message::{PfdManagementRequest, SessionModificationRequest};
use adit_types::PdrId;
use anyhow::Result;

use super::{OTHER_PORT, PORT};
use crate::scenario::expect::{all, none};
use crate::scenario::probe::ProbeSockets;
use crate::scenario::session::{ALL_UPLINK, ScenarioContext, ScenarioRules};
use adit_lab_smf::rules::FlowPdr;

const APPLICATION: &str = "scenario";
/// Drops packets to [`OTHER_PORT`]; `scenario::SECTIONS` configures it.
const RULE: &str = "blocked";

fn flow(text: &str) -> PfdContents<'_> {
    PfdContents { flow_description: Some(text.as_bytes()), ..PfdContents::default() }
}

/// Provisions the application with these flow descriptions; removes the application if there are
/// none.
fn provide(context: &ScenarioContext<'_>, texts: &[&str]) -> Result<()> {
    let contents: Vec<_> = texts.iter().map(|text| [flow(text)]).collect();
    let contexts: Vec<_> =
        contents.iter().map(|contents| PfdContext::new(contents.into())).collect();
    let application = ApplicationIdsPfds {
        pfd_contexts: contexts[..].into(),
        ..ApplicationIdsPfds::new(ApplicationId(APPLICATION.as_bytes()))
    };
    let applications = [application];
    let request = PfdManagementRequest {
        application_ids_pfds: (&applications).into(),
        ..PfdManagementRequest::new()
    };
    context.network.smf.manage_pfds(&request, || context.stop.check())
}

/// Checks that the PFDs of an application decide which packets match, even after a change.
pub(super) fn pfd(context: &ScenarioContext<'_>) -> Result<String> {
    provide(context, &["permit out 17 from any 5001 to assigned"])?;
    let only = FlowPdr { application: Some(APPLICATION), ..ALL_UPLINK };
    let session =
        context.establish_with(&ScenarioRules { uplinks: &[only], ..ScenarioRules::USUAL })?;
    let (probe, other) =
        (ProbeSockets::open(context, PORT)?, ProbeSockets::open(context, OTHER_PORT)?);
    all("the application's port", &probe.uplink()?)?;
    none("another port", &other.uplink()?)?;
    provide(context, &["permit out 17 from any 5002 to assigned"])?;
    none("not the application's port any more", &probe.uplink()?)?;
    all("the new port", &other.uplink()?)?;
    session.end()?;
    provide(context, &[])?;
    Ok("packets that match the PFDs passed, also after each change".to_owned())
}

/// Checks that a predefined rule applies in the PDR that activates it, until it is deactivated.
pub(super) fn predefined(context: &ScenarioContext<'_>) -> Result<String> {
    let special = PdrId(2);
    let named = FlowPdr { id: special, precedence: 50, predefined: Some(RULE), ..ALL_UPLINK };
    let uplinks = [ALL_UPLINK, named];
    let session =
        context.establish_with(&ScenarioRules { uplinks: &uplinks, ..ScenarioRules::USUAL })?;
    let (probe, other) =
        (ProbeSockets::open(context, PORT)?, ProbeSockets::open(context, OTHER_PORT)?);
    all("beside the rule", &probe.uplink()?)?;
    none("the rule drops", &other.uplink()?)?;
    let gone = [DeactivatePredefinedRules(RULE.as_bytes())];
    let pdrs =
        [UpdatePdr { deactivate_predefined_rules: (&gone).into(), ..UpdatePdr::new(special) }];
    let request = SessionModificationRequest::new();
    session.modify(&SessionModificationRequest { update_pdrs: (&pdrs).into(), ..request })?;
    all("rule deactivated", &other.uplink()?)?;
    session.end()?;
    Ok("the rule dropped its flow while it was active".to_owned())
}
