//! The Toeplitz hash in software is that of DPDK.

use adit_wire::rss::{INPUT_LEN_MAX, Toeplitz, ToeplitzKey, hash_by_bits, hash_by_set_bits};
use proptest::collection::vec;
use proptest::prelude::*;

/// The hash of words in network byte order by DPDK.
fn rte_softrss(key: &ToeplitzKey, input: &[u8]) -> u32 {
    let (words, rest) = input.as_chunks::<4>();
    assert!(rest.is_empty() && input.len() <= INPUT_LEN_MAX, "DPDK hashes whole words");
    let mut words: Vec<u32> = words.iter().map(|word| u32::from_be_bytes(*word)).collect();
    // DPDK reads the key in words.
    let (key, _) = key.octets().as_chunks::<4>();
    let key: Vec<u32> = key.iter().map(|word| u32::from_ne_bytes(*word)).collect();
    let count = u32::try_from(words.len()).unwrap();
    // SAFETY: reads `count` words of the input, and one more of the key, which has 10 words;
    // `count` is at most 9.
    unsafe { adit_dpdk_sys::rte_softrss(words.as_mut_ptr(), count, key.as_ptr().cast()) }
}

fn check<const LEN: usize>(
    key: &ToeplitzKey,
    input: &[u8; INPUT_LEN_MAX],
) -> Result<(), TestCaseError> {
    let input: &[u8; LEN] = input.first_chunk().unwrap();
    let hash = rte_softrss(key, input);
    prop_assert_eq!(hash_by_bits(key, input), hash);
    prop_assert_eq!(hash_by_set_bits(key, input), hash);
    prop_assert_eq!(Toeplitz::new(*key).hash(input), hash);
    prop_assert_eq!(Toeplitz::portable(*key).hash(input), hash);
    Ok(())
}

proptest! {
    #[test]
    fn hashes_are_those_of_rte_softrss(
        key in vec(any::<u8>(), 40),
        input in any::<[u8; INPUT_LEN_MAX]>(),
    ) {
        let key = ToeplitzKey::new(key.try_into().unwrap());
        check::<4>(&key, &input)?;
        check::<8>(&key, &input)?;
        check::<12>(&key, &input)?;
        check::<16>(&key, &input)?;
        check::<32>(&key, &input)?;
        check::<36>(&key, &input)?;
    }
}
