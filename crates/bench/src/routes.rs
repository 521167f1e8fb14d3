//! `adit-bench routes`: route tables of the size of the Internet's.
//!
//! Loads a table of IPv4 and IPv6 routes with the prefix lengths of the Internet's tables, beside
//! the steps of a worker, and then changes single routes. Afterwards workers with one default
//! route, with the table, and with the table and four next hops per route take uplink packets to
//! random destinations in turns.

use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use adit_pktio::RxChecksum;
use adit_rules::NextHops;
use adit_tables::{IpPrefix, RouteAction, RouteChange, RouteHop};
use adit_types::{InterfaceId, InterfaceSet, Ipv4Prefix, Ipv6Prefix};
use anyhow::{Context, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::measure::{
    BenchNode, ExpectedOutcome, Figures, WorkerBenchConfig, establish, measure_in_turns,
    measure_with,
};
use super::memory::resident_bytes;
use super::network::DN_MAC;
use super::packet::BenchPacket;
use super::report::{self, rounded};
use super::sessions::BenchProfile;
use crate::size::{BenchSize, parse_count};

const N6: InterfaceId = InterfaceId(1);

/// Gateways of the routes.
const GATEWAYS: u8 = 16;

/// Changes of one call while the table is loaded.
const CHANGES_PER_CALL: usize = 4096;

/// Single routes that are changed and timed.
const SINGLE_CHANGES: usize = 2000;

/// Prefix lengths of the Internet's IPv4 table, with their shares in 1000.
const LENGTHS_V4: [(u8, u32); 14] = [
    (8, 1),
    (12, 1),
    (13, 1),
    (14, 2),
    (15, 2),
    (16, 14),
    (17, 9),
    (18, 15),
    (19, 27),
    (20, 46),
    (21, 54),
    (22, 110),
    (23, 98),
    (24, 620),
];

/// The same of the IPv6 table.
const LENGTHS_V6: [(u8, u32); 8] =
    [(29, 50), (32, 125), (36, 60), (40, 90), (44, 130), (46, 40), (47, 35), (48, 470)];

/// Options of the bench.
#[derive(Debug, clap::Args)]
pub(crate) struct RoutesArguments {
    /// IPv4 routes; a fifth as many IPv6 routes.
    #[arg(long, value_name = "COUNT", default_value = "1M", value_parser = parse_count)]
    routes: usize,
    #[command(flatten)]
    size: BenchSize,
}

/// Measures loading, changes and lookups.
///
/// # Errors
/// A route is refused, or a packet is not forwarded.
pub(crate) fn run(arguments: &RoutesArguments) -> anyhow::Result<Value> {
    let &RoutesArguments { routes, size: BenchSize { sessions, packets, burst } } = arguments;
    let node = || establish(BenchProfile::USUAL, sessions);
    let (mut plain, mut single, mut several) = (node()?, node()?, node()?);
    eprintln!("loading {routes} IPv4 and {} IPv6 routes", routes / 5);
    let loaded = load(&mut single, routes, 1)?;
    load(&mut several, routes, 4)?;
    let plan = WorkerBenchConfig {
        packet: BenchPacket::UPLINK,
        outcome: ExpectedOutcome::Forwarded,
        checksum: RxChecksum::Good,
        active: sessions,
        packets,
        burst,
    };
    let all: [Figures; 3] = measure_with(&mut plain, &plan, |plain| {
        measure_with(&mut single, &plan, |single| {
            measure_with(&mut several, &plan, |several| {
                measure_in_turns(&plan, [plain, single, several])
            })
        })
    })?;
    let whats = ["uplink, default route", "uplink, table", "uplink, table, 4 next hops"];
    let rows = whats.into_iter().zip(&all).map(|(what, figures)| {
        let ratio = (figures.median / all[0].median * 100.0).round() / 100.0;
        figures.add_to(json!({
            "what": what,
            "sessions": sessions,
            "burst_pkts": burst,
            "window_pkts": packets,
            "median_burst_to_default_route": ratio,
        }))
    });
    let mut rows: Vec<Value> = rows.collect();
    rows.insert(0, loaded);
    Ok(report::of("routes", &rows))
}

/// Returns gateway `number` of the routes of one family.
fn gateway(number: u8, is_v6: bool) -> std::net::IpAddr {
    match is_v6 {
        false => Ipv4Addr::new(10, 0, 6, 100 + number).into(),
        true => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 100 + u16::from(number)).into(),
    }
}

/// Returns the action of a route with `hops` next hops.
fn action(first: u8, hops: u8, is_v6: bool) -> RouteAction {
    let hop = |at| {
        let gateway = Some(gateway((first + at) % GATEWAYS, is_v6));
        RouteHop { interface: N6, gateway, weight: 1 }
    };
    RouteAction::Forward((0..hops).map(hop).collect())
}

