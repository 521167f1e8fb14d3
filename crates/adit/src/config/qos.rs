//! The `[qos]` section: enforcement of rates, and aggregate rates.

use adit_rules::Excess;
use adit_session::{Enforcement, QosPolicy, Rates, Slice, SliceIdentity};
use adit_types::limits::{SHAPED_PKTS_MAX, SLICES_MAX};
use adit_types::{BitRate, InterfaceRole, Nanos};

use super::check_len_max;
use super::comparison::{BY_KEY, NOW, OnReload, RESERVED, RULES};
use super::declare::section;
use super::dpdk::HALF_OF_MBUFS;
use super::fields::{NETWORK_INSTANCE, network_instance};
use super::interfaces::InterfaceSettings;
use super::keys::{IntoKey as _, Table};
use super::kinds::{Words, integer, mbps, micros, millis, text, words};
use super::provisioning::SLICE;
use super::section::ConfigDocument;

/// Default maximum of packets queued for rates, lowered to half of the packet buffers.
const QUEUE_PKTS_DEFAULT: usize = 4096;

/// Maximum of a configured rate. Unit: Mb/s.
const MBPS_MAX: u64 = 100_000_000;

section! {
    /// Rates. Beyond a maximum bit rate adit drops packets (policing) or lets them wait (shaping).
    QosSection(BY_KEY) {
        /// Burst of a policed flow: how far it may run ahead of the maximum bit rate of its QER, in
        /// milliseconds of that rate. A QER with an averaging window uses a hundredth of the window
        /// instead. TCP reaches its rate only if the burst lasts longer than a retransmission:
        /// about 200.
        burst: Nanos = "burst_ms", millis(1..=2000).or(Nanos::from_millis(20)), RULES => [];
        /// Burst of a shaped flow, in microseconds. Set it longer than workers are delayed.
        shaping_burst: Nanos = "shaping_burst_us", micros(100..=100_000).or(Nanos::from_millis(10)),
            RULES => [];
        /// Packets that shaped flows may queue in total, one mbuf each. At most half of the mbufs
        /// that remain after reassembly (512 per worker) and the net_af_xdp drivers have theirs.
        queue_pkts_max: usize, integer(0..=SHAPED_PKTS_MAX).or_follows(usize::MAX,
            "4096, or half of the buffers if these are fewer"), RESERVED => ["4096"];
        uplink: QosDirectionSection, Table => [];
        downlink: QosDirectionSection, Table => [];
        slices: Vec<SliceSection> = "slice", Table;
    }
}

/// Why a reload changes only the rates of limits that sessions share.
pub(super) const SHARED: &str = "workers are made with the limits of the start: a running adit changes the rate of a limit, and \
                      does not add or remove one";

/// For rates that sessions share, which a reload can change.
const SHARED_RATE: OnReload =
    OnReload::Depends("the rate of a limit; limits are not added or removed");

const EXCESS: Words<Excess> = words(&[("drop", Excess::Policed), ("wait", Excess::Shaped)]);

section! {
    /// One direction: the action on packets beyond a maximum bit rate, "drop" (policing) or "wait"
    /// (shaping), and limits of all sessions together.
    QosDirectionSection(RULES) {
        /// Sum of the guaranteed bit rates of all sessions. adit refuses a session that needs more
        /// than is left, with Cause 75.
        gbr_max: Option<u64> = "gbr_mbps_max", mbps(0..=MBPS_MAX).optional("no limit"), NOW
            => ["# 5000"];
        /// Rate of all sessions together, in octets of inner IP packets. Set it if the link behind
        /// the port is the bottleneck. Guaranteed traffic goes first; sessions share the rest in
        /// proportion to their maximum bit rates. If a port of adit itself is the bottleneck,
        /// guaranteed traffic goes first without this key.
        total: Option<u64> = "mbps_max", mbps(1..=MBPS_MAX).optional("no limit"), SHARED_RATE
            => ["# 9500"];
        /// Beyond the rate of a QER with a guaranteed bit rate. Such flows are real-time.
        gbr: Excess, EXCESS.or(Excess::Policed) => [];
        /// Beyond the rate of another QER with a QFI. Most of these flows are TCP, which suffers
        /// less from delay than from loss.
        flow: Excess, EXCESS.or(Excess::Shaped) => [];
        /// Beyond the rate of the QER of a whole session.
        session: Excess, EXCESS.or(Excess::Shaped) => [];
        /// Beyond a rate that sessions share (mbps_max and slices).
        shared: Excess, EXCESS.or(Excess::Shaped) => [];
    }
}

