//! Steers packets to the receive queue of the worker that owns their session: by flow rules
//! (`rte_flow`) if the NIC accepts them, else by RSS. Workers hand over packets that arrive at
//! another worker.
//!
//! A rule compares the bits of a TEID or UE pool address that identify the owner's group
//! (`types::Owners`). So each port needs 64 rules per kind of key, independent of the number of
//! sessions.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use adit_dpdk::{FlowRule, FlowRuleKey, Port};
use adit_types::{InterfaceRole, OWNER_GROUP_SHIFT, OWNER_GROUPS, Owners, PortId};
use serde::Serialize;

use crate::config::{Config, InterfaceSettings, IpNet};

/// The bits of a session index that identify its owner group. The lowest bit is not among them:
/// neighboring sessions are in one group.
const GROUP_MASK: u32 = (OWNER_GROUPS - 1) << OWNER_GROUP_SHIFT;

/// Number of low bits of a session index that have to be known to identify its owner group.
const GROUP_INDEX_BITS: u32 = u32::BITS - GROUP_MASK.leading_zeros();

/// Result of steering one kind of key on a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PortSteering {
    /// The kind of key, as text.
    pub key: String,
    pub outcome: SteeringOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SteeringOutcome {
    /// The port accepted this many rules.
    Accepted(usize),
    /// The port refused the rules, for this reason.
    Refused(String),
    /// adit did not try, for this reason.
    NotTried(String),
}

impl fmt::Display for SteeringOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted(rules) => write!(f, "accepted {rules} rules"),
            Self::Refused(reason) => write!(f, "refused: {reason}"),
            Self::NotTried(reason) => write!(f, "not tried: {reason}"),
        }
    }
}

/// A [`PortSteering`] as the admin socket shows it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct SteeringRow {
    key: String,
    result: &'static str,
    rules: usize,
    reason: Option<String>,
}

impl SteeringRow {
    pub(crate) fn of(steering: &PortSteering) -> Self {
        let (result, rules, reason) = match &steering.outcome {
            SteeringOutcome::Accepted(rules) => ("accepted", *rules, None),
            SteeringOutcome::Refused(reason) => ("refused", 0, Some(reason.clone())),
            SteeringOutcome::NotTried(reason) => ("not_tried", 0, Some(reason.clone())),
        };
        Self { key: steering.key.clone(), result, rules, reason }
    }
}

/// Tries to install flow rules on `port`. `queues` are its receive queues, by worker. The low
/// `slot_bits` of a TEID are the index of its session.
pub(crate) fn steer(
    config: &Config,
    id: PortId,
    port: &Port,
    queues: &[Option<u16>],
    slot_bits: u32,
) -> Vec<PortSteering> {
    let wanted = plan(config, id, queues, slot_bits);
    let tried = wanted.into_iter().map(|(key, rules)| {
        let outcome = match rules {
            Err(reason) => SteeringOutcome::NotTried(reason),
            Ok(rules) => match port.create_flow_rules(&rules) {
                Ok(()) => SteeringOutcome::Accepted(rules.len()),
                Err(refusal) => SteeringOutcome::Refused(refusal.to_string()),
            },
        };
        PortSteering { key, outcome }
    });
    tried.collect()
}

/// Returns the rules for each kind of key that arrives at a port, or the reason why there are none.
fn plan(
    config: &Config,
    id: PortId,
    queues: &[Option<u16>],
    slot_bits: u32,
) -> Vec<(String, Result<Vec<FlowRule>, String>)> {
    let groups = groups(queues);
    let mut plan = Vec::new();
    for interface in config.interfaces.iter().filter(|interface| interface.port == id) {
        let vlan = interface.vlan;
        for (name, key) in keys(config, interface, slot_bits) {
            let rules = groups.clone().and_then(|groups| {
                let key = key?;
                let rule = |(group, queue)| FlowRule { vlan, key: key(group), queue };
                Ok(groups.into_iter().map(rule).collect())
            });
            plan.push((name, rules));
        }
    }
    plan
}

