//! The identifier of a rule of any kind.

use core::fmt;

use adit_types::{BarId, FarId, PdrId, QerId, UrrId};

use crate::encode::{NoRoom, PfcpWriter};
use crate::error::IeError;
use crate::ie::{Ie, IeReader, IeType, MarId, SrrId};

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

impl<'a> Ie<'a> for FailedRuleId {
    const TYPE: IeType = IeType::FAILED_RULE_ID;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        Ok(match r.u8()? & 0x1f {
            0 => Self::Pdr(PdrId(r.u16()?)),
            1 => Self::Far(FarId(r.u32()?)),
            2 => Self::Qer(QerId(r.u32()?)),
            3 => Self::Urr(UrrId(r.u32()?)),
            4 => Self::Bar(BarId(r.u8()?)),
            5 => Self::Mar(MarId(r.u16()?)),
            6 => Self::Srr(SrrId(r.u8()?)),
            _ => return Err(IeError::Value),
        })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u8(match self {
            Self::Pdr(_) => 0,
            Self::Far(_) => 1,
            Self::Qer(_) => 2,
            Self::Urr(_) => 3,
            Self::Bar(_) => 4,
            Self::Mar(_) => 5,
            Self::Srr(_) => 6,
        })?;
        match self {
            Self::Pdr(id) => w.u16(id.0),
            Self::Far(id) => w.u32(id.0),
            Self::Qer(id) => w.u32(id.0),
            Self::Urr(id) => w.u32(id.0),
            Self::Bar(id) => w.u8(id.0),
            Self::Mar(id) => w.u16(id.0),
            Self::Srr(id) => w.u8(id.0),
        }
    }
}
