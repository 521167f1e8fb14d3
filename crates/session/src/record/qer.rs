//! QoS enforcement rules.

use adit_rules::Gate;
use adit_types::{BitRate, QerId, Qfi};

/// A QER. Spec: TS 29.244 §7.5.2.5.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Qer {
    /// Identifier, unique within the session.
    pub id: QerId,
    /// QERs of several sessions with the same value share their rates; recorded, not yet shared.
    pub correlation: Option<u32>,
    /// Gates of both directions.
    pub gates: GateStatus,
    /// Maximum rates; absent without a limit.
    pub mbr: Option<Rates>,
    /// Guaranteed rates; recorded, not yet enforced.
    pub gbr: Option<Rates>,
    /// Time over which the rates are averaged; absent is the default of the configuration. Unit:
    /// milliseconds. Spec: TS 29.244 §8.2.115; TS 23.501 §5.7.3.6.
    pub averaging_window_ms: Option<u32>,
    /// QoS flow that downlink packets are marked with.
    pub qfi: Option<Qfi>,
    /// Reflective QoS indication in downlink packets.
    pub rqi: bool,
    /// Paging policy indicator in downlink packets, 0..=7.
    pub ppi: Option<u8>,
}

/// Gate Status: one gate per direction. Spec: TS 29.244 §8.2.7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GateStatus {
    /// Towards the data network.
    pub uplink: Gate,
    /// Towards the UE.
    pub downlink: Gate,
}

/// Rates of both directions. Spec: TS 29.244 §8.2.8, §8.2.9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rates {
    /// Towards the data network.
    pub uplink: BitRate,
    /// Towards the UE.
    pub downlink: BitRate,
}
