//! The sequence of sessions and sizes: drawn before the measurement, then used cyclically.

use std::net::IpAddr;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Minimum number of entries of a plan, so that a UPF's caches do not remember the whole cycle.
const ENTRIES_MIN: usize = 1 << 16;
/// Maximum number of entries of a plan: 64 MiB.
const ENTRIES_MAX: usize = 1 << 22;

/// Order of the sessions in the traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SessionOrder {
    /// Uniformly at random.
    Random,
    /// The sessions one after the other.
    Sequential,
    /// Zipf's law: session *k* (from 1) has a frequency proportional to 1 / k^s.
    Zipf {
        /// The exponent, above zero.
        s: f64,
    },
}

/// One packet of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedPacket {
    /// Session index.
    pub session: u32,
    /// Uplink TEID of the session.
    pub teid: u32,
    /// Low 32 bits of the address of the session's gNB.
    pub gnb: u32,
    /// Source UDP port of the gNB.
    pub source_port: u16,
    /// Index of the frame size.
    pub size: u16,
}

/// Parameters of a plan.
#[derive(Debug)]
pub struct PlanConfig<'a> {
    /// Uplink TEID of each session with traffic; at least one.
    pub teids: &'a [u32],
    /// Session index of the first entry of `teids`.
    pub first: usize,
    /// gNB addresses of one family, at least one; session *k* uses gNB *k* modulo their count.
    pub gnbs: &'a [IpAddr],
    /// Number of source UDP ports of a gNB, from 2152 upwards; at least one.
    pub source_ports: u16,
    /// Weight of each frame size; at least one weight is above zero.
    pub weights: &'a [u32],
    /// Order of the sessions.
    pub order: SessionOrder,
    /// Seed of the draw: equal seeds give equal plans.
    pub seed: u64,
}

/// Draws a plan.
#[must_use]
pub fn draw_plan(config: &PlanConfig<'_>) -> Vec<PlannedPacket> {
    let mut rng = SmallRng::seed_from_u64(config.seed);
    let active = config.teids.len().max(1);
    let wanted = active.saturating_mul(4).clamp(ENTRIES_MIN, ENTRIES_MAX);
    let count = match config.order {
        // Whole rounds of sessions, so that the order continues from the last entry to the first.
        SessionOrder::Sequential => wanted.div_ceil(active) * active,
        SessionOrder::Random | SessionOrder::Zipf { .. } => wanted,
    };
    let cumulated = match config.order {
        SessionOrder::Zipf { s } => zipf(active, s),
        SessionOrder::Random | SessionOrder::Sequential => Vec::new(),
    };
    let weights = cumulative_weights(config.weights);
    (0..count)
        .map(|turn| {
            let session = match config.order {
                SessionOrder::Sequential => turn % active,
                SessionOrder::Random => rng.random_range(0..active),
                SessionOrder::Zipf { .. } => {
                    let total = cumulated.last().copied().unwrap_or(1.0);
                    let drawn = rng.random::<f64>() * total;
                    cumulated.partition_point(|sum| *sum < drawn).min(active - 1)
                }
            };
            entry(config, session, draw_weighted(&weights, &mut rng))
        })
        .collect()
}

fn entry(config: &PlanConfig<'_>, session: usize, size: u16) -> PlannedPacket {
    let gnbs = config.gnbs.len().max(1);
    let teid = config.teids.get(session).copied().unwrap_or_default();
    let session = config.first + session;
    let gnb = match config.gnbs.get(session % gnbs) {
        Some(IpAddr::V4(address)) => address.to_bits(),
        Some(IpAddr::V6(address)) => {
            let [.., a, b, c, d] = address.octets();
            u32::from_be_bytes([a, b, c, d])
        }
        None => 0,
    };
    let ports = usize::from(config.source_ports.max(1));
    let port = u16::try_from(session / gnbs % ports).unwrap_or_default();
    PlannedPacket {
        session: u32::try_from(session).unwrap_or(u32::MAX),
        teid,
        gnb,
        source_port: adit_wire::gtpu::UDP_PORT.saturating_add(port),
        size,
    }
}

