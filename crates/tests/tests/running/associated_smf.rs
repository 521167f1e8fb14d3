//! An SMF with an association, in the namespace of the adit that it talks to.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use adit_tests::daemon::N4;

use crate::smf;

/// Its N4 address.
const SMF: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 10);

pub(crate) struct TestSmf {
    socket: UdpSocket,
    sequence: u32,
}

impl TestSmf {
    pub(crate) fn associated() -> Self {
        let socket = UdpSocket::bind((SMF, 8805)).unwrap();
        socket.connect((N4, 8805)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut smf = Self { socket, sequence: 0 };
        smf.set_up();
        smf
    }

    /// Sets up the association. Returns the answer.
    pub(crate) fn set_up(&mut self) -> Vec<u8> {
        self.answer(|sequence| smf::setup(sequence, SMF, smf::SMF_STARTED))
    }

    /// The answer to a request; messages that are none come in between.
    pub(crate) fn answer(&mut self, message: impl FnOnce(u32) -> Vec<u8>) -> Vec<u8> {
        self.sequence += 1;
        self.socket.send(&message(self.sequence)).unwrap();
        loop {
            let mut buffer = vec![0; 4096];
            let len = self.socket.recv(&mut buffer).unwrap();
            buffer.truncate(len);
            let header = smf::raw(&buffer).header;
            let is_answer = header.message_type.info().is_some_and(|info| !info.is_request);
            if is_answer && header.sequence == self.sequence {
                return buffer;
            }
        }
    }
}
