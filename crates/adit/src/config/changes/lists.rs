//! Compares lists of two configurations: ports, interfaces, and objects that rules name.

use adit_kernel::KernelDevice;
use adit_types::{InterfaceRole, VlanId};

use super::{ChangeEffect, ConfigComparison, RunningParts};
use crate::config::comparison::{ComparedKey, PACKET_PATH};
use crate::config::table::Section;
use crate::config::{
    Config, ForwardingPolicySettings, InterfaceSettings, PortSettings, RouteSettings,
    UePoolSettings, domains, switched_domains,
};

impl ConfigComparison {
    pub(super) fn ports(&mut self, old: &[PortSettings], new: &[PortSettings]) {
        if old.len() != new.len() {
            return self.key(ComparedKey::new("", "port", PACKET_PATH), "", "");
        }
        for (old, new) in old.iter().zip(new) {
            old.compare(new, &format!("port \"{}\"", old.name), self);
        }
    }

    /// Compares the interfaces. A reload can only add interfaces, after the existing ones.
    pub(super) fn interfaces(&mut self, old: &Config, new: &Config, running: RunningParts) {
        let is_in = |of: &InterfaceSettings, list: &[InterfaceSettings]| {
            list.iter().any(|other| other.name == of.name)
        };
        let gone = old.interfaces.iter().filter(|of| !is_in(of, &new.interfaces));
        let gone: Vec<_> = gone.map(|of| of.name.clone()).collect();
        for name in &gone {
            let why = "rules of sessions may name it; restart adit to remove it";
            self.refuse(format!("interface \"{name}\""), why);
        }
        let names = |list: &[InterfaceSettings]| -> Vec<String> {
            list.iter().map(|of| of.name.clone()).collect()
        };
        if gone.is_empty() && !names(&new.interfaces).starts_with(&names(&old.interfaces)) {
            let why = "of several that fit, the first one counts: write new interfaces after the others, or restart adit";
            return self.refuse("interface", why);
        }
        for (old, new) in old.file.interfaces.iter().zip(&new.file.interfaces) {
            if old.name == new.name {
                old.compare(new, &format!("interface \"{}\"", old.name), self);
            }
        }
        if gone.is_empty() && new.interfaces.len() > old.interfaces.len() {
            self.added_interfaces(old, new, running);
        }
    }

    fn added_interfaces(&mut self, old: &Config, new: &Config, running: RunningParts) {
        let known = old.interfaces.len();
        let all = domains(&new.interfaces);
        let keeps_domains = all.starts_with(&domains(&old.interfaces));
        let switched = switched_domains(old);
        for (interface, domain) in new.interfaces.iter().zip(&all).skip(known) {
            let key = format!("interface \"{}\"", interface.name);
            let is_n6 = interface.role == InterfaceRole::N6;
            let why = if interface.is_kernel {
                Some("the kernel gets the addresses of its ports at the start")
            } else if running.has_offload {
                Some("XDP programs and network cards forward through the interfaces of the start")
            } else if is_n6 && !keeps_domains {
                Some(
                    "without a network_instance it serves all of them, which would share their UEs and routes from then on",
                )
            } else if is_n6 && switched.contains(domain) && all[..known].contains(domain) {
                Some("local switching in its network instance knows the interfaces of the start")
            } else {
                None
            };
            if let Some(why) = why {
                self.refuse(key, format!("{why}; restart adit to add it"));
                continue;
            }
            let port = new.ports.get(usize::from(interface.port.0));
            let port = port.map_or("", |port| &port.name);
            let mut parts = vec![format!("{} on port \"{port}\"", interface.role.name())];
            if interface.vlan != VlanId::UNTAGGED {
                parts.push(format!("VLAN {}", interface.vlan.value()));
            }
            parts.extend(interface.v4.map(|(addr, len)| format!("{addr}/{len}")));
            parts.extend(interface.v6.map(|(addr, len)| format!("{addr}/{len}")));
            let named = interface.network_instance.as_ref();
            parts.extend(named.map(|name| format!("network instance \"{name}\"")));
            let change = format!("\"{}\": added, {}", interface.name, parts.join(", "));
            self.note("interface", ChangeEffect::Interfaces, change);
        }
    }

    pub(super) fn routes(&mut self, config: &Config, old: &[RouteSettings], new: &[RouteSettings]) {
        let interface = |of: &RouteSettings| config.interfaces.get(of.interface);
        let is_gtpu = |of: &RouteSettings| interface(of).is_some_and(|of| of.role.is_gtpu());
        let differ = |of: &&RouteSettings| !(old.contains(of) && new.contains(of));
        let effect = match old.iter().chain(new).filter(differ).any(is_gtpu) {
            true => ChangeEffect::GtpuRoutes,
            false => ChangeEffect::Routes,
        };
        let name = |of: &RouteSettings| {
            let RouteSettings { interface: _, prefix, next_hop: _, metric: _ } = of;
            format!("{prefix} through {}", interface(of).map_or("an interface", |of| &of.name))
        };
        let value = |of: &RouteSettings| match of.metric {
            0 => format!("next hop {}", of.next_hop),
            metric => format!("next hop {}, metric {metric}", of.next_hop),
        };
        self.keyed(ChangedList { key: "route", effect, old, new }, name, value);
    }

