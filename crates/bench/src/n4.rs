//! `adit-bench n4`: cost of a PFCP session on the control side.
//!
//! Measures the decoding of a typical establishment with all its rules; establishments,
//! modifications and deletions through the whole node in this process (decoding, session change,
//! publication, response); establishments over a loopback socket with a window of outstanding
//! requests, as from an SMF; and the longest turns of the control thread while PFDs change, while a
//! reload compiles the rules of all sessions anew, while another SMF of a set takes over all
//! sessions, and while their association ends. During such a turn other peers wait for their
//! heartbeats.

use std::hint::black_box;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use adit_n4::Node;
use adit_pfcp::{Message, PfcpDatagram};
use adit_types::Nanos;
use adit_types::limits::PFCP_MESSAGE_BYTES_MAX;
use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::control_plane::{BenchControlPlane, rate, refusal};
use super::size::parse_sessions;
use super::{report, smf};
use adit_kernel::n4_socket::N4Socket;
use adit_kernel::n4_socket::RECEIVE_BUFFER_KIB;

/// Number of measured decodings.
const DECODINGS: u32 = 1_000_000;

/// Number of requests that the client keeps outstanding.
const WINDOW: u32 = 200;

/// Timeout for a response over the loopback socket.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Options of the bench.
#[derive(Debug, clap::Args)]
pub(crate) struct N4Arguments {
    /// Sessions established before the measurement.
    #[arg(long, value_name = "COUNT", default_value = "100k", value_parser = parse_sessions)]
    pub resident: u32,
    /// Sessions established in each measurement.
    #[arg(long, value_name = "COUNT", default_value = "100k", value_parser = parse_sessions)]
    pub sessions: u32,
    /// Compare establishments with this store and without, and restore them.
    #[arg(long, value_name = "KIND", value_enum)]
    pub store: Option<BenchStore>,
    /// Folder of the journal, on the disk to be measured; it must not have a journal yet.
    #[arg(long, value_name = "PATH", default_value = "adit-bench-journal")]
    pub folder: PathBuf,
    /// How the standby is reached, and answers.
    #[arg(long, value_name = "TRANSPORT", value_enum, default_value = "user")]
    pub transport: StandbyTransport,
    /// CPU cores of the active adit's threads, and of the standby.
    #[arg(long, value_name = "CORES", value_delimiter = ',', num_args = 2, default_values_t = [0, 1])]
    pub cores: Vec<u16>,
}

/// A store of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum BenchStore {
    /// A journal in a folder.
    Journal,
    /// A standby, whose acknowledgment is enough for an answer, in front of a store in memory.
    Standby,
}

/// How an adit and its standby reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum StandbyTransport {
    /// TCP in user space at both ends of a memif.
    User,
    /// TCP of the kernel over the loopback device, polled.
    Polled,
    /// TCP of the kernel over the loopback device; threads sleep.
    Blocking,
}

/// Establishes resident sessions, then more in each measurement.
///
/// # Errors
/// A request is refused, or the loopback socket loses a datagram.
pub(crate) fn run(arguments: &N4Arguments) -> anyhow::Result<Value> {
    let &N4Arguments { resident, sessions: measured, .. } = arguments;
    let (decode_ns, message_bytes) = decode()?;
    let mut control = BenchControlPlane::new(resident + 2 * measured, 0)?;
    eprintln!("establishing {resident} resident sessions");
    control.establish(0, resident)?;
    let established = timed(measured, || control.establish(resident, measured))?;
    let modified = timed(measured.min(resident), || control.modify(0, measured.min(resident)))?;
    let deleted = timed(measured, || control.delete(resident, measured))?;
    let sessions = control.node.store().len();
    ensure!(sessions == usize::try_from(resident)?, "{sessions} sessions are left");
    eprintln!("establishing {measured} sessions over a loopback socket");
    let (mut control, over_socket) = over_socket(control, resident + measured, measured)?;
    let mut buf = [0; smf::REQUEST_BYTES_MAX];
    let len = smf::pfd_management(&mut buf).context("the request fits its buffer")?;
    let (pfds_ms, pfds_turn_ms) = longest_turn(&mut control, &buf[..len])?;
    let (reload_ms, reload_turn_ms) = reload(&mut control)?;
    let (hand_over_ms, hand_over_turn_ms) = hand_over(&mut control)?;
    eprintln!("ending the association of {} sessions", control.node.store().len());
    let len = smf::association_release(&mut buf).context("the request fits its buffer")?;
    let (end_ms, end_turn_ms) = longest_turn(&mut control, &buf[..len])?;
    ensure!(control.node.store().is_empty(), "sessions are left");
    Ok(json!({
        "rules_per_session": smf::RULES_PER_SESSION,
        "establishment_request_bytes": message_bytes,
        "decode_ns": decode_ns,
        "resident_sessions": resident,
        "measured_sessions": measured,
        "in_process_establishments_per_s": established,
        "in_process_modifications_per_s": modified,
        "in_process_deletions_per_s": deleted,
        "loopback_establishments_per_s": over_socket,
        "loopback_window": WINDOW,
        "pfd_change_ms": pfds_ms,
        "pfd_change_longest_turn_ms": pfds_turn_ms,
        "reload_ms": reload_ms,
        "reload_longest_turn_ms": reload_turn_ms,
        "hand_over_ms": hand_over_ms,
        "hand_over_longest_turn_ms": hand_over_turn_ms,
        "association_end_ms": end_ms,
        "association_end_longest_turn_ms": end_turn_ms,
    }))
}

