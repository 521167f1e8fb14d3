//! The cases of all classes again, over a socket against the `adit` process.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use adit_pfcp::Message;
use adit_tests::daemon::{Daemon, N4};
use adit_types::Seid;

use crate::ie_tree::{ies, with_length, with_tail, with_value, without};
use crate::messages;
use crate::smf::*;

/// Environment variable of the run inside the daemon's namespace.
const INSIDE: &str = "ADIT_TEST_INSIDE";

#[test]
fn process_survives_every_class_over_its_socket() {
    if std::env::var_os(INSIDE).is_some() {
        return attack();
    }
    let Some(daemon) = Daemon::start("hostile", 100) else { return };
    let this = std::env::current_exe().unwrap();
    let mut command: Command = daemon.command(Path::new(&this));
    command.args(["--exact", "process::process_survives_every_class_over_its_socket"]);
    command.args(["--nocapture"]).env(INSIDE, "1").stdin(Stdio::null());
    let output = adit_tests::process::run(&mut command, Duration::from_secs(120));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(daemon.sessions() <= 1, "only the session of the attack itself");
    let counters = daemon.show("counters");
    assert_eq!(counters["identity_holds"], true, "{counters}");
    let output = daemon.stop();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

struct Attacker {
    socket: UdpSocket,
}

impl Attacker {
    fn request(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.socket.send(bytes).unwrap();
        self.receive()
    }

    fn receive(&self) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 65_536];
        let len = self.socket.recv(&mut buffer).ok()?;
        buffer.truncate(len);
        Some(buffer)
    }

    /// Sends and ignores answers. From time to time the process must answer a heartbeat.
    fn send_unanswered(&self, number: usize, bytes: &[u8]) {
        // The longest datagram.
        self.socket.send(&bytes[..bytes.len().min(60_000)]).unwrap();
        if number.is_multiple_of(100) {
            self.assert_alive();
        }
    }

    /// Sends a heartbeat until an answer arrives: the node answers few per second, and datagrams
    /// get lost.
    fn assert_alive(&self) {
        let mark = 0x00aa_bbcc;
        for _ in 0..10 {
            self.socket.send(&heartbeat(mark, SMF_STARTED)).unwrap();
            while let Some(answer) = self.receive() {
                if raw(&answer).header.sequence == mark {
                    return;
                }
            }
        }
        panic!("no heartbeat any more");
    }
}

fn attack() {
    let socket = UdpSocket::bind("127.0.3.1:8805").unwrap();
    socket.connect((N4, 8805)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let attacker = Attacker { socket };
    let node = Ipv4Addr::new(127, 0, 3, 1);
    attacker.request(&setup(1, node, SMF_STARTED)).unwrap();
    let mut messages = messages::all(Seid(0x1234_5678));
    // The association stays: the node processes few messages of strangers per second.
    messages.retain(|(name, _)| name.starts_with("session") || *name == "path switch");
    let mut number = 0;
    let mut throw = |bytes: &[u8]| {
        number += 1;
        attacker.send_unanswered(number, bytes);
    };
    for (_, message) in &messages {
        for ie in ies(message) {
            throw(&without(message, &ie));
            throw(&with_value(message, &ie, &[]));
            throw(&with_value(message, &ie, &[0xff; 40]));
            for len in [ie.len() + 1, ie.len() + 1000, 0xffff] {
                throw(&with_length(message, &ie, u16::try_from(len).unwrap()));
            }
        }
        for len in 0..message.len() {
            throw(&message[..len]);
        }
        for tail in [&[0x80, 1, 0, 0][..], &[0xff, 0xff, 0, 1, 0], &[0]] {
            throw(&with_tail(message, tail));
        }
    }
    for message_type in 0..=255u8 {
        throw(&[0x20, message_type, 0, 4, 0, 0, 7, 0]);
        throw(&[0x21, message_type, 0, 12, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 7, 0]);
    }
    throw(&[]);
    throw(&vec![0x21; 60_000]);
    attacker.assert_alive();
    // The process still establishes sessions. An SMF that has restarted has none of those before.
    while attacker.receive().is_some() {}
    attacker.socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    attacker.request(&setup(0x00c0_0001, node, SMF_STARTED + 1)).unwrap();
    let mut script = SessionScript::new(5, 500);
    script.gnb_teid = adit_types::Teid(0x500);
    let answer = attacker.request(&establish(0x00c0_0002, &script)).unwrap();
    let Message::SessionEstablishmentResponse(body) = decode(&answer) else { panic!() };
    assert!(body.cause.is_accepted(), "{body:?}");
}
