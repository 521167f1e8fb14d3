//! The expected result of a step of all workers, and its comparison with the actual one.

use core::net::IpAddr;
use std::collections::HashMap;

use adit_rules::{DropReason, PuntReason};
use adit_tables::Snapshot;

use super::hex;
use crate::oracle::{OracleLane, OracleOutcome, OracleVerdict};

/// Port, order that is kept, octets.
pub(super) type ExpectedFrame = (u16, OrderingGroup, Vec<u8>);

/// The group in which frames keep their order: session (its SEID; others for packets that waited;
/// both SEIDs for packets between UEs) or, without one, worker and port of arrival; and lane. For
/// packets that waited for a station the worker alone, unless there is a scheduler.
pub(super) type OrderingGroup = (u128, Option<OracleLane>);

/// How many frames arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReceivedFrames {
    /// All.
    pub all: usize,
    /// Packets that a program forwarded before a worker saw them.
    pub offloaded: usize,
}

/// The expected result of a step of all workers.
#[derive(Debug)]
pub(super) struct ExpectedStep {
    pub forwarded: Vec<ExpectedFrame>,
    pub drops: [u64; DropReason::COUNT],
    pub punts: [u64; PuntReason::COUNT],
    pub consumed: u64,
    /// Packets that came back for another UE.
    pub came_back: u64,
    /// Copies: port and octets.
    pub copies: Vec<(u16, Vec<u8>)>,
    pub copies_lost: u64,
    /// Interface and unresolved station of copies that are dropped.
    pub wanted: Vec<(usize, IpAddr)>,
}

impl Default for ExpectedStep {
    fn default() -> Self {
        Self {
            forwarded: Vec::new(),
            drops: [0; DropReason::COUNT],
            punts: [0; PuntReason::COUNT],
            consumed: 0,
            came_back: 0,
            copies: Vec::new(),
            copies_lost: 0,
            wanted: Vec::new(),
        }
    }
}

impl ExpectedStep {
    /// Expects the copies of a packet. Returns true if there are any.
    pub(super) fn expect_copies(&mut self, verdict: &OracleVerdict) -> bool {
        for copy in &verdict.copies {
            match copy {
                Ok(OracleOutcome::Forward { port, frames, .. }) => {
                    self.copies.extend(frames.iter().map(|frame| (*port, frame.clone())));
                }
                Ok(OracleOutcome::AwaitNeighbor { interface, station, frames, .. }) => {
                    self.copies_lost += frames.len() as u64;
                    self.wanted.push((*interface, *station));
                }
                _ => self.copies_lost += 1,
            }
        }
        !verdict.copies.is_empty()
    }

    /// Compares with the counters before and after, and with the frames that left by port.
    pub(super) fn compare(
        &self,
        before: &Snapshot,
        after: &Snapshot,
        received: ReceivedFrames,
        buffered: usize,
        sent: Vec<Vec<Vec<u8>>>,
    ) -> Result<(), String> {
        let drops: Vec<u64> = after.drops.iter().zip(before.drops).map(|(a, b)| a - b).collect();
        let punts: Vec<u64> = after.punts.iter().zip(before.punts).map(|(a, b)| a - b).collect();
        let mut own = 0;
        for (port, frames) in (0..).zip(&sent) {
            let lost = |what| format!("{what}\n    {}", self.drops_in_words(&drops, &punts));
            own += self.compare_port(port, frames).map_err(lost)?;
        }
        let wrong_drop = drops.iter().zip(self.drops).any(|(got, want)| *got < want);
        let wrong_punt = punts.iter().zip(self.punts).any(|(got, want)| *got < want);
        let more = |got: &[u64], want: &[u64]| got.iter().sum::<u64>() - want.iter().sum::<u64>();
        if wrong_drop
            || wrong_punt
            || more(&drops, &self.drops) + more(&punts, &self.punts) != self.consumed
        {
            return Err(self.drops_in_words(&drops, &punts));
        }
        let counts = [
            (
                "received",
                after.received_pkts - before.received_pkts,
                (received.all - received.offloaded) as u64,
            ),
            (
                "transmitted",
                after.transmitted_pkts() - before.transmitted_pkts(),
                (self.forwarded.len() - received.offloaded) as u64,
            ),
            (
                "locally switched",
                after.locally_switched_pkts - before.locally_switched_pkts,
                self.came_back,
            ),
            ("originated", after.originated_pkts - before.originated_pkts, own),
            ("buffered", after.buffered_pkts, buffered as u64),
            (
                "duplicated",
                after.duplicated_pkts - before.duplicated_pkts,
                self.copies.len() as u64,
            ),
            (
                "duplicates lost",
                after.duplicates_lost_pkts - before.duplicates_lost_pkts,
                self.copies_lost,
            ),
        ];
        if let Some((name, got, want)) = counts.into_iter().find(|(_, got, want)| got != want) {
            return Err(format!("{name} is {got}, oracle {want}"));
        }
        if after.identity_holds() { Ok(()) } else { Err("the identity does not hold".into()) }
    }

    fn drops_in_words(&self, drops: &[u64], punts: &[u64]) -> String {
        format!(
            "dropped {} punted {}; oracle: dropped {} punted {} consumed {}",
            list_nonzero(drops, |at| DropReason::ALL[at].name()),
            list_nonzero(punts, |at| PuntReason::ALL[at].name()),
            list_nonzero(&self.drops, |at| DropReason::ALL[at].name()),
            list_nonzero(&self.punts, |at| PuntReason::ALL[at].name()),
            self.consumed,
        )
    }

    /// Finds every expected frame among `frames`, in order within a lane. Returns how many others
    /// there are.
    fn compare_port(&self, port: u16, frames: &[Vec<u8>]) -> Result<u64, String> {
        let mut taken = vec![false; frames.len()];
        let mut last: HashMap<OrderingGroup, usize> = HashMap::new();
        for (_, lane, frame) in self.forwarded.iter().filter(|(out, ..)| *out == port) {
            let from = last.get(lane).map_or(0, |at| at + 1);
            let found = (from..frames.len()).find(|at| !taken[*at] && frames[*at] == *frame);
            let Some(at) = found else {
                let left: Vec<String> = frames
                    .iter()
                    .zip(&taken)
                    .filter(|(_, taken)| !**taken)
                    .map(|(frame, _)| hex(frame))
                    .collect();
                return Err(format!(
                    "port {port} misses {}\n    among {}",
                    hex(frame),
                    left.join("\n          ")
                ));
            };
            taken[at] = true;
            last.insert(*lane, at);
        }
        for (_, frame) in self.copies.iter().filter(|(out, _)| *out == port) {
            let mut left = frames.iter().zip(&mut taken).filter(|(_, taken)| !**taken);
            match left.find(|(known, _)| *known == frame) {
                Some((_, taken)) => *taken = true,
                None => return Err(format!("port {port} misses the copy {}", hex(frame))),
            }
        }
        Ok(taken.iter().filter(|taken| !**taken).count() as u64)
    }
}

fn list_nonzero(counts: &[u64], name: impl Fn(usize) -> &'static str) -> String {
    let parts: Vec<String> = (0..)
        .zip(counts)
        .filter(|(_, count)| **count > 0)
        .map(|(at, count)| format!("{}={count}", name(at)))
        .collect();
    format!("[{}]", parts.join(" "))
}