/// Reloads a configuration with another burst of rates, so that the rules of all sessions are
/// compiled anew. Returns the duration and the longest turn. Unit: milliseconds.
fn reload(control: &mut BenchControlPlane) -> anyhow::Result<(f64, f64)> {
    let mut config = control.node.config().clone();
    config.store.provisioning.qos.burst = Nanos::from_millis(200);
    let mut heartbeat = [0; smf::REQUEST_BYTES_MAX];
    let len = smf::heartbeat(&mut heartbeat).context("the request fits its buffer")?;
    eprintln!("reloading with {} sessions", control.node.store().len());
    let before = control.publisher.counters().deltas_applied;
    let took = longest_turn_after(control, &heartbeat[..len], |node, now| {
        node.reconfigure(now, config, true);
    })?;
    let applied = control.publisher.counters().deltas_applied - before;
    let sessions = control.node.store().len() as u64;
    ensure!(applied == sessions, "{applied} of {sessions} sessions got their rules again");
    Ok(took)
}

/// Restarts an SMF of a set, so that another SMF takes over its sessions, and moves them back.
/// Returns the duration of the takeover and the longest turn. Unit: milliseconds.
fn hand_over(control: &mut BenchControlPlane) -> anyhow::Result<(f64, f64)> {
    let second = std::net::Ipv4Addr::from_bits(smf::CP_ADDR.to_bits() + 1);
    let from = |addr| SocketAddr::from((addr, adit_pfcp::PFCP_PORT));
    let now = Nanos::from_secs(3500);
    let mut buf = [0; smf::REQUEST_BYTES_MAX];
    let no_room = "the request fits its buffer";
    let len = smf::joining_set(&mut buf).context(no_room)?;
    control.node.handle_datagram(now, from(smf::CP_ADDR), &buf[..len]);
    let len = smf::association_setup_in_set(&mut buf, second, 1).context(no_room)?;
    control.node.handle_datagram(now, from(second), &buf[..len]);
    ensure!(control.node.associations().count() == 2, "the second SMF has no association");
    let len = smf::association_setup_in_set(&mut buf, smf::CP_ADDR, 2).context(no_room)?;
    let took = longest_turn(control, &buf[..len])?;
    let sessions_of = |control: &BenchControlPlane, addr: std::net::Ipv4Addr| {
        let association = control.node.association(addr.into());
        association.map_or(0, |association| control.node.store().owned_count(association.owner))
    };
    let all = control.node.store().len();
    ensure!(sessions_of(control, second) == all, "sessions were not handed over");
    let len = smf::association_setup_in_set(&mut buf, second, 2).context(no_room)?;
    control.node.handle_datagram(now, from(second), &buf[..len]);
    let len = smf::heartbeat(&mut buf).context(no_room)?;
    longest_turn(control, &buf[..len])?;
    ensure!(sessions_of(control, smf::CP_ADDR) == all, "sessions were not handed over");
    Ok(took)
}

