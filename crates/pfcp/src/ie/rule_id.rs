//! Identifiers of Multi-Access and Session Reporting Rules, and of a failed rule of any kind.

use core::fmt;

use adit_types::{BarId, FarId, PdrId, QerId, UrrId};

/// Identifier of a Multi-Access Rule. Spec: TS 29.244 §8.2.123.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct MarId(pub u16);

/// Identifier of a Session Reporting Rule. Spec: TS 29.244 §8.2.151.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct SrrId(pub u8);

/// The rule that could not be created or modified. Spec: TS 29.244 §8.2.80.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailedRuleId {
    /// Packet Detection Rule.
    Pdr(PdrId),
    /// Forwarding Action Rule.
    Far(FarId),
    /// QoS Enforcement Rule.
    Qer(QerId),
    /// Usage Reporting Rule.
    Urr(UrrId),
    /// Buffering Action Rule.
    Bar(BarId),
    /// Multi-Access Rule.
    Mar(MarId),
    /// Session Reporting Rule.
    Srr(SrrId),
}

impl fmt::Display for FailedRuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pdr(id) => write!(f, "PDR {id}"),
            Self::Far(id) => write!(f, "FAR {id}"),
            Self::Qer(id) => write!(f, "QER {id}"),
            Self::Urr(id) => write!(f, "URR {id}"),
            Self::Bar(id) => write!(f, "BAR {id}"),
            Self::Mar(id) => write!(f, "MAR {}", id.0),
            Self::Srr(id) => write!(f, "SRR {}", id.0),
        }
    }
}
