//! The machinery of operators' interfaces: connections of HTTP, and the text of metrics.
#![forbid(unsafe_code)]

pub mod api;
pub mod metrics;
