//! What the operator configured for rules to refer to by name.

use core::fmt;

use adit_rules::sdf::AddrMatch;
use adit_rules::{
    DestinationInterface, Excess, GuaranteedShare, QerMeter, RateLimit, SdfSet, Steering,
};
use adit_types::{BitRate, Nanos, Precedence, Qfi, SliceId};

use crate::local::LocalInterface;
use crate::pfd::Pfds;
use crate::record::{Qer, Rates, Records};

/// Everything that rules may name and that the control plane does not provide.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Provisioning {
    /// Our logical interfaces, by `InterfaceId`. Without any, every network instance is accepted
    /// and means all interfaces.
    pub interfaces: Vec<LocalInterface>,
    /// Pools of UE addresses that we give away; prefixes do not overlap.
    pub ue_pools: Vec<UePool>,
    /// Applications that PDIs may name; identifiers differ.
    pub applications: Vec<Application>,
    /// Forwarding policies that FARs may name; identifiers differ.
    pub policies: Vec<ProvisionedForwardingPolicy>,
    /// Rules that PDRs may activate; names differ from each other and from those of groups.
    pub predefined_rules: Vec<PredefinedRule>,
    /// How rates are enforced.
    pub qos: QosPolicy,
    /// What of requests is read otherwise than the standard says.
    pub tolerances: Tolerances,
}

/// What control planes may mean otherwise than the standard says, where that harms those that keep
/// to it. All off unless the operator says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tolerances {
    /// PDRs from Access that ask for an F-TEID without a CHOOSE ID share one per network instance
    /// of a session, instead of getting one each. Spec: TS 29.244 §8.2.3.
    pub one_f_teid_per_session: bool,
}

/// How the rates of QERs are enforced, as far as the QERs leave it open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QosPolicy {
    /// Towards the data network.
    pub uplink: Enforcement,
    /// Towards the UE.
    pub downlink: Enforcement,
    /// How far a flow whose excess is dropped may be ahead of its rate, where its QER has no
    /// averaging window.
    pub burst: Nanos,
    /// How far a flow whose excess waits may be ahead of its rate: more than a worker is late.
    pub shaping_burst: Nanos,
    /// Guaranteed bit rates of all sessions together; what is beyond is refused.
    pub gbr_max: Rates,
    /// What all sessions together may send: the rate of the links behind, or of what was bought.
    pub total: Rates,
    /// Slices with rates of their own, at most `limits::SLICES_MAX`.
    pub slices: Vec<Slice>,
}

/// Sessions that share a rate: those of a network slice, of a data network, or of one in the other.
/// What it does not say, any session has. A session belongs to the first slice that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// S-NSSAI that the control plane gave the session. Spec: TS 29.244 §8.2.176.
    pub s_nssai: Option<SliceIdentity>,
    /// Network instance towards the data network that the session's rules name.
    pub network_instance: Option<Box<str>>,
    /// What its sessions may send together.
    pub rates: Rates,
}

/// What becomes of the excess of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Enforcement {
    /// Of QERs with a guaranteed bit rate.
    pub gbr: Excess,
    /// Of other QERs with a QoS flow.
    pub flow: Excess,
    /// Of QERs without one: the rate of a session.
    pub session: Excess,
    /// Of rates that sessions share.
    pub shared: Excess,
}

impl Default for QosPolicy {
    /// Policing, as far ahead as the averaging window that QoS flows have by default, 2 s, lets them.
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
    /// A flow may be ahead of its rate by this share of its averaging window: within a window no more
    /// passes than the rate says and a hundredth.
    const WINDOW_SHARE: u64 = 100;

    /// Where excess is dropped, two packets of an Ethernet link fit a depth, so that a flow that sends
    /// at its rate loses no time while it has just sent. Unit: octets.
    const DEPTH_BYTES_MIN: u64 = 3000;

    /// The rates that sessions share, uplink and downlink: first those of all sessions, then by slice.
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
            shared: None,
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

/// A forwarding policy. Spec: TS 29.244 §5.4.8, §8.2.23.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvisionedForwardingPolicy {
    /// Forwarding Policy Identifier.
    pub id: Box<str>,
    /// The network instance whose interfaces and routes are used, whatever the FAR names.
    pub network_instance: Option<Box<str>>,
    /// The station that packets without an outer header go to.
    pub steering: Steering,
    /// Differentiated services code point: of the outer header where the FAR demands none, of the
    /// packet where it has no outer header. Range: 0..=63.
    pub dscp: Option<u8>,
    /// Whether packets from one UE to another turn round instead of leaving; absent is as the N6
    /// interfaces say.
    pub local_switching: Option<bool>,
}

