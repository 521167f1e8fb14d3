//! Tables against naive models under random operations.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::support::{N6, config, id, interface, ip, route, rules};
use adit_rules::{KeyChange, RuleDelta, SessionKey};
use adit_tables::publish::slots;
use adit_tables::{Interface, IpPrefix, KeyRefused, KeyWriter, Route, TablesConfig, Via, build};
use adit_types::{
    DomainId, InterfaceId, InterfaceRole, InterfaceSet, Ipv4Prefix, Ipv6Prefix, SessionIndex, Teid,
};
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum KeyOp {
    Insert(u64, u32),
    Remove(u64),
    /// The reader passes a boundary and the writer frees.
    Observe,
}

fn key_op() -> impl Strategy<Value = KeyOp> {
    // Few keys, so that they are inserted, replaced and removed again and again.
    let key = 0_u64..96;
    prop_oneof![
        4 => (key.clone(), 0_u32..1000).prop_map(|(key, value)| KeyOp::Insert(key, value)),
        4 => key.prop_map(KeyOp::Remove),
        1 => Just(KeyOp::Observe),
    ]
}

proptest! {
    #[test]
    fn key_table_agrees_with_a_map(ops in vec(key_op(), 1..400), seed: u64) {
        let (mut epochs, mut readers) = slots::<u8>(0, 1);
        readers[0].observe();
        let mut writer = KeyWriter::new(64, seed, 0);
        let table = writer.table().clone();
        let mut model = HashMap::new();
        for op in ops {
            match op {
                KeyOp::Insert(key, value) => match writer.insert(key, value) {
                    Ok(before) => prop_assert_eq!(before, model.insert(key, value)),
                    Err(refused) => {
                        prop_assert_eq!(refused, KeyRefused::Full);
                        prop_assert!(!model.contains_key(&key), "a known key is always replaced");
                    }
                },
                KeyOp::Remove(key) => {
                    let value = model.remove(&key);
                    let removed = writer.remove(key, value.unwrap_or(0), epochs.next_epoch());
                    prop_assert_eq!(removed, value.is_some());
                    epochs.advance();
                }
                KeyOp::Observe => {
                    readers[0].observe();
                    writer.reclaim(epochs.passed(), epochs.next_epoch());
                }
            }
            prop_assert_eq!(table.len(), model.len());
        }
        for key in 0..96 {
            let expected = model.get(&key).map_or(SessionIndex::NONE, |value| SessionIndex(*value));
            prop_assert_eq!(table.session(key), expected);
            prop_assert_eq!(table.lookup(key), model.get(&key).copied());
        }
    }

    #[test]
    fn teids_agree_with_a_map(
        ops in vec((any::<bool>(), 0_u32..64, 0_u32..512), 1..200),
    ) {
        let (mut publisher, mut readers) = build(config(1)).unwrap();
        let mut model = BTreeMap::new();
        for (n, (add, session, teid)) in (0..).zip(ops) {
            let key = SessionKey::Teid(Teid(teid));
            let change = if add {
                model.insert(teid, session);
                KeyChange::Add(key)
            } else {
                if model.get(&teid) == Some(&session) {
                    model.remove(&teid);
                }
                KeyChange::Remove(key)
            };
            let rules = Some(Box::new(rules(n, &[])));
            publisher.apply(
                id(n),
                RuleDelta { session: SessionIndex(session), keys: vec![change], rules },
            );
            readers[0].observe();
            prop_assert_eq!(publisher.poll_observed(), Some(id(n)));
        }
        prop_assert_eq!(publisher.counters().keys_refused, 0);
        let teids: Vec<_> = (0..600).map(Teid).collect();
        let mut out = vec![SessionIndex(0); teids.len()];
        readers[0].observe().lookup_teids(&teids, &mut out);
        for (teid, found) in teids.iter().zip(out) {
            let expected = model.get(&teid.0).map_or(SessionIndex::NONE, |s| SessionIndex(*s));
            prop_assert_eq!(found, expected, "TEID {}", teid);
        }
    }

    #[test]
    fn framed_routes_agree_with_a_scan(
        ops in vec((any::<bool>(), 0_u32..64, any::<bool>(), any::<u64>(), 1_u8..64), 1..120),
        addrs in vec(any::<u64>(), 1..60),
    ) {
        // Addresses from a narrow space, so that prefixes nest and are hit.
        let narrow = |bits: u64| bits & 0xe000_0f00_0000_0007;
        let prefix = |is_v4, bits: u64, len: u8| if is_v4 {
            let addr = Ipv4Addr::from_bits(u32::try_from(narrow(bits) >> 32).unwrap());
            IpPrefix::V4(Ipv4Prefix::containing(addr, len.min(31)).unwrap())
        } else {
            let addr = Ipv6Addr::from_bits(u128::from(narrow(bits)) << 64);
            IpPrefix::V6(Ipv6Prefix::containing(addr, len).unwrap())
        };
        let (mut publisher, mut readers) = build(config(1)).unwrap();
        let mut model = BTreeMap::new();
        for (n, (add, session, is_v4, bits, len)) in (0..).zip(ops) {
            let prefix = prefix(is_v4, bits, len);
            let key = SessionKey::of_prefix(DomainId(0), prefix);
            let change = if add {
                model.insert(prefix, session);
                KeyChange::Add(key)
            } else {
                if model.get(&prefix) == Some(&session) {
                    model.remove(&prefix);
                }
                KeyChange::Remove(key)
            };
            let rules = Some(Box::new(rules(n, &[])));
            let session = SessionIndex(session);
            publisher.apply(id(n), RuleDelta { session, keys: vec![change], rules });
            readers[0].observe();
            prop_assert_eq!(publisher.poll_observed(), Some(id(n)));
        }
        prop_assert_eq!(publisher.counters().keys_refused, 0);
        let longest = |addr: IpAddr| {
            let found = model.iter().filter(|(prefix, _)| prefix.contains(addr));
            let found = found.max_by_key(|(prefix, _)| match prefix {
                IpPrefix::V4(prefix) => prefix.len(),
                IpPrefix::V6(prefix) => prefix.len(),
            });
            found.map_or(SessionIndex::NONE, |(_, session)| SessionIndex(*session))
        };
        let v6: Vec<u64> = addrs.iter().map(|bits| narrow(*bits)).collect();
        let v4: Vec<u32> = v6.iter().map(|bits| u32::try_from(bits >> 32).unwrap()).collect();
        let mut out = vec![SessionIndex(0); addrs.len()];
        let view = readers[0].observe();
        view.ues(DomainId(0)).lookup_v4(&v4, &mut out);
        for (bits, found) in v4.iter().zip(&out) {
            prop_assert_eq!(*found, longest(Ipv4Addr::from_bits(*bits).into()));
        }
        view.ues(DomainId(0)).lookup_v6(&v6, &mut out);
        for (bits, found) in v6.iter().zip(&out) {
            let addr = Ipv6Addr::from_bits(u128::from(*bits) << 64);
            prop_assert_eq!(*found, longest(addr.into()));
        }
    }

    #[test]
    fn routes_agree_with_a_scan(
        v4 in vec((any::<u32>(), 0_u8..=32), 0..40),
        v6 in vec((any::<u128>(), 0_u8..=128), 0..40),
        addrs in vec(any::<u128>(), 1..60),
    ) {
        // Addresses from a narrow space, so that prefixes nest and are hit.
        let narrow_v4 = |bits: u32| Ipv4Addr::from_bits(bits & 0x8000_0703);
        let narrow_v6 = |bits: u128| Ipv6Addr::from_bits(bits & 0x3 << 126 | bits & 0x703);
        let prefixes = v4
            .iter()
            .map(|(bits, len)| IpPrefix::V4(Ipv4Prefix::containing(narrow_v4(*bits), *len).unwrap()))
            .chain(v6.iter().map(|(bits, len)| {
                IpPrefix::V6(Ipv6Prefix::containing(narrow_v6(*bits), *len).unwrap())
            }));
        let mut model: BTreeMap<IpPrefix, IpAddr> = BTreeMap::new();
        for (n, prefix) in prefixes.enumerate() {
            let gateway = match prefix {
                IpPrefix::V4(_) => ip(&format!("198.51.100.{}", n % 100 + 2)),
                IpPrefix::V6(_) => ip(&format!("2001:db8:6::{:x}", n % 100 + 2)),
            };
            model.insert(prefix, gateway);
        }
        let routes = model
            .iter()
            .map(|(prefix, next_hop)| Route { interface: N6, prefix: *prefix, next_hop: *next_hop })
            .collect();
        let config = TablesConfig { routes, next_hops_max: 256, ..config(1) };
        let mut readers = build(config).unwrap().1;
        let view = readers[0].observe();
        for bits in addrs {
            let v4 = narrow_v4(u32::try_from(bits & 0xffff_ffff).unwrap());
            for addr in [IpAddr::V4(v4), IpAddr::V6(narrow_v6(bits))] {
                let expected = naive_route(&model, addr);
                let found = view.route(InterfaceRole::N6, InterfaceSet::ALL, addr).map(|found| match found.via {
                    Via::Known(index) => view.next_hop(index).unwrap().addr,
                    Via::Unknown(addr) => panic!("{addr} is on no link"),
                });
                prop_assert_eq!(found, expected, "{}", addr);
            }
        }
    }
}

