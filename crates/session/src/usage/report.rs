//! Reports of a measurement. Spec: TS 29.244 §7.5.8.3.

use std::sync::Arc;

use adit_types::limits::EVENTS_PER_REPORT_MAX;
use adit_types::{Nanos, UrrId};

use crate::pack::{packed, packed_enum};
use crate::record::UsageTriggers;

packed! {
    /// The usage of one URR in one measurement. Spec: TS 29.244 §7.5.8.3.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct UsageReport {
        /// The URR.
        pub urr: UrrId,
        /// Sequence number of the report: counts up from zero for each URR (UR-SEQN).
        pub sequence: u32,
        /// The triggers that caused the report.
        pub triggers: UsageTriggers,
        /// When the measurement began.
        pub start: Nanos,
        /// When the measurement ended.
        pub end: Nanos,
        /// Volume, if the URR measures it.
        pub volume: Option<UsageVolume>,
        /// True if numbers of packets are reported with the volume.
        pub packets: bool,
        /// Active time, if the URR measures it. Unit: seconds; fractions go to the next report.
        pub duration_s: Option<u64>,
        /// When the first packet arrived, if there was one.
        pub first: Option<Nanos>,
        /// When the last packet arrived, if there was one.
        pub last: Option<Nanos>,
        /// When the events happened, if the URR measures events.
        pub events: Vec<Nanos>,
        /// Which part of a split measurement this is; `None` if it was not split.
        pub part: Option<UsagePart>,
        /// True if the measurement was made before QoS enforcement.
        pub before_qos: bool,
        /// The query reference of the query that caused the report.
        pub query_reference: Option<u32>,
        /// The application whose traffic started or stopped, if the PDR detects one.
        pub application: Option<Arc<str>>,
    }
}

impl UsageReport {
    /// Merges a later report of the same URR into this one, as if there had been one measurement.
    /// It takes the later sequence number. Returns false, and changes nothing, if one of the
    /// reports has more than usage to report.
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

    /// False if nothing was used.
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

/// The position of a part relative to the monitoring times. Spec: TS 29.244 §8.2.60.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsagePart {
    /// Before the first monitoring time.
    Before,
    /// Between two monitoring times.
    Between,
    /// After the last monitoring time.
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
