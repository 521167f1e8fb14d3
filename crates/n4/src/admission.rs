//! Decides which peers the node accepts, and at what rate.
//!
//! Datagrams from an address outside the allow-list are discarded. A request takes a token from a
//! bucket: that of its address if it has an association, else one of a fixed number of buckets that
//! all unknown addresses share, so that unknown addresses cost no memory. Heartbeat Requests have
//! separate buckets: a known peer has one for the port from which it set up the association, and
//! one for all other ports. A third is for Heartbeat Requests whose sequence numbers continue those
//! of the peer: an attacker who forges requests in the peer's name, even from its port, does not
//! see these numbers, and so cannot exhaust that bucket.

use core::hash::{Hash, Hasher};
use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;
use std::hash::DefaultHasher;

use adit_pfcp::SEQUENCE_MAX;
use adit_types::limits::{HEARTBEATS_PER_S_MAX, PEER_HEARTBEATS_PER_S_MAX, SETUPS_PER_S_MAX};
use adit_types::{Ipv4Prefix, Ipv6Prefix, Nanos};

/// How many buckets addresses without an association share. A power of two.
const STRANGER_BUCKET_COUNT: usize = 4096;

/// Maximum difference of sequence numbers that continue one another: messages may be lost or
/// reordered.
const SEQUENCE_GAP_MAX: u32 = 32;

/// A new sequence of numbers is accepted after it has continued for this time without a flood.
const NEW_SEQUENCE_ACCEPTED_AFTER: Nanos = Nanos::from_millis(100);

/// Addresses of one family that may send to the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerPrefix {
    /// IPv4 addresses.
    V4(Ipv4Prefix),
    /// IPv6 addresses.
    V6(Ipv6Prefix),
}

impl PeerPrefix {
    fn contains(&self, addr: IpAddr) -> bool {
        match (self, addr) {
            (Self::V4(prefix), IpAddr::V4(addr)) => prefix.contains(addr),
            (Self::V6(prefix), IpAddr::V6(addr)) => prefix.contains(addr),
            (Self::V4(_), IpAddr::V6(_)) | (Self::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// Limits for peers. The default accepts all peers, without limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerPolicy {
    /// Accepted addresses, in addition to the configured peers. If empty, all are accepted.
    pub allow: Vec<PeerPrefix>,
    /// Requests per second of one peer, in the long run. Zero: no limit.
    pub requests_per_s_max: u32,
    /// Requests of one peer that may come at once, at most.
    pub requests_burst: u32,
    /// Maximum of sessions of one association.
    pub sessions_per_association_max: usize,
    /// The members of SMF sets. If empty, any peer may claim any set, as the standard allows.
    pub smf_sets: Vec<SmfSetMembers>,
}

/// The CP functions of an SMF set. Spec: TS 29.244 §5.22, §8.2.128.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmfSetMembers {
    /// SMF Set ID: an FQDN; compared without regard to case.
    pub id: String,
    /// Addresses of its members.
    pub members: Vec<PeerPrefix>,
}

impl SmfSetMembers {
    /// True for an address of a member.
    pub(crate) fn has(&self, addr: IpAddr) -> bool {
        self.members.iter().any(|prefix| prefix.contains(addr))
    }
}

impl Default for PeerPolicy {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            requests_per_s_max: 0,
            requests_burst: 0,
            sessions_per_association_max: usize::MAX,
            smf_sets: Vec::new(),
        }
    }
}

/// The interval between tokens of a bucket, and the time that a full bucket covers.
#[derive(Debug, Clone, Copy)]
struct AdmissionRate {
    interval: Nanos,
    tolerance: Nanos,
}

impl AdmissionRate {
    const fn new(per_s: u32, burst: u32) -> Self {
        let interval = 1_000_000_000 / if per_s == 0 { 1 } else { per_s as u64 };
        let tolerance = interval.saturating_mul(if burst == 0 { 1 } else { burst as u64 });
        Self { interval: Nanos(interval), tolerance: Nanos(tolerance) }
    }
}

