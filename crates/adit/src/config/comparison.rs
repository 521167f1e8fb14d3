//! The differences of two configurations: their kinds, and those that a comparison found.

use serde::Serialize;
use utoipa::ToSchema;

use super::section::path_of;

/// Whether a reload changes a key in a running adit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OnReload {
    /// A reload changes the value, with this effect.
    Changes(ChangeEffect),
    /// A reload does not change the value, for this reason.
    Fixed(&'static str),
    /// A function decides for this key. The text describes when a reload changes it.
    Depends(&'static str),
    /// The keys of the section decide. A reload does not add or remove it; the text is the reason.
    Section(&'static str),
}

/// For addresses and sockets, which a reload does not change.
pub(super) const LISTENING: OnReload = OnReload::Fixed("adit listens there from the start on");

/// For threads, ports and packet buffers, which a reload does not change.
pub(super) const PACKET_PATH: OnReload =
    OnReload::Fixed("threads, ports and packet buffers of the packet path are made at the start");

/// For the store, which a reload does not change.
pub(super) const STORE_FIXED: OnReload = OnReload::Fixed("the store is opened at the start");

/// For limits, which a reload does not change.
pub(super) const RESERVED: OnReload = OnReload::Fixed("its memory is reserved at the start");

/// For keys whose new value a running adit uses at once.
pub(super) const NOW: OnReload = OnReload::Changes(ChangeEffect::Plain);

/// For keys whose new value is used at once, after which sessions' rules are compiled again.
pub(super) const RULES: OnReload = OnReload::Changes(ChangeEffect::Rules);

/// For tables, whose keys decide.
pub(super) const BY_KEY: OnReload = OnReload::Depends("");

/// The action that a change needs in addition to taking over the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeEffect {
    /// No action: the new value applies from the next use on.
    Plain,
    /// The rules of existing sessions are compiled again.
    Rules,
    /// Workers get new routes to data networks.
    Routes,
    /// Workers get new routes, and FARs the new next hops to their GTP-U peers.
    GtpuRoutes,
    /// Workers get new interfaces, and sessions the rules that may use them.
    Interfaces,
}

/// A change that a running adit can make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigChange {
    /// Key path, such as `n4.t1_ms`.
    pub key: String,
    /// The change, in words.
    pub change: String,
    pub effect: ChangeEffect,
}

/// A key for which a configuration is refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
pub(crate) struct KeyRefusal {
    /// Key path, such as `datapath.model`; of a mistake in the file with its line.
    pub key: String,
    /// Why, and what to do.
    pub why: String,
}

/// A key that differs between two configurations.
#[derive(Debug)]
pub(super) struct ComparedKey {
    pub path: String,
    pub on_reload: OnReload,
}

impl ComparedKey {
    pub(super) fn new(path: &str, key: &str, on_reload: OnReload) -> Self {
        Self { path: path_of(path, key), on_reload }
    }
}

/// The differences that a comparison found.
#[derive(Debug, Default)]
pub(super) struct ConfigComparison {
    changes: Vec<ConfigChange>,
    refusals: Vec<KeyRefusal>,
}

impl ConfigComparison {
    pub(super) fn finish(self) -> Result<Vec<ConfigChange>, Vec<KeyRefusal>> {
        let Self { changes, mut refusals } = self;
        refusals.sort();
        if refusals.is_empty() { Ok(changes) } else { Err(refusals) }
    }

    /// Adds the change of a key, or its refusal. `new` and `old`: its values in words.
    pub(super) fn key(&mut self, key: ComparedKey, new: &str, old: &str) {
        match key.on_reload {
            OnReload::Changes(effect) => self.note(&key.path, effect, format!("{new}, was {old}")),
            OnReload::Fixed(why) | OnReload::Section(why) => {
                self.refuse(key.path, format!("{why}; restart adit to change it"));
            }
            OnReload::Depends(_) => {}
        }
    }

    pub(super) fn note(&mut self, key: &str, effect: ChangeEffect, change: impl Into<String>) {
        self.changes.push(ConfigChange { key: key.to_owned(), change: change.into(), effect });
    }

    pub(super) fn refuse(&mut self, key: impl Into<String>, why: impl Into<String>) {
        self.refusals.push(KeyRefusal { key: key.into(), why: why.into() });
    }

    /// If `key` is refused, removes the refusals of keys that begin with one of `beginnings`.
    pub(super) fn forget_if(&mut self, key: &str, beginnings: &[String]) {
        if self.refusals.iter().any(|of| of.key == key) {
            let is_of = |of: &KeyRefusal| beginnings.iter().any(|begin| of.key.starts_with(begin));
            self.refusals.retain(|of| of.key == key || !is_of(of));
        }
    }
}
