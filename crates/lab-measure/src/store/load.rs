//! Clients of a store on one thread: in a closed loop, or at a rate.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use adit_transport::resp::{CommandRefusal, RespClient, RespLimits, RespValue};
use adit_transport::{StreamId, StreamState, Transport};
use adit_types::Nanos;
use anyhow::{Context, Result, bail};

use super::case::{StoreCase, StoreOperation};
use super::distribution::{OperationTime, OperationTimes};
use adit_lab_process::stop::Stop;

/// The key of all operations, as long as that of `redis-benchmark`.
const OPERATION_KEY: &[u8] = b"key:000000000000";
/// Number of operations before the measured ones, which warm up caches and open congestion windows.
const WARM_UP_OPERATIONS: u64 = 500;
/// Longest wait for a connection or a reply.
const SILENCE_MAX: Nanos = Nanos::from_secs(10);
/// Longest sleep of a thread that waits for events, so that it sees Ctrl-C.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// Maximum number of commands of one client without a reply, at a rate.
const IN_FLIGHT_MAX: usize = 65_536;
/// Maximum number of octets of one client that wait to be sent.
const OUTPUT_BYTES_MAX: usize = 64 << 20;
/// Iterations of the loop between two checks for Ctrl-C.
const TURNS_PER_CHECK: u64 = 4096;

/// Time between two rests of real-time threads that poll: the kernel stops a real-time thread after
/// 95 % of a second for the rest of the second. Clients rest between operations, so no latency
/// contains a rest.
const RUN_NS: Nanos = Nanos::from_millis(12);
/// Number of operations of each client after a rest that do not count: they find cold caches and
/// halted cores.
const UNCOUNTED_OPERATIONS: u64 = 3;
/// Duration of a rest; see [`RUN_NS`].
const REST_DURATION: Duration = Duration::from_micros(900);
/// How much longer clients rest than a server of this process, so that it is ready first.
const HEAD_START: Duration = Duration::from_micros(300);
/// How long a resting server sleeps until it checks whether the clients still rest.
const NAP: Duration = Duration::from_micros(50);

/// State of a load that other threads read, and requests that they set.
#[derive(Debug, Default)]
pub(super) struct LoadControl {
    /// Number of operations with a reply.
    pub done: AtomicU64,
    /// True while the clients rest; a server of the same process then rests as well.
    pub resting: AtomicBool,
    /// True if clients rest between operations.
    pub rests: bool,
    /// Ends the run.
    pub stop: Stop,
}

impl LoadControl {
    /// Lets the clients rest. A server of the same process rests as well.
    pub(super) fn rest(&self) {
        self.resting.store(true, Ordering::Relaxed);
        std::thread::sleep(REST_DURATION);
        self.resting.store(false, Ordering::Relaxed);
        std::thread::sleep(HEAD_START);
    }

    /// Sleeps while the clients rest.
    pub(super) fn rest_with_clients(&self) {
        while self.resting.load(Ordering::Relaxed) {
            std::thread::sleep(NAP);
        }
    }
}

/// A clock that starts at zero.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunClock(Instant);

impl RunClock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn now(self) -> Nanos {
        Nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// The measured result of a load.
#[derive(Debug)]
pub(super) struct LoadOutcome {
    pub times: OperationTimes,
    /// Time from the first start to the last reply, without rests. Unit: ns.
    pub elapsed_ns: u64,
}

/// One client: its connection, and the starts of its operations as tags.
struct StoreClient {
    stream: StreamId,
    resp: RespClient<Nanos>,
}

/// All clients of a run.
pub(super) struct StoreLoad<'a, T> {
    transport: &'a mut T,
    clock: RunClock,
    case: &'a StoreCase,
    control: &'a LoadControl,
    value: Vec<u8>,
    clients: Vec<StoreClient>,
    in_flight: u64,
    turns: u64,
    last_reply: Nanos,
}

impl<'a, T: Transport> StoreLoad<'a, T> {
    /// Connects the clients to `peer`.
    ///
    /// # Errors
    /// The server does not accept, or does not answer.
    pub(super) fn connect(
        transport: &'a mut T,
        clock: RunClock,
        peer: std::net::SocketAddr,
        case: &'a StoreCase,
        control: &'a LoadControl,
    ) -> Result<Self> {
        let mut clients = Vec::new();
        for _ in 0..case.clients {
            let stream = open_stream(transport, clock, peer, &control.stop)?;
            let resp = RespClient::new(RespLimits::default(), IN_FLIGHT_MAX, OUTPUT_BYTES_MAX);
            clients.push(StoreClient { stream, resp });
        }
        let value = vec![b'x'; case.value_bytes];
        let last_reply = clock.now();
        let (in_flight, turns) = (0, 0);
        Ok(Self { transport, clock, case, control, value, clients, in_flight, turns, last_reply })
    }

