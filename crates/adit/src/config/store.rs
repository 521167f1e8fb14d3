//! `[store]`: where sessions are kept beyond the end of the process.

use std::path::PathBuf;

use adit_types::Nanos;

use super::section::ConfigSection;

/// The folder of the journal unless the configuration names another one.
const FOLDER_DEFAULT: &str = "/var/lib/adit/journal";

/// Where records are kept, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoreSettings {
    pub kind: StoreKind,
    /// How often the usage of a session is recorded: the most that a crash loses of it.
    pub usage_interval: Nanos,
    /// Requests are served although they cannot be kept.
    pub serves_without_store: bool,
    /// Sessions are kept when adit stops; otherwise their associations are released.
    pub keeps_at_stop: bool,
}

/// The kind of store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreKind {
    /// None: sessions end with the process.
    None,
    /// A journal in this folder.
    Journal(PathBuf),
}

pub(super) fn read(mut store: ConfigSection<'_, '_>) -> StoreSettings {
    let kinds = [("journal", true), ("none", false)];
    let is_journal = store.choice("kind", &kinds, Some(true)).unwrap_or(true);
    let folder: Option<PathBuf> =
        store.parsed_optional("folder", "a path such as \"/var/lib/adit/journal\"");
    if folder.is_some() && !is_journal {
        store.problem("folder", "is for kind = \"journal\"");
    }
    let usage_interval_ms = store.integer("usage_interval_ms", 100..=3_600_000_u64, Some(30_000));
    let losses = [("refuse", false), ("continue", true)];
    let serves_without_store = store.choice("on_store_loss", &losses, Some(false)).unwrap_or(false);
    let stops = [("keep", true), ("release", false)];
    let keeps_at_stop = store.choice("on_stop", &stops, Some(true)).unwrap_or(true);
    store.finish();
    let folder = folder.unwrap_or_else(|| PathBuf::from(FOLDER_DEFAULT));
    StoreSettings {
        kind: if is_journal { StoreKind::Journal(folder) } else { StoreKind::None },
        usage_interval: Nanos::from_millis(usage_interval_ms),
        serves_without_store,
        keeps_at_stop: keeps_at_stop && is_journal,
    }
}
