//! Limits of open connections, of all peers together and of each: an open connection has a place.
//!
//! A connection that has shown no token keeps its place only while no other one needs it: when all
//! places are taken, the oldest such connection ends. So silent clients do not lock out a health
//! check.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use adit_types::limits::{API_CONNECTIONS_MAX, API_CONNECTIONS_PER_PEER_MAX};
use tokio::sync::oneshot;

/// Most connections that have lost their places to others and have not ended yet.
const ENDING_CONNECTIONS_MAX: usize = 8;

/// The connections that have places, and those that are ending.
#[derive(Debug, Default)]
struct KnownPlaces {
    by_peer: HashMap<IpAddr, usize>,
    /// By age, the connections that may be ended for others: their peers, and the senders of the
    /// signal.
    unproven: BTreeMap<u64, (IpAddr, oneshot::Sender<()>)>,
    /// Connections that have been signaled to end, and have not ended.
    ending: usize,
    last: u64,
}

impl KnownPlaces {
    fn free(&mut self, peer: IpAddr) {
        if let Some(count) = self.by_peer.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                self.by_peer.remove(&peer);
            }
        }
    }
}

/// The connections that exist, by peer.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionPlaces(Arc<Mutex<KnownPlaces>>);

impl ConnectionPlaces {
    /// Takes a place for a connection of `peer`, with the signal that it has to end for another
    /// one. `None` if there are too many connections.
    pub(crate) fn take(&self, peer: IpAddr) -> Option<(ConnectionPlace, oneshot::Receiver<()>)> {
        let mut known = self.lock();
        if known.by_peer.get(&peer).copied().unwrap_or(0) >= API_CONNECTIONS_PER_PEER_MAX {
            return None;
        }
        if known.by_peer.values().sum::<usize>() >= API_CONNECTIONS_MAX {
            if known.ending >= ENDING_CONNECTIONS_MAX {
                return None;
            }
            let (_, (oldest, end)) = known.unproven.pop_first()?;
            // The place is free at once, although that connection has yet to end.
            let _ = end.send(());
            known.free(oldest);
            known.ending += 1;
        }
        let (end, ends) = oneshot::channel();
        known.last += 1;
        let number = known.last;
        known.unproven.insert(number, (peer, end));
        *known.by_peer.entry(peer).or_default() += 1;
        drop(known);
        let is_proven = false.into();
        Some((ConnectionPlace { places: self.clone(), peer, number, is_proven }, ends))
    }

    fn lock(&self) -> MutexGuard<'_, KnownPlaces> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one connection. Drop frees it.
#[derive(Debug)]
pub(crate) struct ConnectionPlace {
    places: ConnectionPlaces,
    peer: IpAddr,
    number: u64,
    is_proven: AtomicBool,
}

impl ConnectionPlace {
    /// Notes that the client has shown its rights: the connection keeps its place.
    pub(crate) fn prove(&self) {
        if self.places.lock().unproven.remove(&self.number).is_some() {
            self.is_proven.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut known = self.places.lock();
        // A connection that was ended in favor of another one has no place any more.
        match known.unproven.remove(&self.number).is_some()
            || self.is_proven.load(Ordering::Relaxed)
        {
            true => known.free(self.peer),
            false => known.ending -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(host: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, host])
    }

    #[test]
    fn places_are_bounded_for_one_peer_and_for_all_and_become_free() {
        let places = ConnectionPlaces::default();
        let prove = |(place, ends)| {
            ConnectionPlace::prove(&place);
            (place, ends)
        };
        let mut held: Vec<_> = std::iter::from_fn(|| places.take(peer(1))).map(prove).collect();
        assert_eq!(held.len(), API_CONNECTIONS_PER_PEER_MAX);
        held.extend((2..).map_while(|host| places.take(peer(host))).map(prove));
        assert_eq!(held.len(), API_CONNECTIONS_MAX);
        drop(held);
        assert!(places.take(peer(1)).is_some());
        assert!(places.lock().by_peer.is_empty() && places.lock().unproven.is_empty());
    }

    #[test]
    fn oldest_connection_without_a_token_ends_for_a_new_one() {
        let places = ConnectionPlaces::default();
        let (proven, mut keeps) = places.take(peer(1)).unwrap();
        proven.prove();
        let of_host = |n: usize| peer(u8::try_from(2 + n / API_CONNECTIONS_PER_PEER_MAX).unwrap());
        let mut silent: Vec<_> =
            (1..API_CONNECTIONS_MAX).map(|n| places.take(of_host(n)).unwrap()).collect();
        let probes: Vec<_> = (0..3).map(|_| places.take(peer(99)).unwrap()).collect();
        let ended = silent.iter_mut().map(|(_, ends)| ends.try_recv().is_ok());
        assert_eq!(ended.collect::<Vec<_>>()[..4], [true, true, true, false]);
        assert!(keeps.try_recv().is_err());
        let count = || places.lock().by_peer.values().sum::<usize>();
        assert_eq!(count(), API_CONNECTIONS_MAX);
        // Until the signaled connections have ended, there is room for few others.
        let more: Vec<_> = (0..).map_while(|_| places.take(peer(98))).collect();
        assert_eq!(more.len(), ENDING_CONNECTIONS_MAX - probes.len());
        drop((probes, silent, more));
        assert_eq!((count(), places.lock().ending), (1, 0));
    }
}