    /// Warms up and measures.
    ///
    /// # Errors
    /// The server ends a connection, violates the protocol, answers with another value or an error,
    /// or not at all; `stop` was raised.
    pub(super) fn run(mut self) -> Result<LoadOutcome> {
        // Stores the value that later operations read.
        self.run_closed_loop(StoreOperation::Set, 1)?;
        self.run_closed_loop(self.case.operation, WARM_UP_OPERATIONS)?;
        self.control.done.store(0, Ordering::Relaxed);
        match self.case.rate {
            None => self.run_closed_loop(self.case.operation, self.case.operations),
            Some(rate) => {
                self.run_open_loop(self.case.operation, self.case.operations, rate.max(1))
            }
        }
    }

    /// Runs a closed loop: each client begins an operation after the reply of its previous one.
    fn run_closed_loop(
        &mut self,
        operation: StoreOperation,
        operations: u64,
    ) -> Result<LoadOutcome> {
        let mut times = OperationTimes::new(usize::try_from(operations).unwrap_or(0));
        let (mut left, begin) = (operations, self.clock.now());
        let (mut rested, mut rest_due, mut uncounted) = (Nanos(0), begin + RUN_NS, 0);
        let clients = u64::try_from(self.clients.len()).unwrap_or(1);
        while left > 0 || self.in_flight > 0 {
            let now = self.clock.now();
            let holds = self.control.rests && now >= rest_due;
            if holds && self.in_flight == 0 {
                rested += self.rest();
                rest_due = self.clock.now() + RUN_NS;
                uncounted = clients * UNCOUNTED_OPERATIONS;
                continue;
            }
            if self.in_flight == 0 && left > 0 {
                for index in 0..clients.min(left) {
                    self.begin(usize::try_from(index).unwrap_or(0), operation, self.clock.now())?;
                    left -= 1;
                }
            }
            self.transport.poll(now);
            let mut is_idle = true;
            for index in 0..self.clients.len() {
                while let Some(sent) = self.next_reply(index, operation)? {
                    is_idle = false;
                    let latency_ns = self.last_reply.since(sent).0;
                    let start_ns = sent.since(begin).0;
                    if uncounted > 0 {
                        uncounted -= 1;
                        left += 1;
                    } else {
                        times.record(OperationTime { start_ns, latency_ns });
                    }
                    if left > 0 && !holds {
                        left -= 1;
                        self.begin(index, operation, self.clock.now())?;
                    }
                }
            }
            self.end_iteration(is_idle, &times)?;
        }
        let elapsed_ns = self.last_reply.since(begin).since(rested).0;
        Ok(LoadOutcome { times, elapsed_ns })
    }

    /// Runs an open loop: replies do not change when operations begin. Latencies count from then.
    fn run_open_loop(
        &mut self,
        operation: StoreOperation,
        operations: u64,
        rate: u64,
    ) -> Result<LoadOutcome> {
        let mut times = OperationTimes::new(usize::try_from(operations).unwrap_or(0));
        let begin = self.clock.now();
        let due = |nth: u64| begin + Nanos(ns_of_operation(nth, rate));
        let (mut begun, mut next_client) = (0, 0);
        while begun < operations || self.in_flight > 0 {
            let now = self.clock.now();
            while begun < operations
                && due(begun) <= now
                && self.begin(next_client, operation, due(begun))?
            {
                begun += 1;
                next_client = (next_client + 1) % self.clients.len();
            }
            self.transport.poll(now);
            let mut is_idle = true;
            for index in 0..self.clients.len() {
                while let Some(intended) = self.next_reply(index, operation)? {
                    is_idle = false;
                    let latency_ns = self.last_reply.since(intended).0;
                    let start_ns = intended.since(begin).0;
                    times.record(OperationTime { start_ns, latency_ns });
                }
            }
            if is_idle && begun < operations {
                // A thread that sleeps too long begins its next operation late, and the latency
                // contains the delay.
                let left = due(begun).since(self.clock.now());
                self.transport.wait(left.to_duration().min(WAIT_MAX));
                is_idle = false;
            }
            if self.in_flight == 0 {
                self.last_reply = self.clock.now();
            }
            self.end_iteration(is_idle, &times)?;
        }
        let elapsed_ns = self.last_reply.since(begin).0;
        Ok(LoadOutcome { times, elapsed_ns })
    }

