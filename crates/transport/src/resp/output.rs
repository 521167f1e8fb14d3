//! Octets that wait to be sent.

/// A contiguous buffer that is sent from the front.
#[derive(Debug, Default)]
pub(crate) struct OutputBuffer {
    /// The octets; new ones are appended. The first `sent` of them have been sent.
    pub octets: Vec<u8>,
    sent: usize,
}

impl OutputBuffer {
    /// Returns the octets that have not been sent.
    pub(crate) fn contents(&self) -> &[u8] {
        self.octets.get(self.sent..).unwrap_or_default()
    }

    /// Marks `len` more octets at the front as sent. The buffer drops all sent octets once they are
    /// more than half of it.
    pub(crate) fn sent(&mut self, len: usize) {
        self.sent = self.octets.len().min(self.sent + len);
        if self.sent > self.octets.len() / 2 {
            self.octets.drain(..self.sent);
            self.sent = 0;
        }
    }
}
