//! QoS enforcement rules.

use adit_rules::{Gate, PacketLimit};
use adit_types::{BitRate, Nanos, QerId, Qfi};

/// A QER. Spec: TS 29.244 §7.5.2.5.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Qer {
    /// Identifier, unique within the session.
    pub id: QerId,
    /// QERs of several sessions with the same value share their rates. Spec: TS 29.244 §8.2.10.
    pub correlation: Option<u32>,
    /// Gates of both directions.
    pub gates: QerGates,
    /// Maximum rates; absent without a limit.
    pub mbr: Option<Rates>,
    /// Guaranteed rates; absent without a guarantee.
    pub gbr: Option<Rates>,
    /// Time over which the rates are averaged; absent is the default of the configuration. Unit:
    /// milliseconds. Spec: TS 29.244 §8.2.115; TS 23.501 §5.7.3.6.
    pub averaging_window_ms: Option<u32>,
    /// Packets in a unit of time; absent without a limit.
    pub packet_rate: Option<PacketLimits>,
    /// What the packet rate began with.
    pub packet_status: Option<PacketStatus>,
    /// The status of the packet rate is reported when the session ends. Spec: TS 29.244 §8.2.174
    /// (RCSR).
    pub reports_packets: bool,
    /// QoS flow that downlink packets are marked with.
    pub qfi: Option<Qfi>,
    /// Reflective QoS indication in downlink packets.
    pub rqi: bool,
    /// Paging policy indicator in downlink packets, 0..=7.
    pub ppi: Option<u8>,
}

/// Gate Status: one gate per direction. Spec: TS 29.244 §8.2.7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QerGates {
    /// Towards the data network.
    pub uplink: Gate,
    /// Towards the UE.
    pub downlink: Gate,
}

/// Packet rates of both directions; absent without a limit. Spec: TS 29.244 §8.2.63.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketLimits {
    /// Towards the data network.
    pub uplink: Option<PacketLimit>,
    /// Towards the UE.
    pub downlink: Option<PacketLimit>,
}

/// What an earlier session left of packet rates. Spec: TS 29.244 §8.2.139.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketStatus {
    /// Towards the data network; absent where nothing was used.
    pub uplink: Option<PacketAllowance>,
    /// Towards the UE; absent where nothing was used.
    pub downlink: Option<PacketAllowance>,
    /// Until when this holds.
    pub until: Nanos,
}

/// Packets that may still pass in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketAllowance {
    /// At the plain rate.
    pub packets: u16,
    /// At the additional rate.
    pub additional: Option<u16>,
}

/// Rates of both directions. Spec: TS 29.244 §8.2.8, §8.2.9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rates {
    /// Towards the data network.
    pub uplink: BitRate,
    /// Towards the UE.
    pub downlink: BitRate,
}
