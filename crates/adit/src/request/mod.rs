//! Requests to a running adit, and their way to it.

pub(crate) mod admin_act;
pub(crate) mod http_client;
pub(crate) mod session_filter;
