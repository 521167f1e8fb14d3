//! Cause values. Spec: TS 29.244 §8.2.1, table 8.2.1-1.

use super::{DecodeError, DecodeErrorKind, code_points};

code_points! {
    /// Outcome of a request.
    Cause, CAUSE, mask 0xff {
        1 RequestAccepted "Request accepted",
        2 MoreUsageReportToSend "More Usage Report to send",
        3 RequestPartiallyAccepted "Request partially accepted",
        64 RequestRejected "Request rejected",
        65 SessionContextNotFound "Session context not found",
        66 MandatoryIeMissing "Mandatory IE missing",
        67 ConditionalIeMissing "Conditional IE missing",
        68 InvalidLength "Invalid length",
        69 MandatoryIeIncorrect "Mandatory IE incorrect",
        70 InvalidForwardingPolicy "Invalid Forwarding Policy",
        71 InvalidFTeidAllocationOption "Invalid F-TEID allocation option",
        72 NoEstablishedAssociation "No established PFCP Association",
        73 RuleCreationModificationFailure "Rule creation/modification Failure",
        74 EntityInCongestion "PFCP entity in congestion",
        75 NoResourcesAvailable "No resources available",
        76 ServiceNotSupported "Service not supported",
        77 SystemFailure "System failure",
        78 RedirectionRequested "Redirection Requested",
        79 AllDynamicAddressesOccupied "All dynamic addresses are occupied",
        80 UnknownPredefinedRule "Unknown Pre-defined Rule",
        81 UnknownApplicationId "Unknown Application ID",
        82 L2tpTunnelEstablishmentFailure "L2TP tunnel Establishment failure",
        83 L2tpSessionEstablishmentFailure "L2TP session Establishment failure",
        84 L2tpTunnelRelease "L2TP tunnel release",
        85 L2tpSessionRelease "L2TP session release",
        86 SessionRestorationFailure "PFCP session restoration failure due to requested resource not available",
    }
}

impl Cause {
    /// True if the request was accepted, wholly or in part (code points 1 to 63).
    #[must_use]
    pub const fn is_accepted(self) -> bool {
        let code = self.code();
        code >= 1 && code < 64
    }
}

impl DecodeError {
    /// Returns the Cause of an error response. Spec: TS 29.244 §8.2.1.
    #[must_use]
    pub const fn cause(&self) -> Cause {
        match self.kind {
            DecodeErrorKind::MandatoryMissing => Cause::MandatoryIeMissing,
            DecodeErrorKind::InvalidLength => Cause::InvalidLength,
            DecodeErrorKind::Incorrect => Cause::MandatoryIeIncorrect,
        }
    }
}
