//! The client of a trace or a capture at the admin socket.

use std::io::{BufWriter, Write};
use std::os::unix::net::UnixStream;

use rustix::net::RecvFlags;

use crate::tap::TapOutput;

/// Writes to a client, and notices when it closes its side.
pub(super) struct TapSocket<'c> {
    client: &'c UnixStream,
    out: BufWriter<&'c UnixStream>,
}

impl<'c> TapSocket<'c> {
    pub(super) fn new(client: &'c UnixStream) -> Self {
        Self { client, out: BufWriter::new(client) }
    }
}

impl Write for TapSocket<'_> {
    fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
        self.out.write(octets)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

impl TapOutput for TapSocket<'_> {
    fn is_closed(&self) -> bool {
        let mut octet = [0];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        matches!(rustix::net::recv(self.client, &mut octet[..], flags), Ok((0, _)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_that_closes_its_side_is_noticed() {
        let (adit, mut client) = UnixStream::pair().unwrap();
        let socket = TapSocket::new(&adit);
        assert!(!socket.is_closed());
        // Octets that it sends are no end.
        client.write_all(b"x").unwrap();
        assert!(!socket.is_closed());
        let (adit, client) = UnixStream::pair().unwrap();
        drop(client);
        assert!(TapSocket::new(&adit).is_closed());
    }
}
