//! Our Recovery Time Stamp, which each peer compares with the last one that it received.
//!
//! The time stamp moves on towards a single peer when sessions of its association have ended
//! without notification: a CP function that restores sessions then does so, and any other one
//! cleans up. A peer that sets up an association again gets the latest time stamp. Spec: TS 29.244
//! §6.2.2, §8.2.65; TS 23.527 §4.

use core::net::IpAddr;

use adit_pfcp::ie::RecoveryTimeStamp;
use adit_session::OwnerId;
use adit_types::Nanos;

use crate::node::Node;
use crate::ntp::is_newer;

impl Node {
    /// Returns our Recovery Time Stamp towards the peer at `address`.
    pub(crate) fn time_stamp_towards(&self, address: IpAddr) -> RecoveryTimeStamp {
        let known = self.peers.association_for(address).map(|known| known.own_time_stamp);
        RecoveryTimeStamp(known.unwrap_or(self.latest_time_stamp))
    }

    /// Notes that a peer is sent `time_stamp`.
    pub(crate) fn note_time_stamp(&mut self, time_stamp: u32) {
        if is_newer(time_stamp, self.latest_time_stamp) {
            self.latest_time_stamp = time_stamp;
        }
    }

    /// Moves our latest time stamp, because sessions have ended that a peer may believe to exist:
    /// its next association gets a time stamp newer than any that was sent before.
    pub(crate) fn move_time_stamp(&mut self, now: Nanos) {
        let latest = self.latest_time_stamp;
        self.note_time_stamp(self.ntp_clock.seconds(now));
        if self.latest_time_stamp == latest {
            self.latest_time_stamp = latest.wrapping_add(1);
        }
    }

    /// Does the same as [`Self::move_time_stamp`], and applies it to an association that continues.
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
