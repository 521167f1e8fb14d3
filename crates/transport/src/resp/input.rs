//! Buffers octets that arrive from a peer, and reads values from them.

use crate::resp::error::RespError;
use crate::resp::limits::RespLimits;
use crate::resp::read::ValueScanner;
use crate::resp::value::RespValue;

/// Minimum room that a transport gets for arriving octets. Unit: octets.
const ROOM_MIN: usize = 16 * 1024;

/// The octets that one peer sends, in a contiguous buffer.
#[derive(Debug)]
pub struct RespInput {
    octets: Vec<u8>,
    /// Values before this offset were returned.
    start: usize,
    /// Octets from this offset on have not arrived.
    end: usize,
    scanner: ValueScanner,
    limits: RespLimits,
    /// The violation that ended the connection.
    pub(crate) broken: Option<RespError>,
}

impl RespInput {
    pub(crate) fn new(limits: RespLimits) -> Self {
        let octets = vec![0; 2 * ROOM_MIN];
        Self { octets, start: 0, end: 0, scanner: ValueScanner::default(), limits, broken: None }
    }

    /// Returns room for arriving octets. If little room is left, first moves unread octets to the
    /// front, or enlarges the buffer. The limits on values bound the unread octets, and so the
    /// buffer.
    pub fn input_room(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.octets.len() - self.end < ROOM_MIN {
            self.octets.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.octets.len() - self.end < ROOM_MIN {
                self.octets.resize(self.octets.len() * 2, 0);
            }
        }
        self.octets.get_mut(self.end..).unwrap_or_default()
    }

    /// Adds the first `len` octets of the room, which the transport has filled, to the input.
    pub fn input_arrived(&mut self, len: usize) {
        self.end = self.octets.len().min(self.end + len);
    }

    /// Passes the next value to `accept`, and returns its result; `None` until the value is
    /// complete.
    ///
    /// # Errors
    /// The octets are no RESP, or `accept` refuses the value. Every later call returns the same
    /// error.
    pub(crate) fn read_next<'a, R>(
        &'a mut self,
        accept: impl FnOnce(RespValue<'a>) -> Result<R, RespError>,
    ) -> Result<Option<R>, RespError> {
        let Self { octets, start, end, scanner, limits, broken } = self;
        if let Some(error) = broken {
            return Err(*error);
        }
        let unread = octets.get(*start..*end).unwrap_or_default();
        let read = || {
            let Some(len) = scanner.scan(unread, limits)? else { return Ok(None) };
            *start += len;
            RespValue::read(unread)?.map(|(value, _)| accept(value)).transpose()
        };
        read().map_err(|error| *broken.insert(error))
    }
}
