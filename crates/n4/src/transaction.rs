//! Requests of this node: sequence numbers, retransmission after T1, failure after N1
//! retransmissions.
//!
//! A request is kept as encoded octets, so that a retransmission is identical, and with the
//! caller's purpose, which is returned with the outcome. Spec: TS 29.244 §6.4.

use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};

use adit_pfcp::SEQUENCE_MAX;
use adit_session::OwnerId;
use adit_types::{Nanos, Seid};

/// The purpose of a request of this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestPurpose {
    /// A heartbeat, to check that the peer of this association is alive.
    Heartbeat {
        /// The association.
        owner: OwnerId,
    },
    /// A heartbeat with short timers, to check quickly that the peer of this association is alive.
    Probe {
        /// The association.
        owner: OwnerId,
    },
    /// The setup of an association with a configured peer.
    AssociationSetup {
        /// The index of the peer in the configuration.
        position: usize,
    },
    /// An update of this association.
    AssociationUpdate {
        /// The association.
        owner: OwnerId,
    },
    /// A notification to this association that the sessions of our own set are gone.
    SessionSetDeletion {
        /// The association.
        owner: OwnerId,
    },
    /// A report about user plane paths to this association.
    NodeReport {
        /// The association.
        owner: OwnerId,
    },
    /// A report of a session.
    SessionReport {
        /// Our SEID of the session.
        up_seid: Seid,
        /// The association that the session belongs to.
        owner: OwnerId,
        /// How many items the report contains.
        items: usize,
    },
}

impl RequestPurpose {
    /// True for a node related request to the peer of the association.
    pub(crate) fn is_of(self, association: OwnerId) -> bool {
        match self {
            Self::Heartbeat { owner }
            | Self::Probe { owner }
            | Self::AssociationUpdate { owner }
            | Self::SessionSetDeletion { owner }
            | Self::NodeReport { owner } => owner == association,
            Self::AssociationSetup { .. } | Self::SessionReport { .. } => false,
        }
    }
}

/// The retransmission timers: T1 and N1. Spec: TS 29.244 §6.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retransmission {
    /// Time without a response before a request is sent again.
    pub t1: Nanos,
    /// How often a request is sent again before it counts as failed.
    pub n1: u32,
}

impl Retransmission {
    /// Returns the longest time in which copies of one request are sent: T1 * (N1 + 1).
    pub(crate) const fn span(self) -> Nanos {
        Nanos(self.t1.0.saturating_mul(self.n1 as u64 + 1))
    }
}

/// A request of this node, without its body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutgoingRequest<P> {
    /// The receiver.
    pub to: SocketAddr,
    /// The receiver's SEID, if the request is session related. Spec: TS 29.244 §7.2.2.4.2.
    pub seid: Option<Seid>,
    /// Determines what to do with the response.
    pub purpose: P,
    /// When the request is sent again.
    pub timers: Retransmission,
}

/// A request that is not answered yet.
#[derive(Debug)]
pub(crate) struct OwnRequest<P> {
    to: SocketAddr,
    bytes: Vec<u8>,
    purpose: P,
    t1: Nanos,
    retransmissions_left: u32,
    due: Nanos,
    /// The group of records that must be durable before the request is sent; zero if none.
    group: u64,
}

/// A request whose timer is due.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DueRequest<P> {
    /// Send this request again.
    Retransmit {
        /// The peer.
        to: SocketAddr,
        /// The request as it was sent before.
        bytes: Vec<u8>,
        /// The purpose of the request.
        purpose: P,
    },
    /// The request was not answered after N1 retransmissions.
    Failed(P),
    /// The request was not sent yet, as it waits for the store.
    Held,
}

/// All requests of this node that are not answered yet. The caller bounds their number: one per
/// association, one per configured peer, and `limits::REPORTS_IN_FLIGHT_MAX`.
#[derive(Debug)]
pub(crate) struct Transactions<P> {
    next_sequence: u32,
    open: BTreeMap<u32, OwnRequest<P>>,
    /// When the timer of each open request is due, by time and sequence number.
    due: BTreeSet<(Nanos, u32)>,
}

impl<P: Copy> Transactions<P> {
    /// Creates an empty set; the first request gets the low 24 bits of `first_sequence`.
    pub(crate) fn new(first_sequence: u32) -> Self {
        let next_sequence = first_sequence & SEQUENCE_MAX;
        Self { next_sequence, open: BTreeMap::new(), due: BTreeSet::new() }
    }

    /// Returns a sequence number that no open request has.
    pub(crate) fn reserve_sequence(&mut self) -> u32 {
        debug_assert!(self.open.len() < 1 << 20, "own requests are few");
        while self.open.contains_key(&self.next_sequence) {
            self.next_sequence = (self.next_sequence + 1) & SEQUENCE_MAX;
        }
        let sequence = self.next_sequence;
        self.next_sequence = (sequence + 1) & SEQUENCE_MAX;
        sequence
    }

    /// Keeps a request, which the caller sends now as `bytes`, for retransmissions.
    pub(crate) fn insert(
        &mut self,
        now: Nanos,
        sequence: u32,
        request: OutgoingRequest<P>,
        bytes: Vec<u8>,
    ) {
        let OutgoingRequest { to, purpose, timers: Retransmission { t1, n1 }, .. } = request;
        let due = now + t1;
        self.due.insert((due, sequence));
        let request =
            OwnRequest { to, bytes, purpose, t1, retransmissions_left: n1, due, group: 0 };
        self.open.insert(sequence, request);
    }

    /// Sets the group of records that the request waits for; before that it is not sent.
    pub(crate) fn set_group(&mut self, sequence: u32, group: u64) {
        if let Some(request) = self.open.get_mut(&sequence) {
            request.group = group;
        }
    }

