//! The compiler: turns the rules of one session into the form that a data plane runs.
//!
//! Input: [`SessionRules`], bound. The data plane that will run them has written its next hops,
//! peers, bucket numbers and correlated rates into them; nothing else is needed from it. Output:
//! [`CompiledSession`], which any data plane publishes in its own way: rules and SDF matchers in
//! their compact form, and for each direction the fast path of the usual packets.
//!
//! Pure: no clock, no table, no worker. The compiler is a part of `rules` and not a room of its
//! own: its input and output are types of this room, whose private fields it fills.

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
use crate::published::{PublishedRules, Shapes, UnruledPackets, UnruledPdr};
use crate::rule::{SessionRules, ue_ipv6_key};
use crate::sdf_set::SdfSet;

pub use filter::{FILTER_WORDS, FilterKey, PackedFilter};
pub use idle_filter::has_idle_filters;
pub use selector::{PackedSelector, SelectorView};

/// The rules of one session in the form that a data plane runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompiledSession {
    /// The rules, with the matchers of their SDF filters and, after these, the fast rules that a
    /// filter or a selector leads to.
    pub rules: PublishedRules,
    /// The fast path of packets in tunnels from the RAN, and of packets from a data network without
    /// a tunnel.
    pub fast_paths: [Option<FastPath>; 2],
    /// The fast rule of packets that another UPF sends to the UE in a tunnel.
    pub tunnel_to_ue: Option<PackedFastRule>,
    /// The fast rules of [`FastPath::Single`], for an offload.
    pub single_rules: [Option<FastRule>; 2],
}

/// How usual packets of one direction find their fast rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastPath {
    /// All packets take the same fast rule.
    Single(PackedFastRule),
    /// A single SDF filter selects between one for packets that match and, if there is one, that of
    /// the others.
    Filter(PackedFilter),
    /// The SDF filters of the session select it.
    Selector(PackedSelector),
}

/// Our own addresses. The UPF consumes packets to them, whichever UE has the same address.
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
    /// The fast rule of one direction without our own addresses.
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

/// Compiles bound rules. Filters that exclude nothing are dropped, as "permit out ip from any to
/// assigned" of a PDR with a UE address. Takes shapes that equal its own from `shapes`, and leaves
/// new ones there.
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
    let mut unruled = UnruledPackets::default();
    let fast_paths = [(Direction::Uplink, uplink), (Direction::Downlink, downlink)]
        .map(|(direction, single)| fast_path(&mut rules, own, direction, single, &mut unruled));
    let tunnel_to_ue = FastRule::compile_tunnel_to_ue(&rules);
    unruled.to_ue = tunnel_to_ue.as_ref().err().copied();
    let tunnel_to_ue = tunnel_to_ue.as_ref().ok().map(PackedFastRule::from);
    let rules = PublishedRules::new(rules, unruled, shapes);
    CompiledSession { rules, fast_paths, tunnel_to_ue, single_rules }
}

/// The fast path of one direction. Leaves the rule in `single` if all usual packets take the same
/// one, and in `unruled` why packets have none.
fn fast_path(
    rules: &mut SessionRules,
    own: &OwnAddresses,
    direction: Direction,
    single: &mut Option<FastRule>,
    unruled: &mut UnruledPackets,
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

/// The PDRs of one direction that SDF filters select and that have no fast rule.
fn unruled_pdrs(rules: &SessionRules, direction: Direction) -> impl Iterator<Item = UnruledPdr> {
    let has_filters = rules.matcher(direction).is_some();
    let pdrs = if has_filters { rules.pdrs(direction) } else { &[] };
    (0..).zip(pdrs).filter_map(move |(at, pdr)| {
        let why = match FastRule::of_pdr(rules, pdr, direction) {
            Err(why) => why,
            Ok(_) if usize::from(at) >= selector::PDRS_MAX => NoFastRule::PdrsTooMany,
            Ok(_) => return None,
        };
        Some(UnruledPdr { direction, position: at, why })
    })
}
