//! What four open-source control planes send, octet for octet, and what a UPF must make of it: one
//! test for each thing that at least one of them needs. `docs/n4-tolerance.md` tells the rest.

mod nodes;
mod octets;
mod planes;
mod rules;
mod sessions;