/// Rate of Heartbeat Requests for a bucket that strangers share, and for those of a peer whose
/// sequence numbers continue.
const HEARTBEAT_RATE: AdmissionRate =
    AdmissionRate::new(HEARTBEATS_PER_S_MAX, HEARTBEATS_PER_S_MAX);

/// Rate of Association Setup Requests for one bucket. A stranger's setup costs more than any other
/// message that it can send.
const SETUP_RATE: AdmissionRate = AdmissionRate::new(SETUPS_PER_S_MAX, SETUPS_PER_S_MAX);

/// Rate of Heartbeat Requests in the name of a known peer whose sequence numbers do not continue;
/// one bucket for the peer's port, one for all other ports.
const KNOWN_PEER_HEARTBEAT_RATE: AdmissionRate =
    AdmissionRate::new(PEER_HEARTBEATS_PER_S_MAX, PEER_HEARTBEATS_PER_S_MAX / 5);

/// A token bucket, as the time at which it will be full (generic cell rate algorithm).
#[derive(Debug, Clone, Copy, Default)]
struct AdmissionBucket(Nanos);

impl AdmissionBucket {
    /// Takes one token; false if there is none.
    fn take(&mut self, now: Nanos, rate: AdmissionRate) -> bool {
        let full = self.0.max(now) + rate.interval;
        let fits = full <= now + rate.tolerance;
        if fits {
            self.0 = full;
        }
        fits
    }

    /// True if the bucket has at least half of its tokens.
    fn is_half_full(self, now: Nanos, rate: AdmissionRate) -> bool {
        self.0 <= now + Nanos(rate.tolerance.0 / 2)
    }
}

/// The part of a request that its admission depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestToAdmit {
    /// A Heartbeat Request with this sequence number.
    Heartbeat(u32),
    /// An Association Setup Request with this sequence number.
    Setup(u32),
    /// Another request with this sequence number.
    Other(u32),
    /// Octets that cannot be decoded as a message.
    Unreadable,
}

impl RequestToAdmit {
    const fn sequence(self) -> Option<u32> {
        match self {
            Self::Heartbeat(number) | Self::Setup(number) | Self::Other(number) => Some(number),
            Self::Unreadable => None,
        }
    }
}

/// The sequence numbers of a peer's requests. Spec: TS 29.244 §6.4, §7.2.2.4.
#[derive(Debug, Clone, Copy, Default)]
struct SequenceNumbers {
    last: u32,
    /// The latest number of a possible new sequence, and when that sequence began; `None` if no
    /// such sequence is under way, as during a flood.
    new: Option<(u32, Nanos)>,
}

impl SequenceNumbers {
    fn continue_with(&self, sequence: u32) -> bool {
        are_near_sequences(self.last, sequence)
    }

    /// Notes a number that does not continue the known sequence. Without `is_calm`, in a flood,
    /// drops the possible new sequence, so that a forged one cannot become the known one.
    fn note_new(&mut self, now: Nanos, sequence: u32, is_calm: bool) {
        match self.new.filter(|_| is_calm) {
            Some((new, since)) if are_near_sequences(new, sequence) => {
                self.new = Some((sequence, since));
                if now.since(since) >= NEW_SEQUENCE_ACCEPTED_AFTER {
                    self.last = sequence;
                }
            }
            _ => self.new = Some((sequence, now)).filter(|_| is_calm),
        }
    }
}

fn are_near_sequences(one: u32, other: u32) -> bool {
    let ahead = other.wrapping_sub(one) & SEQUENCE_MAX;
    ahead.min(SEQUENCE_MAX + 1 - ahead) <= SEQUENCE_GAP_MAX
}

/// The buckets of one address, and its sequence numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AdmissionBuckets {
    requests: AdmissionBucket,
    setups: AdmissionBucket,
    heartbeats: AdmissionBucket,
    /// Heartbeat Requests from other ports than `port`.
    foreign_heartbeats: AdmissionBucket,
    continued_heartbeats: AdmissionBucket,
    numbers: SequenceNumbers,
    /// The port from which the association was set up; zero if that is not known.
    port: u16,
}

