//! The Toeplitz hash by bit matrices.
//!
//! Octet `j` of a hash is the sum (XOR) of the products of all input octets `i` with a bit matrix
//! of the key, which depends on `i + j` only. So a vector has one lane of eight octets for each
//! matrix: the four input octets that the matrix is multiplied with, which yield the four octets of
//! the hash, and the four octets of a second input. The sum of all lanes is both hashes.

use crate::rss::key::{INPUT_LEN_MAX, ToeplitzKey, hash_by_bits, hash_by_set_bits};

/// How many octets of an input are multiplied at once. Longer inputs are hashed in pieces, as the
/// hash is linear.
const PIECE_LEN: usize = 12;

/// How many matrices multiply the octets of a piece: each octet meets one per octet of the hash.
const PIECE_MATRICES: usize = 16;

/// How many matrices all pieces together need.
const MATRICES: usize = INPUT_LEN_MAX - PIECE_LEN + PIECE_MATRICES;

const _: () = assert!(INPUT_LEN_MAX.is_multiple_of(PIECE_LEN));

/// The algorithm that computes a hash. All algorithms return the same value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToeplitzForm {
    /// Bit by bit, as the hash is defined.
    Bits,
    /// One step for each set bit.
    SetBits,
    /// By matrices, with the instructions of GFNI.
    Gfni,
}

/// The Toeplitz hash with one key.
#[derive(Debug, Clone)]
pub struct Toeplitz {
    key: ToeplitzKey,
    matrices: [u64; MATRICES],
    form: ToeplitzForm,
}

impl Toeplitz {
    /// Creates the hash with `key`, by GFNI if the processor has it.
    #[must_use]
    pub fn new(key: ToeplitzKey) -> Self {
        #[cfg(target_arch = "x86_64")]
        let has_gfni = is_x86_feature_detected!("gfni") && is_x86_feature_detected!("avx2");
        #[cfg(not(target_arch = "x86_64"))]
        let has_gfni = false;
        let form = if has_gfni { ToeplitzForm::Gfni } else { ToeplitzForm::SetBits };
        Self { key, matrices: core::array::from_fn(|at| matrix(&key, at)), form }
    }

    /// Does [`Self::new`], but uses portable code on every processor.
    #[must_use]
    pub fn portable(key: ToeplitzKey) -> Self {
        Self { form: ToeplitzForm::SetBits, ..Self::new(key) }
    }

    /// Sets the algorithm; `None` if the processor lacks its instructions.
    #[must_use]
    pub fn with_form(self, form: ToeplitzForm) -> Option<Self> {
        let is_possible = form != ToeplitzForm::Gfni || self.has_gfni();
        is_possible.then_some(Self { form, ..self })
    }

    /// True if it uses the instructions of GFNI.
    #[must_use]
    pub const fn has_gfni(&self) -> bool {
        matches!(self.form, ToeplitzForm::Gfni)
    }

    /// Returns the hash of the first [`INPUT_LEN_MAX`] octets of `input`, in network byte order.
    #[inline]
    #[must_use]
    pub fn hash<const LEN: usize>(&self, input: &[u8; LEN]) -> u32 {
        let mut hash = [0];
        self.hash_all(core::slice::from_ref(input), &mut hash);
        let [hash] = hash;
        hash
    }

    /// Writes the hash of each input, as far as `hashes` has room.
    #[inline]
    pub fn hash_all<const LEN: usize>(&self, inputs: &[[u8; LEN]], hashes: &mut [u32]) {
        #[cfg(target_arch = "x86_64")]
        if self.form == ToeplitzForm::Gfni {
            // JUSTIFICATION: the build also runs on processors without GFNI.
            // SAFETY: the form is chosen only if this processor has these instructions.
            unsafe { vector::hash_all(&self.matrices, inputs, hashes) };
            return;
        }
        let hash_of = if self.form == ToeplitzForm::Bits { hash_by_bits } else { hash_by_set_bits };
        for (input, hash) in inputs.iter().zip(hashes) {
            *hash = hash_of(&self.key, input);
        }
    }
}

/// Returns the matrix for input and output octets whose positions add up to `at`. Its rows are the
/// octets of the key that begin at each of the eight bits of octet `at`.
fn matrix(key: &ToeplitzKey, at: usize) -> u64 {
    let octet = |at: usize| u16::from(key.octets().get(at).copied().unwrap_or(0));
    let bits = octet(at) << 8 | octet(at + 1);
    u64::from_le_bytes(core::array::from_fn(|row| {
        let [octet, _] = (bits << row).to_be_bytes();
        octet
    }))
}

#[cfg(target_arch = "x86_64")]
mod vector {
    use core::arch::x86_64::*;

    use super::{MATRICES, PIECE_LEN, PIECE_MATRICES};
    use crate::rss::key::INPUT_LEN_MAX;

    /// Lanes of eight octets in a vector.
    const LANES: usize = 4;

    /// Octets of a lane that belong to one input, as many as a hash has.
    const HASH_LEN: usize = 4;

