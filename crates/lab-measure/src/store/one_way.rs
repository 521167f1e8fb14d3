//! Throughput of a stream in one direction.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use adit_transport::Transport;
use adit_types::Nanos;
use anyhow::{Context, Result};

use super::load::{LoadControl, RunClock, open_stream};

/// Octets that a sender writes at a time, as in the study.
const WRITE_BYTES: usize = 8192;
/// Octets that a receiver reads at a time.
const READ_BYTES: usize = 65_536;
/// Longest sleep of a thread that waits for events.
const WAIT_MAX: Duration = Duration::from_millis(20);
/// Time between two rests of the sender, as in [`super::load`].
const RUN_NS: Nanos = Nanos::from_millis(12);

/// A run in one direction.
pub(super) struct OneWayRun<'a> {
    clock: RunClock,
    /// Address of the receiver.
    peer: SocketAddr,
    /// How long the sender sends.
    span: Nanos,
    control: &'a LoadControl,
    /// Number of octets that arrived.
    pub octets: AtomicU64,
    /// Time from the first to the last octet. Unit: ns.
    pub span_ns: AtomicU64,
}

impl<'a> OneWayRun<'a> {
    pub(super) fn new(
        clock: RunClock,
        peer: SocketAddr,
        span: Nanos,
        control: &'a LoadControl,
    ) -> Self {
        let [octets, span_ns] = [0, 0].map(AtomicU64::new);
        Self { clock, peer, span, control, octets, span_ns }
    }

    /// Receives from one peer until `done`.
    ///
    /// # Errors
    /// The transport cannot listen at the address.
    pub(super) fn receive<T: Transport>(&self, transport: &mut T, done: &AtomicBool) -> Result<()> {
        let Self { clock, peer, control, .. } = *self;
        transport.listen(peer).with_context(|| format!("listen at {peer}"))?;
        let mut room = vec![0; READ_BYTES];
        let (mut stream, mut first) = (None, None);
        while !done.load(Ordering::Relaxed) {
            transport.poll(clock.now());
            stream = stream.or_else(|| transport.accept());
            let received = stream.map_or(Ok(0), |stream| transport.receive(stream, &mut room));
            match received {
                Ok(0) => {
                    control.rest_with_clients();
                    transport.wait(WAIT_MAX);
                }
                Ok(len) => {
                    let now = clock.now();
                    let first = *first.get_or_insert(now);
                    self.octets.fetch_add(u64::try_from(len).unwrap_or(0), Ordering::Relaxed);
                    self.span_ns.store(now.since(first).0, Ordering::Relaxed);
                }
                Err(_) => stream = None,
            }
        }
        Ok(())
    }

    /// Sends to the receiver.
    ///
    /// # Errors
    /// The peer does not accept, or ends the stream; `stop` was raised.
    pub(super) fn send<T: Transport>(&self, transport: &mut T) -> Result<()> {
        let Self { clock, peer, span, control, .. } = *self;
        let stream = open_stream(transport, clock, peer, &control.stop)?;
        let data = vec![b'x'; WRITE_BYTES];
        let begin = clock.now();
        let mut rest_due = begin + RUN_NS;
        loop {
            let now = clock.now();
            if now.since(begin) >= span {
                break;
            }
            transport.poll(now);
            let sent = transport.send(stream, &data).context("the stream ended")?;
            if sent == 0 {
                transport.wait(WAIT_MAX);
            }
            if now >= rest_due {
                control.stop.check()?;
                if control.rests {
                    control.rest();
                }
                rest_due = clock.now() + RUN_NS;
            }
        }
        transport.close(stream);
        Ok(())
    }
}