impl AdmissionBuckets {
    /// Notes that a request from `port` with this sequence number has set up the association.
    pub(crate) fn begin(&mut self, port: u16, sequence: u32) {
        (self.port, self.numbers.last) = (port, sequence);
    }

    /// Takes a token for a request of a known peer from `port`.
    fn admit(
        &mut self,
        now: Nanos,
        port: u16,
        request: RequestToAdmit,
        requests: AdmissionRate,
    ) -> bool {
        let is_foreign = self.port != 0 && self.port != port;
        let is_calm = self.heartbeats.is_half_full(now, KNOWN_PEER_HEARTBEAT_RATE);
        let continued = request.sequence().filter(|&number| self.numbers.continue_with(number));
        let admitted = match (request, continued) {
            (RequestToAdmit::Heartbeat(_), Some(_)) => {
                self.continued_heartbeats.take(now, HEARTBEAT_RATE)
            }
            (RequestToAdmit::Heartbeat(_), None) => false,
            _ => self.take_request(now, request, requests),
        };
        match (request.sequence(), continued) {
            (_, Some(number)) if admitted => self.numbers.last = number,
            (Some(number), None) if !is_foreign => self.numbers.note_new(now, number, is_calm),
            _ => {}
        }
        let is_heartbeat = matches!(request, RequestToAdmit::Heartbeat(_));
        let bucket = if is_foreign { &mut self.foreign_heartbeats } else { &mut self.heartbeats };
        admitted || is_heartbeat && bucket.take(now, KNOWN_PEER_HEARTBEAT_RATE)
    }

    /// Charges the cost of a request that is no heartbeat.
    fn take_request(
        &mut self,
        now: Nanos,
        request: RequestToAdmit,
        requests: AdmissionRate,
    ) -> bool {
        let is_setup = matches!(request, RequestToAdmit::Setup(_));
        (!is_setup || self.setups.take(now, SETUP_RATE)) && self.requests.take(now, requests)
    }
}

/// Admits or discards datagrams and requests.
#[derive(Debug)]
pub(crate) struct Admission {
    policy: PeerPolicy,
    /// The configured peers, and the buckets that they use while they have no association.
    configured: BTreeMap<IpAddr, AdmissionBuckets>,
    requests: Option<AdmissionRate>,
    strangers: Vec<AdmissionBuckets>,
    seed: u32,
}

impl Admission {
    /// `configured`: peers that are accepted whatever the policy says. `seed`: random, so that
    /// outsiders cannot choose the shared bucket of an address.
    pub(crate) fn new(policy: PeerPolicy, configured: Vec<IpAddr>, seed: u32) -> Self {
        Self {
            requests: request_rate(&policy),
            strangers: vec![AdmissionBuckets::default(); STRANGER_BUCKET_COUNT],
            policy,
            configured: configured.into_iter().map(|peer| (peer, Default::default())).collect(),
            seed,
        }
    }

    /// Replaces the policy. The buckets keep their levels.
    pub(crate) fn set_policy(&mut self, policy: PeerPolicy) {
        self.requests = request_rate(&policy);
        self.policy = policy;
    }

    /// True if datagrams of `peer` are accepted.
    pub(crate) fn is_allowed(&self, peer: IpAddr) -> bool {
        self.policy.allow.is_empty()
            || self.policy.allow.iter().any(|prefix| prefix.contains(peer))
            || self.is_configured(peer)
    }

    /// Notes that a configured peer has moved to another address.
    pub(crate) fn move_configured(&mut self, former: IpAddr, to: IpAddr) {
        self.configured.remove(&former);
        self.configured.insert(to, AdmissionBuckets::default());
    }

    /// True if `peer` is the address of a configured peer.
    pub(crate) fn is_configured(&self, peer: IpAddr) -> bool {
        self.configured.contains_key(&peer)
    }

