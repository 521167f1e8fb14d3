//! Octets that arrive and are consumed from the front.

/// Free octets that a transport gets at least. Unit: octets.
const ROOM_MIN: usize = 16 * 1024;

/// A contiguous buffer with its contents between two positions.
#[derive(Debug)]
pub(crate) struct InputBuffer {
    octets: Vec<u8>,
    start: usize,
    end: usize,
}

impl InputBuffer {
    pub(crate) fn new() -> Self {
        Self { octets: vec![0; 2 * ROOM_MIN], start: 0, end: 0 }
    }

    /// What has arrived and was not consumed.
    pub(crate) fn contents(&self) -> &[u8] {
        self.octets.get(self.start..self.end).unwrap_or_default()
    }

    /// Room for octets to arrive. Contents move to the front, or into a larger buffer, when little is left. The
    /// caller bounds the contents, and with them the buffer.
    pub(crate) fn room(&mut self) -> &mut [u8] {
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

    /// Makes the first `len` octets of the room part of the contents.
    pub(crate) fn arrived(&mut self, len: usize) {
        self.end = self.octets.len().min(self.end + len);
    }

    /// Removes `len` octets from the front.
    pub(crate) fn consume(&mut self, len: usize) {
        self.start = self.end.min(self.start + len);
    }
}

/// Octets that were written and are sent from the front.
#[derive(Debug, Default)]
pub(crate) struct OutputBuffer {
    octets: Vec<u8>,
    sent: usize,
}

impl OutputBuffer {
    /// What has not been sent.
    pub(crate) fn contents(&self) -> &[u8] {
        self.octets.get(self.sent..).unwrap_or_default()
    }

    /// Removes `len` octets from the front.
    pub(crate) fn sent(&mut self, len: usize) {
        self.sent = self.octets.len().min(self.sent + len);
        if self.sent == self.octets.len() {
            self.octets.clear();
            self.sent = 0;
        }
    }

    /// The buffer to append to. Octets that were sent leave it first if they are the larger part.
    pub(crate) fn end(&mut self) -> &mut Vec<u8> {
        if self.sent > self.octets.len() / 2 {
            self.octets.drain(..self.sent);
            self.sent = 0;
        }
        &mut self.octets
    }
}
