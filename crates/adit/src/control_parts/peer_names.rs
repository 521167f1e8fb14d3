//! Resolves the names in `n4.connect` periodically, since a control plane function that is started
//! anew may have another address. This takes a thread of its own, so that nothing else waits for a
//! name server that does not answer.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use tracing::warn;

use crate::config::{Config, ConfiguredPeer};

/// Time between two resolutions of all names.
const RESOLUTION_INTERVAL: Duration = Duration::from_secs(2);

/// A host name in `n4.connect`, and its index there.
struct NamedPeer {
    position: usize,
    host: String,
    port: u16,
    known: Option<SocketAddr>,
}

/// Receives the addresses to which the names resolve.
#[derive(Debug)]
pub(crate) struct PeerNames(Receiver<(usize, SocketAddr)>);

impl PeerNames {
    /// Starts the thread that resolves; `None` if `n4.connect` has no names.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(config: &Config) -> std::io::Result<Option<Self>> {
        let name = |(position, peer): (usize, &ConfiguredPeer)| match peer {
            ConfiguredPeer::Address(_) => None,
            ConfiguredPeer::Name { host, port } => {
                Some(NamedPeer { position, host: host.clone(), port: *port, known: None })
            }
        };
        let mut names: Vec<NamedPeer> =
            config.n4.connect.iter().enumerate().filter_map(name).collect();
        if names.is_empty() {
            return Ok(None);
        }
        let is_v4 = config.n4_listen.is_ipv4();
        let (sender, receiver) = sync_channel(names.len());
        let resolve = move || {
            loop {
                for name in &mut names {
                    if let Some(address) = name.resolve(is_v4)
                        // If this fails, the control thread has ended.
                        && sender.send((name.position, address)).is_err()
                    {
                        return;
                    }
                }
                std::thread::sleep(RESOLUTION_INTERVAL);
            }
        };
        std::thread::Builder::new().name("peer-names".to_owned()).spawn(resolve)?;
        Ok(Some(Self(receiver)))
    }

    /// Returns the next address of a peer, with the peer's index in `n4.connect`.
    pub(crate) fn poll(&self) -> Option<(usize, SocketAddr)> {
        self.0.try_recv().ok()
    }
}

impl NamedPeer {
    /// Resolves the name. Keeps the known address while the name still has it, and on failure.
    fn resolve(&mut self, is_v4: bool) -> Option<SocketAddr> {
        let NamedPeer { host, port, known, .. } = self;
        let found = match (host.as_str(), *port).to_socket_addrs() {
            Ok(found) => found.filter(|address| address.is_ipv4() == is_v4).collect::<Vec<_>>(),
            Err(error) => {
                warn!(host, %error, "a name of n4.connect cannot be resolved");
                return *known;
            }
        };
        if found.is_empty() {
            let family = if is_v4 { "IPv4" } else { "IPv6" };
            warn!(host, "a name of n4.connect has no {family} address, which n4.listen has");
        }
        *known = known.filter(|known| found.contains(known)).or(found.first().copied()).or(*known);
        *known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_has_an_address_of_the_wanted_family() {
        let name =
            |host: &str| NamedPeer { position: 0, host: host.to_owned(), port: 7, known: None };
        let found = name("localhost").resolve(true);
        assert_eq!(found, Some("127.0.0.1:7".parse().unwrap()));
        assert_eq!(name("no-such-host.invalid").resolve(true), None);
    }
}