proptest! {
    #[test]
    fn blocks_lead_where_routes_do(
        connected in (8_u8..=24, 32_u8..=128),
        v4 in vec((any::<u32>(), 0_u8..=32, 0_usize..3), 0..12),
        v6 in vec((any::<u128>(), 0_u8..=128, 0_usize..3), 0..12),
        addrs in vec(any::<u128>(), 1..60),
    ) {
        // From a narrow space around the connected prefixes, so that these are also hit.
        let near = [ip("198.51.100.0"), ip("2001:db8:6::")];
        let narrow = |bits: u128| {
            let [IpAddr::V4(near4), IpAddr::V6(near6)] = near else { unreachable!() };
            let v4 = u32::try_from(bits & 0xffff_ffff).unwrap();
            let v4 = Ipv4Addr::from_bits(near4.to_bits() ^ v4 & 0x8102_0103);
            let v6 = near6.to_bits() ^ bits & (1 << 127 | 0x1_0003_0000_0000_0003 << 48 | 0x103);
            (v4, Ipv6Addr::from_bits(v6))
        };
        let mut config = config(1);
        let mut further = interface(2, InterfaceRole::N6, "198.51.100.1", "2001:db8:6::1");
        (further.v4, further.v6) = (
            further.v4.map(|(addr, _)| (addr, connected.0)),
            further.v6.map(|(addr, _)| (addr, connected.1)),
        );
        config.interfaces.push(further);
        config.next_hops_max = 256;
        let v4 = v4.iter().map(|(bits, len, on)| {
            (IpPrefix::V4(Ipv4Prefix::containing(narrow((*bits).into()).0, *len).unwrap()), *on)
        });
        let v6 = v6.iter().map(|(bits, len, on)| {
            (IpPrefix::V6(Ipv6Prefix::containing(narrow(*bits).1, *len).unwrap()), *on)
        });
        let mut known = connected_prefixes(&config.interfaces);
        let default = config.routes.split_off(0);
        let further = v4.chain(v6).enumerate().map(|(n, (prefix, on))| {
            // Gateways are shared by several routes.
            let next_hop = match prefix {
                IpPrefix::V4(_) => ip(&format!("198.51.100.{}", n % 3 + 2)),
                IpPrefix::V6(_) => ip(&format!("fe80::{:x}", n % 3 + 2)),
            };
            Route { interface: [N6, InterfaceId(2), InterfaceId(2)][on], prefix, next_hop }
        });
        for route in default.into_iter().chain(further) {
            let is_known = known
                .iter()
                .any(|(prefix, on, _)| (*prefix, *on) == (route.prefix, route.interface));
            if !is_known {
                known.push((route.prefix, route.interface, Some(route.next_hop)));
                config.routes.push(route);
            }
        }
        let mut readers = build(config).unwrap().1;
        let view = readers[0].observe();
        for bits in addrs {
            let (v4, v6) = narrow(bits);
            let upper = u64::try_from(v6.to_bits() >> 64).unwrap();
            let blocks = [view.network_block_v4(v4.to_bits()), view.network_block_v6(upper)];
            for (addr, block) in [IpAddr::V4(v4), IpAddr::V6(v6)].into_iter().zip(blocks) {
                for within in [InterfaceSet(0b10), InterfaceSet(0b100), InterfaceSet::ALL] {
                    let Some(gateway) = view.block_gateway(within, block) else { continue };
                    let gateway = view.next_hop(gateway).unwrap();
                    let found = naive_gateway(&known, within, addr);
                    prop_assert_eq!(found, Some((gateway.interface, gateway.addr)), "{}", addr);
                }
            }
        }
    }
}