/// A rule that PDRs activate by its name or its group's. The PDR says whose packets it is about
/// (tunnel, UE, network instance, QoS flows) and has the FAR, QERs and URRs; the rule says which of
/// them. Spec: TS 29.244 §7.5.2.2, §8.2.72, §8.2.73; TS 23.503 §6.3.1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PredefinedRule {
    /// Its name.
    pub name: Box<str>,
    /// Name of the group that it is activated with.
    pub group: Option<Box<str>>,
    /// Counts among the session's PDRs instead of that of the PDR that activates the rule.
    pub precedence: Option<Precedence>,
    /// What packets must look like.
    pub detection: PredefinedDetection,
    /// What is done with them.
    pub action: PredefinedAction,
    /// QoS flow that downlink packets are marked with, whatever the PDR's QERs say.
    pub qfi: Option<Qfi>,
}

/// How a predefined rule detects packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PredefinedDetection {
    /// At least one must match a packet; never empty.
    Filters(SdfSet),
    /// As this configured application, or its PFDs.
    Application(Box<str>),
}

/// What a predefined rule does with packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PredefinedAction {
    /// As the FAR of the PDR says.
    Forward,
    /// Drops them.
    Drop,
}

impl PredefinedRule {
    /// The application by which it detects packets, if it does.
    #[must_use]
    pub fn application(&self) -> Option<&str> {
        match &self.detection {
            PredefinedDetection::Application(id) => Some(id),
            PredefinedDetection::Filters(_) => None,
        }
    }

    fn has_name(&self, name: &str) -> bool {
        *self.name == *name || self.group.as_deref() == Some(name)
    }
}

/// An application, detected by its service data flows. Spec: TS 29.244 §5.2.1A.2, §8.2.6.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    /// Application ID.
    pub id: Box<str>,
    /// At least one must match a packet; never empty.
    pub filters: SdfSet,
}

/// A pool of UE addresses. Spec: TS 29.244 §5.21, §8.2.128.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UePool {
    /// The network instance whose UEs it serves; without one it serves all.
    pub network_instance: Option<Box<str>>,
    /// UE IP address Pool Identity, by which the control plane may name it.
    pub identity: Option<Box<str>>,
    /// The network slice whose UEs it is for, as CP functions are told.
    pub s_nssai: Option<SliceIdentity>,
    /// The addresses: IPv4 ones, or IPv6 /64s of a prefix of at most 64 bits.
    pub prefix: AddrMatch,
}

impl UePool {
    /// True for a pool of IPv4 addresses.
    #[must_use]
    pub const fn is_ipv4(&self) -> bool {
        matches!(self.prefix, AddrMatch::V4(_))
    }
}

/// Single Network Slice Selection Assistance Information. Spec: TS 23.003 §28.4.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SliceIdentity {
    /// Slice/Service Type.
    pub sst: u8,
    /// Slice Differentiator, 24 bits.
    pub sd: Option<u32>,
}

impl fmt::Display for SliceIdentity {
    /// SST, and SD of six hexadecimal digits: `1-00a1b2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sd {
            Some(sd) => write!(f, "{}-{sd:06x}", self.sst),
            None => write!(f, "{}", self.sst),
        }
    }
}

/// What rules may name: what the operator configured, and applications of control planes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuleCatalog<'a> {
    pub configured: &'a Provisioning,
    pub pfds: &'a Pfds,
}

impl<'a> RuleCatalog<'a> {
    /// The filters of an application, if it is known. PFDs take precedence over the configuration.
    pub fn application(&self, id: &str) -> Option<&'a SdfSet> {
        self.pfds.filters(id).or_else(|| self.configured.application(id))
    }

    /// The predefined rules of these names and groups, each once, in the order of the
    /// configuration.
    pub fn predefined<'n>(
        &self,
        names: &'n [Box<str>],
    ) -> impl Iterator<Item = &'a PredefinedRule> + use<'a, 'n> {
        let rules = self.configured.predefined_rules.iter();
        rules.filter(move |rule| names.iter().any(|name| rule.has_name(name)))
    }
}

impl Provisioning {
    /// The filters of an application, if it is known.
    fn application(&self, id: &str) -> Option<&SdfSet> {
        let found = self.applications.iter().find(|known| &*known.id == id);
        found.map(|known| &known.filters)
    }

    /// The forwarding policy of an identifier.
    pub(crate) fn policy(&self, id: &str) -> Option<&ProvisionedForwardingPolicy> {
        self.policies.iter().find(|known| &*known.id == id)
    }
}
