//! `adit bench n4`: what a PFCP session costs on the control side.
//!
//! Three figures: decoding one typical establishment with every rule visited; establishments through
//! the whole node in this process (decode, session change, publication, response); and the same over
//! a loopback socket with a window of requests outstanding, as an SMF would keep.

use std::hint::black_box;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use adit_n4::Node;
use adit_pfcp::{Cause, Datagram, Message};
use adit_tables::Publisher;
use adit_types::Nanos;
use adit_types::limits::PFCP_MESSAGE_BYTES_MAX;
use anyhow::{Context, bail, ensure};
use serde_json::json;

use super::smf;

/// Decodings measured.
const DECODINGS: u32 = 1_000_000;

/// Requests that the client keeps outstanding on the socket.
const WINDOW: u32 = 64;

/// Patience with a response on the loopback.
const PATIENCE: Duration = Duration::from_secs(2);

/// The node with its publisher, and no worker: a delta is observed at once.
struct Plant {
    node: Node,
    publisher: Publisher,
}

/// Measures with `resident` sessions in place, establishing `measured` more in each way.
///
/// # Errors
/// When a request is refused or the loopback loses a datagram for good.
pub fn run(resident: u32, measured: u32, json: bool) -> anyhow::Result<()> {
    let (decode_ns, decode_allocations, message_bytes) = decode()?;
    let mut plant = Plant::new(resident + 2 * measured)?;
    plant.associate()?;
    eprintln!("establishing {resident} resident sessions");
    plant.establish(0, resident)?;
    let started = Instant::now();
    let allocations = allocation_counter::measure(|| {
        // The outcome is checked by the count of sessions below.
        let _ = plant.establish(resident, measured);
    });
    let in_process = rate(measured, started.elapsed());
    let sessions = plant.node.store().len();
    ensure!(
        sessions == usize::try_from(resident + measured)?,
        "{sessions} sessions after {} requests",
        resident + measured
    );
    eprintln!("establishing {measured} sessions over a loopback socket");
    let over_socket = over_socket(plant, resident + measured, measured)?;
    let document = json!({
        "bench": "n4",
        "rules_per_session": smf::RULES_PER_SESSION,
        "establishment_request_bytes": message_bytes,
        "decode_ns": decode_ns,
        "decode_allocations": decode_allocations,
        "resident_sessions": resident,
        "measured_sessions": measured,
        "in_process_establishments_per_s": in_process,
        "in_process_allocations_per_establishment":
            allocations.count_total / u64::from(measured.max(1)),
        "loopback_establishments_per_s": over_socket,
        "loopback_window": WINDOW,
    });
    if json {
        println!("{}", serde_json::to_string_pretty(&document)?);
    } else {
        for (name, value) in document.as_object().into_iter().flatten() {
            println!("{:45} {value}", name.replace('_', " "));
        }
    }
    Ok(())
}

/// Nanoseconds and allocations of one decoding with every rule visited, and the request's octets.
fn decode() -> anyhow::Result<(f64, u64, usize)> {
    let mut buf = [0; smf::REQUEST_BYTES_MAX];
    let len = smf::establishment(&mut buf, 1, 1).context("the request fits its buffer")?;
    let request = &buf[..len];
    ensure!(visit(request) == 6, "the request has six rules");
    let started = Instant::now();
    let allocations = allocation_counter::measure(|| {
        for _ in 0..DECODINGS {
            black_box(visit(black_box(request)));
        }
    });
    let ns = started.elapsed().as_secs_f64() * 1e9 / f64::from(DECODINGS);
    Ok(((ns * 10.0).round() / 10.0, allocations.count_total, len))
}

/// Decodes a datagram and visits every rule; returns how many rules there are.
fn visit(datagram: &[u8]) -> usize {
    let mut rules = 0;
    for raw in Datagram::new(datagram).flatten() {
        if let Ok(Message::SessionEstablishmentRequest(request)) = Message::decode(&raw) {
            rules +=
                request.create_pdrs.iter().map(|pdr| usize::from(pdr.pdr_id.0 > 0)).sum::<usize>();
            rules +=
                request.create_fars.iter().map(|far| usize::from(far.far_id.0 > 0)).sum::<usize>();
            rules +=
                request.create_qers.iter().map(|qer| usize::from(qer.qer_id.0 > 0)).sum::<usize>();
            rules +=
                request.create_urrs.iter().map(|urr| usize::from(urr.urr_id.0 > 0)).sum::<usize>();
        }
    }
    rules
}

impl Plant {
    fn new(sessions_max: u32) -> anyhow::Result<Self> {
        let (node, publisher) = super::sessions::control_side(usize::try_from(sessions_max)?)?;
        Ok(Self { node, publisher })
    }

