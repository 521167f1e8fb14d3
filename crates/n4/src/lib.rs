//! The PFCP node of a UP function: associations, heartbeats, own requests, session procedures.
//!
//! Sans-I/O: datagrams, published changes and time enter [`Node`] through `handle_*`, datagrams,
//! changes and log-worthy events leave it through `poll_*`. No socket, no clock, no packet here.
//! Invariants: an accepted request takes effect once however often it arrives; its answer leaves
//! only after [`Node::handle_published`] for its change; no peer can make the node grow beyond
//! the capacities in `types::limits`.
//! Spec: TS 29.244 Release 17, §6 and §7.
#![forbid(unsafe_code)]

mod admission;
mod answers;
mod association;
mod backlog;
mod containment;
mod contested_setup;
mod counters;
mod csid;
mod data_plane;
mod features;
mod findings;
mod header_error;
mod heartbeat;
mod name;
mod node;
mod ntp;
mod path;
mod path_qos;
mod peer_restart;
mod procedure;
mod refusal;
mod response_cache;
mod session_state;
mod sessions;
mod setup;
mod smf_set;
mod support;
mod timers;
mod transaction;
mod transition;
mod ue_pools;

pub use admission::{PeerPolicy, PeerPrefix, SmfSetMembers};
pub use association::{Association, DownReason, NodeEvent, NodeIdentity, SetupFailure};
#[doc(hidden)]
pub use containment::FaultPoint;
pub use containment::is_contained;
pub use counters::{N4Counters, Scalars};
pub use node::{Node, NodeConfig, Transmit};
pub use path::{PathConfig, PathEntry, PathState};
pub use session_state::SessionInformation;
pub use smf_set::SmfSet;
pub use support::{Acts, ie_acts, message_acts};
pub use ue_pools::session_s_nssai;
