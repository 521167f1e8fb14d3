//! Requests to a running adit, and the client that sends them.

pub(crate) mod admin_act;
pub(crate) mod http_client;
pub(crate) mod session_filter;
