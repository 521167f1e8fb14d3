//! The operator's tool: sends requests to a running adit, and prints the answers.

pub(crate) mod act_command;
pub(crate) mod document_values;
pub(crate) mod show;
pub(crate) mod takeover;
pub(crate) mod tap_client;
pub(crate) mod top;
pub(crate) mod watch;
