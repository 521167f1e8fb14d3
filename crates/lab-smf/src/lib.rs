//! The SMF of `adit-lab`: one PFCP association over a UDP socket, with sessions one at a time or by
//! the million.
//!
//! [`LabSmf`] holds the socket and answers the UPF's requests on a thread of its own. Single
//! procedures ([`single`]) wait for their answer; procedures over many sessions ([`bulk`],
//! [`churn`]) keep a window of requests in flight ([`exchange`]). All of them build their
//! establishments from [`rules::LabSessionRules`].
//!
//! The SMF requires nothing that a UPF may lack: it gives TEIDs and UE addresses unless told
//! otherwise, and sends the rules of a plain PDU session unless a [`SessionProfile`] has more.
//! Spec: TS 29.244 §6.2, §6.3, §6.4, §7.4, §7.5.
#![deny(unsafe_code)]

pub mod answer;
pub mod bulk;
pub mod churn;
pub mod exchange;
pub mod identity;
pub mod inbox;
pub mod profile;
pub mod rules;
pub mod single;
pub mod smf;
#[cfg(test)]
mod tests;

pub use self::profile::SessionProfile;
pub use self::smf::{LabSmf, SmfOptions};
