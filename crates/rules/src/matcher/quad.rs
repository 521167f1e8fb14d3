//! Four words at once, by vector instructions of x86-64-v3 or else by plain code.
//!
//! PERF (rules/matcher): the compiler turns the plain code into scalar instructions, three times as
//! many, mainly for shifts by lane.

#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
pub(super) use vector::Quad;

#[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
pub(super) use scalar::ScalarQuad as Quad;

#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
mod vector {
    use safe_arch::*;

    /// Four words.
    #[derive(Clone, Copy)]
    pub(crate) struct Quad(m128i);

    // PERF (rules/matcher): one instruction each, which must not become a call.
    impl Quad {
        #[inline(always)]
        pub(crate) fn load(words: &[u32; 4]) -> Self {
            Self(m128i::from(*words))
        }

        #[inline(always)]
        pub(crate) fn splat(word: u32) -> Self {
            Self(set_splat_i32_m128i(word.cast_signed()))
        }

        #[inline(always)]
        pub(crate) fn and(self, other: Self) -> Self {
            Self(bitand_m128i(self.0, other.0))
        }

        #[inline(always)]
        pub(crate) fn or(self, other: Self) -> Self {
            Self(bitor_m128i(self.0, other.0))
        }

        #[inline(always)]
        pub(crate) fn xor(self, other: Self) -> Self {
            Self(bitxor_m128i(self.0, other.0))
        }

        /// Wraps around.
        #[inline(always)]
        pub(crate) fn minus(self, other: Self) -> Self {
            Self(sub_i32_m128i(self.0, other.0))
        }

        /// Subtracts words below 2^15; zero if the difference is negative.
        #[inline(always)]
        pub(crate) fn minus_at_least_zero(self, other: Self) -> Self {
            Self(sub_saturating_u16_m128i(self.0, other.0))
        }

        #[inline(always)]
        pub(crate) fn shifted_right<const BITS: i32>(self) -> Self {
            Self(shr_imm_u32_m128i::<BITS>(self.0))
        }

        /// Shifts each word by its own number of bits; a shift by 32 or more gives zero.
        #[inline(always)]
        pub(crate) fn shifted_right_by(self, bits: Self) -> Self {
            Self(shr_each_u32_m128i(self.0, bits.0))
        }

        /// All ones for each word that is zero, zero for the others.
        #[inline(always)]
        pub(crate) fn is_zero(self) -> Self {
            Self(cmp_eq_mask_i32_m128i(self.0, set_splat_i32_m128i(0)))
        }

        /// All ones for each word that is at least `floor`, zero for the others.
        #[inline(always)]
        pub(crate) fn is_from(self, floor: u32) -> Self {
            let floor = set_splat_i32_m128i(floor.cast_signed());
            Self(cmp_eq_mask_i32_m128i(max_u32_m128i(self.0, floor), self.0))
        }

        /// Keeps each word whose `mask` is all ones; sets the others to all ones.
        #[inline(always)]
        pub(crate) fn or_max_unless(self, mask: Self) -> Self {
            let unless = bitandnot_m128i(mask.0, set_splat_i32_m128i(-1));
            Self(bitor_m128i(self.0, unless))
        }

        /// Returns the least word.
        #[inline(always)]
        pub(crate) fn least(self) -> u32 {
            let swapped = shuffle_ai_f32_all_m128i::<0b01_00_11_10>(self.0);
            let halves = min_u32_m128i(self.0, swapped);
            let swapped = shuffle_ai_f32_all_m128i::<0b10_11_00_01>(halves);
            get_i32_from_m128i_s(min_u32_m128i(halves, swapped)).cast_unsigned()
        }
    }
}

#[cfg(any(test, not(all(target_arch = "x86_64", target_feature = "avx2"))))]
mod scalar {
    use core::array::from_fn;

    /// Four words.
    #[derive(Clone, Copy)]
    pub(crate) struct ScalarQuad([u32; 4]);

    impl ScalarQuad {
        pub(crate) const fn load(words: &[u32; 4]) -> Self {
            Self(*words)
        }

        pub(crate) const fn splat(word: u32) -> Self {
            Self([word; 4])
        }