    /// Compares the pools. A reload can only add or widen them, so that they keep UEs' addresses.
    pub(super) fn ue_pools(
        &mut self,
        config: &Config,
        old: &[UePoolSettings],
        new: &[UePoolSettings],
    ) {
        let is_in = |pool: &UePoolSettings, other: &UePoolSettings| {
            let UePoolSettings { network_instance, identity, s_nssai, prefix } = pool;
            let is_alike = *network_instance == other.network_instance
                && *identity == other.identity
                && *s_nssai == other.s_nssai;
            is_alike && other.prefix.contains(*prefix)
        };
        for pool in old.iter().filter(|pool| !new.iter().any(|other| is_in(pool, other))) {
            let why = "UEs may have its addresses: a running adit adds pools and lets them grow; restart it to remove, \
                       shrink or rename one";
            self.refuse("ue_pool", format!("{}: {why}", pool.prefix));
        }
        for pool in new.iter().filter(|pool| !old.contains(pool)) {
            let inside: Vec<_> = old.iter().filter(|other| is_in(other, pool)).collect();
            let change = match inside.first() {
                None => format!("{}: added", pool.prefix),
                Some(former) => format!("{}: was {}", pool.prefix, former.prefix),
            };
            let is_tun = |of: &&InterfaceSettings| {
                let port = config.ports.get(usize::from(of.port.0));
                let device = port.and_then(|port| port.device.kernel());
                matches!(device, Some(KernelDevice::Tun { .. }))
            };
            let mut serving = config.interfaces.iter().filter(is_tun);
            if serving.any(|of| of.serves(pool.network_instance.as_deref())) {
                let why = "the kernel gets the routes to pools behind kernel:tun at the start; restart adit to change them";
                self.refuse("ue_pool", format!("{}: {why}", pool.prefix));
            }
            self.note("ue_pool", ChangeEffect::Plain, change);
        }
        self.order("ue_pool", ChangeEffect::Plain, old, new);
    }

    pub(super) fn forwarding_policies(
        &mut self,
        old: &[ForwardingPolicySettings],
        new: &[ForwardingPolicySettings],
    ) {
        let key = "forwarding_policy";
        for policy in old {
            match new.iter().find(|other| other.id == policy.id) {
                None => {
                    let why = "FARs may name it; restart adit to remove it";
                    self.refuse(key, format!("\"{}\": {why}", policy.id));
                }
                Some(other) if other.network_instance != policy.network_instance => {
                    let why = "keys of sessions depend on it; add a policy with another id, or restart adit";
                    self.refuse(format!("{key} \"{}\".network_instance", policy.id), why);
                }
                Some(_) => {}
            }
        }
        self.by_name(key, old, new, |of| &of.id);
    }

    /// Refuses to switch local switching of a domain: tables of UEs are made with or without it.
    pub(super) fn switched_domains(&mut self, old: &Config, new: &Config) {
        let known = domains(&old.interfaces);
        if !domains(&new.interfaces).starts_with(&known) {
            return;
        }
        let of_known = |config: &Config| {
            let all = switched_domains(config).into_iter();
            all.filter(|domain| known.contains(domain)).collect::<Vec<_>>()
        };
        let differs = of_known(old) != of_known(new);
        if differs && new.interfaces.starts_with(&old.interfaces) {
            let why = "local switching between UEs is set up for a network instance at the start: a policy can only use it \
                       where n6 interfaces or another policy already have it; restart adit";
            self.refuse("forwarding_policy.local_switching", why);
        }
    }

    /// Compares tables of an array to which rules of sessions refer by name. The name is the first
    /// key of each table.
    pub(super) fn by_name<T: Section>(
        &mut self,
        key: &str,
        old: &[T],
        new: &[T],
        name: impl Fn(&T) -> &String,
    ) {
        let value = |of: &T| of.words()[1..].join(", ");
        let list = ChangedList { key, effect: ChangeEffect::Rules, old, new };
        self.keyed(list, |of| format!("\"{}\"", name(of)), value);
    }

    /// Compares the entries of a list by name. `value` describes an entry's other values.
    fn keyed<T: PartialEq>(
        &mut self,
        ChangedList { key, effect, old, new }: ChangedList<'_, T>,
        name: impl Fn(&T) -> String,
        value: impl Fn(&T) -> String,
    ) {
        for entry in old.iter().filter(|entry| !new.iter().any(|of| name(of) == name(entry))) {
            self.note(key, effect, format!("{}: removed", name(entry)));
        }
        for entry in new {
            let name_of = name(entry);
            match old.iter().find(|of| name(of) == name_of) {
                None => self.note(key, effect, format!("{name_of}: added, {}", value(entry))),
                Some(former) if former != entry => {
                    let change = format!("{name_of}: {}, was {}", value(entry), value(former));
                    self.note(key, effect, change);
                }
                Some(_) => {}
            }
        }
        self.order(key, effect, old, new);
    }

    /// Adds a change if the entries are only in another order.
    fn order<T: PartialEq>(&mut self, key: &str, effect: ChangeEffect, old: &[T], new: &[T]) {
        let is_same_set = old.len() == new.len() && old.iter().all(|entry| new.contains(entry));
        if is_same_set && old != new {
            self.note(key, effect, "in another order");
        }
    }
}

/// A list before and after a reload, and the effect of its change.
struct ChangedList<'a, T> {
    key: &'a str,
    effect: ChangeEffect,
    old: &'a [T],
    new: &'a [T],
}