/// Maps an owner group, shifted to its place in a session index, to the key of its flow rule; or
/// the reason why there is no such key.
type FlowKeyOfGroup = Result<Box<dyn Fn(u32) -> FlowRuleKey>, String>;

/// Returns the kinds of keys by which packets that arrive through an interface are steered.
fn keys(
    config: &Config,
    interface: &InterfaceSettings,
    slot_bits: u32,
) -> Vec<(String, FlowKeyOfGroup)> {
    let teid = |key: fn(u32) -> FlowRuleKey| -> FlowKeyOfGroup {
        match slot_bits < GROUP_INDEX_BITS {
            true => Err("sessions_max leaves TEIDs too few bits".to_owned()),
            false => Ok(Box::new(key)),
        }
    };
    match interface.role {
        InterfaceRole::N3 | InterfaceRole::N9 | InterfaceRole::N4u => {
            let v4 = interface.v4.map(|_| {
                let key = teid(|teid| FlowRuleKey::TeidOverIpv4 { teid, mask: GROUP_MASK });
                ("TEID over IPv4".to_owned(), key)
            });
            let v6 = interface.v6.map(|_| {
                let key = teid(|teid| FlowRuleKey::TeidOverIpv6 { teid, mask: GROUP_MASK });
                ("TEID over IPv6".to_owned(), key)
            });
            v4.into_iter().chain(v6).collect()
        }
        InterfaceRole::N6 => {
            let key = |pool: IpNet| ue_key(pool).ok_or("the pool is too small".to_owned());
            let pools = pools(config, interface);
            pools.map(|pool| (format!("UE address of {pool}"), key(pool))).collect()
        }
    }
}

/// Returns the owner groups, shifted, each with its owner's queue. Omits groups whose owner has no
/// queue.
fn groups(queues: &[Option<u16>]) -> Result<Vec<(u32, u16)>, String> {
    if queues.len() < 2 {
        return Err("there is one worker".to_owned());
    }
    if queues.iter().flatten().count() < 2 {
        return Err("the port has one receive queue".to_owned());
    }
    let owners = Owners::new(queues.len());
    let queue = |group| queues.get(usize::from(owners.of_group(group).0)).copied().flatten();
    let groups = (0..OWNER_GROUPS).filter_map(|group| Some((group, queue(group)?)));
    Ok(groups.map(|(group, queue)| (group << OWNER_GROUP_SHIFT, queue)).collect())
}

/// The pools whose UEs an interface reaches.
pub(crate) fn pools<'a>(
    config: &'a Config,
    interface: &'a InterfaceSettings,
) -> impl Iterator<Item = IpNet> + 'a {
    let pools = config.ue_pools.iter();
    let pools = pools.filter(|pool| interface.serves(pool.network_instance.as_deref()));
    pools.map(|pool| pool.prefix)
}

