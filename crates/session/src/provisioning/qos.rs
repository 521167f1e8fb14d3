//! How rates are enforced.

use adit_rules::{DestinationInterface, Excess, GuaranteedShare, QerMeter, RateLimit};
use adit_types::{BitRate, Nanos, SliceId};

use crate::record::{Qer, Rates, Records, SliceIdentity};

/// How the rates of QERs are enforced, for all that QERs do not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QosPolicy {
    /// Towards the data network.
    pub uplink: Enforcement,
    /// Towards the UE.
    pub downlink: Enforcement,
    /// The bucket depth of a flow whose excess is dropped, if its QER has no averaging window.
    pub burst: Nanos,
    /// The bucket depth of a flow whose excess waits: longer than a worker may be late.
    pub shaping_burst: Nanos,
    /// Guaranteed bit rates of all sessions together; requests beyond them are refused.
    pub gbr_max: Rates,
    /// The rate that all sessions together may send: that of the links, or the licensed one.
    pub total: Rates,
    /// Slices with rates of their own, at most `limits::SLICES_MAX`.
    pub slices: Vec<Slice>,
}

/// Sessions that share a rate: those of a network slice, of a data network, or of one in the other.
/// An absent condition fits all sessions. A session belongs to the first slice that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// S-NSSAI that the control plane gave the session. Spec: TS 29.244 §8.2.176.
    pub s_nssai: Option<SliceIdentity>,
    /// Network instance towards the data network that the session's rules name.
    pub network_instance: Option<Box<str>>,
    /// The rates that its sessions may send together.
    pub rates: Rates,
}

/// How the excess of one direction is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Enforcement {
    /// For QERs with a guaranteed bit rate.
    pub gbr: Excess,
    /// For other QERs with a QoS flow.
    pub flow: Excess,
    /// For QERs without one: the rate of a session.
    pub session: Excess,
    /// For rates that sessions share.
    pub shared: Excess,
}

impl Default for QosPolicy {
    /// Policing, with the bucket depth of the default averaging window of QoS flows, 2 s. Spec: TS
    /// 23.501 §5.7.3.6, table 5.7.4-1.
    fn default() -> Self {
        let (uplink, downlink) = (Enforcement::default(), Enforcement::default());
        let (burst, shaping_burst) = (Nanos::from_millis(20), Nanos::from_millis(2));
        let gbr_max = Rates { uplink: UNLIMITED, downlink: UNLIMITED };
        let (total, slices) = (gbr_max, Vec::new());
        Self { uplink, downlink, burst, shaping_burst, gbr_max, total, slices }
    }
}

impl QosPolicy {
    /// Divides the averaging window to get the bucket depth: a hundredth, so at most 1 % more than
    /// the rate passes within a window.
    const WINDOW_SHARE: u64 = 100;

    /// If excess is dropped, two packets of an Ethernet link fit the depth, so that a flow that
    /// sends at its rate loses no credit right after a packet. Unit: octets.
    const DEPTH_BYTES_MIN: u64 = 3000;

    /// The rates that sessions share, uplink and downlink: first those of all sessions, then by
    /// slice.
    #[must_use]
    pub fn aggregates(&self) -> Vec<[RateLimit; 2]> {
        let limit = |rate: BitRate, excess| match rate == UNLIMITED {
            true => RateLimit::UNLIMITED,
            false => RateLimit::new(rate, self.shaping_burst, excess),
        };
        let limits = |rates: Rates| {
            [limit(rates.uplink, self.uplink.shared), limit(rates.downlink, self.downlink.shared)]
        };
        let slices = self.slices.iter().map(|slice| slice.rates);
        core::iter::once(self.total).chain(slices).map(limits).collect()
    }

    /// The slice that a session of these records belongs to.
    pub(crate) fn slice_of(&self, records: &Records) -> SliceId {
        let fits = |slice: &Slice| {
            let is_named =
                |name: &str| networks(records).any(|network| network.eq_ignore_ascii_case(name));
            slice.s_nssai.is_none_or(|s_nssai| records.s_nssai == Some(s_nssai))
                && slice.network_instance.as_deref().is_none_or(is_named)
        };
        let found = (1..).zip(&self.slices).find(|(_, slice)| fits(slice));
        found.map_or_else(SliceId::default, |(id, _)| SliceId(id))
    }

    /// The rates of a QER as workers enforce them; `None` without.
    pub(crate) fn meter(&self, qer: &Qer) -> Option<QerMeter> {
        let gbr = qer.gbr;
        if qer.mbr.is_none() && gbr.is_none() {
            return None;
        }
        let limit = |rate, of: Enforcement| {
            let excess = match (qer.gbr, qer.qfi) {
                (Some(_), _) => of.gbr,
                (None, Some(_)) => of.flow,
                (None, None) => of.session,
            };
            let window =
                |window: u32| Nanos(Nanos::from_millis(window.into()).0 / Self::WINDOW_SHARE);
            let packets = RateLimit::new(rate, Nanos(0), excess).time_of(Self::DEPTH_BYTES_MIN);
            let depth = match excess {
                Excess::Policed => qer.averaging_window_ms.map_or(self.burst, window).max(packets),
                Excess::Shaped => self.shaping_burst,
            };
            RateLimit::new(rate, depth, excess)
        };
        let (uplink, downlink) = match qer.mbr {
            Some(mbr) => (limit(mbr.uplink, self.uplink), limit(mbr.downlink, self.downlink)),
            None => (RateLimit::UNLIMITED, RateLimit::UNLIMITED),
        };
        let guaranteed = |rate: fn(Rates) -> BitRate, of| match (gbr.map(rate), qer.mbr.map(rate)) {
            (None, _) => GuaranteedShare::Nothing,
            (Some(gbr), _) if gbr.as_bps() == 0 => GuaranteedShare::Nothing,
            (Some(gbr), Some(mbr)) if gbr >= mbr => GuaranteedShare::Whole,
            (Some(gbr), _) => GuaranteedShare::Within(limit(gbr, of)),
        };
        let guaranteed = [
            guaranteed(|rates| rates.uplink, self.uplink),
            guaranteed(|rates| rates.downlink, self.downlink),
        ];
        Some(QerMeter {
            uplink,
            downlink,
            bucket: 0,
            correlated_rate: None,
            guaranteed,
            guaranteed_bucket: None,
        })
    }
}

/// No limit.
pub(crate) const UNLIMITED: BitRate = BitRate::from_bps(u64::MAX);

/// The network instances towards data networks that a session's rules name.
fn networks(records: &Records) -> impl Iterator<Item = &str> {
    let pdis = records.pdrs.iter().flat_map(|pdr| pdr.pdi.each());
    let of_pdis = pdis.filter(|pdi| pdi.source.is_network());
    let of_pdis = of_pdis.filter_map(|pdi| pdi.network_instance.as_deref());
    let leads_out = |to: DestinationInterface| {
        matches!(to, DestinationInterface::Core | DestinationInterface::SgiLanN6Lan)
    };
    let forwardings = records.fars.iter().filter_map(|far| far.forwarding.as_ref());
    let of_fars = forwardings.filter(move |parts| leads_out(parts.destination));
    of_pdis.chain(of_fars.filter_map(|parts| parts.network_instance.as_deref()))
}
