//! Ports: opening them, sharing them among threads, and what their hardware and driver take over.

pub(crate) mod flow_offload;
pub(crate) mod kernel_twins;
pub(crate) mod open_ports;
pub(crate) mod steering;
pub(crate) mod thread_io;
pub(crate) mod xdp;
