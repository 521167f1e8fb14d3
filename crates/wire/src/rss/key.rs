//! Keys of the Toeplitz hash, and the hash in portable code.

/// Length of a key. Unit: octets.
const KEY_LEN: usize = 40;

/// Length of the longest input: addresses and ports of IPv6. Unit: octets.
pub const INPUT_LEN_MAX: usize = KEY_LEN - 4;

/// A key of the Toeplitz hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToeplitzKey([u8; KEY_LEN]);

impl ToeplitzKey {
    /// The key of Microsoft's verification suite, the default of many NICs.
    pub const MICROSOFT: Self = Self([
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ]);

    /// A key with which both directions of a flow have the same hash: it repeats after 16 bits, and
    /// the two directions only exchange addresses and ports, by multiples of 16 bits.
    pub const SYMMETRIC: Self = {
        let mut octets = [0x6d; KEY_LEN];
        let mut at = 1;
        while at < KEY_LEN {
            octets[at] = 0x5a;
            at += 2;
        }
        Self(octets)
    };

    /// Creates a key of these octets.
    #[must_use]
    pub const fn new(octets: [u8; KEY_LEN]) -> Self {
        Self(octets)
    }

    /// Its octets.
    #[must_use]
    pub const fn octets(&self) -> &[u8; KEY_LEN] {
        &self.0
    }

    /// Returns the 32 bits of the key from `first_bit` on; bits after the end of the key are zero.
    fn window(&self, first_bit: usize) -> u32 {
        let octet = |at: usize| u64::from(self.0.get(at).copied().unwrap_or(0));
        let at = first_bit / 8;
        let bits = (at..at + 5).fold(0, |bits, at| bits << 8 | octet(at));
        let [.., a, b, c, d] = (bits >> (8 - first_bit % 8)).to_be_bytes();
        u32::from_be_bytes([a, b, c, d])
    }
}

/// Computes, bit by bit, the hash of the first [`INPUT_LEN_MAX`] octets of `input`, which is in
/// network byte order.
#[must_use]
pub fn hash_by_bits(key: &ToeplitzKey, input: &[u8]) -> u32 {
    let bits = 8 * input.len().min(INPUT_LEN_MAX);
    let is_set = |bit: &usize| input[bit / 8] >> (7 - bit % 8) & 1 != 0;
    (0..bits).filter(is_set).fold(0, |hash, bit| hash ^ key.window(bit))
}

/// Computes the same as [`hash_by_bits`], with one step for each set bit.
#[must_use]
pub fn hash_by_set_bits(key: &ToeplitzKey, input: &[u8]) -> u32 {
    let mut hash = 0;
    for (at, octets) in input[..input.len().min(INPUT_LEN_MAX)].chunks(4).enumerate() {
        let windows = u64::from(key.window(32 * at)) << 32 | u64::from(key.window(32 * at + 32));
        let mut word = [0; 4];
        word[..octets.len()].copy_from_slice(octets);
        let mut bits = u32::from_be_bytes(word);
        while bits != 0 {
            let [.., a, b, c, d] = (windows >> (bits.trailing_zeros() + 1)).to_be_bytes();
            hash ^= u32::from_be_bytes([a, b, c, d]);
            bits &= bits - 1;
        }
    }
    hash
}
