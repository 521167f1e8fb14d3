//! The SMF of `adit-lab`: one PFCP association over a UDP socket, for single sessions or millions.
//!
//! [`LabSmf`] owns the socket and answers the UPF's requests on its own thread. Procedures for
//! single sessions ([`single`]) wait for their answer; procedures for many sessions ([`bulk`],
//! [`churn`]) keep a window of requests in flight ([`exchange`]). All of them build establishments
//! from [`rules::LabSessionRules`].
//!
//! By default the SMF requires no optional feature of the UPF: it allocates TEIDs and UE addresses
//! itself, and sends the rules of a plain PDU session. A [`SessionProfile`] adds rules.
//! Spec: TS 29.244 §6.2, §6.3, §6.4, §7.4, §7.5.
#![deny(unsafe_code)]

pub mod answer;
pub mod bulk;
pub mod churn;
pub mod exchange;
pub mod identity;
pub mod inbox;
pub mod instance;
pub mod profile;
pub mod rules;
pub mod single;
pub mod smf;
#[cfg(test)]
mod tests;

pub use self::profile::SessionProfile;
pub use self::smf::{LabSmf, SmfOptions};
