use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::publish::{SlotWriter, slots};
use crate::sync::Arc;

/// Prefixes by their first address and length.
type Model = BTreeMap<(u128, u8), u32>;

fn octets<const N: usize>(bits: u128) -> [u8; N] {
    let all = bits.to_be_bytes();
    core::array::from_fn(|at| all[at])
}

/// The upper `len` bits.
fn cut(bits: u128, len: u8) -> u128 {
    bits & u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)
}

fn naive(model: &Model, bits: u128) -> Option<PrefixMatch> {
    (0..=128).rev().find_map(|len| {
        let value = *model.get(&(cut(bits, len), len))?;
        Some(PrefixMatch { value, len })
    })
}

/// Few different addresses, so that prefixes contain each other.
fn narrow(bits: u128) -> u128 {
    bits & 0x8101_8301_8101_0381_0000_0000_0000_0181
}

/// One change: bits, length, value, and what is done.
type TreeChange = (u128, u8, u32, u8);

fn follows_the_model<const N: usize>(changes: &[TreeChange], probes: &[u128]) {
    let (mut epochs, _) = slots::<()>(1, 0);
    let mut tree = PrefixTreeWriter::<N>::new();
    let mut model = Model::new();
    let bits_max = u8::try_from(N * 8).unwrap();
    for (bits, len, value, action) in changes {
        let len = len % (bits_max + 1);
        let (bits, key) = (narrow(*bits), (cut(narrow(*bits), len), len));
        assert_eq!(tree.get(octets(key.0), len), model.get(&key).copied());
        match action % 4 {
            0 => assert_eq!(tree.remove(octets(key.0), len), model.remove(&key)),
            1 => {
                tree.commit(epochs.next_epoch());
                epochs.advance();
                tree.reclaim(epochs.passed());
                let addrs = probes.iter().copied().map(narrow).chain([bits]);
                for addr in addrs.map(|addr| cut(addr, bits_max)) {
                    assert_eq!(tree.tree().find(octets(addr)), naive(&model, addr), "{addr:x}");
                }
            }
            _ => {
                let former = tree.insert(octets(key.0), len, *value).unwrap();
                assert_eq!(former, model.insert(key, *value));
            }
        }
        assert_eq!(tree.len(), model.len());
    }
    for (bits, len) in model.keys() {
        assert!(tree.remove(octets(*bits), *len).is_some());
    }
    tree.commit(epochs.next_epoch());
    epochs.advance();
    tree.reclaim(epochs.passed());
    assert_eq!((tree.len(), tree.block_bytes()), (0, 0), "all memory is free again");
    assert!(probes.iter().all(|bits| tree.tree().find(octets(narrow(*bits))).is_none()));
}

fn changes() -> impl Strategy<Value = Vec<TreeChange>> {
    vec((any::<u128>(), any::<u8>(), 1_u32..1 << VALUE_BITS, any::<u8>()), 1..120)
}

proptest! {
    #[cfg_attr(miri, ignore = "hundreds of random tables take minutes there")]
    #[test]
    fn ipv4_lookups_follow_the_changes(changes in changes(), probes in vec(any::<u128>(), 20)) {
        follows_the_model::<4>(&changes, &probes);
    }

    #[cfg_attr(miri, ignore = "hundreds of random tables take minutes there")]
    #[test]
    fn ipv6_lookups_follow_the_changes(changes in changes(), probes in vec(any::<u128>(), 20)) {
        follows_the_model::<16>(&changes, &probes);
    }
}

#[test]
fn parts_of_the_array_are_divided_by_longer_prefixes_only() {
    let (epochs, _) = slots::<()>(1, 0);
    let mut tree = PrefixTreeWriter::<4>::new();
    assert_eq!(tree.tree().find_undivided(0x0a01), Ok(None));
    tree.insert([0; 4], 0, 9).unwrap();
    tree.insert([10, 0, 0, 0], 8, 7).unwrap();
    let found = |value, len| Ok(Some(PrefixMatch { value, len }));
    assert_eq!(tree.tree().find_undivided(0x0a01), found(7, 8));
    assert_eq!(tree.tree().find_undivided(0x0b01), found(9, 0));
    tree.insert([10, 1, 0, 0], 17, 5).unwrap();
    tree.commit(epochs.next_epoch());
    assert_eq!(tree.tree().find_undivided(0x0a01), Err(Divided));
    // A shorter prefix changes below a node.
    tree.insert([10, 0, 0, 0], 8, 6).unwrap();
    assert_eq!(tree.tree().find([10, 1, 128, 1]), Some(PrefixMatch { value: 6, len: 8 }));
    tree.remove([10, 0, 0, 0], 8);
    assert_eq!(tree.tree().find([10, 1, 128, 1]), Some(PrefixMatch { value: 9, len: 0 }));
    assert_eq!(tree.tree().find([10, 1, 127, 1]), Some(PrefixMatch { value: 5, len: 17 }));
}

