//! How rates are enforced.

use adit_rules::{DestinationInterface, Excess, GuaranteedShare, QerMeter, RateLimit};
use adit_types::{BitRate, Nanos, SliceId};

use crate::record::{Qer, Rates, Records, SliceIdentity};

/// How the rates of QERs are enforced, as far as QERs do not specify it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QosPolicy {
    /// Enforcement towards the data network.
    pub uplink: Enforcement,
    /// Enforcement towards the UE.
    pub downlink: Enforcement,
    /// The bucket depth of a flow whose excess is dropped, if its QER has no averaging window.
    pub burst: Nanos,
    /// The bucket depth of a flow whose excess waits: more than a worker may be late.
    pub shaping_burst: Nanos,
    /// The maximum sum of the guaranteed bit rates of all sessions; requests beyond it are refused.
    pub gbr_max: Rates,
    /// The rate at which all sessions together may send: that of the links, or the licensed one.
    pub total: Rates,
    /// Slices with their own rates, at most `limits::SLICES_MAX`.
    pub slices: Vec<Slice>,
}

/// Sessions that share a rate: those of a network slice, of a data network, or of both. A condition
/// that is `None` fits all sessions. A session belongs to the first slice that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// S-NSSAI that the control plane named for the session. Spec: TS 29.244 §8.2.176.
    pub s_nssai: Option<SliceIdentity>,
    /// Network instance, on the side of data networks, that the session's rules name.
    pub network_instance: Option<Box<str>>,
    /// The rates at which the sessions of the slice together may send.
    pub rates: Rates,
}

/// The action on excess packets of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Enforcement {
    /// For the rates of QERs with a guaranteed bit rate.
    pub gbr: Excess,
    /// For the rates of other QERs with a QoS flow.
    pub flow: Excess,
    /// For the rates of QERs without a QoS flow, which limit a session.
    pub session: Excess,
    /// For rates that sessions share: of slices, and of all sessions.
    pub shared: Excess,
}

impl Default for QosPolicy {
    /// Drops excess. The bucket depth is that for the default averaging window of QoS flows, 2 s.
    /// Spec: TS 23.501 §5.7.3.6, table 5.7.4-1.
    fn default() -> Self {
        let (uplink, downlink) = (Enforcement::default(), Enforcement::default());
        let (burst, shaping_burst) = (Nanos::from_millis(20), Nanos::from_millis(2));
        let gbr_max = Rates { uplink: UNLIMITED, downlink: UNLIMITED };
        let (total, slices) = (gbr_max, Vec::new());
        Self { uplink, downlink, burst, shaping_burst, gbr_max, total, slices }
    }
}

impl QosPolicy {
    /// The bucket depth is the averaging window divided by this, so at most 1 % too much passes.
    const WINDOW_SHARE: u64 = 100;

    /// Minimum bucket depth if excess is dropped: two packets of an Ethernet link, so that a flow
    /// that sends at its rate loses no credit right after a packet. Unit: octets.
    const DEPTH_BYTES_MIN: u64 = 3000;

    /// Returns the rates that sessions share, uplink and downlink: first those of all sessions,
    /// then those of each slice.
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

    /// Returns the slice to which a session with these records belongs.
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

    /// Returns the rates of a QER as workers enforce them; `None` if it has no rates.
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

/// Returns the network instances, on the side of data networks, that a session's rules name.
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
