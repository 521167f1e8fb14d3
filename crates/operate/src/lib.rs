//! What operators' interfaces are made of: the machinery of HTTP, and the text of metrics.
#![forbid(unsafe_code)]

pub mod api;
pub mod metrics;
