//! Usage reporting rules.

use adit_types::{FarId, Nanos, UrrId};
use bitflags::bitflags;

use crate::pack::packed;
use crate::record::SdfSpec;
use crate::rule::{always, rule};

bitflags! {
    /// Why usage is reported: what a URR requests, or what caused a report.
    /// Spec: TS 29.244 §8.2.19, §8.2.41.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct UsageTriggers: u32 {
        /// The measurement period ended.
        const PERIODIC = 1 << 0;
        /// A volume threshold was reached.
        const VOLUME_THRESHOLD = 1 << 1;
        /// A time threshold was reached.
        const TIME_THRESHOLD = 1 << 2;
        /// No packet came for the quota holding time.
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
        /// The control plane queried. In reports only.
        const IMMEDIATE = 1 << 12;
        /// The session or the URR ended. In reports only.
        const TERMINATION = 1 << 13;
        /// Usage before the monitoring time. In reports only.
        const MONITORING_TIME = 1 << 14;
        /// We ended the session. In reports only.
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
    /// Triggers of reports that no URR requests: the control plane queried, or the measurement is
    /// over.
    pub const UNASKED: Self = Self::IMMEDIATE
        .union(Self::TERMINATION)
        .union(Self::TERMINATION_BY_UP)
        .union(Self::MONITORING_TIME);
}

packed! {
    /// The quantities that a URR measures. Spec: TS 29.244 §8.2.40.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct MeasurementMethod {
        /// Volume.
        pub volume: bool,
        /// Duration.
        pub duration: bool,
        /// Events. An event is the start of detected traffic: the first packet, and the first one
        /// after the inactivity detection time.
        pub event: bool,
    }
}

packed! {
    /// How time is consumed: from the first packet on, in whole intervals. Spec: TS 29.244 §8.2.81;
    /// TS 32.299 §6.5.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct TimeMechanism {
        /// True: consecutive intervals up to and including the first one without packets (CTP).
        /// False: one interval, and the next one begins with the next packet after it (DTP).
        pub is_continuous: bool,
        /// The base time interval; never zero.
        pub interval: Nanos,
    }
}

impl TimeMechanism {
    /// Time consumed `elapsed` after an envelope began: intervals count when they begin.
    pub(crate) fn consumed(self, elapsed: Nanos) -> Nanos {
        let interval = self.interval.0.max(1);
        Nanos((elapsed.0 / interval + 1).saturating_mul(interval))
    }

    /// When an envelope that began at `since` closes if no packet comes after `last`.
    pub(crate) fn end(self, since: Nanos, last: Nanos) -> Nanos {
        match self.is_continuous {
            true => since + self.consumed(last.since(since)) + self.interval,
            false => since + self.interval,
        }
    }
}

packed! {
    /// Octets by direction; `None`: unlimited. Spec: TS 29.244 §8.2.13, §8.2.50.
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
        /// Also counts packets that QERs drop.
        pub before_qos: bool,
        /// Measures nothing.
        pub inactive: bool,
        /// Starts the time at the creation instead of at the first packet.
        pub immediate_start: bool,
        /// Reports numbers of packets.
        pub packets: bool,
    }

    /// Packets or octets towards the UE that rules drop. Spec: TS 29.244 §8.2.49.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct DroppedThreshold {
        /// Packets.
        pub packets: Option<u64>,
        /// Octets.
        pub bytes: Option<u64>,
    }

    /// A URR of a credit pool. Spec: TS 29.244 §7.5.2.4, table 7.5.2.4-2.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Aggregated {
        /// The URR whose usage counts for the pool as well.
        pub urr: UrrId,
        /// The multiplier. Unit: millionths.
        pub weight: u64,
    }

    /// Traffic exempt from a quota action. Spec: TS 29.244 §7.5.2.4.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct Exempted {
        /// Service data flows.
        pub flows: Vec<SdfSpec>,
        /// Applications by identifier.
        pub applications: Vec<Box<str>>,
    }

    /// A time at which usage is split, and the limits from then on.
    /// Spec: TS 29.244 §5.2.2.2, §8.2.15.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Monitoring {
        /// When.
        pub at: Nanos,
        /// Replaces the volume threshold; `None` keeps the rest of the previous one.
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
    /// The parts of a URR that may be absent. Spec: TS 29.244 §7.5.2.4.
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
        /// Events after which usage is reported.
        pub event_threshold: Option<u64>,
        /// Events that may happen.
        pub event_quota: Option<u64>,
        /// How time is consumed; `None`: by the second, until no packet came for the inactivity
        /// detection time.
        pub time_mechanism: Option<TimeMechanism>,
        /// Number of reports; afterwards only queries and the end of the URR cause one.
        pub reports_max: Option<u16>,
        /// Time without packets after which a quota is withdrawn.
        pub quota_holding_time: Option<Nanos>,
        /// Time after which a quota is reported, used up or not.
        pub quota_validity_time: Option<Nanos>,
        /// Dropped downlink traffic after which usage is reported.
        pub dropped_threshold: Option<DroppedThreshold>,
        /// When usage is split, in ascending order.
        pub monitoring: Vec<Monitoring>,
        /// Time without packets after which the measurement of time stops.
        pub inactivity_detection_time: Option<Nanos>,
        /// Reports of these URRs cause a report of this one.
        pub linked: Option<Vec<UrrId>>,
        /// How it measures.
        pub information: Option<MeasurementInformation>,
        /// Makes the URR a credit pool of these URRs.
        pub aggregated: Option<Vec<Aggregated>>,
        /// Traffic that passes after a quota is used up.
        pub exempted: Option<Exempted>,
        /// The FAR for packets beyond the quota; `None`: they are dropped.
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
        /// The reports that it requests.
        pub triggers: UsageTriggers,
        /// Everything else.
        pub settings: UrrSettings,
    }
}

always!(MeasurementMethod, UsageTriggers);

impl Urr {
    /// How it measures.
    #[must_use]
    pub fn information(&self) -> MeasurementInformation {
        self.settings.information.unwrap_or_default()
    }
}
