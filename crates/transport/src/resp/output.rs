//! Octets that were written and are sent from the front.

/// A contiguous buffer.
#[derive(Debug, Default)]
pub(crate) struct OutputBuffer {
    /// New octets are appended.
    pub octets: Vec<u8>,
    sent: usize,
}

impl OutputBuffer {
    /// The octets that have not been sent.
    pub(crate) fn contents(&self) -> &[u8] {
        self.octets.get(self.sent..).unwrap_or_default()
    }

    /// Removes `len` octets from the front. They leave the buffer once they are the larger part of
    /// it.
    pub(crate) fn sent(&mut self, len: usize) {
        self.sent = self.octets.len().min(self.sent + len);
        if self.sent > self.octets.len() / 2 {
            self.octets.drain(..self.sent);
            self.sent = 0;
        }
    }
}
