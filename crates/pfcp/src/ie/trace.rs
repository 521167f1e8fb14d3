//! Trace Information: the events of a session to trace, and the address that collects them.

use core::net::IpAddr;

use crate::ie::{Ie, IeError, IeReader, IeType};
use crate::writer::{NoRoom, PfcpWriter};

/// Trace control parameters. Spec: TS 29.244 §8.2.108; TS 32.422.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceInformation<'a> {
    /// MCC and MNC as digits in three octets.
    pub plmn: [u8; 3],
    /// Trace ID, 24 bits.
    pub trace_id: u32,
    /// Bits of the events that trigger the trace.
    pub triggering_events: &'a [u8],
    /// Session trace depth.
    pub depth: u8,
    /// Bits of the interfaces to trace.
    pub interfaces: &'a [u8],
    /// Address of the trace collection entity.
    pub collection_entity: Option<IpAddr>,
}

impl<'a> Ie<'a> for TraceInformation<'a> {
    const TYPE: IeType = IeType::TRACE_INFORMATION;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        Ok(Self {
            plmn: r.array()?,
            trace_id: r.u24()?,
            triggering_events: r.bytes_len8()?,
            depth: r.u8()?,
            interfaces: r.bytes_len8()?,
            collection_entity: match r.u8()? {
                0 => None,
                4 => Some(IpAddr::from(r.array::<4>()?)),
                16 => Some(IpAddr::from(r.array::<16>()?)),
                _ => return Err(IeError::Value),
            },
        })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.bytes(&self.plmn)?;
        w.u24(self.trace_id)?;
        w.bytes_len8(self.triggering_events)?;
        w.u8(self.depth)?;
        w.bytes_len8(self.interfaces)?;
        match self.collection_entity {
            None => w.u8(0),
            Some(IpAddr::V4(addr)) => w.bytes_len8(&addr.octets()),
            Some(IpAddr::V6(addr)) => w.bytes_len8(&addr.octets()),
        }
    }
}