fn length(lengths: &[(u8, u32)], random: &mut SmallRng) -> u8 {
    let mut at = random.random_range(0..lengths.iter().map(|(_, share)| share).sum());
    for (len, share) in lengths {
        match u32::checked_sub(at, *share) {
            Some(beyond) => at = beyond,
            None => return *len,
        }
    }
    0
}

/// Draws a table of one family. Each route has `hops` next hops.
fn table(count: usize, hops: u8, is_v6: bool) -> anyhow::Result<Vec<RouteChange>> {
    let mut random = SmallRng::seed_from_u64(6);
    let (mut known, mut changes) = (HashSet::new(), Vec::new());
    while changes.len() < count {
        let prefix = match is_v6 {
            false => {
                let addr = Ipv4Addr::from_bits(random.random_range(1 << 24..224 << 24));
                Ipv4Prefix::containing(addr, length(&LENGTHS_V4, &mut random)).map(IpPrefix::V4)
            }
            true => {
                // Some thousand allocations, and their parts.
                let allocation = random.random_range(0..40_000_u64) * 6151;
                let upper = 1 << 61 | allocation << 32 | u64::from(random.random::<u32>());
                let addr = Ipv6Addr::from_bits(u128::from(upper) << 64);
                Ipv6Prefix::containing(addr, length(&LENGTHS_V6, &mut random)).map(IpPrefix::V6)
            }
        };
        let prefix = prefix.context("a length of the family")?;
        if known.insert(prefix) {
            let action = Some(action(random.random_range(0..GATEWAYS), hops, is_v6));
            changes.push(RouteChange { scope: InterfaceSet::only(N6), prefix, action });
        }
    }
    Ok(changes)
}

/// Loads the routes of both families, beside the steps of the worker. Returns the row about that.
fn load(node: &mut BenchNode, count: usize, hops: u8) -> anyhow::Result<Value> {
    for number in 0..GATEWAYS {
        for is_v6 in [false, true] {
            let index = node.publisher.ensure_next_hop(N6, gateway(number, is_v6));
            node.publisher.set_mac(index.context("room for a next hop")?, DN_MAC, false);
        }
    }
    let mut changes = table(count, hops, false)?;
    changes.extend(table(count / 5, hops, true)?);
    let before = resident_bytes()?;
    let (mut longest_call, began) = (0.0_f64, Instant::now());
    for changes in changes.chunks(CHANGES_PER_CALL) {
        let began = Instant::now();
        apply(node, changes)?;
        longest_call = longest_call.max(began.elapsed().as_secs_f64());
        step(node)?;
    }
    let seconds = began.elapsed().as_secs_f64();
    let grown = resident_bytes()?.saturating_sub(before);
    let mut times = Vec::new();
    for change in changes.iter().step_by(changes.len().div_ceil(SINGLE_CHANGES)) {
        let other = RouteChange { action: Some(RouteAction::Blackhole), ..change.clone() };
        for change in [&other, change] {
            let began = Instant::now();
            apply(node, std::slice::from_ref(change))?;
            times.push(began.elapsed().as_secs_f64() * 1e6);
            step(node)?;
        }
    }
    times.sort_by(f64::total_cmp);
    let quantile = |share: usize| times.get(times.len() * share / 1000).copied().map(rounded);
    Ok(json!({
        "what": "load",
        "routes_v4": count,
        "routes_v6": count / 5,
        "seconds": rounded(seconds),
        "longest_call_ms": rounded(longest_call * 1e3),
        "resident_bytes_more": grown,
        "bytes_of_blocks": node.publisher.route_table_bytes(),
        "change_us_median": quantile(500),
        "change_us_p99": quantile(990),
        "change_us_longest": times.last().copied().map(rounded),
    }))
}

fn apply(node: &mut BenchNode, changes: &[RouteChange]) -> anyhow::Result<()> {
    let refused = node.publisher.change_routes(changes).err();
    ensure!(refused.is_none(), "refused: {:?}", refused.iter().flatten().next());
    Ok(())
}

/// Makes one step of the worker, which sees the changes; then their memory is free.
fn step(node: &mut BenchNode) -> anyhow::Result<()> {
    node.bench.prepare(BenchPacket::UPLINK, &node.sessions, 32)?;
    let (_, sent) = node.bench.run()?;
    ensure!(sent == 32, "a step forwarded {sent} of 32 packets");
    while node.publisher.poll_observed().is_some() {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_table_is_loaded_and_measured() {
        let size = BenchSize { sessions: 20, packets: 640, burst: 32 };
        let document = run(&RoutesArguments { routes: 3000, size }).unwrap();
        let text = document.to_string();
        assert!(text.contains("change_us_p99") && text.contains("uplink, table, 4 next hops"));
    }
}
