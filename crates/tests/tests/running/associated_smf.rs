//! An SMF with an association, in the namespace of its adit.
#![allow(dead_code, reason = "test programs use a part")]

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use adit_pfcp::{Header, MessageType};
use adit_tests::daemon::N4;

use crate::smf;

/// Its N4 address.
pub(crate) const SMF: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 10);

pub(crate) struct TestSmf {
    address: Ipv4Addr,
    socket: UdpSocket,
    sequence: u32,
}

impl TestSmf {
    pub(crate) fn associated() -> Self {
        let mut smf = Self::talking_to(N4.parse().unwrap());
        smf.set_up();
        smf
    }

    /// An SMF without an association yet.
    pub(crate) fn talking_to(adit: Ipv4Addr) -> Self {
        Self::between(SMF, adit)
    }

    /// As [`Self::talking_to`], at another address of the SMF.
    pub(crate) fn between(address: Ipv4Addr, adit: Ipv4Addr) -> Self {
        let socket = UdpSocket::bind((address, 8805)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let smf = Self { address, socket, sequence: 0 };
        smf.turn_to(adit);
        smf
    }

    /// Its next messages go to another adit.
    pub(crate) fn turn_to(&self, adit: Ipv4Addr) {
        self.socket.connect((adit, 8805)).unwrap();
    }

    /// Sets up the association. Returns the answer.
    pub(crate) fn set_up(&mut self) -> Vec<u8> {
        let address = self.address;
        self.answer(|sequence| smf::setup(sequence, address, smf::SMF_STARTED))
    }

    /// The answer to a request. Other messages are skipped.
    pub(crate) fn answer(&mut self, message: impl FnOnce(u32) -> Vec<u8>) -> Vec<u8> {
        self.sequence += 1;
        self.send(&message(self.sequence));
        let sequence = self.sequence;
        self.receive(|of| {
            let is_answer = of.message_type.info().is_some_and(|info| !info.is_request);
            is_answer && of.sequence == sequence
        })
    }

    /// The next request of this type.
    pub(crate) fn request(&mut self, message_type: MessageType) -> Vec<u8> {
        self.receive(|of| of.message_type == message_type)
    }

    pub(crate) fn send(&self, message: &[u8]) {
        self.socket.send(message).unwrap();
    }

    fn receive(&self, is_it: impl Fn(Header) -> bool) -> Vec<u8> {
        loop {
            let mut buffer = vec![0; 4096];
            let len = self.socket.recv(&mut buffer).unwrap();
            buffer.truncate(len);
            if is_it(smf::raw(&buffer).header) {
                return buffer;
            }
        }
    }
}
