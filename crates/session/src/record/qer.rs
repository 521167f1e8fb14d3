//! QoS enforcement rules.

use adit_rules::{Gate, PacketLimit};
use adit_types::{BitRate, Nanos, QerId, Qfi};

use crate::pack::packed;
use crate::rule::{always, rule};

rule! {
    /// A QER. Spec: TS 29.244 §7.5.2.5.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct Qer, QerUpdate {
        /// Identifier, unique within the session.
        pub id: QerId,
        /// QERs of several sessions with the same value share their rates. Spec: TS 29.244 §8.2.10.
        pub correlation: Option<u32>,
        /// Gates of both directions.
        pub gates: QerGates,
        /// Maximum rates; `None`: no limit.
        pub mbr: Option<Rates>,
        /// Guaranteed rates; `None`: no guarantee.
        pub gbr: Option<Rates>,
        /// Time over which the rates are averaged; `None`: the configured default. Unit:
        /// milliseconds. Spec: TS 29.244 §8.2.115; TS 23.501 §5.7.3.6.
        pub averaging_window_ms: Option<u32>,
        /// Packets per unit of time; `None`: no limit.
        pub packet_rate: Option<PacketLimits>,
        /// The packet rate status that the control plane gave when it created the QER.
        pub packet_status: Option<PacketStatus>,
        /// True to report the packet rate status at the session's end. Spec: TS 29.244 §8.2.174
        /// (RCSR).
        pub reports_packets: bool,
        /// QoS flow with which downlink packets are marked.
        pub qfi: Option<Qfi>,
        /// True if downlink packets get the reflective QoS indication.
        pub rqi: bool,
        /// Paging policy indicator in downlink packets, 0..=7.
        pub ppi: Option<u8>,
        /// DL Flow Level Marking: type of service or traffic class of downlink packets, and its
        /// mask. Spec: TS 29.244 §8.2.66.
        pub flow_tos: Option<(u8, u8)>,
        /// DL Flow Level Marking: Service Class Indicator of downlink packets in GTP-U tunnels, and
        /// the octet after it in the IE. Spec: TS 29.244 §8.2.66; TS 29.281 §5.2.2.3.
        pub service_class: Option<(u8, u8)>,
    }
}

packed! {
    /// Gate Status: one gate per direction. Spec: TS 29.244 §8.2.7.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct QerGates {
        /// Towards the data network.
        pub uplink: Gate,
        /// Towards the UE.
        pub downlink: Gate,
    }

    /// Packet rates of both directions; `None`: no limit. Spec: TS 29.244 §8.2.63.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct PacketLimits {
        /// Towards the data network.
        pub uplink: Option<PacketLimit>,
        /// Towards the UE.
        pub downlink: Option<PacketLimit>,
    }

    /// Packet Rate Status: packets that an earlier session had left of its packet rate (APN or
    /// Small Data rate control). Spec: TS 29.244 §8.2.139.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct PacketStatus {
        /// Packets left towards the data network; `None` if none were used.
        pub uplink: Option<PacketAllowance>,
        /// Packets left towards the UE; `None` if none were used.
        pub downlink: Option<PacketAllowance>,
        /// When the status ceases to be valid.
        pub until: Nanos,
    }

    /// Packets that may still pass in one direction.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct PacketAllowance {
        /// Packets left at the plain rate.
        pub packets: u16,
        /// Packets left at the additional rate; `None` if the status does not contain it.
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
}

always!(QerGates);