    /// Ends an iteration: waits if nothing happened. Now and then publishes the progress, and
    /// checks for Ctrl-C and for a server that does not reply.
    fn end_iteration(&mut self, is_idle: bool, times: &OperationTimes) -> Result<()> {
        if is_idle && self.in_flight > 0 {
            self.transport.wait(WAIT_MAX);
        }
        self.turns += 1;
        if is_idle || self.turns.is_multiple_of(TURNS_PER_CHECK) {
            let done = u64::try_from(times.count()).unwrap_or(u64::MAX);
            self.control.done.store(done, Ordering::Relaxed);
            self.control.stop.check()?;
            if self.in_flight > 0 && self.clock.now().since(self.last_reply) > SILENCE_MAX {
                bail!("the server sends no reply; {} operations wait", self.in_flight);
            }
        }
        Ok(())
    }

    /// Sends a command whose latency counts from `start`. False if too many commands wait already.
    fn begin(&mut self, index: usize, operation: StoreOperation, start: Nanos) -> Result<bool> {
        let client = self.clients.get_mut(index).context("a client that does not exist")?;
        let refused = match operation {
            StoreOperation::Set => {
                client.resp.command(start, &[b"SET", OPERATION_KEY, &self.value])
            }
            StoreOperation::Get => client.resp.command(start, &[b"GET", OPERATION_KEY]),
        };
        match refused {
            Ok(()) => self.in_flight += 1,
            Err(CommandRefusal::InFlight(_) | CommandRefusal::OutputFull(_)) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        flush(self.transport, client)?;
        Ok(true)
    }

    /// Returns the start of the operation whose reply is next; `None` if no reply has arrived.
    fn next_reply(&mut self, index: usize, operation: StoreOperation) -> Result<Option<Nanos>> {
        let client = self.clients.get_mut(index).context("a client that does not exist")?;
        flush(self.transport, client)?;
        loop {
            if let Some(reply) = client.resp.next_reply()? {
                let is_expected = match (operation, reply.value) {
                    (StoreOperation::Set, RespValue::Simple(b"OK")) => true,
                    (StoreOperation::Get, RespValue::Bulk(value)) => value == self.value,
                    _ => false,
                };
                if !is_expected {
                    bail!("the server answers {operation} with {:.80}", shown(&reply.value));
                }
                self.in_flight -= 1;
                self.last_reply = self.clock.now();
                return Ok(reply.tag);
            }
            let received = self.transport.receive(client.stream, client.resp.input_room());
            match received.context("a connection ended")? {
                0 => return Ok(None),
                len => client.resp.input_arrived(len),
            }
        }
    }

    /// Rests, with a server of this process as well. Returns for how long.
    fn rest(&self) -> Nanos {
        let before = self.clock.now();
        self.control.rest();
        self.clock.now().since(before)
    }
}

fn flush<T: Transport>(transport: &mut T, client: &mut StoreClient) -> Result<()> {
    while !client.resp.output().is_empty() {
        let sent = transport.send(client.stream, client.resp.output());
        match sent.context("a connection ended")? {
            0 => break,
            len => client.resp.output_sent(len),
        }
    }
    Ok(())
}

/// Opens a stream and waits until it is open.
///
/// # Errors
/// The peer refuses or does not answer; `stop` was raised.
pub(super) fn open_stream<T: Transport>(
    transport: &mut T,
    clock: RunClock,
    peer: std::net::SocketAddr,
    stop: &Stop,
) -> Result<StreamId> {
    let begin = clock.now();
    loop {
        let stream = transport.connect(peer).with_context(|| format!("connect to {peer}"))?;
        let refused = loop {
            stop.check()?;
            transport.poll(clock.now());
            transport.wait(Duration::from_millis(1));
            match transport.state(stream) {
                StreamState::Open => return Ok(stream),
                StreamState::Closed(error) => break error,
                StreamState::Connecting => {}
            }
        };
        transport.close(stream);
        // A server of this process may not listen yet.
        if clock.now().since(begin) > SILENCE_MAX {
            return Err(refused).with_context(|| format!("connect to {peer}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the due time of operation `nth` at `rate` per second. Unit: ns.
fn ns_of_operation(nth: u64, rate: u64) -> u64 {
    u64::try_from(u128::from(nth) * 1_000_000_000 / u128::from(rate)).unwrap_or(u64::MAX)
}

fn shown(value: &RespValue<'_>) -> String {
    match value {
        RespValue::Error(text) | RespValue::Simple(text) => {
            String::from_utf8_lossy(text).into_owned()
        }
        RespValue::Bulk(octets) => format!("a value of {} octets", octets.len()),
        other => format!("{other:?}"),
    }
}
