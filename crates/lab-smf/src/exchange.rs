//! Sends requests to the UPF at a rate with a window in flight, and retransmits unanswered ones.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Instant;

use adit_pfcp::{Message, PfcpDatagram};
use anyhow::{Result, anyhow, bail};

use adit_lab_engine::clock::scaled;
use adit_lab_engine::histogram::{Latency, LatencySummary};

use crate::smf::{LabSmf, N1, RECEIVE_TIMEOUT, T1, receive};

/// Maximum number of datagrams received per step.
const RECEIVED_MAX: usize = 64;

/// The requests of a procedure, one per session.
pub trait Procedure {
    /// Writes the `index`-th request to `out` and returns its length; zero to send no request.
    ///
    /// # Errors
    /// The request does not fit.
    fn encode(&mut self, index: u32, sequence: u32, out: &mut [u8]) -> Result<usize>;

    /// Processes the answer to the `index`-th request.
    ///
    /// # Errors
    /// The answer is a refusal or of another type.
    fn process_answer(&mut self, index: u32, message: &Message<'_>) -> Result<()>;
}

/// Result of a procedure for many sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ProcedureReport {
    /// Number of answered requests.
    pub count: u64,
    /// Time from the first request to the last answer. Unit: ns.
    pub duration_ns: u64,
    /// Answered requests per second.
    pub per_second: u64,
    /// Number of retransmissions.
    pub retransmissions: u64,
    /// Number of refusals, if they are tolerated.
    #[serde(default)]
    pub failed: u64,
    /// The first refusal.
    #[serde(default)]
    pub first_failure: Option<String>,
    /// Time from the first transmission of a request to its answer.
    pub latency: LatencySummary,
}

#[derive(Debug)]
struct InFlight {
    index: u32,
    datagram: Vec<u8>,
    first: Instant,
    last: Instant,
    transmissions: u32,
}

/// A procedure for many sessions in progress.
#[derive(Debug)]
pub struct ProcedureRun {
    next: u32,
    end: u32,
    done: u64,
    /// Requests per second; `None` for as many as the window allows.
    rate: Option<u64>,
    /// True if refusals are counted instead of returned as an error.
    tolerant: bool,
    failed: u64,
    first_failure: Option<String>,
    in_flight: HashMap<u32, InFlight>,
    latency: Latency,
    retransmissions: u64,
    start: Instant,
    looked: Instant,
    started_at: u32,
}

impl ProcedureRun {
    /// Makes a procedure before its first request.
    #[must_use]
    pub fn new(range: Range<u32>, rate: Option<u64>, tolerant: bool) -> Self {
        let now = Instant::now();
        Self {
            next: range.start,
            end: range.end,
            done: 0,
            rate,
            tolerant,
            failed: 0,
            first_failure: None,
            in_flight: HashMap::new(),
            latency: Latency::new(),
            retransmissions: 0,
            start: now,
            looked: now,
            started_at: range.start,
        }
    }

    /// True once every request has been answered.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.next >= self.end && self.in_flight.is_empty()
    }

    /// Returns how many requests the rate allows until now.
    fn due(&self) -> u64 {
        let Some(rate) = self.rate else { return u64::MAX };
        let elapsed = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        scaled(elapsed, rate, 1_000_000).saturating_add(1)
    }

    /// Returns the report so far.
    #[must_use]
    pub fn report(&self) -> ProcedureReport {
        let duration_ns = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1);
        ProcedureReport {
            count: self.done,
            duration_ns,
            per_second: scaled(self.done, 1_000_000_000, duration_ns),
            retransmissions: self.retransmissions,
            failed: self.failed,
            first_failure: self.first_failure.clone(),
            latency: self.latency.summary(1_000_000_000),
        }
    }
}

impl LabSmf {
    /// Runs one step of a procedure: sends due requests, processes answers, retransmits unanswered
    /// requests. Waits up to the socket's receive timeout for an answer.
    ///
    /// # Errors
    /// The UPF refuses a request, unless refusals are tolerated; the UPF does not answer.
    pub fn step(
        &mut self,
        exchange: &mut ProcedureRun,
        procedure: &mut dyn Procedure,
    ) -> Result<()> {
        self.send_due(exchange, procedure)?;
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut result = Ok(());
        for _ in 0..RECEIVED_MAX {
            let Some((datagram, from)) = receive(&self.state.socket, &mut buffer) else { break };
            for raw in PfcpDatagram::new(datagram).flatten() {
                if raw.header.message_type.is_request() {
                    self.state.answer(&raw, datagram, from);
                    continue;
                }
                let Some(request) = exchange.in_flight.remove(&raw.header.sequence) else {
                    continue;
                };
                exchange.done += 1;
                let ns = request.first.elapsed().as_nanos() >> 2;
                exchange.latency.record(u32::try_from(ns).unwrap_or(u32::MAX));
                let answered = Message::decode(&raw)
                    .map_err(|error| anyhow!("the UPF's answer is malformed: {error:?}"))
                    .and_then(|message| procedure.process_answer(request.index, &message));
                match answered {
                    Err(error) if exchange.tolerant => {
                        exchange.failed += 1;
                        exchange.first_failure.get_or_insert_with(|| format!("{error:#}"));
                    }
                    Err(error) => result = Err(error),
                    Ok(()) => {}
                }
            }
            if result.is_err() || exchange.in_flight.is_empty() {
                break;
            }
            // The window has space again: send before receiving more.
            if exchange.in_flight.len() < self.options.window && exchange.next < exchange.end {
                break;
            }
        }
        self.buffer = buffer;
        result?;
        if exchange.looked.elapsed() >= RECEIVE_TIMEOUT {
            self.retransmit(exchange)?;
            exchange.looked = Instant::now();
        }
        Ok(())
    }

    fn send_due(
        &mut self,
        exchange: &mut ProcedureRun,
        procedure: &mut dyn Procedure,
    ) -> Result<()> {
        while exchange.next < exchange.end
            && exchange.in_flight.len() < self.options.window
            && u64::from(exchange.next - exchange.started_at) < exchange.due()
        {
            let sequence = self.state.next_sequence();
            let index = exchange.next;
            exchange.next += 1;
            let len = procedure.encode(index, sequence, &mut self.out)?;
            if len == 0 {
                continue;
            }
            let datagram = self.out.get(..len).unwrap_or_default().to_vec();
            let now = Instant::now();
            // If the socket buffer is full, the retransmission repeats the request.
            let _ = self.state.socket.send_to(&datagram, self.state.peer);
            let request = InFlight { index, datagram, first: now, last: now, transmissions: 1 };
            exchange.in_flight.insert(sequence, request);
        }
        Ok(())
    }

    fn retransmit(&self, exchange: &mut ProcedureRun) -> Result<()> {
        let unanswered = exchange.in_flight.values_mut();
        for request in unanswered.filter(|request| request.last.elapsed() >= T1) {
            if request.transmissions > N1 {
                bail!(
                    "the UPF at {} did not answer the request of session {} after {} transmissions",
                    self.state.peer,
                    request.index,
                    request.transmissions
                );
            }
            let _ = self.state.socket.send_to(&request.datagram, self.state.peer);
            request.last = Instant::now();
            request.transmissions += 1;
            exchange.retransmissions += 1;
        }
        Ok(())
    }
}
