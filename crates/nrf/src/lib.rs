//! Registration of a UPF at an NRF: Nnrf_NFManagement over HTTP/2. Spec: TS 29.510 §5.2, §6.1.
//!
//! [`NrfClient`] is a thread of its own. It takes the latest [`Announcement`], and its
//! [`NrfState`] can be read at any time; neither waits for the network.
//!
//! ```text
//! Announcement ─► registration (state machine, time is an argument) ─► request
//! NrfState     ◄─                                                   ◄─ answer or fault ◄─ exchange
//! ```
#![forbid(unsafe_code)]

mod answer;
mod client;
mod exchange;
mod instance_id;
mod profile;
mod registration;
mod server;
mod state;

pub use client::NrfClient;
pub use instance_id::{NfInstanceUuid, NfInstanceUuidError};
pub use profile::{
    AtsssCapability, DnnUpfInfoItem, InterfaceUpfInfoItem, Ipv4AddressRange, Ipv6PrefixRange,
    NfProfile, NfStatus, PduSessionType, Snssai, SnssaiUpfInfoItem, UpInterfaceType, UpfInfo,
};
pub use registration::{Announcement, ClientEnd, NrfClientConfig};
pub use server::{NrfServer, NrfServerError};
pub use state::{NrfCounters, NrfPhase, NrfServerState, NrfState};
