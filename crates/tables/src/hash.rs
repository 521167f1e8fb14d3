//! A keyed hash for keys that peers choose.
//!
//! A strongly universal multiply-add over 128 bits (Dietzfelbinger 1996), then a folded multiply
//! that spreads the result over all bits. A peer without the seed cannot aim at a bucket: any two
//! keys that it chooses collide only by chance.

use core::net::Ipv6Addr;

/// The secret parameters of the hash of one table.
#[derive(Clone, Copy)]
pub(crate) struct KeyHash {
    factor: u128,
    offset: u128,
    finish: [u64; 2],
}

impl KeyHash {
    /// Derives the secret from a random seed and the identifier of a table, so that tables differ.
    pub(crate) fn new(seed: u64, table: u64) -> Self {
        let mut state = seed ^ table.wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mut next = || split_mix(&mut state);
        let mut wide = || u128::from(next()) << 64 | u128::from(next());
        let (factor, offset) = (wide(), wide());
        Self { factor, offset, finish: [next() | 1, next()] }
    }

    /// Hashes a 64-bit key.
    #[inline]
    pub(crate) fn hash(&self, key: u64) -> u64 {
        let universal = self.factor.wrapping_mul(u128::from(key)).wrapping_add(self.offset);
        fold(high(universal) ^ self.finish[1], self.finish[0])
    }

    /// Hashes an IPv6 address on one interface.
    #[inline]
    pub(crate) fn hash_ipv6(&self, interface: u8, addr: Ipv6Addr) -> u64 {
        let bits = addr.to_bits();
        let upper = self.hash(high(bits) ^ u64::from(interface).rotate_right(8));
        self.hash(upper ^ low(bits))
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): makes a stream of secrets from one seed.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[inline]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    high(product) ^ low(product)
}

#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the shift leaves 64 bits")]
pub(crate) fn high(bits: u128) -> u64 {
    (bits >> 64) as u64
}

#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the lower half is wanted")]
pub(crate) fn low(bits: u128) -> u64 {
    bits as u64
}
