//! Association setups that this node requests: one for each configured peer, tried until it
//! succeeds.
//!
//! Spec: TS 29.244 §6.2.6.3.

use core::net::{IpAddr, SocketAddr};

use adit_pfcp::{Header, PFCP_PORT};
use adit_session::OwnerId;
use adit_types::Nanos;

use crate::transaction::RequestPurpose;

/// Maximum pause between two attempts.
const PAUSE_MAX: Nanos = Nanos::from_secs(60);

/// Returns the address that identifies a peer: an IPv4-mapped IPv6 address becomes an IPv4 address.
pub(crate) fn canonical_address(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip().to_canonical(), addr.port())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SetupProgress {
    /// The next attempt starts at this time.
    Waiting(Nanos),
    /// A request is awaiting its response.
    Requested,
    /// The peer has an association; either side may have requested it.
    Connected,
}

#[derive(Debug)]
struct ConfiguredSetup {
    to: SocketAddr,
    progress: SetupProgress,
    pause: Nanos,
}

impl ConfiguredSetup {
    /// Returns when the next attempt starts; `None` also while the address is not known.
    fn waits_until(&self) -> Option<Nanos> {
        match self.progress {
            SetupProgress::Waiting(at) if !self.to.ip().is_unspecified() => Some(at),
            SetupProgress::Waiting(_) | SetupProgress::Requested | SetupProgress::Connected => None,
        }
    }
}

/// The setups with all configured peers.
#[derive(Debug)]
pub(crate) struct Setups {
    setups: Vec<ConfiguredSetup>,
    first_pause: Nanos,
}

impl Setups {
    /// `peers` are tried at once. `first_pause`: the pause after the first failure; it doubles with
    /// every further failure, up to [`PAUSE_MAX`].
    pub(crate) fn new(peers: &[SocketAddr], first_pause: Nanos) -> Self {
        let setup = |&to| ConfiguredSetup {
            to: canonical_address(to),
            progress: SetupProgress::Waiting(Nanos(0)),
            pause: first_pause,
        };
        Self { setups: peers.iter().map(setup).collect(), first_pause }
    }

    /// Replaces the pause after the first failure.
    pub(crate) const fn set_first_pause(&mut self, first_pause: Nanos) {
        self.first_pause = first_pause;
    }

    /// Sets the address of the configured peer at index `position`, unless it has an association at
    /// its former address. Returns the former address if it was replaced.
    pub(crate) fn move_to(
        &mut self,
        now: Nanos,
        position: usize,
        to: SocketAddr,
    ) -> Option<SocketAddr> {
        let first_pause = self.first_pause;
        let setup = self.setups.get_mut(position).filter(|setup| setup.to != to)?;
        if let SetupProgress::Connected = setup.progress {
            return None;
        }
        if let SetupProgress::Waiting(_) = setup.progress {
            setup.progress = SetupProgress::Waiting(now);
        }
        setup.pause = first_pause;
        Some(core::mem::replace(&mut setup.to, to))
    }

    /// Returns the next peer whose attempt is due; it counts as requested from now on.
    pub(crate) fn poll_due(&mut self, now: Nanos) -> Option<(usize, SocketAddr)> {
        let due = |setup: &ConfiguredSetup| setup.waits_until().is_some_and(|at| at <= now);
        let position = self.setups.iter().position(due)?;
        let setup = &mut self.setups[position];
        setup.progress = SetupProgress::Requested;
        Some((position, setup.to))
    }

    /// Returns when the next attempt is due.
    pub(crate) fn poll_timeout(&self) -> Option<Nanos> {
        self.setups.iter().filter_map(ConfiguredSetup::waits_until).min()
    }

    /// Notes that the attempt failed. Returns the peer, and the pause until the next attempt.
    pub(crate) fn failed(&mut self, now: Nanos, position: usize) -> Option<(SocketAddr, Nanos)> {
        let setup = self.setups.get_mut(position)?;
        let pause = setup.pause;
        setup.progress = SetupProgress::Waiting(now + pause);
        setup.pause = (pause + pause).min(PAUSE_MAX);
        Some((setup.to, pause))
    }

    /// Postpones the attempt, because sessions of the former association have not all ended.
    pub(crate) fn postpone(&mut self, now: Nanos, position: usize) {
        if let Some(setup) = self.setups.get_mut(position) {
            setup.progress = SetupProgress::Waiting(now + self.first_pause);
        }
    }

