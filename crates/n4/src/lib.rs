//! The PFCP node of a UP function: associations, heartbeats, session procedures, and requests of
//! its own.
//!
//! The crate is sans-I/O: datagrams, published changes and time enter [`Node`] through `handle_*`;
//! datagrams, changes and events to be logged leave it through `poll_*`. It has no socket, no clock
//! and no packets. Invariants: an accepted request takes effect once, however often it arrives; its
//! answer leaves only after [`Node::handle_published`] for its change; no peer can make the node
//! exceed the capacities in `types::limits`.
//! Spec: TS 29.244 Release 17, §6 and §7.
#![forbid(unsafe_code)]

mod admission;
mod answers;
mod association;
mod backlog;
mod config;
mod containment;
mod counters;
mod csid;
mod drain;
mod durations;
mod event;
mod features;
#[cfg(test)]
mod fixture;
mod load;
mod name;
mod node;
mod ntp;
mod path;
mod path_qos;
mod path_reports;
mod peer_restart;
mod peers;
mod procedure;
mod records;
mod refusal;
mod report_pause;
mod response_cache;
mod session_state;
mod sessions;
mod setup;
mod smf_set;
mod support;
mod transaction;
mod transition;
mod transmit;
mod ue_pools;

pub use admission::{PeerPolicy, PeerPrefix, SmfSetMembers};
pub use association::{Association, NodeIdentity};
pub use config::{NodeConfig, RecordConfig};
#[doc(hidden)]
pub use containment::FaultPoint;
pub use containment::is_contained;
pub use counters::{N4Counters, ScalarCounters};
pub use durations::{DURATION_BOUNDS, DurationHistogram};
pub use event::{DownReason, NodeEvent, ReleaseFailure, SetupFailure};
pub use node::Node;
pub use path::{PathConfig, PathEntry, PathMtu, PathMtuChange, PathState};
pub use records::{
    CLOCK_MARK, CLOCK_MARK_INTERVAL, FormerRecord, NodeRecord, RECORD_VERSION, RecordError,
    clock_mark,
};
pub use session_state::{ServiceCounts, ServiceName, SessionInformation};
pub use smf_set::SmfSet;
pub use support::{Acts, ie_acts, message_acts};
pub use transmit::{AnsweredRequest, Transmit};
pub use ue_pools::session_s_nssai;
