//! The prefixes that Adit announces: addresses without a link, networks behind UEs, and either
//! pools or single UEs. All of them while it serves, none otherwise.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use adit_rules::rule::UE_IPV6_KEY_BITS;
use adit_rules::{DataPlane, DeltaId, KeyChange, RuleDelta, UsageSource};
use adit_tables::Publisher;
use adit_types::{DomainId, IpPrefix};
use tracing::{info, warn};

use super::announcer::{AnnouncerFigures, AnnouncerLink};
use crate::config::AnnounceMode;

/// How long adit waits for the kernel to take the announcements back before its workers stop.
const WITHDRAWAL_MAX: Duration = Duration::from_secs(5);

/// The announcements of one namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnnouncingNamespace {
    /// `None`: that of adit.
    pub netns: Option<String>,
    /// Announced while adit serves: pools, addresses without a link.
    pub prefixes: Vec<IpPrefix>,
    /// Routing domains whose prefixes are announced, and how.
    pub domains: Vec<(DomainId, AnnounceMode)>,
}

/// The announcements of this adit.
#[derive(Debug)]
pub(crate) struct OwnPrefixes {
    namespaces: Vec<AnnouncingNamespace>,
    /// Prefixes of UEs, and how many keys have each: only those that some namespace announces.
    of_ues: HashMap<(DomainId, IpPrefix), u32>,
    is_on: bool,
    link: AnnouncerLink,
}

impl OwnPrefixes {
    /// Starts to announce in namespaces; nothing is announced before [`Self::set_serving`]. `None`
    /// without namespaces.
    ///
    /// # Errors
    /// As [`AnnouncerLink::start`].
    pub(crate) fn start(namespaces: Vec<AnnouncingNamespace>) -> anyhow::Result<Option<Self>> {
        if namespaces.is_empty() {
            return Ok(None);
        }
        let names: Vec<_> = namespaces.iter().map(|of| of.netns.clone()).collect();
        let link = AnnouncerLink::start(&names)?;
        Ok(Some(Self { namespaces, of_ues: HashMap::new(), is_on: false, link }))
    }

    /// Announces all prefixes, or withdraws them.
    pub(crate) fn set_serving(&mut self, is_serving: bool) {
        if self.is_on == is_serving {
            return;
        }
        self.is_on = is_serving;
        let all: Vec<_> = self.all().collect();
        match is_serving {
            true => info!(prefixes = all.len(), "announced"),
            false => info!(prefixes = all.len(), "withdrawn: this adit does not serve now"),
        }
        self.link.queue(all.into_iter().map(|(namespace, of)| (namespace, of, is_serving)));
    }

    /// Withdraws all prefixes, and waits until the kernel has done it.
    pub(crate) fn withdraw(&mut self) {
        self.set_serving(false);
        if !self.link.wait(WITHDRAWAL_MAX) {
            warn!("the kernel still has announcements of this adit");
        }
    }

    /// Puts other pools into effect.
    pub(crate) fn reconfigure(&mut self, namespaces: Vec<AnnouncingNamespace>) {
        for (at, (former, new)) in self.namespaces.iter().zip(&namespaces).enumerate() {
            let gone = former.prefixes.iter().filter(|of| !new.prefixes.contains(of));
            let added = new.prefixes.iter().filter(|of| !former.prefixes.contains(of));
            let changes = gone.map(|of| (at, *of, false)).chain(added.map(|of| (at, *of, true)));
            if self.is_on {
                self.link.queue(changes);
            }
        }
        self.namespaces = namespaces;
    }

    /// Returns the figures of the kernel's side.
    pub(crate) fn figures(&self) -> AnnouncerFigures {
        self.link.figures()
    }

    /// Returns true while prefixes are announced.
    pub(crate) const fn is_on(&self) -> bool {
        self.is_on
    }

    /// Takes the keys of a change.
    fn take(&mut self, keys: &[KeyChange]) {
        for change in keys {
            let (KeyChange::Add(key) | KeyChange::Remove(key)) = change;
            let (Some(domain), Some(prefix)) = (key.domain(), key.prefix()) else { continue };
            let namespaces: Vec<_> = self.announcing(domain, prefix).collect();
            if namespaces.is_empty() {
                continue;
            }
            let keys = self.of_ues.entry((domain, prefix)).or_default();
            let is_added = matches!(change, KeyChange::Add(_));
            *keys = if is_added { *keys + 1 } else { keys.saturating_sub(1) };
            let has_changed = *keys == u32::from(is_added);
            if *keys == 0 {
                self.of_ues.remove(&(domain, prefix));
            }
            if has_changed && self.is_on {
                self.link.queue(namespaces.into_iter().map(|at| (at, prefix, is_added)));
            }
        }
    }

    /// Returns the namespaces that announce the prefix of a UE of a domain, or of a network behind
    /// the UE.
    fn announcing(&self, domain: DomainId, prefix: IpPrefix) -> impl Iterator<Item = usize> {
        let is_framed = !is_of_one_ue(prefix);
        let fits = move |(of, mode): &(DomainId, AnnounceMode)| {
            *of == domain && (is_framed || *mode == AnnounceMode::Session)
        };
        let all = self.namespaces.iter().enumerate();
        all.filter(move |(_, of)| of.domains.iter().any(fits)).map(|(at, _)| at)
    }

    /// Returns all prefixes with the positions of their namespaces.
    fn all(&self) -> impl Iterator<Item = (usize, IpPrefix)> {
        let fixed = self.namespaces.iter().enumerate();
        let fixed = fixed.flat_map(|(at, of)| of.prefixes.iter().map(move |prefix| (at, *prefix)));
        let of_ues = self
            .of_ues
            .keys()
            .flat_map(|(domain, prefix)| self.announcing(*domain, *prefix).map(|at| (at, *prefix)));
        fixed.chain(of_ues)
    }
}

/// Returns true for a prefix as long as that of a UE.
fn is_of_one_ue(prefix: IpPrefix) -> bool {
    let bits = if prefix.addr().is_ipv4() { 32 } else { UE_IPV6_KEY_BITS };
    prefix.len() >= bits
}

/// The publisher, with the announcements of the UEs that its changes bring and take.
pub(crate) struct AnnouncingPlane<'a> {
    pub publisher: &'a mut Publisher,
    pub announcements: Option<&'a mut OwnPrefixes>,
}

impl DataPlane for AnnouncingPlane<'_> {
    fn apply(&mut self, id: DeltaId, delta: RuleDelta) {
        if let Some(announcements) = &mut self.announcements {
            announcements.take(&delta.keys);
        }
        self.publisher.apply(id, delta);
    }

    fn poll_observed(&mut self) -> Option<DeltaId> {
        self.publisher.poll_observed()
    }

    fn unobserved(&self) -> usize {
        self.publisher.unobserved()
    }

    fn usage_source(&self) -> Arc<dyn UsageSource> {
        self.publisher.usage_source()
    }
}
