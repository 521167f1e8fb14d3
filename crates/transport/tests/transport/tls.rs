//! TLS with certificates of both sides: the peer gets through, strangers get nothing and keep
//! nobody out.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use adit_transport::{
    KernelTcp, KernelWait, StreamId, StreamState, TlsFault, TlsIdentity, TlsSettings, TlsTransport,
    Transport, TransportError,
};
use adit_types::Nanos;
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(20);
const OWN: &str = "127.0.0.1";

/// Certificates of two authorities: `peer` and `elsewhere` of the first one, for different
/// addresses, `foreign` of the other.
struct Certificates(TempDir);

impl Certificates {
    /// `None`, with the reason printed, without the program that makes them.
    fn make() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        if Command::new("openssl").arg("version").output().is_err() {
            eprintln!("skipped: openssl is not installed");
            return None;
        }
        for authority in ["ca", "other"] {
            openssl(dir.path(), &format!("-x509 -subj /CN={authority}"), authority);
        }
        for (name, authority, address) in
            [("peer", "ca", OWN), ("elsewhere", "ca", "127.0.0.9"), ("foreign", "other", OWN)]
        {
            let options = format!(
                "-x509 -CA {authority}.pem -CAkey {authority}.key -subj /CN={name} \
                 -addext subjectAltName=IP:{address} -addext basicConstraints=critical,CA:FALSE"
            );
            openssl(dir.path(), &options, name);
        }
        Some(Self(dir))
    }

    fn read(&self, file: &str) -> Vec<u8> {
        fs::read(self.0.path().join(file)).unwrap()
    }

    fn identity(&self, of: &str) -> TlsIdentity {
        let [certificate, key] = ["pem", "key"].map(|kind| self.read(&format!("{of}.{kind}")));
        TlsIdentity { certificate, key }
    }

    /// Trusts the first authority, shows `own`, and demands the certificate of [`OWN`].
    fn settings(&self, own: Option<&str>) -> TlsSettings {
        let identity = own.map(|own| self.identity(own));
        TlsSettings::new(&self.read("ca.pem"), identity, Some(OWN)).unwrap()
    }

    fn transport(&self, own: Option<&str>) -> Tls {
        Tls::new(KernelTcp::new(KernelWait::Sleep).unwrap(), self.settings(own))
    }

    /// An end that listens, with its address.
    fn listening(&self, own: &str) -> (Tls, SocketAddr) {
        let address = TcpListener::bind((OWN, 0)).unwrap().local_addr().unwrap();
        let mut server = self.transport(Some(own));
        server.listen(address).unwrap();
        (server, address)
    }
}

type Tls = TlsTransport<KernelTcp>;

fn openssl(dir: &Path, options: &str, name: &str) {
    let line = format!(
        "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout {name}.key -out {name}.pem {options}"
    );
    let output = Command::new("openssl").current_dir(dir).args(line.split_whitespace()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Polls until `done`. The clock stands still.
fn until(transports: &mut [&mut Tls], mut done: impl FnMut(&mut [&mut Tls]) -> bool) {
    let end = Instant::now() + LIMIT;
    while !done(transports) {
        assert!(Instant::now() < end, "nothing happens");
        for transport in transports.iter_mut() {
            transport.wait(Duration::from_millis(1));
            transport.poll(Nanos(0));
        }
    }
}

/// Connects, and returns both ends.
fn connected(client: &mut Tls, server: &mut Tls, address: SocketAddr) -> (StreamId, StreamId) {
    let near = client.connect(address).unwrap();
    let mut far = None;
    until(&mut [client, server], |all| {
        far = far.or_else(|| all[1].accept());
        let state = all[0].state(near);
        assert!(!matches!(state, StreamState::Closed(_)), "{state:?}");
        far.is_some() && state == StreamState::Open
    });
    (near, far.unwrap())
}

/// Sends from one end, and checks that it arrives at the other one.
fn transfer(from: (&mut Tls, StreamId), to: (&mut Tls, StreamId), octets: usize) {
    let data: Vec<u8> = (0..octets).map(|at| at.to_le_bytes()[0]).collect();
    let (mut sent, mut received, mut room) = (0, Vec::new(), [0; 5000]);
    until(&mut [from.0, to.0], |all| {
        sent += all[0].send(from.1, &data[sent..]).unwrap();
        let len = all[1].receive(to.1, &mut room).unwrap();
        received.extend_from_slice(&room[..len]);
        received.len() == data.len()
    });
    assert!(received == data);
}

/// The error of a stream that a client with the certificate `own` opens to a server with
/// `of_server`. The server accepts nothing.
fn refusal(certificates: &Certificates, own: Option<&str>, of_server: &str) -> TransportError {
    let (mut server, address) = certificates.listening(of_server);
    let mut client = certificates.transport(own);
    let near = client.connect(address).unwrap();
    let mut error = None;
    until(&mut [&mut client, &mut server], |all| {
        assert_eq!(all[1].accept(), None);
        let state = all[0].state(near);
        // The client's part of the handshake ends before the server's.
        if state == StreamState::Open {
            let _ = all[0].send(near, b"x");
        }
        if let StreamState::Closed(why) = state {
            error = Some(why);
        }
        error.is_some()
    });
    error.unwrap()
}

#[test]
fn peers_with_certificates_of_each_other_exchange_octets_both_ways() {
    let Some(certificates) = Certificates::make() else { return };
    let (mut server, address) = certificates.listening("peer");
    let mut client = certificates.transport(Some("peer"));
    let (near, far) = connected(&mut client, &mut server, address);
    transfer((&mut client, near), (&mut server, far), 3_000_000);
    transfer((&mut server, far), (&mut client, near), 3_000_000);
    client.close(near);
    let (mut end, mut room) = (None, [0; 10]);
    until(&mut [&mut client, &mut server], |all| {
        end = all[1].receive(far, &mut room).err();
        end.is_some()
    });
    assert_eq!(end, Some(TransportError::Ended));
}

#[test]
fn stream_that_its_peer_has_ended_is_closed_at_once() {
    let Some(certificates) = Certificates::make() else { return };
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (mut server, address) = certificates.listening("peer");
        let mut client = certificates.transport(Some("peer"));
        let (_, far) = connected(&mut client, &mut server, address);
        drop(client);
        until(&mut [&mut server], |all| all[0].receive(far, &mut [0; 10]).is_err());
        assert_eq!(server.send(far, b"x"), Err(TransportError::Ended));
        server.close(far);
        done.send(()).unwrap();
    });
    is_done.recv_timeout(LIMIT).unwrap();
}

