//! `[standby]`: two adits with the same records, one of which is active at a time.

use std::net::IpAddr;

use adit_kernel::DeviceAddress;

use super::comparison::OnReload;
use super::declare::section;
use super::fields::IpNet;
use super::keys::{IntoKey as _, Table};
use super::kinds::{Flag, text, words};
use super::section::ConfigDocument;
use super::store::StoreSettings;

/// For addresses and roles of a pair, which a reload does not change.
pub(super) const TAKEN: OnReload = OnReload::Fixed("addresses and roles are taken at the start");

section! {
    /// Two adits on two hosts with the same store.name: one is active, the other one follows it and
    /// takes over when the active one ends, dies, or loses the store (docs/store.md). Both have
    /// this section; it needs store.kind = "redis". Without it, a second adit with the same
    /// store.name does not start.
    StandbySection(TAKEN) {
        /// Addresses of this host while its adit is active, and the network devices that get them:
        /// that of n4.listen, and those of kernel:udp ports. A device that has one of them
        /// permanently keeps it.
        addresses: Vec<StandbyAddress>, Table
            => ["[{ device = \"eth0\", address = \"10.0.4.2/24\" }]"];
        /// With several servers, acknowledge_replicas = 0 lets two adits be active after a replica
        /// was promoted without the last changes: both acknowledge, and what one of them
        /// acknowledged is lost. true accepts that.
        accepts_two_active: bool = "accept_two_active", Flag.or(false) => [];
        /// The behavior of the active adit when it reaches neither the store nor its standby before
        /// its lease ends: "stop" answering and forwarding until it does, since the other adit may
        /// be active by then; or "forward" on. Then two adits may answer for the same addresses.
        when_isolated: WhenIsolated, words(&[("stop", WhenIsolated::Stop),
            ("forward", WhenIsolated::Forward)]).or(WhenIsolated::Stop) => [];
    }
}

impl StandbySection {
    /// Returns the address that a network device has while this adit is active.
    pub(super) fn address_of(&self, device: &str) -> Option<IpAddr> {
        let entry = self.addresses.iter().find(|entry| entry.device == device);
        entry.map(|entry| entry.address.addr)
    }
}

section! {
    /// An address of the active adit.
    StandbyAddress(TAKEN) {
        /// The network device.
        device: String, text("the name of a network device").check(device_name)
            .required(String::new()) => ["\"eth0\""];
        /// The address.
        address: IpNet,
            text("an address with the prefix length of its link, such as \"10.0.4.2/24\"")
            .required(IpNet::ANY) => ["\"10.0.4.2/24\""];
    }
}

/// Settings of one adit of a pair, which waits while the other one is active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StandbySettings {
    /// Addresses of this host while this adit is active.
    pub addresses: Vec<DeviceAddress>,
    /// True if the operator accepts that the store may let two adits be active at a time.
    pub accepts_two_active: bool,
    pub when_isolated: WhenIsolated,
}

/// Behavior of the active adit when neither store nor standby can confirm that it still is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenIsolated {
    /// adit pauses before another one may be active.
    Stop,
    /// adit goes on, perhaps while another one is active.
    Forward,
}

/// Checks the section and returns its settings; `None` if the file lacks it.
pub(super) fn check(
    document: &ConfigDocument<'_>,
    standby: Option<&StandbySection>,
    store: &StoreSettings,
) -> Option<StandbySettings> {
    let shared = store.shared();
    let Some(standby) = standby else {
        if shared.is_some_and(|shared| shared.replication.is_some()) {
            let what = "is between an adit and its standby: add [standby]";
            document.problem("store.replication", what);
        }
        return None;
    };
    let needs = [
        (shared.is_some(), "needs a store that both adits reach: set store.kind = \"redis\""),
        (
            !store.serves_without_store,
            "needs store.on_store_loss = \"refuse\": what an adit answers without the store, the other one never learns",
        ),
        (
            store.keeps_at_stop,
            "needs store.on_stop = \"keep\": there is nothing to take over otherwise",
        ),
    ];
    for (_, what) in needs.into_iter().filter(|(is_there, _)| !is_there) {
        document.problem("standby", what);
    }
    for (index, entry) in standby.addresses.iter().enumerate() {
        let before = &standby.addresses[..index];
        if before.iter().any(|known| known.address.addr == entry.address.addr) {
            document.problem(&format!("standby.addresses[{index}].address"), "is given twice");
        }
    }
    if let Some(shared) = shared
        && shared.servers.len() > 1
        && shared.acknowledge_replicas == 0
        && !standby.accepts_two_active
    {
        let what = "takes 1 or more with [standby] and several servers: a replica that is promoted without the last changes \
                    would make the other adit active beside this one, and both would acknowledge. \
                    standby.accept_two_active = true accepts that";
        document.problem("store.acknowledge_replicas", what);
    }
    let StandbySection { accepts_two_active, when_isolated, .. } = *standby;
    let address = |of: &StandbyAddress| DeviceAddress {
        device: of.device.clone(),
        network: of.address.into(),
    };
    let addresses = standby.addresses.iter().map(address).collect();
    Some(StandbySettings { addresses, accepts_two_active, when_isolated })
}