/// The networks that an interface towards the data network connects: a prefix, and addresses that
/// lead nowhere.
fn connected_prefixes(interfaces: &[Interface]) -> Vec<(IpPrefix, InterfaceId, Option<IpAddr>)> {
    let mut known = Vec::new();
    for interface in interfaces.iter().filter(|interface| interface.role == InterfaceRole::N6) {
        let (v4, len4) = interface.v4.unwrap();
        let (v6, len6) = interface.v6.unwrap();
        let all = Ipv4Prefix::containing(v4, len4).unwrap();
        let network = all.addr();
        let broadcast = Ipv4Addr::from_bits(network.to_bits() | u32::MAX >> len4);
        let hosts = [v4, network, broadcast].map(|addr| Ipv4Prefix::containing(addr, 32).unwrap());
        let v4 = [all].into_iter().chain(hosts).map(IpPrefix::V4);
        let v6 = [len6, 128].map(|len| IpPrefix::V6(Ipv6Prefix::containing(v6, len).unwrap()));
        known.extend(v4.chain(v6).map(|prefix| (prefix, interface.id, None)));
    }
    known
}

/// The gateway on the longest prefix around `addr`, on the first interface of those `within`.
fn naive_gateway(
    known: &[(IpPrefix, InterfaceId, Option<IpAddr>)],
    within: InterfaceSet,
    addr: IpAddr,
) -> Option<(InterfaceId, IpAddr)> {
    let len = |prefix: &IpPrefix| match prefix {
        IpPrefix::V4(prefix) => prefix.len(),
        IpPrefix::V6(prefix) => prefix.len(),
    };
    let around = || {
        known.iter().filter(move |(prefix, on, _)| prefix.contains(addr) && within.contains(*on))
    };
    let longest = around().map(|(prefix, ..)| len(prefix)).max()?;
    let (_, on, gateway) = around().find(|(prefix, ..)| len(prefix) == longest)?;
    gateway.map(|gateway| (*on, gateway))
}