/// Maps an owner group, shifted, to the addresses of `pool` that identify it; `None` if the pool
/// has too few bits. An IPv6 UE has a /64.
fn ue_key(pool: IpNet) -> Option<Box<dyn Fn(u32) -> FlowRuleKey>> {
    match pool.addr {
        std::net::IpAddr::V4(addr) => {
            let bits =
                32_u32.checked_sub(pool.len.into()).filter(|bits| *bits >= GROUP_INDEX_BITS)?;
            let network = u32::MAX.checked_shl(bits).unwrap_or(0);
            let mask = Ipv4Addr::from_bits(network | GROUP_MASK);
            Some(Box::new(move |group| FlowRuleKey::Ipv4Destination {
                addr: Ipv4Addr::from_bits(addr.to_bits() & network | group),
                mask,
            }))
        }
        std::net::IpAddr::V6(addr) => {
            let bits =
                64_u32.checked_sub(pool.len.into()).filter(|bits| *bits >= GROUP_INDEX_BITS)?;
            let network = u128::MAX.checked_shl(64 + bits).unwrap_or(0);
            let mask = Ipv6Addr::from_bits(network | u128::from(GROUP_MASK) << 64);
            Some(Box::new(move |group| FlowRuleKey::Ipv6Destination {
                addr: Ipv6Addr::from_bits(addr.to_bits() & network | u128::from(group) << 64),
                mask,
            }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adit_types::SessionIndex;

    const CONFIG: &str = include_str!("../../../../adit.example.toml");

    /// The queue of the first rule that matches a TEID.
    fn queue_of_teid(rules: &[FlowRule], wanted: u32) -> Option<u16> {
        let obeys = |rule: &&FlowRule| match rule.key {
            FlowRuleKey::TeidOverIpv4 { teid, mask } => wanted & mask == teid,
            _ => false,
        };
        rules.iter().find(obeys).map(|rule| rule.queue)
    }

    #[test]
    fn teid_with_the_position_of_its_session_arrives_at_the_owner() {
        let mut config = Config::parse(CONFIG).unwrap();
        let n3 = config.n3().0;
        config.interfaces[n3].v4 = Some((Ipv4Addr::new(10, 0, 3, 2), 24));
        let port = config.interfaces[n3].port;
        for workers in [2_usize, 3, 5, 64] {
            // Worker 0 has the last queue.
            let mut queues: Vec<_> = (0..u16::try_from(workers).unwrap()).map(Some).collect();
            queues.rotate_left(1);
            let plan = plan(&config, port, &queues, 20);
            let (_, rules) = plan.iter().find(|(key, _)| key == "TEID over IPv4").unwrap();
            let rules = rules.as_ref().unwrap();
            assert_eq!(rules.len(), 64);
            let owners = Owners::new(workers);
            for session in (0..1000).chain([1 << 19]) {
                let teid = 0xab50_0000 | session;
                let owner = owners.of(SessionIndex(session));
                assert_eq!(queue_of_teid(rules, teid), queues[usize::from(owner.0)], "{session}");
            }
        }
    }

    #[test]
    fn owner_without_a_queue_has_no_rules() {
        let rules = groups(&[Some(0), None, Some(1)]).unwrap();
        let owners = Owners::new(3);
        assert!(rules.len() < 64);
        for (group, queue) in rules {
            let owner = owners.of_group(group >> OWNER_GROUP_SHIFT).0;
            assert_eq!(queue, u16::from(owner / 2), "{group}");
            assert_ne!(owner, 1);
        }
    }

    #[test]
    fn port_is_not_asked_for_what_cannot_help() {
        assert!(groups(&[Some(0)]).unwrap_err().contains("one worker"));
        assert!(groups(&[Some(0), None]).unwrap_err().contains("one receive queue"));
        let config = Config::parse(CONFIG).unwrap();
        let port = config.interfaces[config.n3().0].port;
        let plan = plan(&config, port, &[Some(0), Some(1)], GROUP_INDEX_BITS - 1);
        let teids = plan.iter().filter(|(key, _)| key.starts_with("TEID"));
        assert!(teids.clone().count() > 0);
        assert!(teids.map(|(_, rules)| rules).all(Result::is_err), "{plan:?}");
    }

    #[test]
    fn addresses_of_a_pool_name_their_group() {
        let v4 = ue_key("10.45.0.0/16".parse().unwrap()).unwrap();
        let wanted = FlowRuleKey::Ipv4Destination {
            addr: Ipv4Addr::new(10, 45, 0, 0x7e),
            mask: Ipv4Addr::new(255, 255, 0, 0x7e),
        };
        assert_eq!(v4(GROUP_MASK), wanted);
        let v6 = ue_key("2001:db8::/48".parse().unwrap()).unwrap();
        let wanted = FlowRuleKey::Ipv6Destination {
            addr: "2001:db8:0:2::".parse().unwrap(),
            mask: "ffff:ffff:ffff:7e::".parse().unwrap(),
        };
        assert_eq!(v6(2), wanted);
        assert!(ue_key("10.45.0.0/26".parse().unwrap()).is_none());
        assert!(ue_key("2001:db8::/60".parse().unwrap()).is_none());
    }
}