    /// Notes that the peer at `address` has an association.
    pub(crate) fn note_connected(&mut self, address: IpAddr) {
        for setup in self.at(address) {
            setup.progress = SetupProgress::Connected;
        }
    }

    /// Notes that the association of the peer at `address` ended.
    pub(crate) fn note_disconnected(&mut self, now: Nanos, address: IpAddr) {
        let first_pause = self.first_pause;
        for setup in self.at(address) {
            setup.pause = first_pause;
            setup.progress = SetupProgress::Waiting(now + first_pause);
        }
    }

    /// True if `purpose` is a setup with the peer at `address`.
    pub(crate) fn is_attempt_at(&self, purpose: RequestPurpose, address: IpAddr) -> bool {
        let RequestPurpose::AssociationSetup { position } = purpose else { return false };
        self.setups.get(position).is_some_and(|setup| setup.to.ip() == address)
    }

    /// Returns the UDP port for requests to `address`: the configured one, or the port of PFCP.
    pub(crate) fn port_of(&self, address: IpAddr) -> u16 {
        let setup = self.setups.iter().find(|setup| setup.to.ip() == address);
        setup.map_or(PFCP_PORT, |setup| setup.to.port())
    }

    fn at(&mut self, address: IpAddr) -> impl Iterator<Item = &mut ConfiguredSetup> {
        self.setups.iter_mut().filter(move |setup| setup.to.ip() == address)
    }
}

/// An Association Setup Request that waits until it is known whether the peer that holds its Node
/// ID is alive.
#[derive(Debug)]
pub(crate) struct ContestedSetup {
    pub holder: OwnerId,
    pub from: SocketAddr,
    pub header: Header,
    pub body: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_without_an_address_waits_for_one_and_moves_while_it_has_no_association() {
        let nobody: SocketAddr = "0.0.0.0:8805".parse().unwrap();
        let [one, other] = ["192.0.2.1:8805", "192.0.2.2:8805"].map(|text| text.parse().unwrap());
        let mut setups = Setups::new(&[nobody], Nanos::from_secs(3));
        assert_eq!((setups.poll_due(Nanos(9)), setups.poll_timeout()), (None, None));
        assert_eq!(setups.move_to(Nanos(5), 0, one), Some(nobody));
        assert_eq!(setups.poll_due(Nanos(5)), Some((0, one)));
        setups.failed(Nanos(6), 0);
        assert_eq!(setups.move_to(Nanos(7), 0, one), None, "it is there");
        assert_eq!(setups.poll_due(Nanos(7)), None);
        assert_eq!(setups.move_to(Nanos(8), 0, other), Some(one));
        assert_eq!(setups.poll_due(Nanos(8)), Some((0, other)), "without a pause");
        setups.note_connected(other.ip());
        assert_eq!(setups.move_to(Nanos(9), 0, one), None, "it has an association");
        setups.note_disconnected(Nanos(10), other.ip());
        assert_eq!(setups.move_to(Nanos(11), 0, one), Some(other));
    }

    #[test]
    fn pause_doubles_up_to_a_minute_and_starts_over_after_a_connection() {
        let peer: SocketAddr = "192.0.2.1:9000".parse().unwrap();
        let mut setups = Setups::new(&[peer], Nanos::from_secs(3));
        assert_eq!(setups.poll_due(Nanos(0)), Some((0, peer)));
        assert_eq!(setups.poll_due(Nanos(0)), None);
        let mut pauses = Vec::new();
        for _ in 0..6 {
            pauses.push(setups.failed(Nanos(0), 0).unwrap().1.0 / 1_000_000_000);
        }
        assert_eq!(pauses, [3, 6, 12, 24, 48, 60]);
        setups.note_connected(peer.ip());
        assert_eq!(setups.poll_timeout(), None);
        setups.note_disconnected(Nanos(5), peer.ip());
        assert_eq!(setups.poll_timeout(), Some(Nanos(5) + Nanos::from_secs(3)));
        assert_eq!(setups.port_of(peer.ip()), 9000);
        assert_eq!(setups.port_of("192.0.2.2".parse().unwrap()), 8805);
    }
}