/// Runs `run` and returns the rate of the `count` events in it.
fn timed(count: u32, run: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<u64> {
    let started = Instant::now();
    run()?;
    Ok(rate(count, started.elapsed()))
}

/// Measures the decoding of one request with all its rules. Returns the nanoseconds of a decoding
/// and the request's length.
fn decode() -> anyhow::Result<(f64, usize)> {
    let mut buf = [0; smf::REQUEST_BYTES_MAX];
    let len = smf::establishment(&mut buf, 1, 1).context("the request fits its buffer")?;
    let request = &buf[..len];
    ensure!(visit(request) == 7, "the request has seven rules");
    let started = Instant::now();
    for _ in 0..DECODINGS {
        black_box(visit(black_box(request)));
    }
    let ns = started.elapsed().as_secs_f64() * 1e9 / f64::from(DECODINGS);
    Ok((report::rounded(ns), len))
}

/// Decodes a datagram and visits every rule. Returns the number of rules.
fn visit(datagram: &[u8]) -> usize {
    let mut rules = 0;
    for raw in PfcpDatagram::new(datagram).flatten() {
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

/// Handles a request, then a heartbeat in each turn until the resulting job is done. Returns the
/// total time and the longest turn. Unit: milliseconds.
fn longest_turn(control: &mut BenchControlPlane, request: &[u8]) -> anyhow::Result<(f64, f64)> {
    longest_turn_after(control, request, |_, _| ())
}

/// Runs `begin` and handles a request in one turn, then a heartbeat in each turn until the
/// resulting job is done. Returns the total time and the longest turn. Unit: milliseconds.
fn longest_turn_after(
    control: &mut BenchControlPlane,
    request: &[u8],
    begin: impl FnOnce(&mut Node, Nanos),
) -> anyhow::Result<(f64, f64)> {
    let mut heartbeat = [0; smf::REQUEST_BYTES_MAX];
    let len = smf::heartbeat(&mut heartbeat).context("the request fits its buffer")?;
    let now = Nanos::from_secs(3500);
    // An unmeasured turn for the timers that are due since the last request.
    control.turn(now, &heartbeat[..len], |_| ());
    let (started, mut longest, mut datagram) = (Instant::now(), Duration::ZERO, request);
    let mut begin = Some(begin);
    loop {
        let (turn, mut answers) = (Instant::now(), 0);
        if let Some(begin) = begin.take() {
            begin(&mut control.node, now);
        }
        control.turn(now, datagram, |_| answers += 1);
        longest = longest.max(turn.elapsed());
        ensure!(answers > 0 || datagram == request, "a heartbeat was not answered");
        datagram = &heartbeat[..len];
        let is_done = control.node.poll_timeout().is_none_or(|at| at > now);
        if is_done && control.publisher.unobserved() == 0 {
            let ms = |span: Duration| (span.as_secs_f64() * 1e5).round() / 100.0;
            return Ok((ms(started.elapsed()), ms(longest)));
        }
    }
}

/// Returns the node, and the establishments per second over a socket to it, on its own thread.
fn over_socket(
    mut control: BenchControlPlane,
    first: u32,
    count: u32,
) -> anyhow::Result<(BenchControlPlane, u64)> {
    let mut server = N4Socket::bind((smf::CP_ADDR, 0).into(), RECEIVE_BUFFER_KIB * 1024)?;
    let address = server.local_addr()?;
    let stop = Arc::new(AtomicBool::new(false));
    let serving = Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        let started = Instant::now();
        let mut responses: Vec<(SocketAddr, Vec<u8>)> = Vec::new();
        while !serving.load(Ordering::Relaxed) {
            let timeout = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            let _ = poll(&mut [PollFd::new(&server, PollFlags::IN)], Some(&timeout));
            let elapsed = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let now = Nanos::from_secs(1800) + Nanos(elapsed);
            let taken = server.receive(64, |peer, request| {
                control.turn(now, request, |response| responses.push((peer, response.to_vec())));
            });
            for (peer, response) in responses.drain(..) {
                // If this fails, the client misses the response.
                let _ = server.send_to(&response, peer, true);
            }
            if taken.is_err() {
                break;
            }
        }
        (control, server.dropped())
    });
    let result = send_establishments(address, first, count);
    stop.store(true, Ordering::Relaxed);
    let Ok((control, dropped)) = thread.join() else { bail!("the node's thread failed") };
    let elapsed = result.with_context(|| format!("the kernel dropped {dropped} requests"))?;
    ensure!(dropped == 0, "the kernel dropped {dropped} requests");
    Ok((control, rate(count, elapsed)))
}

/// Keeps [`WINDOW`] requests outstanding until `count` are accepted. Returns the time.
fn send_establishments(
    address: std::net::SocketAddr,
    first: u32,
    count: u32,
) -> anyhow::Result<Duration> {
    let client = UdpSocket::bind((smf::CP_ADDR, 0))?;
    client.connect(address)?;
    client.set_read_timeout(Some(TIMEOUT))?;
    let mut request = [0; smf::REQUEST_BYTES_MAX];
    let mut response = vec![0; PFCP_MESSAGE_BYTES_MAX];
    let started = Instant::now();
    let (mut sent, mut accepted) = (0, 0);
    while accepted < count {
        while sent < count && sent - accepted < WINDOW {
            let number = first + sent;
            let len = smf::establishment(&mut request, smf::sequence(number), number)
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
