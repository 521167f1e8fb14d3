//! Which peers the node accepts, and at what rate.
//!
//! Datagrams of an address outside the allow-list are discarded. Requests of an address pass a token
//! bucket: its own when it has an association, else one of a fixed number of buckets that all
//! unknown addresses share, so that these cost no memory. Heartbeat Requests have buckets of
//! their own; those of known addresses take no token, so that spoofed requests
//! in a peer's name do not silence this node.

use core::hash::{Hash, Hasher};
use core::net::IpAddr;
use std::hash::DefaultHasher;

use adit_types::limits::HEARTBEATS_PER_S_MAX;
use adit_types::{Ipv4Prefix, Ipv6Prefix, Nanos};

/// Buckets that addresses without an association share. A power of two.
const STRANGER_BUCKETS: usize = 256;

/// Addresses of one family that may speak to the node.
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

/// What peers may do. The default accepts all peers, without limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerPolicy {
    /// Accepted addresses, besides the configured peers. Empty: all.
    pub allow: Vec<PeerPrefix>,
    /// Requests per second of one peer, in the long run. Zero: no limit.
    pub requests_per_s_max: u32,
    /// Requests of one peer that may come at once.
    pub requests_burst: u32,
    /// Sessions of one association at most.
    pub sessions_per_association_max: usize,
    /// The members of SMF sets. Empty: any peer may claim any set, as in the standard.
    pub smf_sets: Vec<SmfSetMembers>,
}

/// The CP functions of an SMF set. Spec: TS 29.244 §5.22, §8.2.128.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmfSetMembers {
    /// SMF Set ID: an FQDN; letters of either case are the same.
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

/// How fast a bucket fills, and how much it holds.
#[derive(Debug, Clone, Copy)]
struct AdmissionRate {
    interval: Nanos,
    tolerance: Nanos,
}

impl AdmissionRate {
    fn new(per_s: u32, burst: u32) -> Self {
        let interval = 1_000_000_000 / u64::from(per_s.max(1));
        let tolerance = interval.saturating_mul(u64::from(burst.max(1)));
        Self { interval: Nanos(interval), tolerance: Nanos(tolerance) }
    }
}

/// A token bucket: the instant at which it will be full. Generic cell rate algorithm.
#[derive(Debug, Clone, Copy, Default)]
struct AdmissionBucket(Nanos);

impl AdmissionBucket {
    /// Takes one token if there is one.
    fn take(&mut self, now: Nanos, rate: AdmissionRate) -> bool {
        let full = self.0.max(now) + rate.interval;
        let fits = full <= now + rate.tolerance;
        if fits {
            self.0 = full;
        }
        fits
    }
}

/// The buckets of one address.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AdmissionBuckets {
    requests: AdmissionBucket,
    heartbeats: AdmissionBucket,
}

/// Decides about datagrams and requests.
#[derive(Debug)]
pub(crate) struct Admission {
    policy: PeerPolicy,
    configured: Vec<IpAddr>,
    requests: Option<AdmissionRate>,
    heartbeats: AdmissionRate,
    strangers: Vec<AdmissionBuckets>,
    seed: u32,
}

impl Admission {
    /// `configured` are accepted whatever the policy says. `seed` keeps outsiders from choosing the
    /// bucket that they share.
    pub(crate) fn new(policy: PeerPolicy, configured: Vec<IpAddr>, seed: u32) -> Self {
        Self {
            requests: request_rate(&policy),
            heartbeats: AdmissionRate::new(HEARTBEATS_PER_S_MAX, HEARTBEATS_PER_S_MAX),
            strangers: vec![AdmissionBuckets::default(); STRANGER_BUCKETS],
            policy,
            configured,
            seed,
        }
    }

    /// Replaces the policy. Tokens that peers took stay taken.
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

    /// True for a configured peer.
    pub(crate) fn is_configured(&self, peer: IpAddr) -> bool {
        self.configured.contains(&peer)
    }

    /// Takes a token for one request. `own` are the buckets of a peer with an association.
    pub(crate) fn admit(
        &mut self,
        now: Nanos,
        peer: IpAddr,
        own: Option<&mut AdmissionBuckets>,
        is_heartbeat: bool,
    ) -> bool {
        let Some(requests) = self.requests else { return true };
        let shared = self.position(peer);
        let Some(buckets) = own.or(self.strangers.get_mut(shared)) else { return true };
        if is_heartbeat {
            buckets.heartbeats.take(now, self.heartbeats)
        } else {
            buckets.requests.take(now, requests)
        }
    }

    fn position(&self, peer: IpAddr) -> usize {
        let mut digest = DefaultHasher::new();
        (self.seed, peer).hash(&mut digest);
        let mask = u64::try_from(STRANGER_BUCKETS - 1).unwrap_or_default();
        usize::try_from(digest.finish() & mask).unwrap_or_default()
    }
}

/// The rate of requests of one peer, if it has a limit.
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
        assert!(admission.admit(Nanos(0), peer(1), None, false));
        assert!(!admission.admit(Nanos(0), peer(1), None, false));
        assert!(admission.admit(Nanos(0), peer(1), None, true));
        let mut own = AdmissionBuckets::default();
        assert!(admission.admit(Nanos(0), peer(1), Some(&mut own), false), "its own bucket");
    }
}