        pub(crate) fn and(self, other: Self) -> Self {
            Self(from_fn(|at| self.0[at] & other.0[at]))
        }

        pub(crate) fn or(self, other: Self) -> Self {
            Self(from_fn(|at| self.0[at] | other.0[at]))
        }

        pub(crate) fn xor(self, other: Self) -> Self {
            Self(from_fn(|at| self.0[at] ^ other.0[at]))
        }

        pub(crate) fn minus(self, other: Self) -> Self {
            Self(from_fn(|at| self.0[at].wrapping_sub(other.0[at])))
        }

        pub(crate) fn minus_at_least_zero(self, other: Self) -> Self {
            Self(from_fn(|at| self.0[at].saturating_sub(other.0[at])))
        }

        pub(crate) fn shifted_right<const BITS: i32>(self) -> Self {
            self.shifted_right_by(Self::splat(BITS.cast_unsigned()))
        }

        pub(crate) fn shifted_right_by(self, bits: Self) -> Self {
            Self(from_fn(|at| self.0[at].checked_shr(bits.0[at]).unwrap_or(0)))
        }

        pub(crate) fn is_zero(self) -> Self {
            Self(self.0.map(|word| if word == 0 { u32::MAX } else { 0 }))
        }

        pub(crate) fn is_from(self, floor: u32) -> Self {
            Self(self.0.map(|word| if word >= floor { u32::MAX } else { 0 }))
        }

        pub(crate) fn or_max_unless(self, mask: Self) -> Self {
            Self(from_fn(|at| self.0[at] | !mask.0[at]))
        }

        pub(crate) fn least(self) -> u32 {
            self.0.into_iter().fold(u32::MAX, u32::min)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Quad;
    use super::scalar::ScalarQuad;

    /// Reads all four words with `least`, one word at a time.
    fn words(of: impl Fn(u32) -> u32) -> [u32; 4] {
        [0, 1, 2, 3].map(of)
    }

    macro_rules! all_words {
        ($quad:ty, $value:expr) => {{
            let value = $value;
            // All words but one become all ones.
            words(|at| {
                let mut mask = [0; 4];
                mask[at as usize] = u32::MAX;
                value.or_max_unless(<$quad>::load(&mask)).least()
            })
        }};
    }

    macro_rules! agree {
        ($a:expr, $b:expr, |$x:ident, $y:ident| $op:expr) => {{
            let vector = {
                let ($x, $y) = (Quad::load($a), Quad::load($b));
                all_words!(Quad, $op)
            };
            let scalar = {
                let ($x, $y) = (ScalarQuad::load($a), ScalarQuad::load($b));
                all_words!(ScalarQuad, $op)
            };
            prop_assert_eq!(vector, scalar);
        }};
    }

    proptest! {
        #[test]
        fn vector_operations_are_those_of_plain_code(
            a in any::<[u32; 4]>(),
            b in any::<[u32; 4]>(),
            small in any::<[u8; 4]>(),
            less in any::<[u8; 4]>(),
            floor in any::<u32>(),
        ) {
            let (small, less) = (small.map(u32::from), less.map(u32::from));
            agree!(&a, &b, |x, y| x.and(y));
            agree!(&a, &b, |x, y| x.or(y));
            agree!(&a, &b, |x, y| x.xor(y));
            agree!(&a, &b, |x, y| x.minus(y));
            agree!(&small, &less, |x, y| x.minus_at_least_zero(y));
            agree!(&a, &small, |x, y| x.shifted_right_by(y));
            agree!(&a, &b, |x, _y| x.shifted_right::<8>());
            agree!(&a, &b, |x, y| x.xor(y).and(x.xor(x)).is_zero());
            agree!(&a, &less, |x, y| x.is_zero().or(y.is_zero()));
            agree!(&a, &b, |x, _y| x.is_from(floor));
        }
    }

    #[test]
    fn load_and_splat_keep_the_words() {
        assert_eq!(all_words!(Quad, Quad::load(&[1, 2, 3, 4])), [1, 2, 3, 4]);
        assert_eq!(all_words!(Quad, Quad::splat(7)), [7; 4]);
        assert_eq!(all_words!(ScalarQuad, ScalarQuad::splat(7)), [7; 4]);
    }
}