section! {
    /// Rate of all sessions of a network slice or data network together. A session belongs to the
    /// first table whose s_nssai (of the establishment) and network_instance (of rules towards the
    /// data network) match. At most 15.
    SliceSection(SLICES_FIXED) {
        /// The slice.
        s_nssai: Option<SliceIdentity>, text(SLICE).optional("any") => ["\"1-00a1b2\""];
        /// The data network.
        network_instance: Option<String>, text(NETWORK_INSTANCE).check(network_instance)
            .optional("any") => ["\"ims\""];
        /// Rate of packets of UEs.
        uplink: Option<u64> = "uplink_mbps_max", mbps(1..=MBPS_MAX).optional("no limit"),
            SHARED_RATE => ["1000"];
        /// Rate of packets to UEs.
        downlink: Option<u64> = "downlink_mbps_max", mbps(1..=MBPS_MAX).optional("no limit"),
            SHARED_RATE => ["4000"];
    }
}

/// For conditions of slices, which a reload does not change.
pub(super) const SLICES_FIXED: OnReload =
    OnReload::Fixed("sessions belong to slices by their order and conditions");

impl QosSection {
    /// Checks the section and returns its policy. `half`: maximum of queued packets.
    pub(super) fn policy(
        &mut self,
        document: &ConfigDocument<'_>,
        half: usize,
        interfaces: &[InterfaceSettings],
    ) -> QosPolicy {
        if self.queue_pkts_max == usize::MAX {
            self.queue_pkts_max = QUEUE_PKTS_DEFAULT.min(half);
        }
        if self.queue_pkts_max > half {
            let what = format!("takes at most {half}, {HALF_OF_MBUFS}");
            document.problem("qos.queue_pkts_max", what);
        }
        check_len_max(document, "qos.slice", self.slices.len(), SLICES_MAX, "slices");
        for (index, slice) in self.slices.iter().enumerate() {
            let path = format!("qos.slice[{index}]");
            let problem = |key: &str, what: &str| document.problem(&format!("{path}.{key}"), what);
            slice.check(&problem, &self.slices[..index], interfaces);
        }
        let Self { burst, shaping_burst, ref uplink, ref downlink, .. } = *self;
        QosPolicy {
            uplink: uplink.enforcement(),
            downlink: downlink.enforcement(),
            burst,
            shaping_burst,
            gbr_max: rates(uplink.gbr_max, downlink.gbr_max),
            total: rates(uplink.total, downlink.total),
            slices: self.slices.iter().map(SliceSection::slice).collect(),
        }
    }
}

impl QosDirectionSection {
    fn enforcement(&self) -> Enforcement {
        let Self { gbr, flow, session, shared, .. } = *self;
        Enforcement { gbr, flow, session, shared }
    }
}

impl SliceSection {
    fn slice(&self) -> Slice {
        Slice {
            s_nssai: self.s_nssai,
            network_instance: self.network_instance.as_deref().map(Box::from),
            rates: rates(self.uplink, self.downlink),
        }
    }

    /// Checks the section. `before`: the slices that precede it in the file.
    fn check(
        &self,
        problem: &dyn Fn(&str, &str),
        before: &[Self],
        interfaces: &[InterfaceSettings],
    ) {
        if self.s_nssai.is_none() && self.network_instance.is_none() {
            let what = "is missing, and so is network_instance: write one of them; for all sessions write qos.uplink.mbps_max and qos.downlink.mbps_max";
            return problem("s_nssai", what);
        }
        let own = self.network_instance.as_deref();
        let mut n6 = interfaces.iter().filter(|known| known.role == InterfaceRole::N6);
        if let Some(name) = own.filter(|name| !n6.any(|known| known.serves(Some(name)))) {
            problem("network_instance", &format!("no N6 interface serves \"{name}\""));
        }
        let has_all = |known: &Self| {
            let network = known.network_instance.as_deref();
            known.s_nssai.is_none_or(|known| self.s_nssai == Some(known))
                && network
                    .is_none_or(|known| own.is_some_and(|own| own.eq_ignore_ascii_case(known)))
        };
        if before.iter().any(has_all) {
            problem("s_nssai", "an earlier slice has all sessions of this one");
        }
    }
}

/// Converts rates in Mb/s; `None` is no limit.
fn rates(uplink: Option<u64>, downlink: Option<u64>) -> Rates {
    let of = |rate: Option<u64>| {
        rate.map_or(BitRate::from_bps(u64::MAX), |mbps| BitRate::from_kbps(mbps * 1000))
    };
    Rates { uplink: of(uplink), downlink: of(downlink) }
}
