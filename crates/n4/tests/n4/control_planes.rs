//! Messages of four open-source control planes, octet for octet, and the required reaction of a
//! UPF: one test for each thing that at least one of them needs. `docs/n4-tolerance.md` has the
//! rest.

mod nodes;
mod octets;
mod planes;
mod rules;
mod sessions;
