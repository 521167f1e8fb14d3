//! Messages with a defective header: answers those that the standard requires to be answered.
//!
//! Spec: TS 29.244 §7.6.2, §7.6.3.

use core::net::SocketAddr;

use adit_pfcp::{Cause, Header, HeaderError, MessageType, PfcpWriter};
use adit_types::Nanos;

use crate::node::{Node, ReceivedMessage};
use crate::refusal::Rejected;

/// Octets of a header without a SEID, and with one.
const HEADER_BYTES_WITHOUT_AND_WITH_SEID: (usize, usize) = (8, 16);

impl Node {
    /// Handles the rest of a datagram, which begins with a message that has a defective header.
    pub(crate) fn handle_header_error(
        &mut self,
        now: Nanos,
        from: SocketAddr,
        error: HeaderError,
        rest: &[u8],
    ) {
        let scalars = &mut self.counters.scalars;
        match error {
            HeaderError::Truncated | HeaderError::LengthTooShort => {
                scalars.discarded_malformed_header += 1;
            }
            HeaderError::SeidAbsent { .. } => scalars.discarded_seid_absent += 1,
            HeaderError::LengthBeyondDatagram { header } => {
                self.refuse_length(now, from, header, rest);
            }
            HeaderError::VersionNotSupported { sequence, .. } => {
                let answers = MessageType::VERSION_NOT_SUPPORTED_RESPONSE;
                // NOTE: if two peers of different versions answered each other's answers, they
                // would never stop.
                if rest.get(1) == Some(&answers.0) {
                    scalars.discarded_version += 1;
                    return;
                }
                let mut writer = PfcpWriter::new(&mut self.scratch);
                let Ok(len) = writer.message(answers, None, sequence, |_| Ok(())) else { return };
                let bytes = self.scratch.get(..len).unwrap_or_default().to_vec();
                self.transmit(answers, from, bytes);
            }
        }
    }

    /// Answers a truncated request with Cause 68. Discards responses, requests whose response has
    /// no Cause, and session related requests without a SEID.
    fn refuse_length(&mut self, now: Nanos, from: SocketAddr, header: Header, rest: &[u8]) {
        let is_addressed = header.seid.is_some() || !header.message_type.is_session_related();
        let (short, long) = HEADER_BYTES_WITHOUT_AND_WITH_SEID;
        let body = rest.get(if header.seid.is_some() { long } else { short }..);
        let request = ReceivedMessage { now, from, header, body: body.unwrap_or_default() };
        let rejected = Rejected::new(Cause::InvalidLength, "the datagram ends within the message");
        if !is_addressed || !self.refuse_request(&request, rejected, None) {
            self.counters.scalars.discarded_malformed_header += 1;
        }
    }
}