#[test]
fn certificates_of_strangers_are_refused_on_both_sides() {
    let Some(certificates) = Certificates::make() else { return };
    let own = TransportError::Tls(TlsFault::OwnCertificate);
    assert_eq!(refusal(&certificates, Some("foreign"), "peer"), own, "of another authority");
    assert_eq!(refusal(&certificates, Some("elsewhere"), "peer"), own, "for another address");
    assert_eq!(refusal(&certificates, None, "peer"), own, "none");
    let of = |fault| TransportError::Tls(fault);
    assert_eq!(refusal(&certificates, Some("peer"), "foreign"), of(TlsFault::UnknownIssuer));
    assert_eq!(refusal(&certificates, Some("peer"), "elsewhere"), of(TlsFault::OtherName));
}

#[test]
fn transport_without_a_certificate_or_a_name_accepts_nothing() {
    let Some(certificates) = Certificates::make() else { return };
    let address = TcpListener::bind((OWN, 0)).unwrap().local_addr().unwrap();
    let mut nobody = certificates.transport(None);
    assert_eq!(nobody.listen(address), Err(TransportError::ClientOnly));
    let identity = certificates.identity("peer");
    let settings = TlsSettings::new(&certificates.read("ca.pem"), Some(identity), None).unwrap();
    let mut nameless = Tls::new(KernelTcp::new(KernelWait::Sleep).unwrap(), settings);
    assert_eq!(nameless.listen(address), Err(TransportError::ClientOnly));
}

#[test]
fn octets_that_are_not_tls_end_their_stream_and_no_other_one() {
    let Some(certificates) = Certificates::make() else { return };
    let (mut server, address) = certificates.listening("peer");
    let mut client = certificates.transport(Some("peer"));
    let (near, far) = connected(&mut client, &mut server, address);
    let plain = b"*5\r\n$10\r\nADIT.HELLO\r\n$1\r\n3\r\n$5\r\nupf-1\r\n$1\r\n1\r\n$1\r\n0\r\n";
    let longest = [&[22, 3, 1, 0xff, 0xff, 1, 0, 0xff, 0xff][..], &[0; 70_000]].concat();
    for octets in [&plain[..], &[0; 100_000], &longest] {
        let mut stranger = TcpStream::connect(address).unwrap();
        stranger.set_nonblocking(true).unwrap();
        let _ = stranger.write(octets);
        let mut answer = Vec::new();
        until(&mut [&mut server], |all| {
            assert_eq!(all[0].accept(), None);
            match stranger.read_to_end(&mut answer) {
                Ok(_) => true,
                Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
            }
        });
        // An alert at most.
        assert!(answer.len() <= 7, "{answer:?}");
    }
    transfer((&mut client, near), (&mut server, far), 1000);
}

#[test]
fn strangers_in_handshakes_keep_no_peer_out_and_do_not_stay() {
    let Some(certificates) = Certificates::make() else { return };
    let (mut server, address) = certificates.listening("peer");
    let mut strangers: Vec<_> = (0..100)
        .map(|_| {
            let stranger = TcpStream::connect(address).unwrap();
            stranger.set_nonblocking(true).unwrap();
            stranger
        })
        .collect();
    // The beginning of a record.
    strangers.iter_mut().for_each(|stranger| stranger.write_all(&[22, 3, 1]).unwrap());
    let mut client = certificates.transport(Some("peer"));
    let (near, far) = connected(&mut client, &mut server, address);
    let mut open = |server: &mut Tls, now| {
        server.wait(Duration::from_millis(1));
        server.poll(now);
        let is_open = |stranger: &mut TcpStream| {
            let read = stranger.read(&mut [0; 100]);
            read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
        };
        strangers.iter_mut().filter_map(|stranger| is_open(stranger).then_some(())).count()
    };
    assert_eq!(open(&mut server, Nanos::from_secs(2)), 16 - 1, "the peer had one of 16 places");
    // Their time is over.
    open(&mut server, Nanos::from_secs(4));
    assert_eq!(open(&mut server, Nanos::from_secs(4)), 0);
    transfer((&mut client, near), (&mut server, far), 1000);
}
