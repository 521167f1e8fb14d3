//! Receive-side scaling in software: the Toeplitz hash of addresses and ports, as NICs compute it.
//!
//! The hash is linear over GF(2): each set bit of the input adds (XOR) the 32 bits of the key from
//! the bit's position on. Three algorithms compute the same value:
//!
//! - [`hash_by_bits`] follows the definition, bit by bit;
//! - [`hash_by_set_bits`] takes one step for each set bit;
//! - [`Toeplitz`] multiplies octets by 8 × 8 bit matrices with the instructions of GFNI, two inputs
//!   at once. If the processor lacks these, a `Toeplitz` uses the second algorithm.
//!
//! Spec: Microsoft, "RSS hashing functions"; DPDK `rte_softrss`.

#[allow(unsafe_code, reason = "vector instructions, after the processor was asked for them")]
mod gfni;
mod key;

pub use gfni::{Toeplitz, ToeplitzForm};
pub use key::{INPUT_LEN_MAX, ToeplitzKey, hash_by_bits, hash_by_set_bits};