    /// Takes a token for one request. `own`: the buckets of the peer if it has an association.
    pub(crate) fn admit(
        &mut self,
        now: Nanos,
        peer: SocketAddr,
        own: Option<&mut AdmissionBuckets>,
        request: RequestToAdmit,
    ) -> bool {
        let Some(requests) = self.requests else { return true };
        if let Some(known) = own.or_else(|| self.configured.get_mut(&peer.ip())) {
            return known.admit(now, peer.port(), request, requests);
        }
        let shared = self.position(peer.ip());
        let Some(buckets) = self.strangers.get_mut(shared) else { return true };
        match request {
            RequestToAdmit::Heartbeat(_) => buckets.heartbeats.take(now, HEARTBEAT_RATE),
            _ => buckets.take_request(now, request, requests),
        }
    }

    fn position(&self, peer: IpAddr) -> usize {
        let mut digest = DefaultHasher::new();
        (self.seed, peer).hash(&mut digest);
        let mask = u64::try_from(STRANGER_BUCKET_COUNT - 1).unwrap_or_default();
        usize::try_from(digest.finish() & mask).unwrap_or_default()
    }
}

/// Returns the rate of requests for one peer; `None` without a limit.
fn request_rate(policy: &PeerPolicy) -> Option<AdmissionRate> {
    let PeerPolicy { requests_per_s_max, requests_burst, .. } = *policy;
    (requests_per_s_max > 0).then(|| AdmissionRate::new(requests_per_s_max, requests_burst))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(host: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, host])
    }

    fn socket(host: u8) -> SocketAddr {
        SocketAddr::new(peer(host), 8805)
    }

    /// Forged heartbeats from other ports may have any sequence numbers.
    #[test]
    fn heartbeats_from_other_ports_cost_those_from_the_peers_port_nothing() {
        let rate = AdmissionRate::new(50_000, 10_000);
        let mut buckets = AdmissionBuckets::default();
        buckets.begin(8805, 1);
        let mut now = Nanos(0);
        for round in 0..100 {
            for n in 0..5_000 {
                now += Nanos(20_000);
                buckets.admit(now, 20_000, RequestToAdmit::Heartbeat(n % 1000), rate);
            }
            assert!(
                buckets.admit(now, 8805, RequestToAdmit::Heartbeat(2 + round), rate),
                "{round}"
            );
        }
    }

    #[test]
    fn bucket_gives_its_burst_and_then_its_rate() {
        let rate = AdmissionRate::new(10, 3);
        let mut bucket = AdmissionBucket::default();
        let taken =
            |bucket: &mut AdmissionBucket, now| (0..10).filter(|_| bucket.take(now, rate)).count();
        assert_eq!(taken(&mut bucket, Nanos::from_secs(5)), 3);
        assert_eq!(taken(&mut bucket, Nanos::from_millis(5_099)), 0);
        assert_eq!(taken(&mut bucket, Nanos::from_millis(5_100)), 1);
        assert_eq!(taken(&mut bucket, Nanos::from_secs(60)), 3);
    }

    #[test]
    fn allow_list_hears_its_prefixes_and_configured_peers_only() {
        let prefix = Ipv4Prefix::containing([192, 0, 2, 0].into(), 29).unwrap();
        let policy = PeerPolicy { allow: vec![PeerPrefix::V4(prefix)], ..PeerPolicy::default() };
        let admission = Admission::new(policy, vec![peer(99)], 1);
        assert!(admission.is_allowed(peer(7)) && admission.is_allowed(peer(99)));
        assert!(!admission.is_allowed(peer(8)));
        assert!(!admission.is_allowed("2001:db8::1".parse().unwrap()));
        assert!(Admission::new(PeerPolicy::default(), vec![], 1).is_allowed(peer(8)));
    }

    #[test]
    fn heartbeats_pass_while_other_requests_do_not() {
        let policy =
            PeerPolicy { requests_per_s_max: 1, requests_burst: 1, ..PeerPolicy::default() };
        let mut admission = Admission::new(policy, vec![], 1);
        let other = RequestToAdmit::Other(1);
        assert!(admission.admit(Nanos(0), socket(1), None, other));
        assert!(!admission.admit(Nanos(0), socket(1), None, other));
        assert!(admission.admit(Nanos(0), socket(1), None, RequestToAdmit::Heartbeat(1)));
        let mut own = AdmissionBuckets::default();
        assert!(admission.admit(Nanos(0), socket(1), Some(&mut own), other), "its own bucket");
    }

    #[test]
    fn setups_of_an_address_are_few_and_other_requests_go_on() {
        let policy =
            PeerPolicy { requests_per_s_max: 1000, requests_burst: 1000, ..PeerPolicy::default() };
        let mut admission = Admission::new(policy, vec![], 1);
        for own in [None, Some(&mut AdmissionBuckets::default())] {
            let mut own = own;
            let mut admitted = |request| {
                let own = own.as_deref_mut();
                admission.admit(Nanos(0), socket(1), own, request)
            };
            let setups = (0..100).filter(|&n| admitted(RequestToAdmit::Setup(n))).count();
            assert_eq!(setups, 10);
            assert!((0..100).all(|n| admitted(RequestToAdmit::Other(n))));
        }
    }

    /// Sends 50,000 forged heartbeats a second besides the peer's own requests, which advance its
    /// numbers. Returns how many of the peer's own heartbeats were admitted, and how many forged
    /// ones.
    fn flood(forged: impl Fn(u32) -> u32) -> (usize, usize) {
        let rate = AdmissionRate::new(50_000, 10_000);
        let mut buckets = AdmissionBuckets::default();
        let (mut own, mut others) = (0, 0);
        let mut number = SEQUENCE_MAX - 100;
        let mut now = Nanos(0);
        for second in 0..20_u32 {
            for n in 0..50_000 {
                now += Nanos(20_000);
                let forged = RequestToAdmit::Heartbeat(forged(second * 50_000 + n) & SEQUENCE_MAX);
                others += usize::from(second >= 5 && buckets.admit(now, 8805, forged, rate));
                if n % 500 == 0 {
                    number = (number + 1) & SEQUENCE_MAX;
                    assert!(buckets.admit(now, 8805, RequestToAdmit::Other(number), rate));
                }
            }
            number = (number + 1) & SEQUENCE_MAX;
            own += usize::from(buckets.admit(now, 8805, RequestToAdmit::Heartbeat(number), rate));
        }
        (own, others)
    }

    #[test]
    fn peer_whose_numbers_continue_is_answered_whatever_comes_in_its_name() {
        let at_random = |n: u32| n.wrapping_mul(0x9e37_79b1) >> 8;
        let one_after_the_other = |n: u32| n + 5_000_000;
        let always_the_same = |_| 5_000_000;
        for (own, others) in [flood(at_random), flood(one_after_the_other), flood(always_the_same)]
        {
            assert_eq!(own, 20);
            assert!((75_000..=77_000).contains(&others), "{others}: 5,000 a second for 15 s");
        }
    }

    #[test]
    fn flood_in_pulses_leaves_no_numbers() {
        let rate = AdmissionRate::new(50_000, 10_000);
        let mut buckets = AdmissionBuckets::default();
        for pulse in 0..100 {
            let now = Nanos::from_millis(100 * u64::from(pulse));
            for forged in 0..5000 {
                buckets.admit(now, 8805, RequestToAdmit::Heartbeat(5_000_000 + forged), rate);
            }
            assert!(
                buckets.admit(now, 8805, RequestToAdmit::Heartbeat(2 + pulse), rate),
                "{pulse}"
            );
        }
    }

    #[test]
    fn numbers_that_begin_anew_are_believed_before_the_next_flood() {
        let rate = AdmissionRate::new(50_000, 10_000);
        let mut buckets = AdmissionBuckets::default();
        let mut now = Nanos(0);
        let mut own = (7_000_000..7_000_100).map(RequestToAdmit::Heartbeat);
        for heartbeat in own.by_ref().take(3) {
            now += Nanos::from_secs(1);
            assert!(buckets.admit(now, 8805, heartbeat, rate));
        }
        for heartbeat in own {
            for forged in 0..50_000 {
                now += Nanos(20_000);
                buckets.admit(now, 8805, RequestToAdmit::Heartbeat(forged), rate);
            }
            assert!(buckets.admit(now, 8805, heartbeat, rate));
        }
    }
}