#[test]
fn destinations_of_one_gateway_share_a_block_and_those_on_links_have_none() {
    let mut config = config(1);
    // Larger than a block of IPv4.
    config.interfaces[1].v4 = Some((Ipv4Addr::new(198, 16, 0, 1), 12));
    config.routes.retain(|route| route.interface != N6);
    config.routes.push(route(1, "0.0.0.0/0", "198.16.0.254"));
    config.routes.push(route(1, "::/0", "fe80::fe"));
    config.routes.push(route(1, "2001:db8:7::/48", "fe80::fd"));
    config.routes.push(route(1, "2001:db8:9:1:8000::/65", "fe80::fd"));
    let mut readers = build(config).unwrap().1;
    let view = readers[0].observe();
    let block = |addr: &str| match ip(addr) {
        IpAddr::V4(addr) => view.network_block_v4(addr.to_bits()),
        IpAddr::V6(addr) => view.network_block_v6(u64::try_from(addr.to_bits() >> 64).unwrap()),
    };
    let gateway = |addr: &str| {
        let index = view.block_gateway(InterfaceSet::ALL, block(addr))?;
        view.next_hop(index).map(|hop| hop.addr)
    };
    assert_eq!(gateway("8.8.8.8"), Some(ip("198.16.0.254")));
    assert_eq!(block("8.8.8.8"), block("203.1.113.1"));
    for own in ["203.0.113.4", "192.0.2.1", "2001:db8:3::1"] {
        assert!(block(own) == 0 && view.is_own(InterfaceSet::ALL, ip(own)), "{own} is ours");
        assert_eq!(view.route(InterfaceRole::N6, InterfaceSet::ALL, ip(own)), None);
    }
    for other in ["203.0.113.5", "2001:db8:3::2"] {
        assert!(!view.is_own(InterfaceSet::ALL, ip(other)), "{other} is not");
    }
    assert_eq!((block("198.17.0.1"), block("198.18.5.5")), (0, 0), "on the link");
    for addr in ["::1", "2001:db8:5::1", "2001:db8:6:1::1", "2606::1", "ffff::1"] {
        assert_eq!(gateway(addr), Some(ip("fe80::fe")), "{addr}");
    }
    assert_eq!(gateway("2001:db8:7::1"), Some(ip("fe80::fd")));
    assert_eq!(block("2001:db8:6::77"), 0, "on the link");
    assert_eq!(block("2001:db8:9:1::1"), 0, "divided");
}

