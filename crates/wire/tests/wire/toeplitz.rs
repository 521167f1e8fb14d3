//! All forms of the hash yield the same value.

use adit_wire::rss::{INPUT_LEN_MAX, Toeplitz, ToeplitzKey, hash_by_bits, hash_by_set_bits};
use proptest::collection::vec;
use proptest::prelude::*;

fn keys() -> impl Strategy<Value = ToeplitzKey> {
    prop_oneof![
        Just(ToeplitzKey::MICROSOFT),
        Just(ToeplitzKey::SYMMETRIC),
        vec(any::<u8>(), 40).prop_map(|octets| ToeplitzKey::new(octets.try_into().unwrap())),
    ]
}

/// Checks inputs of one length, in batches of all sizes up to that of `inputs`.
fn check<const LEN: usize>(key: &ToeplitzKey, inputs: &[[u8; 40]]) -> Result<(), TestCaseError> {
    let inputs: Vec<[u8; LEN]> =
        inputs.iter().map(|octets| *octets.first_chunk().unwrap()).collect();
    let expected: Vec<u32> = inputs.iter().map(|input| hash_by_bits(key, input)).collect();
    for toeplitz in [Toeplitz::new(*key), Toeplitz::portable(*key)] {
        for count in 0..=inputs.len() {
            // Also with room for one hash less or more than there are inputs.
            for room in [count.saturating_sub(1), count, count + 1] {
                let mut hashes = vec![7; room];
                toeplitz.hash_all(&inputs[..count], &mut hashes);
                let written = room.min(count);
                prop_assert_eq!(&hashes[..written], &expected[..written], "{} octets", LEN);
                prop_assert!(hashes[written..].iter().all(|hash| *hash == 7));
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn all_forms_yield_the_same(
        key in keys(),
        input in vec(any::<u8>(), 0..=INPUT_LEN_MAX + 4),
        inputs in vec(any::<[u8; 40]>(), 0..6),
    ) {
        prop_assert_eq!(hash_by_set_bits(&key, &input), hash_by_bits(&key, &input));
        check::<0>(&key, &inputs)?;
        check::<3>(&key, &inputs)?;
        check::<4>(&key, &inputs)?;
        check::<8>(&key, &inputs)?;
        check::<12>(&key, &inputs)?;
        check::<13>(&key, &inputs)?;
        check::<16>(&key, &inputs)?;
        check::<36>(&key, &inputs)?;
        check::<40>(&key, &inputs)?;
    }

    /// Addresses and ports of either direction have the same hash by the symmetric key.
    #[test]
    fn symmetric_key_knows_no_direction(
        src in any::<[u8; 4]>(),
        dst in any::<[u8; 4]>(),
        ports in any::<[[u8; 2]; 2]>(),
    ) {
        let toeplitz = Toeplitz::new(ToeplitzKey::SYMMETRIC);
        let tuple = |src: [u8; 4], dst: [u8; 4], [from, to]: [[u8; 2]; 2]| -> [u8; 12] {
            [&src[..], &dst, &from, &to].concat().try_into().unwrap()
        };
        let there = toeplitz.hash(&tuple(src, dst, ports));
        let [from, to] = ports;
        prop_assert_eq!(toeplitz.hash(&tuple(dst, src, [to, from])), there);
    }
}
