//! Causes of PFCP. Spec: TS 29.244 §8.2.1.

use adit_pfcp::Cause;

use super::Explanation;

/// What they are called.
pub(super) const KIND: &str = "Cause";

/// All Causes that have a name.
pub(super) fn all() -> Vec<Explanation> {
    let named = (0..=u8::MAX).map(Cause::from_code);
    let named = named.filter(|cause| !matches!(cause, Cause::Unknown(_)));
    named.map(explanation).collect()
}

fn explanation(cause: Cause) -> Explanation {
    let (meaning, advice) = meaning(cause);
    Explanation {
        name: format!("{} {cause}", cause.code()),
        kind: KIND,
        meaning: meaning.to_owned(),
        advice: (!advice.is_empty()).then_some(advice),
    }
}

/// What it means when adit answers with it, and what to look at; empty for nothing.
const fn meaning(cause: Cause) -> (&'static str, &'static str) {
    match cause {
        Cause::RequestAccepted => ("The request was carried out, and all workers run it.", ""),
        Cause::MoreUsageReportToSend => {
            ("The session ended; further usage reports follow in Session Report Requests.", "")
        }
        Cause::RequestPartiallyAccepted => (
            "Part of the request was carried out.",
            "the response's failure report, which names what was not.",
        ),
        Cause::RequestRejected => (
            "adit refuses the request, and no other Cause fits.",
            "the log line \"refused\", which names every finding.",
        ),
        Cause::SessionContextNotFound => (
            "No session has this SEID: it ended here, or the control plane has an old one.",
            "associations that went down or were set up again (adit show associations; audit lines of the log).",
        ),
        Cause::MandatoryIeMissing | Cause::ConditionalIeMissing => (
            "The request lacks an IE that it needs.",
            "the log line \"refused\" and the Offending IE of the response; then docs/interop.md for this SMF.",
        ),
        Cause::InvalidLength | Cause::MandatoryIeIncorrect => (
            "An IE of the request cannot be read, or has a value that makes no sense.",
            "the log line \"refused\" and the Offending IE of the response; then docs/n4-tolerance.md.",
        ),
        Cause::InvalidForwardingPolicy => (
            "The FAR names a forwarding policy that adit does not have.",
            "the forwarding policies of the configuration.",
        ),
        Cause::InvalidFTeidAllocationOption => (
            "The request mixes F-TEIDs that the SMF chose with such that adit is to choose, in a way that cannot be.",
            "whether the SMF chooses TEIDs itself for some PDRs of the session only.",
        ),
        Cause::NoEstablishedAssociation => (
            "The peer has no association: it, or adit, restarted, or heartbeats failed.",
            "adit show associations; audit lines of the log; whether heartbeats reach both sides.",
        ),
        Cause::RuleCreationModificationFailure => (
            "A rule cannot be created or changed; the response names it.",
            "the Failed Rule ID of the response and the log line \"refused\".",
        ),
        Cause::EntityInCongestion => (
            "adit takes no new session because a worker stands still.",
            "adit show workers (state), the log, and whether something else runs on that core (adit host noise).",
        ),
        Cause::NoResourcesAvailable => (
            "Something that the request needs is used up: room for sessions, associations, requests under way, or a \
             guaranteed rate.",
            "adit show counters (n4: refused_*), sessions.sessions_max, and the guaranteed rates of adit show qos.",
        ),
        Cause::ServiceNotSupported => (
            "The request asks for a feature that adit does not have.",
            "docs/spec for what is supported, and the UP Function Features of the association.",
        ),
        Cause::SystemFailure => (
            "adit cannot keep the change: its store fails, or a fault in adit cost the request.",
            "adit show store (failure), and error lines of the log.",
        ),
        Cause::RedirectionRequested => {
            ("The peer wants reports sent to another member of its SMF set.", "")
        }
        Cause::AllDynamicAddressesOccupied => (
            "The pool that the UE's address is to come from is used up.",
            "the metrics adit_ue_pool_used_addresses and adit_ue_pool_addresses; give the pool a larger prefix.",
        ),
        Cause::UnknownPredefinedRule => (
            "The request activates a predefined rule that the configuration does not have.",
            "the [[predefined_rule]] sections: names must be the SMF's, octet for octet.",
        ),
        Cause::UnknownApplicationId => (
            "The request names an application that neither the configuration nor PFDs define.",
            "adit show applications.",
        ),
        Cause::L2tpTunnelEstablishmentFailure
        | Cause::L2tpSessionEstablishmentFailure
        | Cause::L2tpTunnelRelease
        | Cause::L2tpSessionRelease => ("About L2TP, which adit does not serve.", ""),
        Cause::SessionRestorationFailure => (
            "A session could not be restored because what it needs is not available.",
            "the log line \"a record cannot be restored\".",
        ),
        Cause::Unknown(_) => ("A Cause without a name in Release 17.", ""),
    }
}
