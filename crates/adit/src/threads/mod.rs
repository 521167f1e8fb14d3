//! The threads of the packet path: what they own, how they begin, end and show that they run.

pub(crate) mod event_scheduler;
pub(crate) mod exit_barrier;
pub(crate) mod lifecycle;
pub(crate) mod liveness;
pub(crate) mod load;
pub(crate) mod packet_path;
pub(crate) mod process_nodes;
pub(crate) mod twin_thread;
