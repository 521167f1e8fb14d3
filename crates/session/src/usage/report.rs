//! Reports of a measurement. Spec: TS 29.244 §7.5.8.3.

use std::sync::Arc;

use adit_types::limits::EVENTS_PER_REPORT_MAX;
use adit_types::{Nanos, UrrId};

use crate::pack::{packed, packed_enum};
use crate::record::UsageTriggers;

packed! {
    /// Usage of one URR over one measurement. Spec: TS 29.244 §7.5.8.3.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct UsageReport {
        /// The URR.
        pub urr: UrrId,
        /// Number of the report: counts up from zero per URR (UR-SEQN).
        pub sequence: u32,
        /// Why it was made.
        pub triggers: UsageTriggers,
        /// When the measurement began.
        pub start: Nanos,
        /// When it ended.
        pub end: Nanos,
        /// Volume, if the URR measures it.
        pub volume: Option<UsageVolume>,
        /// The volume also has packets.
        pub packets: bool,
        /// Active time, if the URR measures it. Unit: whole seconds; fractions count for the next
        /// one.
        pub duration_s: Option<u64>,
        /// First packet, if there was one.
        pub first: Option<Nanos>,
        /// Last packet, if there was one.
        pub last: Option<Nanos>,
        /// When events happened, if the URR measures them.
        pub events: Vec<Nanos>,
        /// The part of a split measurement.
        pub part: Option<UsagePart>,
        /// The measurement is before QoS enforcement.
        pub before_qos: bool,
        /// The reference that the query carried which caused the report.
        pub query_reference: Option<u32>,
        /// The application whose traffic started or stopped, if the PDR detects one.
        pub application: Option<Arc<str>>,
    }
}

impl UsageReport {
    /// Adds a later report of the same URR, whose number it takes: as if the measurement had gone
    /// on. Returns false, and changes nothing, if one of the reports has more than usage to report.
    pub fn absorb(&mut self, later: &Self) -> bool {
        let is_plain = |report: &Self| {
            !report.triggers.intersects(UsageTriggers::NOTICES)
                && report.part.is_none()
                && report.query_reference.is_none()
                && report.application.is_none()
        };
        let is_same_kind = self.urr == later.urr && self.before_qos == later.before_qos;
        let has_room = self.events.len() + later.events.len() <= EVENTS_PER_REPORT_MAX;
        if !is_same_kind || !is_plain(self) || !is_plain(later) || !has_room {
            return false;
        }
        self.sequence = later.sequence;
        self.triggers |= later.triggers;
        self.end = later.end;
        self.volume = match (self.volume, later.volume) {
            (Some(one), Some(other)) => Some(one.plus(other)),
            (one, other) => one.or(other),
        };
        self.packets |= later.packets;
        self.duration_s = match (self.duration_s, later.duration_s) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        self.first = self.first.or(later.first);
        self.last = later.last.or(self.last);
        self.events.extend(&later.events);
        true
    }

    /// False when nothing was used.
    #[must_use]
    pub fn has_usage(&self) -> bool {
        self.first.is_some()
            || self.duration_s.is_some_and(|s| s > 0)
            || !self.events.is_empty()
            || self.volume.is_some_and(|volume| volume != UsageVolume::default())
    }
}

/// Octets and packets of one measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageVolume {
    /// Octets towards the data network.
    pub ul_bytes: u64,
    /// Octets towards the UE.
    pub dl_bytes: u64,
    /// Packets towards the data network.
    pub ul_pkts: u64,
    /// Packets towards the UE.
    pub dl_pkts: u64,
}

/// Which side of the monitoring time. Spec: TS 29.244 §8.2.60.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsagePart {
    /// Before the first one.
    Before,
    /// After one and before another one.
    Between,
    /// After the last one.
    After,
}

impl UsageVolume {
    fn plus(self, other: Self) -> Self {
        Self {
            ul_bytes: self.ul_bytes.saturating_add(other.ul_bytes),
            dl_bytes: self.dl_bytes.saturating_add(other.dl_bytes),
            ul_pkts: self.ul_pkts.saturating_add(other.ul_pkts),
            dl_pkts: self.dl_pkts.saturating_add(other.dl_pkts),
        }
    }
}

packed!(UsageVolume { ul_bytes, dl_bytes, ul_pkts, dl_pkts });
packed_enum!(UsagePart { Before, Between, After });
