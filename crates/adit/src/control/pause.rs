//! The pause of an adit whose lease may be over: it answers at none of its addresses, forwards
//! nothing, and keeps all sessions, until the store or the standby confirms that it is still the
//! active one.

use std::net::IpAddr;

use adit_rules::WorkerCommand;
use adit_shared_store::store_thread::StoreLink;
use adit_store::StoreState;
use adit_types::{InterfaceId, MacAddr, Nanos};
use tracing::{info, warn};

use super::{ControlEnd, ControlThread, DATAGRAMS_PER_ITERATION_MAX};
use crate::control_parts::active_addresses::{self, ActiveAddresses};
use crate::control_parts::standstill::Standstill;

/// An address of this adit that another station uses.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnAddressConflict {
    pub interface: InterfaceId,
    pub addr: IpAddr,
    pub mac: MacAddr,
}

/// A pause in progress.
#[derive(Debug)]
pub(super) struct Pause {
    since: Nanos,
    why: String,
    /// How many N4 datagrams were discarded in this pause.
    datagrams: u64,
    /// How many packets the lease had discarded before this pause.
    packets_before: u64,
}

impl Pause {
    /// Returns the reason of the pause, for operators.
    pub(super) fn why(&self) -> &str {
        &self.why
    }
}

impl ControlThread {
    /// Begins or ends the pause as the lease requires. True while this adit may not serve.
    pub(super) fn is_paused(&mut self, now: Nanos) -> bool {
        match (self.parts.lease.allows(now), self.paused.take()) {
            (true, None) => false,
            (true, Some(pause)) => {
                self.resume(now, &pause);
                false
            }
            (false, Some(pause)) => {
                self.paused = Some(pause);
                true
            }
            (false, None) => {
                self.pause(now);
                true
            }
        }
    }

    /// Runs an iteration of the pause: earlier records still become durable, and no answer leaves.
    pub(super) fn turn_while_paused(&mut self, now: Nanos) {
        self.discard_datagrams();
        self.exchange_records(now);
        self.parts.publisher.turn(now);
        self.log_events();
    }

    /// Handles another station's use of an own address. If the store is failing, nobody can say
    /// which adit is active, and the station may be the other adit: this adit then pauses.
    /// Otherwise it defends the address. Spec: RFC 5227 §2.4 (b).
    pub(super) fn handle_conflict(&mut self, now: Nanos, used: &OwnAddressConflict) {
        let &OwnAddressConflict { interface, addr, mac } = used;
        let response = self.conflicts.note(now, interface, addr, mac);
        let state = self.parts.store.as_ref().map(StoreLink::state);
        let is_failing = state == Some(StoreState::Failing);
        if is_failing && self.parts.config.standby.is_some() {
            warn!(%addr, %mac, "another station uses an address while the store is away: it may be the other adit");
            return self.parts.lease.distrust();
        }
        if response.is_logged {
            warn!(%addr, %mac, "another station uses an address of this adit, which it defends");
        }
        if response.is_defended {
            self.send_command(WorkerCommand::Announce { interface });
        }
    }

    fn pause(&mut self, now: Nanos) {
        let failure = self.parts.store.as_ref().and_then(|store| store.report().failure);
        let failure = failure.unwrap_or_else(|| "it has not answered in time".to_owned());
        let why = format!("another adit may be active, and the store cannot say so: {failure}");
        warn!(
            why,
            "paused: answers for no address and forwards nothing until the store says that this adit is active"
        );
        // Dropping them removes them from this host.
        self.parts.addresses = None;
        self.parts.publisher.pause_offload(true);
        self.parts.twins.set_carriers(|_| false);
        let packets_before = self.parts.lease.discarded_pkts();
        self.paused = Some(Pause { since: now, why, datagrams: 0, packets_before });
        self.announce_to_nrf();
    }

    fn resume(&mut self, now: Nanos, pause: &Pause) {
        let addresses = active_addresses::wanted(&self.parts.config).map(ActiveAddresses::take);
        match addresses.transpose() {
            Ok(addresses) => self.parts.addresses = addresses,
            Err(error) => {
                let why = format!("cannot have the addresses of [standby] again: {error:#}");
                self.end = Some(ControlEnd::Failed(why));
                return;
            }
        }
        self.parts.publisher.pause_offload(false);
        self.neighbors.announce(now, &self.parts.publisher);
        self.standstill = Standstill::new(&self.parts.threads, now);
        let packets = self.parts.lease.discarded_pkts() - pause.packets_before;
        let took_ms = now.since(pause.since).0 / 1_000_000;
        info!(
            took_ms,
            packets,
            datagrams = pause.datagrams,
            "active again: this adit still has the lease"
        );
    }

    /// Discards datagrams that arrive during the pause. They are not answered later either: their
    /// senders may have the answer of another adit.
    fn discard_datagrams(&mut self) {
        let mut received = 0;
        // Datagrams that the socket refuses are discarded as well.
        let _ = self.parts.socket.receive(DATAGRAMS_PER_ITERATION_MAX, |_, _| received += 1);
        if let Some(pause) = &mut self.paused {
            pause.datagrams += received;
        }
    }
}