    fn associate(&mut self) -> anyhow::Result<()> {
        let mut buf = [0; smf::REQUEST_BYTES_MAX];
        let len = smf::association_setup(&mut buf).context("the request fits its buffer")?;
        self.turn(Nanos(1), &buf[..len], |_| {});
        ensure!(self.node.associations().count() == 1, "the association was refused");
        Ok(())
    }

    /// Establishes `count` sessions from number `first` on.
    fn establish(&mut self, first: u32, count: u32) -> anyhow::Result<()> {
        let mut buf = [0; smf::REQUEST_BYTES_MAX];
        let mut refused = None;
        for number in first..first + count {
            let len = smf::establishment(&mut buf, sequence(number), number)
                .context("the request fits its buffer")?;
            // One microsecond of virtual time per request, so that answered requests expire.
            let now = Nanos(1_000 * u64::from(number));
            self.turn(now, &buf[..len], |response| refused = refused.or(refusal(response)));
            if let Some(cause) = refused {
                bail!("session {number} was refused with Cause {cause}");
            }
        }
        Ok(())
    }

    /// One turn of the control thread with one datagram.
    fn turn(&mut self, now: Nanos, datagram: &[u8], mut sent: impl FnMut(&[u8])) {
        let Self { node, publisher } = self;
        let peer = std::net::SocketAddr::from((smf::CP_ADDR, adit_pfcp::PFCP_PORT));
        node.handle_datagram(now, peer, datagram);
        node.handle_timeout(now);
        while let Some((id, delta)) = node.poll_delta() {
            publisher.apply(id, delta);
        }
        while let Some(id) = publisher.poll_observed() {
            node.handle_published(now, id);
        }
        while let Some(datagram) = node.poll_transmit() {
            sent(&datagram.bytes);
        }
    }
}

/// The Cause of an establishment that was not accepted.
fn refusal(response: &[u8]) -> Option<Cause> {
    let raw = Datagram::new(response).next()?.ok()?;
    match Message::decode(&raw) {
        Ok(Message::SessionEstablishmentResponse(response)) => {
            (!response.cause.is_accepted()).then_some(response.cause)
        }
        _ => None,
    }
}

/// Establishments per second with the node behind a socket of its own, on a thread of its own.
fn over_socket(mut plant: Plant, first: u32, count: u32) -> anyhow::Result<u64> {
    let server = UdpSocket::bind((smf::CP_ADDR, 0))?;
    let address = server.local_addr()?;
    server.set_read_timeout(Some(Duration::from_millis(20)))?;
    let stop = Arc::new(AtomicBool::new(false));
    let serving = Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        let mut buf = vec![0; PFCP_MESSAGE_BYTES_MAX];
        let started = Instant::now();
        while !serving.load(Ordering::Relaxed) {
            let Ok((len, peer)) = server.recv_from(&mut buf) else { continue };
            let elapsed = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let now = Nanos::from_secs(3600) + Nanos(elapsed);
            plant.turn(now, &buf[..len], |response| {
                // A response that the socket does not take shows as a missing one at the client.
                let _ = server.send_to(response, peer);
            });
        }
    });
    let result = drive(address, first, count);
    stop.store(true, Ordering::Relaxed);
    ensure!(thread.join().is_ok(), "the node's thread failed");
    Ok(rate(count, result?))
}

/// Keeps [`WINDOW`] requests outstanding until `count` were accepted; returns the time.
fn drive(address: std::net::SocketAddr, first: u32, count: u32) -> anyhow::Result<Duration> {
    let client = UdpSocket::bind((smf::CP_ADDR, 0))?;
    client.connect(address)?;
    client.set_read_timeout(Some(PATIENCE))?;
    let mut request = [0; smf::REQUEST_BYTES_MAX];
    let mut response = vec![0; PFCP_MESSAGE_BYTES_MAX];
    let started = Instant::now();
    let (mut sent, mut accepted) = (0, 0);
    while accepted < count {
        while sent < count && sent - accepted < WINDOW {
            let number = first + sent;
            let len = smf::establishment(&mut request, sequence(number), number)
                .context("the request fits its buffer")?;
            client.send(&request[..len])?;
            sent += 1;
        }
        let len = client.recv(&mut response).context("no response over the loopback socket")?;
        if let Some(cause) = refusal(&response[..len]) {
            bail!("a session was refused with Cause {cause}");
        }
        accepted += 1;
    }
    Ok(started.elapsed())
}

/// Sequence numbers have 24 bits, and 1 was the association's.
const fn sequence(number: u32) -> u32 {
    (number + 2) & adit_pfcp::SEQUENCE_MAX
}

fn rate(count: u32, elapsed: Duration) -> u64 {
    let per_s = f64::from(count) / elapsed.as_secs_f64().max(1e-9);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate of at most 10^9, and positive"
    )]
    let rounded = per_s.round() as u64;
    rounded
}