/// Returns the cumulative distribution of Zipf's law, not normalized.
fn zipf(count: usize, s: f64) -> Vec<f64> {
    let mut rank = 0.0f64;
    let mut sum = 0.0f64;
    let next = |_| {
        rank += 1.0;
        sum += rank.powf(-s);
        sum
    };
    (0..count).map(next).collect()
}

fn cumulative_weights(weights: &[u32]) -> Vec<u32> {
    let mut sum = 0u32;
    let next = |weight: &u32| {
        sum = sum.saturating_add(*weight);
        sum
    };
    weights.iter().map(next).collect()
}

/// Draws an index by weight, given the cumulative weights.
fn draw_weighted(sums: &[u32], rng: &mut SmallRng) -> u16 {
    let total = sums.last().copied().unwrap_or(0);
    if sums.len() < 2 || total == 0 {
        return 0;
    }
    let drawn = rng.random_range(0..total);
    u16::try_from(sums.partition_point(|sum| *sum <= drawn)).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const GNBS: [IpAddr; 2] = [
        IpAddr::V4(Ipv4Addr::new(10, 0, 3, 1)),
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0x1234, 3)),
    ];

    fn plan(order: SessionOrder, sessions: u32, weights: &[u32]) -> Vec<PlannedPacket> {
        let teids: Vec<u32> = (0..sessions).map(|session| session + 1000).collect();
        let config = PlanConfig {
            teids: &teids,
            first: 0,
            gnbs: &GNBS,
            source_ports: 3,
            weights,
            order,
            seed: 42,
        };
        draw_plan(&config)
    }

    fn share(plan: &[PlannedPacket], matches: impl Fn(&PlannedPacket) -> bool) -> f64 {
        let count = plan.iter().filter(|entry| matches(entry)).count();
        f64::from(u32::try_from(count).unwrap()) / f64::from(u32::try_from(plan.len()).unwrap())
    }

    #[test]
    fn sequential_order_takes_sessions_in_turn_also_across_the_end() {
        let plan = plan(SessionOrder::Sequential, 1000, &[1]);
        assert_eq!(plan.len() % 1000, 0);
        assert!(
            plan.iter().zip((0..1000).cycle()).all(|(entry, session)| entry.session == session)
        );
        assert_eq!((plan[5].teid, plan[5].gnb), (1005, 0x1234_0003));
        assert_eq!(plan[5].source_port, 2152 + 2);
    }

    #[test]
    fn random_order_reaches_every_session_alike_and_repeats_with_its_seed() {
        let drawn = plan(SessionOrder::Random, 10, &[1]);
        assert_eq!(drawn, plan(SessionOrder::Random, 10, &[1]));
        for session in 0..10 {
            let share = share(&drawn, |entry| entry.session == session);
            assert!((0.09..0.11).contains(&share), "{session}: {share}");
        }
    }

    #[test]
    fn zipf_order_prefers_low_sessions_by_their_rank() {
        let drawn = plan(SessionOrder::Zipf { s: 1.0 }, 100, &[1]);
        let first = share(&drawn, |entry| entry.session == 0);
        let tenth = share(&drawn, |entry| entry.session == 9);
        // 1 / H(100) = 0.193
        assert!((0.18..0.21).contains(&first), "{first}");
        assert!((0.014..0.025).contains(&tenth), "{tenth}");
    }

    #[test]
    fn sizes_come_by_their_weights() {
        let drawn = plan(SessionOrder::Random, 10, &[7, 4, 1]);
        for (size, wanted) in [(0, 7.0 / 12.0), (1, 4.0 / 12.0), (2, 1.0 / 12.0)] {
            let share = share(&drawn, |entry| entry.size == size);
            assert!((share - wanted).abs() < 0.01, "{size}: {share}");
        }
    }
}