/// Random numbers for tables (SplitMix64).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A length, by its share in 1000 of the routes.
    fn len(&mut self, shares: &[(u8, u64)]) -> u8 {
        let mut at = self.next() % shares.iter().map(|(_, share)| share).sum::<u64>();
        for (len, share) in shares {
            match at.checked_sub(*share) {
                Some(beyond) => at = beyond,
                None => return *len,
            }
        }
        unreachable!("below the sum")
    }
}

/// Prefix lengths of the Internet's IPv4 table.
const LENGTHS_V4: [(u8, u64); 14] = [
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

/// Prefix lengths of the Internet's IPv6 table.
const LENGTHS_V6: [(u8, u64); 11] = [
    (28, 5),
    (29, 45),
    (30, 10),
    (32, 115),
    (36, 60),
    (40, 90),
    (42, 20),
    (44, 110),
    (46, 40),
    (47, 35),
    (48, 470),
];

/// An Internet-like table of one family.
fn internet_table(count: usize, is_v6: bool, seed: u64) -> Vec<(u128, u8, u32)> {
    let (mut draw, mut known) = (Draw(seed), HashMap::new());
    let lengths: &[_] = if is_v6 { &LENGTHS_V6 } else { &LENGTHS_V4 };
    while known.len() < count {
        let len = draw.len(lengths);
        let bits = match is_v6 {
            // Around 1.0.0.0 to 223.255.255.255.
            false => u128::from((draw.next() % 223 + 1) << 24 | draw.next() & 0xff_ffff) << 96,
            // 40,000 allocations of /32 in 2000::/3, and their parts.
            true => {
                let allocation = (draw.next() % 40_000).wrapping_mul(0x9e37_79b1) & 0x1fff_ffff;
                let upper = 1 << 61 | allocation << 32 | draw.next() & 0xffff_ffff;
                u128::from(upper) << 64
            }
        };
        let value = u32::try_from(draw.next() % 64).unwrap() + 1;
        known.insert((cut(bits, len), len), value);
    }
    known.into_iter().map(|((bits, len), value)| (bits, len, value)).collect()
}

fn load<const N: usize>(
    routes: &[(u128, u8, u32)],
    epochs: &mut SlotWriter<()>,
) -> PrefixTreeWriter<N> {
    let mut tree = PrefixTreeWriter::new();
    // As a daemon's messages come: some at a time.
    for routes in routes.chunks(4096) {
        for (bits, len, value) in routes {
            tree.insert(octets(*bits), *len, *value).unwrap();
        }
        tree.commit(epochs.next_epoch());
        epochs.advance();
        tree.reclaim(epochs.passed());
    }
    tree
}

/// Returns the time that this thread has had a processor: other programs use it as well. Spec:
/// proc_pid_schedstat(5).
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

/// Lookups in a table of `routes`, and changes of single routes with their longest time.
fn check_large<const N: usize>(
    tree: &mut PrefixTreeWriter<N>,
    routes: &[(u128, u8, u32)],
    epochs: &mut SlotWriter<()>,
) -> Duration {
    let model: Model = routes.iter().map(|(bits, len, value)| ((*bits, *len), *value)).collect();
    let mut draw = Draw(99);
    for _ in 0..20_000 {
        let route = routes[usize::try_from(draw.next()).unwrap() % routes.len()];
        let below = u128::from(draw.next()) << 64 | u128::from(draw.next());
        let addr = cut(route.0 | below >> route.1.min(127), u8::try_from(N * 8).unwrap());
        assert_eq!(tree.tree().find(octets(addr)), naive(&model, addr));
    }
    let mut longest = Duration::ZERO;
    let short = [(0, 0, 9), (0, 1, 8), (u128::from(2_u8) << 124, 3, 7)];
    for (bits, len, value) in routes.iter().step_by(routes.len() / 500).chain(&short) {
        let began = cpu_time();
        tree.insert(octets(*bits), *len, *value + 100).unwrap();
        tree.commit(epochs.next_epoch());
        longest = longest.max(cpu_time() - began);
        epochs.advance();
        tree.reclaim(epochs.passed());
    }
    longest
}

#[cfg_attr(miri, ignore = "takes hours")]
#[test]
fn internet_table_loads_in_seconds_into_little_memory_and_a_route_changes_in_microseconds() {
    let (mut epochs, _) = slots::<()>(1, 0);
    let (v4, v6) = (internet_table(1_000_000, false, 1), internet_table(200_000, true, 2));
    let began = cpu_time();
    let mut tree_v4 = load::<4>(&v4, &mut epochs);
    let mut tree_v6 = load::<16>(&v6, &mut epochs);
    let loaded = cpu_time() - began;
    let mib = [tree_v4.block_bytes(), tree_v6.block_bytes()].map(|bytes| bytes >> 20);
    let longest =
        [check_large(&mut tree_v4, &v4, &mut epochs), check_large(&mut tree_v6, &v6, &mut epochs)];
    println!("loaded in {loaded:?}, blocks {mib:?} MiB, a change up to {longest:?}");
    assert!(loaded < Duration::from_secs(10), "{loaded:?}");
    assert!(mib[0] < 32 && mib[1] < 64, "{mib:?} MiB");
    assert!(longest.iter().all(|longest| *longest < Duration::from_millis(10)), "{longest:?}");
}

#[cfg_attr(miri, ignore = "threads that read a large array all the time take hours there")]
#[test]
fn routes_that_stay_are_found_at_all_times() {
    const ROUNDS: u32 = 20_000;
    let (mut epochs, mut readers) = slots::<()>(1, 2);
    let mut tree = PrefixTreeWriter::<4>::new();
    let stays = [([10, 0, 0, 0], 8), ([10, 1, 0, 0], 16), ([10, 1, 2, 0], 24), ([10, 1, 2, 3], 32)];
    for (addr, len) in stays {
        tree.insert(addr, len, len.into()).unwrap();
    }
    tree.commit(epochs.next_epoch());
    epochs.advance();
    let (shared, is_over) = (Arc::clone(tree.tree()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for reader in &mut readers {
            let (tree, is_over) = (&shared, &is_over);
            scope.spawn(move || {
                let mut seen = 0_u64;
                while !is_over.load(Relaxed) {
                    reader.observe();
                    let value = |addr| tree.find(addr).map(|found| found.value);
                    assert_eq!(value([10, 1, 2, 3]), Some(32));
                    assert_eq!(value([10, 1, 2, 4]), Some(24));
                    assert_eq!(value([10, 1, 3, 200]), Some(16));
                    let changing = value([10, 1, 9, 9]);
                    assert!(matches!(changing, Some(16 | 1000..)), "{changing:?}");
                    assert_eq!(value([10, 200, 0, 1]), Some(8));
                    assert_eq!(value([11, 0, 0, 1]), None);
                    seen += 1;
                }
                reader.go_offline();
                assert!(seen > 0);
            });
        }
        let mut draw = Draw(5);
        for round in 0..ROUNDS {
            // Beside the routes that stay, above, and below them.
            let below = |draw: &mut Draw| u8::try_from(draw.next() % 100).unwrap();
            let changes = [
                ([10, 1, 9, 0], 24),
                ([10, 1, 9, 9], 32),
                ([10, 1, 8, 0], 21),
                ([10, 1, 16 + below(&mut draw), below(&mut draw)], 32),
                ([10, 2 + below(&mut draw), 0, 0], 17),
            ];
            for (addr, len) in changes {
                let bits = cut(u128::from(u32::from_be_bytes(addr)) << 96, len);
                match draw.next() % 2 {
                    0 => drop(tree.remove(octets(bits), len)),
                    _ => drop(tree.insert(octets(bits), len, 1000 + round)),
                }
            }
            tree.commit(epochs.next_epoch());
            epochs.advance();
            tree.reclaim(epochs.passed());
        }
        is_over.store(true, Relaxed);
    });
}
