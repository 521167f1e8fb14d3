//! Causes of PFCP. Spec: TS 29.244 §8.2.1.

use adit_pfcp::Cause;

use super::Explanation;

/// The `kind` of Causes' explanations.
pub(super) const KIND: &str = "Cause";

pub(super) fn all() -> Vec<Explanation> {
    let named = (0..=u8::MAX).map(Cause::from_code);
    let named = named.filter(|cause| !matches!(cause, Cause::Unknown(_)));
    named.map(explanation).collect()
}

fn explanation(cause: Cause) -> Explanation {
    let known = MEANINGS.iter().find(|known| known.cause == cause);
    Explanation {
        name: format!("{} {cause}", cause.code()),
        kind: KIND,
        meaning: known.map_or("", |known| known.meaning).to_owned(),
        advice: known.map(|known| known.advice).filter(|advice| !advice.is_empty()),
    }
}

/// The meaning of a Cause in adit's answers.
struct CauseMeaning {
    cause: Cause,
    meaning: &'static str,
    /// Where to look next; empty if there is nothing to look at.
    advice: &'static str,
}

const MEANINGS: &[CauseMeaning] = &[
    CauseMeaning {
        cause: Cause::RequestAccepted,
        meaning: "The request was carried out, and all workers run it.",
        advice: "",
    },
    CauseMeaning {
        cause: Cause::MoreUsageReportToSend,
        meaning: "The session ended; further usage reports follow in Session Report Requests.",
        advice: "",
    },
    CauseMeaning {
        cause: Cause::RequestPartiallyAccepted,
        meaning: "Part of the request was carried out.",
        advice: "the response's failure report, which names what was not.",
    },
    CauseMeaning {
        cause: Cause::RequestRejected,
        meaning: "adit refuses the request, and no other Cause fits.",
        advice: "the log line \"refused\", which names every finding.",
    },
    CauseMeaning {
        cause: Cause::SessionContextNotFound,
        meaning: "No session has this SEID: it ended here, or the control plane has an old one.",
        advice: "associations that went down or were set up again (adit show associations; audit lines of the log).",
    },
    CauseMeaning {
        cause: Cause::MandatoryIeMissing,
        meaning: "The request lacks an IE that it needs.",
        advice: "the log line \"refused\" and the Offending IE of the response; then docs/interop.md for this SMF.",
    },
    CauseMeaning {
        cause: Cause::ConditionalIeMissing,
        meaning: "The request lacks an IE that it needs.",
        advice: "the log line \"refused\" and the Offending IE of the response; then docs/interop.md for this SMF.",
    },
    CauseMeaning {
        cause: Cause::InvalidLength,
        meaning: "An IE of the request cannot be read, or has a value that makes no sense.",
        advice: "the log line \"refused\" and the Offending IE of the response; then docs/n4-tolerance.md.",
    },
    CauseMeaning {
        cause: Cause::MandatoryIeIncorrect,
        meaning: "An IE of the request cannot be read, or has a value that makes no sense.",
        advice: "the log line \"refused\" and the Offending IE of the response; then docs/n4-tolerance.md.",
    },
    CauseMeaning {
        cause: Cause::InvalidForwardingPolicy,
        meaning: "The FAR names a forwarding policy that adit does not have.",
        advice: "the forwarding policies of the configuration.",
    },
    CauseMeaning {
        cause: Cause::InvalidFTeidAllocationOption,
        meaning: "The request mixes F-TEIDs that the SMF chose with such that adit is to choose, in a way that cannot be.",
        advice: "whether the SMF chooses TEIDs itself for some PDRs of the session only.",
    },
    CauseMeaning {
        cause: Cause::NoEstablishedAssociation,
        meaning: "The peer has no association: it, or adit, restarted, or heartbeats failed.",
        advice: "adit show associations; audit lines of the log; whether heartbeats reach both sides.",
    },
    CauseMeaning {
        cause: Cause::RuleCreationModificationFailure,
        meaning: "A rule cannot be created or changed; the response names it.",
        advice: "the Failed Rule ID of the response and the log line \"refused\". With the Offending IE Outer Header Creation: the \
                 addresses of the interfaces and the [[route]] sections, by which no interface leads to the peer.",
    },
    CauseMeaning {
        cause: Cause::EntityInCongestion,
        meaning: "adit takes no new session because a worker stands still.",
        advice: "adit show workers (state), the log, and whether something else runs on that core (adit host noise).",
    },
    CauseMeaning {
        cause: Cause::NoResourcesAvailable,
        meaning: "Something that the request needs is used up: room for sessions, associations, requests under way, or a \
                  guaranteed rate.",
        advice: "adit show counters (n4: refused_*), sessions.sessions_max, and the guaranteed rates of adit show qos.",
    },
    CauseMeaning {
        cause: Cause::ServiceNotSupported,
        meaning: "The request asks for a feature that adit does not have.",
        advice: "docs/spec for what is supported, and the UP Function Features of the association.",
    },
    CauseMeaning {
        cause: Cause::SystemFailure,
        meaning: "adit cannot keep the change: its store fails, or a fault in adit cost the request.",
        advice: "adit show store (failure), and error lines of the log.",
    },
    CauseMeaning {
        cause: Cause::RedirectionRequested,
        meaning: "The peer wants reports sent to another member of its SMF set.",
        advice: "",
    },
    CauseMeaning {
        cause: Cause::AllDynamicAddressesOccupied,
        meaning: "The pool that the UE's address is to come from is used up.",
        advice: "the metrics adit_ue_pool_used_addresses and adit_ue_pool_addresses; give the pool a larger prefix.",
    },
    CauseMeaning {
        cause: Cause::UnknownPredefinedRule,
        meaning: "The request activates a predefined rule that the configuration does not have.",
        advice: "the [[predefined_rule]] sections: names must be the SMF's, octet for octet.",
    },
    CauseMeaning {
        cause: Cause::UnknownApplicationId,
        meaning: "The request names an application that neither the configuration nor PFDs define.",
        advice: "adit show applications.",
    },
    CauseMeaning {
        cause: Cause::L2tpTunnelEstablishmentFailure,
        meaning: "About L2TP, which adit does not serve.",
        advice: "",
    },
    CauseMeaning {
        cause: Cause::L2tpSessionEstablishmentFailure,
        meaning: "About L2TP, which adit does not serve.",
        advice: "",
    },
    CauseMeaning {
        cause: Cause::L2tpTunnelRelease,
        meaning: "About L2TP, which adit does not serve.",
        advice: "",
    },
    CauseMeaning {
        cause: Cause::L2tpSessionRelease,
        meaning: "About L2TP, which adit does not serve.",
        advice: "",
    },
    CauseMeaning {
        cause: Cause::SessionRestorationFailure,
        meaning: "A session could not be restored because what it needs is not available.",
        advice: "the log line \"sessions are not restored\".",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_a_meaning() {
        for known in all() {
            assert!(!known.meaning.is_empty(), "{}", known.name);
        }
        assert_eq!(all().len(), MEANINGS.len());
    }
}
