//! Receive-side scaling in software: the Toeplitz hash of addresses and ports, as NICs compute it.
//!
//! The hash is linear over GF(2): each set bit of the input adds 32 bits of the key, which begin at
//! the bit's position. Three forms give the same value:
//!
//! - [`hash_by_bits`] follows the definition, bit by bit;
//! - [`hash_by_set_bits`] takes a step for each set bit;
//! - [`Toeplitz`] multiplies octets by 8 × 8 bit matrices with the instructions of GFNI, two inputs
//!   at once. Without them, which it finds out when it is made, it takes the second form.
//!
//! Spec: Microsoft, "RSS hashing functions"; DPDK `rte_softrss`.

#[allow(unsafe_code, reason = "vector instructions, after the processor was asked for them")]
mod gfni;
mod key;

pub use gfni::{Toeplitz, ToeplitzForm};
pub use key::{INPUT_MAX, ToeplitzKey, hash_by_bits, hash_by_set_bits};
