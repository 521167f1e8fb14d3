//! The compiler: turns the rules of one session into the form that a data plane runs.
//!
//! Input: bound [`SessionRules`]: the data plane that will run them has set the indices of next
//! hops, peers and buckets, and the correlated rates. Nothing else is needed from it. Output:
//! [`CompiledSession`], which any data plane publishes in its own way: rules and SDF matchers in
//! their compact form, and the fast path of each direction's usual packets.
//!
//! Pure: no clock, no table, no worker. The compiler is part of `rules` because it fills private
//! fields of this room's types.

mod fast_rule;
mod filter;
mod idle_filter;
mod matcher;
mod selector;

use core::net::{IpAddr, Ipv4Addr};

use adit_types::Direction;

use crate::fast_rule::{FastRule, FastRuleUe};
use crate::leave_reason::NoFastRule;
use crate::matcher::Matchers;
use crate::packed_fast_rule::PackedFastRule;
use crate::published::{PublishedRules, Shapes, UnruledPdr, UnruledReasons};
use crate::rule::{SessionRules, ue_ipv6_key};
use crate::sdf_set::SdfSet;

pub use filter::{FILTER_WORDS, FilterKey, PackedFilter};
pub use idle_filter::has_idle_filters;
pub use selector::{PackedSelector, SelectorView};

/// The rules of one session in the form that a data plane runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompiledSession {
    /// The rules, with the matchers of their SDF filters. Fast rules that a filter or a selector
    /// chooses follow the lines of the matcher.
    pub rules: PublishedRules,
    /// The fast path of each direction. Uplink: for packets in tunnels from the RAN. Downlink: for
    /// packets from a data network without a tunnel.
    pub fast_paths: [Option<FastPath>; 2],
    /// The fast rule of packets that another UPF sends to the UE in a tunnel.
    pub tunnel_to_ue: Option<PackedFastRule>,
    /// The fast rules of [`FastPath::Single`] before packing, for an offload.
    pub single_rules: [Option<FastRule>; 2],
}

/// How usual packets of one direction find their fast rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastPath {
    /// All packets take the same fast rule.
    Single(PackedFastRule),
    /// A single SDF filter selects one of two fast rules: for packets that match it, or the others.
    Filter(PackedFilter),
    /// The SDF filters of the session select one of several fast rules.
    Selector(PackedSelector),
}

/// The UPF's own addresses. It consumes packets to them, even if a UE has the same address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnAddresses {
    v4: Vec<Ipv4Addr>,
    /// Keys of IPv6 addresses ([`ue_ipv6_key`]).
    v6: Vec<u64>,
}

impl FromIterator<IpAddr> for OwnAddresses {
    fn from_iter<I: IntoIterator<Item = IpAddr>>(addrs: I) -> Self {
        let mut own = Self::default();
        for addr in addrs {
            match addr {
                IpAddr::V4(addr) => own.v4.push(addr),
                IpAddr::V6(addr) => own.v6.push(ue_ipv6_key(addr)),
            }
        }
        own
    }
}

impl OwnAddresses {
    /// Removes from a downlink rule the UE addresses that are also our own.
    fn exclude_from(&self, mut rule: FastRule, direction: Direction) -> FastRule {
        if direction == Direction::Downlink {
            if self.v4.iter().any(|own| rule.ue_v4 == FastRuleUe::Only(*own)) {
                rule.ue_v4 = FastRuleUe::None;
            }
            if self.v6.iter().any(|own| rule.ue_v6 == FastRuleUe::Only(*own)) {
                rule.ue_v6 = FastRuleUe::None;
            }
        }
        rule
    }
}

/// Compiles bound rules. Removes SDF filters that exclude nothing, such as "permit out ip from any
/// to assigned" in a PDR with a UE address. Shares equal shapes from `shapes`, and adds new ones.
#[must_use]
pub fn compile(
    mut rules: SessionRules,
    own: &OwnAddresses,
    shapes: &mut Shapes,
) -> CompiledSession {
    for pdr in rules.uplink.iter_mut().chain(&mut rules.downlink) {
        if has_idle_filters(pdr) {
            pdr.sdf = SdfSet::default();
        }
    }
    rules.matchers = Matchers::compile(&rules.uplink, &rules.downlink).map(Box::new);
    let mut single_rules = [None, None];
    let [uplink, downlink] = single_rules.each_mut();
    let mut unruled = UnruledReasons::default();
    let fast_paths = [(Direction::Uplink, uplink), (Direction::Downlink, downlink)]
        .map(|(direction, single)| fast_path(&mut rules, own, direction, single, &mut unruled));
    let tunnel_to_ue = FastRule::compile_tunnel_to_ue(&rules);
    unruled.to_ue = tunnel_to_ue.as_ref().err().copied();
    let tunnel_to_ue = tunnel_to_ue.as_ref().ok().map(PackedFastRule::from);
    let rules = PublishedRules::new(rules, unruled, shapes);
    CompiledSession { rules, fast_paths, tunnel_to_ue, single_rules }
}

/// Returns the fast path of one direction. Sets `single` if all usual packets have the same fast
/// rule; else adds to `unruled` why packets have none.
fn fast_path(
    rules: &mut SessionRules,
    own: &OwnAddresses,
    direction: Direction,
    single: &mut Option<FastRule>,
    unruled: &mut UnruledReasons,
) -> Option<FastPath> {
    match FastRule::compile(rules, direction) {
        Ok(rule) => {
            let rule = single.insert(own.exclude_from(rule, direction));
            Some(FastPath::Single(PackedFastRule::from(&*rule)))
        }
        Err(why) => {
            unruled.all[direction.index()] = Some(why);
            unruled.pdrs.extend(unruled_pdrs(rules, direction));
            let exclude = |rule| own.exclude_from(rule, direction);
            let filter = PackedFilter::append(rules, direction, exclude).map(FastPath::Filter);
            filter.or_else(|| {
                PackedSelector::append(rules, direction, exclude).map(FastPath::Selector)
            })
        }
    }
}

/// Returns the PDRs of one direction that SDF filters select and that have no fast rule.
fn unruled_pdrs(rules: &SessionRules, direction: Direction) -> impl Iterator<Item = UnruledPdr> {
    let has_filters = rules.matcher(direction).is_some();
    let pdrs = if has_filters { rules.pdrs(direction) } else { &[] };
    (0..).zip(pdrs).filter_map(move |(at, pdr)| {
        let why = match FastRule::of_pdr(rules, pdr, direction) {
            Err(why) => why,
            Ok(_) if usize::from(at) >= selector::SELECTOR_PDRS_MAX => NoFastRule::PdrsTooMany,
            Ok(_) => return None,
        };
        Some(UnruledPdr { direction, position: at, why })
    })
}
