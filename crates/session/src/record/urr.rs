//! Usage reporting rules.

use adit_types::{FarId, Nanos, UrrId};
use bitflags::bitflags;

use crate::pack::packed;
use crate::record::SdfSpec;
use crate::rule::{always, rule};

bitflags! {
    /// Reasons for a usage report: those that a URR requests, or those that caused a report.
    /// Spec: TS 29.244 §8.2.19, §8.2.41.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct UsageTriggers: u32 {
        /// The measurement period ended.
        const PERIODIC = 1 << 0;
        /// A volume threshold was reached.
        const VOLUME_THRESHOLD = 1 << 1;
        /// A time threshold was reached.
        const TIME_THRESHOLD = 1 << 2;
        /// No packet arrived for the quota holding time.
        const QUOTA_HOLDING_TIME = 1 << 3;
        /// Traffic started.
        const START_OF_TRAFFIC = 1 << 4;
        /// Traffic stopped.
        const STOP_OF_TRAFFIC = 1 << 5;
        /// The threshold of dropped downlink traffic was reached.
        const DROPPED_DL = 1 << 6;
        /// A linked URR was reported.
        const LINKED = 1 << 7;
        /// A volume quota is used up.
        const VOLUME_QUOTA = 1 << 8;
        /// A time quota is used up.
        const TIME_QUOTA = 1 << 9;
        /// The quota validity time is over.
        const QUOTA_VALIDITY_TIME = 1 << 10;
        /// The user plane inactivity timer ran out.
        const INACTIVITY = 1 << 11;
        /// The control plane queried the usage. In reports only.
        const IMMEDIATE = 1 << 12;
        /// The session or the URR ended. In reports only.
        const TERMINATION = 1 << 13;
        /// Usage before the monitoring time. In reports only.
        const MONITORING_TIME = 1 << 14;
        /// The UP function ended the session. In reports only.
        const TERMINATION_BY_UP = 1 << 15;
        /// An event threshold was reached.
        const EVENT_THRESHOLD = 1 << 16;
        /// An event quota is used up.
        const EVENT_QUOTA = 1 << 17;
        /// An envelope of the time quota mechanism closed.
        const ENVELOPE_CLOSURE = 1 << 18;
        /// An End Marker was received.
        const END_MARKER = 1 << 19;
    }
}

impl UsageTriggers {
    /// Triggers whose reports do not end a measurement.
    pub const NOTICES: Self = Self::START_OF_TRAFFIC.union(Self::END_MARKER);
    /// Triggers that no URR requests: reports have them because the control plane queried usage, or
    /// because the measurement ended.
    pub const UNREQUESTED: Self = Self::IMMEDIATE
        .union(Self::TERMINATION)
        .union(Self::TERMINATION_BY_UP)
        .union(Self::MONITORING_TIME);
}

packed! {
    /// The quantities that a URR measures. Spec: TS 29.244 §8.2.40.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct MeasurementMethod {
        /// True to measure volume.
        pub volume: bool,
        /// True to measure duration.
        pub duration: bool,
        /// True to measure events. An event is the start of detected traffic: the first packet, and
        /// the first packet after each inactivity detection time without packets.
        pub event: bool,
    }
}

packed! {
    /// How time is consumed by traffic: in whole intervals, from the first packet on. Spec: TS
    /// 29.244 §8.2.81;
    /// TS 32.299 §6.5.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct TimeMechanism {
        /// True: consecutive intervals, up to and including the first one without packets (CTP).
        /// False: single intervals; the next one begins with the first packet after the end of the
        /// last (DTP).
        pub is_continuous: bool,
        /// The base time interval; never zero.
        pub interval: Nanos,
    }
}

impl TimeMechanism {
    /// Returns the time consumed when `elapsed` has passed since an envelope began: an interval is
    /// consumed as soon as it begins.
    pub(crate) fn consumed(self, elapsed: Nanos) -> Nanos {
        let interval = self.interval.0.max(1);
        Nanos((elapsed.0 / interval + 1).saturating_mul(interval))
    }

    /// Returns when an envelope that began at `since` closes if no packet arrives after `last`.
    pub(crate) fn end(self, since: Nanos, last: Nanos) -> Nanos {
        match self.is_continuous {
            true => since + self.consumed(last.since(since)) + self.interval,
            false => since + self.interval,
        }
    }
}