/// Checks the name of a network device as the kernel does. The error is the message to the user.
pub(super) fn device_name(name: &str) -> Result<(), String> {
    let is_allowed = |octet: u8| octet.is_ascii_graphic() && !b"/:".contains(&octet);
    let is_name = (1..=15).contains(&name.len()) && name.bytes().all(is_allowed);
    let what = || "takes the name of a network device, of 1 to 15 characters".to_owned();
    is_name.then_some(()).ok_or_else(what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const EXAMPLE: &str = include_str!("../../../../adit.example.toml");
    const SHARED: &str = "kind = \"redis\"\nservers = [\"192.0.2.10:6379\"]\nname = \"upf-1\"";
    const ADDRESSES: &str =
        "[standby]\naddresses = [{ device = \"eth0\", address = \"10.0.4.2/24\" }]";

    /// Parses the example with a shared store and with `standby`, after the replacements `changes`.
    fn parsed(standby: &str, changes: &[(&str, &str)]) -> Result<Config, String> {
        let mut text = EXAMPLE.replacen("kind = \"journal\"", SHARED, 1);
        text = text.replacen("folder = \"/var/lib/adit/journal\"", "", 1);
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replacen(from, to, 1);
        }
        let parsed = Config::parse(&format!("{text}\n{standby}\n"));
        parsed.map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn addresses_belong_to_devices() {
        let standby = parsed(ADDRESSES, &[]).unwrap().standby.unwrap();
        let [address] = &standby.addresses[..] else { panic!("{standby:?}") };
        assert_eq!((address.device.as_str(), address.network.len), ("eth0", 24));
        assert_eq!(parsed("[standby]", &[]).unwrap().standby.unwrap().addresses, []);
        assert_eq!(parsed("", &[]).unwrap().standby, None);
    }

    #[test]
    fn mistakes_are_reported() {
        let device = "[standby]\naddresses = [{ device = \"a/b\", address = \"10.0.4.2/24\" }]";
        assert!(parsed(device, &[]).unwrap_err().contains("standby.addresses[0].device"));
        let length = ADDRESSES.replace("/24", "");
        assert!(parsed(&length, &[]).unwrap_err().contains("standby.addresses[0].address"));
        let twice = ADDRESSES.replace("}]", "}, { device = \"eth1\", address = \"10.0.4.2/24\" }]");
        assert!(parsed(&twice, &[]).unwrap_err().contains("is given twice"));
    }

    #[test]
    fn store_must_be_one_that_both_adits_obey() {
        let journal = [(SHARED, "kind = \"journal\"")];
        assert!(parsed(ADDRESSES, &journal).unwrap_err().contains("store.kind = \"redis\""));
        let continues = [("on_store_loss = \"refuse\"", "on_store_loss = \"continue\"")];
        assert!(parsed(ADDRESSES, &continues).unwrap_err().contains("on_store_loss"));
        let releases = [("on_stop = \"keep\"", "on_stop = \"release\"")];
        assert!(parsed(ADDRESSES, &releases).unwrap_err().contains("on_stop"));
    }

    #[test]
    fn isolated_adit_stops_unless_it_is_to_forward() {
        let isolated = |lines: &str| {
            let config = parsed(&format!("{ADDRESSES}\n{lines}"), &[]);
            config.map(|config| config.standby.unwrap().when_isolated)
        };
        assert_eq!(isolated(""), Ok(WhenIsolated::Stop));
        assert_eq!(isolated("when_isolated = \"stop\""), Ok(WhenIsolated::Stop));
        assert_eq!(isolated("when_isolated = \"forward\""), Ok(WhenIsolated::Forward));
        let other = isolated("when_isolated = \"wait\"").unwrap_err();
        assert!(other.contains("standby.when_isolated"), "{other}");
    }

    #[test]
    fn several_servers_without_acknowledging_replicas_are_refused_unless_two_active_adits_are_accepted()
     {
        let several = "servers = [\"192.0.2.10:6379\", \"192.0.2.11:6379\"]";
        let several = ("servers = [\"192.0.2.10:6379\"]", several);
        let refused = parsed(ADDRESSES, &[several]).unwrap_err();
        assert!(refused.contains("store.acknowledge_replicas: takes 1 or more"), "{refused}");
        assert!(refused.contains("accept_two_active"), "{refused}");
        let one = ("name = \"upf-1\"", "name = \"upf-1\"\nacknowledge_replicas = 1");
        assert!(!parsed(ADDRESSES, &[several, one]).unwrap().standby.unwrap().accepts_two_active);
        let accepted = format!("{ADDRESSES}\naccept_two_active = true");
        assert!(parsed(&accepted, &[several]).unwrap().standby.unwrap().accepts_two_active);
        assert!(parsed("", &[several]).is_ok(), "nobody else is active without [standby]");
        let word = format!("{ADDRESSES}\naccept_two_active = 1");
        assert!(parsed(&word, &[]).unwrap_err().contains("standby.accept_two_active"));
    }
}