fn naive_route(model: &BTreeMap<IpPrefix, IpAddr>, addr: IpAddr) -> Option<IpAddr> {
    let matching = model.iter().filter_map(|(prefix, gateway)| match (prefix, addr) {
        (IpPrefix::V4(prefix), IpAddr::V4(addr)) if prefix.contains(addr) => {
            Some((prefix.len(), *gateway))
        }
        (IpPrefix::V6(prefix), IpAddr::V6(addr)) if prefix.contains(addr) => {
            Some((prefix.len(), *gateway))
        }
        _ => None,
    });
    matching.max_by_key(|(len, _)| *len).map(|(_, gateway)| gateway)
}

#[test]
fn key_table_under_churn_keeps_room_for_its_capacity() {
    const CAPACITY: u64 = 1000;
    let (mut epochs, mut readers) = slots::<u8>(0, 1);
    let mut writer = KeyWriter::new(usize::try_from(CAPACITY).unwrap(), 3, 0);
    // A window of keys that slides: every round replaces one key by a new one.
    for key in 0..CAPACITY * 200 {
        assert_eq!(writer.insert(key, 1), Ok(None), "key {key}");
        if let Some(old) = key.checked_sub(CAPACITY - 1) {
            assert!(writer.remove(old, 1, epochs.next_epoch()));
            epochs.advance();
        }
        readers[0].observe();
        writer.reclaim(epochs.passed(), epochs.next_epoch());
    }
    assert_eq!(writer.table().len(), usize::try_from(CAPACITY).unwrap() - 1);
}

#[test]
fn key_table_refuses_the_reserved_key_and_more_than_it_holds() {
    let mut writer = KeyWriter::new(4, 9, 0);
    assert_eq!(writer.insert(u64::MAX, 1), Err(KeyRefused::Reserved));
    assert_eq!(writer.table().lookup(u64::MAX), None);
    let held = (0..1000).filter(|key| writer.insert(*key, 1).is_ok()).count();
    assert!((4..1000).contains(&held));
    assert_eq!(writer.table().len(), held);
}

#[test]
fn place_of_a_removed_key_is_not_reused_before_readers_passed_a_boundary() {
    let (mut epochs, mut readers) = slots::<u8>(0, 1);
    readers[0].observe();
    let mut writer = KeyWriter::new(4, 9, 0);
    let held: Vec<u64> = (0..1000).filter(|key| writer.insert(*key, 1).is_ok()).collect();
    for key in &held {
        assert!(writer.remove(*key, 1, epochs.next_epoch()));
    }
    epochs.advance();
    writer.reclaim(epochs.passed(), epochs.next_epoch());
    let early = held.iter().filter(|key| writer.insert(**key, 2).is_ok()).count();
    assert_eq!(early, 0, "the reader may still be looking at every place");
    readers[0].observe();
    writer.reclaim(epochs.passed(), epochs.next_epoch());
    epochs.advance();
    readers[0].observe();
    writer.reclaim(epochs.passed(), epochs.next_epoch());
    assert!(held.iter().all(|key| writer.insert(*key, 2).is_ok()));
}

#[test]
fn keys_that_follow_a_pattern_spread_over_the_buckets() {
    // Sequential, strided and bit-reversed keys fill a table to its capacity with no refusal.
    for seed in 0..20 {
        let patterns: [fn(u64) -> u64; 4] =
            [|n| n, |n| n << 20, u64::reverse_bits, |n| n.wrapping_mul(0x1_0001)];
        for key_of in patterns {
            let mut writer = KeyWriter::new(20_000, seed, 0);
            for n in 0..20_000 {
                assert_eq!(writer.insert(key_of(n), 1), Ok(None), "seed {seed}, n {n}");
            }
        }
    }
}
