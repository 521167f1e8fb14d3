//! Places for connections, of all peers together and of each.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use adit_types::limits::{API_CONNECTIONS_MAX, API_CONNECTIONS_PER_PEER_MAX};

/// The connections that exist, by peer.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionPlaces(Arc<Mutex<HashMap<IpAddr, usize>>>);

impl ConnectionPlaces {
    /// A place for a connection of `peer`, unless there are too many.
    pub(crate) fn take(&self, peer: IpAddr) -> Option<ConnectionPlace> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, of_peer) = (known.values().sum::<usize>(), known.get(&peer).copied());
        if all >= API_CONNECTIONS_MAX || of_peer.unwrap_or(0) >= API_CONNECTIONS_PER_PEER_MAX {
            return None;
        }
        *known.entry(peer).or_default() += 1;
        Some(ConnectionPlace { places: self.clone(), peer })
    }
}

/// The place of one connection, which becomes free with it.
#[derive(Debug)]
pub(crate) struct ConnectionPlace {
    places: ConnectionPlaces,
    peer: IpAddr,
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut known = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = known.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                known.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_for_one_peer_and_for_all_and_become_free() {
        let places = ConnectionPlaces::default();
        let peer = |host: u8| IpAddr::from([192, 0, 2, host]);
        let mut held: Vec<_> = std::iter::from_fn(|| places.take(peer(1))).collect();
        assert_eq!(held.len(), API_CONNECTIONS_PER_PEER_MAX);
        held.extend((2..).map_while(|host| places.take(peer(host))));
        assert_eq!(held.len(), API_CONNECTIONS_MAX);
        drop(held);
        assert!(places.take(peer(1)).is_some());
        assert!(places.0.lock().unwrap().is_empty());
    }
}