    /// True if the purpose of an open request satisfies `is_meant`.
    pub(crate) fn any(&self, is_meant: impl Fn(&P) -> bool) -> bool {
        self.open.values().any(|request| is_meant(&request.purpose))
    }

    /// Closes the request with this sequence number to `peer`, and returns its purpose. `None` if
    /// there is none, or `expects` is false for its purpose.
    pub(crate) fn take(
        &mut self,
        peer: SocketAddr,
        sequence: u32,
        expects: impl FnOnce(&P) -> bool,
    ) -> Option<P> {
        let request = self.open.get(&sequence)?;
        if request.to != peer || !expects(&request.purpose) {
            return None;
        }
        self.close(sequence).map(|request| request.purpose)
    }

    /// Closes a request to `peer` whose purpose satisfies `expects`, regardless of its sequence
    /// number, and returns its purpose.
    pub(crate) fn take_any_to(
        &mut self,
        peer: SocketAddr,
        expects: impl Fn(&P) -> bool,
    ) -> Option<P> {
        let is_meant = |request: &OwnRequest<P>| request.to == peer && expects(&request.purpose);
        let sequence = *self.open.iter().find(|(_, request)| is_meant(request))?.0;
        self.close(sequence).map(|request| request.purpose)
    }

    /// Drops the requests whose purpose satisfies `which`.
    pub(crate) fn cancel(&mut self, which: impl Fn(&P) -> bool) {
        let Self { open, due, .. } = self;
        open.retain(|&sequence, request| {
            let goes = which(&request.purpose);
            if goes {
                due.remove(&(request.due, sequence));
            }
            !goes
        });
    }

    /// Closes the request with this sequence number, if it is open.
    pub(crate) fn close(&mut self, sequence: u32) -> Option<OwnRequest<P>> {
        let request = self.open.remove(&sequence)?;
        self.due.remove(&(request.due, sequence));
        Some(request)
    }

    /// Returns the next request that is due by `now`. Call it until it returns `None`. `waits`:
    /// true if requests of a group of records were not sent yet.
    pub(crate) fn poll_due(
        &mut self,
        now: Nanos,
        waits: impl FnOnce(u64) -> bool,
    ) -> Option<DueRequest<P>> {
        let &(at, sequence) = self.due.first().filter(|(at, _)| *at <= now)?;
        let request = self.open.get_mut(&sequence)?;
        let is_held = waits(request.group);
        if is_held || request.retransmissions_left > 0 {
            request.retransmissions_left -= u32::from(!is_held);
            request.due = now + request.t1;
            self.due.remove(&(at, sequence));
            self.due.insert((request.due, sequence));
            let (to, bytes) = (request.to, request.bytes.clone());
            return match is_held {
                true => Some(DueRequest::Held),
                false => Some(DueRequest::Retransmit { to, bytes, purpose: request.purpose }),
            };
        }
        self.close(sequence).map(|request| DueRequest::Failed(request.purpose))
    }

    /// Returns when the next request is due.
    pub(crate) fn poll_timeout(&self) -> Option<Nanos> {
        self.due.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const R: Retransmission = Retransmission { t1: Nanos(10), n1: 2 };

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    fn request<P>(port: u16, purpose: P) -> OutgoingRequest<P> {
        OutgoingRequest { to: peer(port), seid: None, purpose, timers: R }
    }

    #[test]
    fn request_without_response_is_sent_n1_times_again_and_then_fails() {
        let mut transactions = Transactions::new(5);
        let sequence = transactions.reserve_sequence();
        transactions.insert(Nanos(0), sequence, request(8805, "purpose"), vec![1, 2]);
        let mut log = Vec::new();
        while let Some(at) = transactions.poll_timeout() {
            while let Some(due) = transactions.poll_due(at, |_| false) {
                log.push((at.0, due));
            }
        }
        let again =
            || DueRequest::Retransmit { to: peer(8805), bytes: vec![1, 2], purpose: "purpose" };
        assert_eq!(log, [(10, again()), (20, again()), (30, DueRequest::Failed("purpose"))]);
        assert_eq!(R.span(), Nanos(30));
    }

    #[test]
    fn response_matches_by_peer_port_sequence_and_kind_once() {
        let mut transactions = Transactions::new(7);
        let sequence = transactions.reserve_sequence();
        transactions.insert(Nanos(0), sequence, request(8805, 'a'), vec![]);
        assert_eq!(transactions.take(peer(8806), sequence, |_| true), None);
        assert_eq!(transactions.take(peer(8805), sequence + 1, |_| true), None);
        assert_eq!(transactions.take(peer(8805), sequence, |&p| p == 'b'), None);
        assert_eq!(transactions.take(peer(8805), sequence, |&p| p == 'a'), Some('a'));
        assert_eq!(transactions.take(peer(8805), sequence, |_| true), None);
        assert_eq!(transactions.poll_timeout(), None);
    }

    #[test]
    fn sequence_number_wraps_and_skips_open_requests() {
        let mut transactions = Transactions::new(0xffff_ffff);
        assert_eq!(transactions.reserve_sequence(), 0x00ff_ffff);
        transactions.insert(Nanos(0), 0, request(1, ()), vec![]);
        assert_eq!(transactions.reserve_sequence(), 1);
    }

    #[test]
    fn canceled_request_is_neither_due_nor_answered() {
        let mut transactions = Transactions::new(0);
        transactions.insert(Nanos(0), 1, request(1, 'a'), vec![]);
        transactions.insert(Nanos(0), 2, request(1, 'b'), vec![]);
        transactions.cancel(|&p| p == 'a');
        assert_eq!(transactions.take(peer(1), 1, |_| true), None);
        assert_eq!(transactions.take(peer(1), 2, |_| true), Some('b'));
    }
}
