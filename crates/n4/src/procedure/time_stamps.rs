//! Our Recovery Time Stamp, which each peer compares with the one before.
//!
//! It moves towards a peer, and towards that peer alone, when sessions of its association ended
//! without a notification: CP functions that restore sessions then do so, and others clean up. A
//! peer that sets up an association anew gets the latest one. Spec: TS 29.244 §6.2.2, §8.2.65; TS
//! 23.527 §4.

use core::net::IpAddr;

use adit_pfcp::ie::RecoveryTimeStamp;
use adit_session::OwnerId;
use adit_types::Nanos;

use crate::node::Node;
use crate::ntp::is_newer;

impl Node {
    /// Our Recovery Time Stamp towards the peer at `address`.
    pub(crate) fn time_stamp_towards(&self, address: IpAddr) -> RecoveryTimeStamp {
        let known = self.peers.association_for(address).map(|known| known.own_time_stamp);
        RecoveryTimeStamp(known.unwrap_or(self.latest_time_stamp))
    }

    /// Some peer was given `time_stamp`.
    pub(crate) fn note_time_stamp(&mut self, time_stamp: u32) {
        if is_newer(time_stamp, self.latest_time_stamp) {
            self.latest_time_stamp = time_stamp;
        }
    }

    /// Sessions have ended that a peer may believe to exist, so its next association gets a newer
    /// time stamp than any that a peer was given before.
    pub(crate) fn move_time_stamp(&mut self, now: Nanos) {
        let latest = self.latest_time_stamp;
        self.note_time_stamp(self.ntp_clock.seconds(now));
        if self.latest_time_stamp == latest {
            self.latest_time_stamp = latest.wrapping_add(1);
        }
    }

    /// As [`Self::move_time_stamp`], for sessions of an association that goes on.
    pub(crate) fn move_time_stamp_of(&mut self, now: Nanos, owner: OwnerId) {
        let Some(address) = self.peers.association_of(owner).map(|known| known.address) else {
            return;
        };
        self.move_time_stamp(now);
        let latest = self.latest_time_stamp;
        if let Some(association) = self.peers.association_mut(address) {
            association.own_time_stamp = latest;
        }
        self.sessions.records.note_peer_state(owner);
        self.counters.scalars.recovery_time_stamps_moved += 1;
    }
}
