//! PFD management: CP functions describe applications by packet flow descriptions.
//!
//! Only the flow descriptions of PFDs are supported. URLs, domain names and custom contents cannot
//! be matched by the headers of one packet. A request with such PFDs is refused, since detection
//! without them would miss packets that the CP function relies on. Spec: TS 29.244 §6.2.5, §7.4.3,
//! §8.2.39.

use adit_pfcp::grouped::ApplicationIdsPfds;
use adit_pfcp::ie::{OffendingIe, PfdContents};
use adit_pfcp::message::{PfdManagementRequest, PfdManagementResponse};
use adit_pfcp::{Cause, IeType, MessageBody};
use adit_session::{ChangedApplications, OwnerId, PfdApplication, PfdProvision, PfdRefusal};
use adit_types::SessionIndex;
use adit_types::limits::{
    FLOW_DESCRIPTIONS_PER_APPLICATION_MAX, JOBS_MAX, PFD_APPLICATIONS_MAX, PFD_BYTES_MAX,
};

use crate::answers::Condition;
use crate::association::NodeIdentity;
use crate::backlog::{JobTask, JobWaiter};
use crate::node::{Node, ReceivedMessage};
use crate::refusal::Rejected;

impl Node {
    /// Provisions or removes PFDs. The response follows when all workers run the changed rules of
    /// all sessions concerned.
    pub(crate) fn handle_pfd_management(&mut self, request: &ReceivedMessage<'_>) {
        match self.manage_pfds(request) {
            Ok(changed) => {
                self.counters.scalars.pfd_requests_accepted += 1;
                let after = self.recompile(changed, None);
                self.respond_to_pfd_management(request, Cause::RequestAccepted, None, after);
            }
            Err(rejected) => {
                self.note_refused(request, rejected);
                let Rejected { cause, offending_ie, .. } = rejected;
                self.respond_to_pfd_management(request, cause, offending_ie, None);
            }
        }
    }

    /// # Errors
    /// Cause 72 without an association, Cause 75 beyond a limit, otherwise the Cause for the error
    /// in the PFDs.
    fn manage_pfds(
        &mut self,
        request: &ReceivedMessage<'_>,
    ) -> Result<ChangedApplications, Rejected> {
        let association = self.peers.association_for(request.peer());
        let association = association.ok_or(Rejected::no_association())?;
        let (owner, node_id) = (association.owner, association.node_id.clone());
        self.refuse_beyond_jobs()?;
        let message = PfdManagementRequest::decode_body(request.body)?;
        if message.node_id.is_some_and(|given| NodeIdentity::from_ie(&given) != node_id) {
            return Err(Rejected::other_node_id());
        }
        let applications = message.application_ids_pfds.iter().map(|group| application(&group));
        let applications = applications.collect::<Result<_, _>>()?;
        Ok(self.sessions.provision_pfds(owner, PfdProvision { applications })?)
    }

    pub(super) fn respond_to_pfd_management(
        &mut self,
        request: &ReceivedMessage<'_>,
        cause: Cause,
        offending_ie: Option<IeType>,
        after: Option<Condition>,
    ) {
        let mut body = PfdManagementResponse::new(cause);
        body.offending_ie = offending_ie.map(OffendingIe::from);
        self.respond(request, None, &body, after);
    }

    /// Removes the PFDs of an association that ended; the next requests of its peer wait for that.
    pub(crate) fn withdraw_pfds_of(&mut self, owner: OwnerId, waiter: JobWaiter) {
        let changed = self.sessions.withdraw_pfds(owner);
        self.recompile(changed, Some(waiter));
    }

    /// Transfers the PFDs of an association to another one of its SMF set.
    pub(crate) fn hand_over_pfds(&mut self, from: OwnerId, to: OwnerId) {
        let changed = self.sessions.hand_over_pfds(from, to);
        self.recompile(changed, None);
    }

