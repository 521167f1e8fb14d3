//! The operator's tool: what it requests of a running adit, and prints.

pub(crate) mod act_command;
pub(crate) mod document_values;
pub(crate) mod show;
pub(crate) mod takeover;
pub(crate) mod tap_client;
pub(crate) mod top;
pub(crate) mod watch;
