//! Lookup tables of the data plane and their publication to the workers.
//!
//! The control thread owns the [`Publisher`]. Each worker owns one [`TablesReader`] and opens a
//! [`TablesView`] at every step, which is a quiescent state. No function that a worker calls here
//! allocates, locks, waits or makes a system call; [`build`] allocates all memory.
//!
//! Invariant: values that a worker found through a [`TablesView`] stay unchanged until this worker
//! opens its next view (quiescent-state-based reclamation, [`publish`]).
//!
//! Does not live here: which sessions exist (`session`), what happens to packets (`datapath`).
//! [`neighbor`] decides on the control thread which link-layer address a next hop has.
#![deny(unsafe_code)]

mod aggregates;
mod area_bits;
mod charging;
mod chosen_sessions;
mod config;
mod correlated_rates;
mod counters;
mod excess_counters;
mod fast_rule;
mod fast_rule_cell;
#[allow(unsafe_code, reason = "lines of what readers may still see")]
mod fast_rule_selector;
mod framed;
mod gtpu_peers;
mod hash;
mod hop_groups;
mod hot_sessions;
mod key_table;
#[allow(unsafe_code, reason = "advice to the kernel about memory")]
mod large;
mod meters;
pub mod neighbor;
mod next_hop;
mod offload;
#[allow(unsafe_code, reason = "prefetch intrinsics")]
mod prefetch;
mod prefix_tree;
#[allow(unsafe_code, reason = "reclamation of what readers may still see")]
pub mod publish;
mod publisher;
mod rate_changes;
mod reader;
mod route_change;
mod route_table;
mod route_value;
mod routes;
mod sync;
mod teid;
mod tunnel_paths;
mod ue_areas;
mod ue_pools;
mod ues;
mod usage;

pub use adit_types::IpPrefix;
pub use aggregates::{ALL_SESSIONS, Aggregate, AggregateKey, Aggregates, Leases};
pub use charging::{MeterPair, TrialCharge};
pub use config::{Interface, Route, TablesConfig, TablesError};
pub use counters::{
    Counter, InterfaceCounters, InterfaceSnapshot, SHAPING_DELAY_SLOTS, SessionTraffic, Snapshot,
    WorkerCounters,
};
pub use excess_counters::WaitCounts;
pub use fast_rule_cell::{CellFlags, FastRuleCellRef, FastRuleSnapshot};
pub use fast_rule_selector::{FastRuleFilter, FastRuleSelector, SelectedFastRule};
pub use gtpu_peers::GtpuPeers;
pub use key_table::{KeyRefused, KeyTable, KeyWriter};
pub use meters::{Meter, MeterPairs, MeterTraffic};
pub use next_hop::{KnownNeighbor, NextHopRef, Via};
pub use offload::OffloadReport;
pub use prefetch::read as prefetch;
pub use publisher::{
    Boundary, PreparedRoutes, Publisher, PublisherCounters, RoutesConfig, build, build_with_offload,
};
pub use rate_changes::{NextRateChange, RateChange};
pub use reader::{NoRoute, TablesReader, TablesView};
pub use route_change::{RefusedRoute, RouteAction, RouteChange, RouteHop, RouteRefusal};
pub use tunnel_paths::tunnel_hash;
pub use ues::UeTable;
pub use usage::{CountedPacket, FastRuleUrrs, UsageMark, UsageTable, UsageView};