    /// Returns, for each vector of lanes, where in a piece the octets of the first input, or of the
    /// second one, are: octet `j` of lane `k` is octet `k - j` of the piece.
    const fn positions(of_second: usize) -> [[i64; LANES]; PIECE_MATRICES / LANES] {
        /// A position for which the shuffle yields zero.
        const NOWHERE: u8 = 0x80;
        let mut all = [[0; LANES]; PIECE_MATRICES / LANES];
        let mut lane = 0;
        while lane < PIECE_MATRICES {
            let mut octets = [NOWHERE; 8];
            let mut at = 0;
            while at < HASH_LEN {
                if lane >= at && lane - at < PIECE_LEN {
                    #[allow(clippy::cast_possible_truncation, reason = "below a piece's length")]
                    let position = (lane - at) as u8;
                    octets[HASH_LEN * of_second + at] = position;
                }
                at += 1;
            }
            all[lane / LANES][lane % LANES] = i64::from_le_bytes(octets);
            lane += 1;
        }
        all
    }

    const OF_FIRST: [[i64; LANES]; PIECE_MATRICES / LANES] = positions(0);
    const OF_SECOND: [[i64; LANES]; PIECE_MATRICES / LANES] = positions(1);

    /// See [`super::Toeplitz::hash_all`].
    #[target_feature(enable = "gfni,avx2")]
    pub(super) fn hash_all<const LEN: usize>(
        matrices: &[u64; MATRICES],
        inputs: &[[u8; LEN]],
        hashes: &mut [u32],
    ) {
        let count = inputs.len().min(hashes.len());
        let (pairs, last) = inputs[..count].as_chunks::<2>();
        let (hash_pairs, last_hash) = hashes[..count].as_chunks_mut::<2>();
        for ([first, second], hashes) in pairs.iter().zip(hash_pairs) {
            *hashes = hash_two(matrices, first, second);
        }
        if let ([input], [hash]) = (last, last_hash) {
            [*hash, _] = hash_two(matrices, input, input);
        }
    }

    /// Returns the hashes of two inputs.
    #[target_feature(enable = "gfni,avx2")]
    #[inline]
    fn hash_two<const LEN: usize>(
        matrices: &[u64; MATRICES],
        first: &[u8; LEN],
        second: &[u8; LEN],
    ) -> [u32; 2] {
        let mut sum = _mm256_setzero_si256();
        for start in (0..LEN.min(INPUT_LEN_MAX)).step_by(PIECE_LEN) {
            let end = LEN.min(INPUT_LEN_MAX).min(start + PIECE_LEN);
            let [first, second] = [first, second].map(|input| piece(&input[start..end]));
            for (lanes, (of_first, of_second)) in OF_FIRST.iter().zip(&OF_SECOND).enumerate() {
                let octets = _mm256_or_si256(
                    _mm256_shuffle_epi8(first, vector(of_first)),
                    _mm256_shuffle_epi8(second, vector(of_second)),
                );
                let at = start + LANES * lanes;
                let rows = [0, 1, 2, 3].map(|lane| matrices[at + lane].cast_signed());
                let product = _mm256_gf2p8affine_epi64_epi8::<0>(octets, vector(&rows));
                sum = _mm256_xor_si256(sum, product);
            }
        }
        let half = _mm_xor_si128(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
        let lanes = [_mm_extract_epi64::<0>(half), _mm_extract_epi64::<1>(half)];
        let [a, b, c, d, e, f, g, h] = (lanes[0] ^ lanes[1]).to_le_bytes();
        [[a, b, c, d], [e, f, g, h]].map(u32::from_be_bytes)
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn vector(lanes: &[i64; LANES]) -> __m256i {
        let [a, b, c, d] = *lanes;
        _mm256_set_epi64x(d, c, b, a)
    }

    /// Returns the octets of a piece, then zeros, in both halves of the vector.
    // PERF (wire/toeplitz): two words in registers; an array would be read with another width than
    // it was written.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn piece(octets: &[u8]) -> __m256i {
        let (first, rest) = octets.split_at(octets.len().min(8));
        _mm256_broadcastsi128_si256(_mm_set_epi64x(word(rest), word(first)))
    }

    /// Returns at most eight octets as a little-endian word, padded with zeros.
    #[inline]
    fn word(octets: &[u8]) -> i64 {
        match (octets.first_chunk(), octets.first_chunk()) {
            (Some(octets), _) => i64::from_le_bytes(*octets),
            (None, Some(octets)) if octets.len() == 4 => i64::from(u32::from_le_bytes(*octets)),
            _ => octets.iter().rev().fold(0, |word, octet| word << 8 | i64::from(*octet)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rss::key::hash_by_bits;

    /// Inputs and hashes of Microsoft's verification suite: IPv4 addresses and ports.
    const VERIFIED: [([u8; 12], u32); 2] = [
        ([66, 9, 149, 187, 161, 142, 100, 80, 0x0a, 0xea, 0x06, 0xe6], 0x51cc_c178),
        ([199, 92, 111, 2, 65, 69, 140, 83, 0x37, 0x96, 0x12, 0x83], 0xc626_b0ea),
    ];

    #[test]
    fn hashes_of_the_verification_suite() {
        let key = ToeplitzKey::MICROSOFT;
        for toeplitz in [Toeplitz::new(key), Toeplitz::portable(key)] {
            for (input, hash) in &VERIFIED {
                assert_eq!(hash_by_bits(&key, input), *hash);
                assert_eq!(toeplitz.hash(input), *hash, "GFNI: {}", toeplitz.has_gfni());
                let by_bits = toeplitz.clone().with_form(ToeplitzForm::Bits).unwrap();
                assert_eq!(by_bits.hash(input), *hash);
            }
        }
        assert!(Toeplitz::portable(key).with_form(ToeplitzForm::Gfni).is_none());
    }
}