    /// Starts to recompile the sessions that refer to one of the applications. Returns the
    /// condition that the job has ended; `None` if there is nothing to do.
    pub(super) fn recompile(
        &mut self,
        changed: ChangedApplications,
        waiter: Option<JobWaiter>,
    ) -> Option<Condition> {
        let next = SessionIndex(0);
        let concerns = !changed.is_empty() && !self.sessions.store().is_empty();
        concerns.then(|| self.start_job(waiter, JobTask::Recompile { changed, next }))
    }

    /// # Errors
    /// Cause 75 while [`JOBS_MAX`] jobs on many sessions are under way.
    pub(super) fn refuse_beyond_jobs(&mut self) -> Result<(), Rejected> {
        if self.backlog.len() < JOBS_MAX {
            return Ok(());
        }
        self.counters.scalars.refused_pending_full += 1;
        Err(Rejected::beyond_limit("requests about many sessions at a time", JOBS_MAX))
    }
}

fn application(group: &ApplicationIdsPfds<'_>) -> Result<PfdApplication, Rejected> {
    let id = core::str::from_utf8(group.application_id.0).ok().filter(|id| !id.is_empty());
    let incorrect = Rejected::with_ie(Cause::MandatoryIeIncorrect, IeType::APPLICATION_ID);
    let mut flow_descriptions = Vec::new();
    for context in group.pfd_contexts {
        for contents in context.pfd_contents {
            add_flow_descriptions(&contents, &mut flow_descriptions)?;
        }
    }
    Ok(PfdApplication { id: id.ok_or(incorrect)?.into(), flow_descriptions })
}

/// Appends the flow description of PFD contents, and the additional ones. Contents without any
/// component add nothing: an application that has only such contents loses its PFDs.
fn add_flow_descriptions(
    contents: &PfdContents<'_>,
    texts: &mut Vec<Box<str>>,
) -> Result<(), Rejected> {
    let others = [
        contents.url,
        contents.domain_name,
        contents.custom,
        contents.domain_name_protocol,
        contents.additional_urls,
        contents.additional_domain_names,
    ];
    if others.iter().any(Option::is_some) {
        return Err(Rejected::unsupported(IeType::PFD_CONTENTS));
    }
    let incorrect = Rejected::with_ie(Cause::MandatoryIeIncorrect, IeType::PFD_CONTENTS);
    let mut add = |octets| -> Result<(), Rejected> {
        let text = core::str::from_utf8(octets).map_err(|_| incorrect)?;
        texts.push(text.into());
        Ok(())
    };
    if let Some(octets) = contents.flow_description {
        add(octets)?;
    }
    let mut rest = contents.additional_flow_descriptions.unwrap_or_default();
    while let Some((len, behind)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_be_bytes(*len));
        let (text, behind) = behind.split_at_checked(len).ok_or(incorrect)?;
        add(text)?;
        rest = behind;
    }
    let is_empty = contents.flow_description.is_none()
        && contents.additional_flow_descriptions.is_some_and(<[u8]>::is_empty);
    match rest.is_empty() && !is_empty {
        true => Ok(()),
        false => Err(incorrect),
    }
}

impl From<PfdRefusal> for Rejected {
    fn from(refusal: PfdRefusal) -> Self {
        match refusal {
            PfdRefusal::FlowDescription { .. } => {
                Self::with_ie(Cause::MandatoryIeIncorrect, IeType::PFD_CONTENTS)
            }
            PfdRefusal::DuplicateApplication => {
                Self::with_ie(Cause::MandatoryIeIncorrect, IeType::APPLICATION_ID)
            }
            PfdRefusal::ApplicationIdTooLong => {
                Self::with_ie(Cause::InvalidLength, IeType::APPLICATION_ID)
            }
            PfdRefusal::TooManyFlowDescriptions => Self::beyond_limit(
                "flow descriptions of one application",
                FLOW_DESCRIPTIONS_PER_APPLICATION_MAX,
            ),
            PfdRefusal::TooManyApplications => {
                Self::beyond_limit("applications with PFDs of control planes", PFD_APPLICATIONS_MAX)
            }
            PfdRefusal::TooManyBytes => {
                Self::beyond_limit("octets of PFDs of control planes", PFD_BYTES_MAX)
            }
        }
    }
}