packed! {
    /// Numbers of octets; `None`: unlimited. Spec: TS 29.244 §8.2.13, §8.2.50.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Volumes {
        /// Both directions together.
        pub total: Option<u64>,
        /// Towards the data network.
        pub uplink: Option<u64>,
        /// Towards the UE.
        pub downlink: Option<u64>,
    }

    /// How a URR measures. Spec: TS 29.244 §8.2.68.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct MeasurementInformation {
        /// True to count also packets that QERs drop.
        pub before_qos: bool,
        /// True to measure nothing at present.
        pub inactive: bool,
        /// True if time is measured from the creation of the URR, not from the first packet.
        pub immediate_start: bool,
        /// True to report also numbers of packets.
        pub packets: bool,
    }

    /// Dropped packets or octets towards the UE that cause a report. Spec: TS 29.244 §8.2.49.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct DroppedThreshold {
        /// Number of packets; `None`: no limit.
        pub packets: Option<u64>,
        /// Number of octets; `None`: no limit.
        pub bytes: Option<u64>,
    }

    /// A URR of a credit pool. Spec: TS 29.244 §7.5.2.4, table 7.5.2.4-2.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Aggregated {
        /// The URR whose usage is also counted for the pool.
        pub urr: UrrId,
        /// The factor by which the usage is multiplied. Unit: millionths.
        pub weight: u64,
    }

    /// Traffic exempt from a quota action. Spec: TS 29.244 §7.5.2.4.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct Exempted {
        /// Exempt service data flows.
        pub flows: Vec<SdfSpec>,
        /// Identifiers of exempt applications.
        pub applications: Vec<Box<str>>,
    }

    /// A time at which usage is split, and the limits from then on.
    /// Spec: TS 29.244 §5.2.2.2, §8.2.15.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Monitoring {
        /// When usage is split.
        pub at: Nanos,
        /// Replaces the volume threshold; `None` keeps what is left of the previous one.
        pub volume_threshold: Option<Volumes>,
        /// Replaces the time threshold.
        pub time_threshold: Option<Nanos>,
        /// Replaces the volume quota.
        pub volume_quota: Option<Volumes>,
        /// Replaces the time quota.
        pub time_quota: Option<Nanos>,
        /// Replaces the event threshold.
        pub event_threshold: Option<u64>,
        /// Replaces the event quota.
        pub event_quota: Option<u64>,
    }
}

rule! {
    /// The settings of a URR, all of which are optional. Spec: TS 29.244 §7.5.2.4.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct UrrSettings, UrrSettingsUpdate {
        /// Time between periodic reports; never zero.
        pub period: Option<Nanos>,
        /// Volume after which usage is reported.
        pub volume_threshold: Option<Volumes>,
        /// Volume that may be used.
        pub volume_quota: Option<Volumes>,
        /// Duration after which usage is reported.
        pub time_threshold: Option<Nanos>,
        /// Duration that may be used.
        pub time_quota: Option<Nanos>,
        /// How many events may happen before usage is reported.
        pub event_threshold: Option<u64>,
        /// How many events may happen in all.
        pub event_quota: Option<u64>,
        /// How time is consumed; `None`: by the second, until no packet has arrived for the
        /// inactivity detection time.
        pub time_mechanism: Option<TimeMechanism>,
        /// Maximum number of reports; after these, only queries and the end of the URR cause one.
        pub reports_max: Option<u16>,
        /// Time without packets after which a quota is withdrawn.
        pub quota_holding_time: Option<Nanos>,
        /// Time after which a quota expires and is reported, used up or not.
        pub quota_validity_time: Option<Nanos>,
        /// Dropped downlink traffic after which usage is reported.
        pub dropped_threshold: Option<DroppedThreshold>,
        /// Times at which usage is split, in ascending order.
        pub monitoring: Vec<Monitoring>,
        /// Time without packets after which the measurement of time stops.
        pub inactivity_detection_time: Option<Nanos>,
        /// URRs whose reports cause a report of this URR.
        pub linked: Option<Vec<UrrId>>,
        /// Variations of what is measured and reported.
        pub information: Option<MeasurementInformation>,
        /// The members if the URR is a credit pool; it then measures their usage.
        pub aggregated: Option<Vec<Aggregated>>,
        /// Traffic that passes after a quota is used up.
        pub exempted: Option<Exempted>,
        /// The FAR for packets beyond the quota; `None`: these packets are dropped.
        pub quota_far: Option<FarId>,
    }
}

rule! {
    /// A URR. Spec: TS 29.244 §7.5.2.4.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct Urr, UrrUpdate {
        /// Identifier, unique within the session.
        pub id: UrrId,
        /// The measured quantities.
        pub method: MeasurementMethod,
        /// The events that cause reports.
        pub triggers: UsageTriggers,
        /// All other parts.
        pub settings: UrrSettings,
    }
}

always!(MeasurementMethod, UsageTriggers);

impl Urr {
    /// Returns the measurement information, all false if the URR has none.
    #[must_use]
    pub fn information(&self) -> MeasurementInformation {
        self.settings.information.unwrap_or_default()
    }
}
