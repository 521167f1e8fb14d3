//! The oracle's verdict on a frame.

use core::net::IpAddr;
use std::collections::HashMap;

use adit_rules::{DropReason, HeaderRemoval, PuntReason};
use adit_types::{FarId, PdrId, Seid, UrrId};

use super::first_fragment::{FragmentedPacketId, OracleFirstFragment};
use super::packet_rate::{OracleRateWindow, OracleWindowKey};
use super::rate::OracleBucket;

/// Hardware addresses by interface position and station.
pub type OracleNeighbors = HashMap<(usize, IpAddr), [u8; 6]>;

/// The outcome of a frame, and its effects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OracleVerdict {
    /// Its outcome.
    pub outcome: OracleOutcome,
    /// The session of its TEID or address, as position.
    pub session: Option<usize>,
    /// The session for which it was counted, as position, direction and octets.
    pub counted: Option<(usize, bool, u64)>,
    /// The URRs that measured it, of the session at a position, with direction and octets.
    pub measured: Vec<(usize, UrrId, bool, u64)>,
    /// Due times after it, of the session at a position, by bucket and direction.
    pub due: Vec<(usize, OracleBucket, bool, u128)>,
    /// Windows of packet rates after it, of the session at a position.
    pub windows: Vec<(usize, OracleWindowKey, OracleRateWindow)>,
    /// Its lane, if its session was looked up.
    pub lane: Option<OracleLane>,
    /// Its copies, those included that are dropped.
    pub copies: Vec<OracleExit>,
    /// Its header for later fragments, if it is a first fragment.
    pub first_fragment: Option<(FragmentedPacketId, OracleFirstFragment)>,
    /// The packet is a later fragment, and the first one is known.
    pub is_known_fragment: bool,
    /// The first one, if a fast rule forwarded it, came in another tunnel or by previous rules of
    /// the session.
    pub follows_other_rules: bool,
}

/// A verdict without its outcome, while the rules are carried out.
#[derive(Debug, Default)]
pub(super) struct VerdictNotes {
    pub session: Option<usize>,
    pub counted: Option<(usize, bool, u64)>,
    pub measured: Vec<(usize, UrrId, bool, u64)>,
    pub due: Vec<(usize, OracleBucket, bool, u128)>,
    pub windows: Vec<(usize, OracleWindowKey, OracleRateWindow)>,
    pub lane: Option<OracleLane>,
    pub copies: Vec<OracleExit>,
    pub first_fragment: Option<(FragmentedPacketId, OracleFirstFragment)>,
    pub is_known_fragment: bool,
    pub follows_other_rules: bool,
    /// Its copies left before.
    pub is_copied: bool,
}

impl VerdictNotes {
    /// The notes of a packet that waited. `is_copied`: its copies left before.
    pub(super) fn of_buffered(is_copied: bool) -> Self {
        Self { is_copied, ..Self::default() }
    }

    pub(super) fn verdict(self, outcome: OracleOutcome) -> OracleVerdict {
        OracleVerdict {
            outcome,
            session: self.session,
            counted: self.counted,
            measured: self.measured,
            due: self.due,
            windows: self.windows,
            lane: self.lane,
            copies: self.copies,
            first_fragment: self.first_fragment,
            is_known_fragment: self.is_known_fragment,
            follows_other_rules: self.follows_other_rules,
        }
    }
}

/// Packets of one lane that leave through one port keep their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OracleLane {
    /// From tunnels.
    Tunneled,
    /// Plain IPv4.
    DownlinkV4,
    /// Plain IPv6.
    DownlinkV6,
    /// End Markers, after all other packets of their step.
    EndMarker,
}

/// The one outcome of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OracleOutcome {
    /// The frame leaves.
    Forward {
        /// Through this port.
        port: u16,
        /// With these octets, in fragments if it is longer than the link allows.
        frames: Vec<Vec<u8>>,
        /// Packets of one lane keep their order.
        lane: OracleLane,
    },
    /// The frame would leave, but the station's hardware address is not known.
    AwaitNeighbor {
        /// Position of the interface.
        interface: usize,
        /// The station.
        station: IpAddr,
        /// The frames, with zeros in place of the hardware address.
        frames: Vec<Vec<u8>>,
        /// Its lane.
        lane: OracleLane,
    },
    /// The packet comes back from the data network, for another UE.
    SwitchLocally {
        /// On this port.
        port: u16,
        /// With these octets.
        frame: Vec<u8>,
    },
    /// Its FAR buffers.
    Buffer {
        /// The rules that hold it.
        by: OracleBufferedBy,
        /// Most packets of the session that wait, this one included.
        room: usize,
        /// Its lane.
        lane: OracleLane,
    },
    /// Fragment of a GTP-U packet: it waits for the others, which never arrive in these tests.
    Reassemble,
    /// Dropped.
    Drop(DropReason),
    /// Consumed by the slow path.
    Punt(PuntReason),
    /// Unusual and addressed to ourselves: dropped or punted for a reason that the oracle does not
    /// judge.
    Consumed,
}

/// The outcome of a packet, or why it is dropped.
pub type OracleExit = Result<OracleOutcome, DropReason>;

/// The rules that hold a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OracleBufferedBy {
    /// The session.
    pub seid: Seid,
    /// The packet travels away from the UE.
    pub from_ue: bool,
    /// The PDR that matched.
    pub pdr: PdrId,
    /// Which of its readings, counted from zero.
    pub reading: usize,
    /// The FAR that holds the packet.
    pub far: FarId,
    /// The outer header that was removed.
    pub removal: Option<HeaderRemoval>,
    /// The first fragment of its packet, if this is a later one.
    pub first: Option<OracleFirstFragment>,
}
