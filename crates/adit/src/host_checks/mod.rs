//! Compares this host with a configuration, and names the remedy of each fault: `adit check`,
//! `adit init`.

mod facts;
mod findings;

pub(crate) use facts::CheckedHost;
#[cfg(test)]
pub(crate) use facts::DeviceFacts;
pub(crate) use findings::{HostFinding, TUNNEL_BYTES, findings};
