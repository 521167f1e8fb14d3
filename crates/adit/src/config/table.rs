//! Operations on the settings of any section.

use super::comparison::ConfigComparison;
use super::described::{KeyInfo, SectionInfo};
use super::section::{ConfigDocument, ConfigSection};

/// The settings of a section. `section!` implements this trait.
pub(super) trait Section: Sized + PartialEq {
    /// The comment on the section, by lines.
    const ABOUT: &'static [&'static str];

    /// Returns the section's keys, in the order of the documents.
    fn keys() -> Vec<KeyInfo>;

    fn info() -> SectionInfo {
        SectionInfo { about: Self::ABOUT, keys: Self::keys() }
    }

    fn read(section: &mut ConfigSection<'_>) -> Self;

    /// Compares all keys of the section at `path`.
    fn compare(&self, new: &Self, path: &str, found: &mut ConfigComparison);

    /// Describes the keys that are set, with their values.
    fn words(&self) -> Vec<String>;

    /// Adds the problem `what` for each key of these settings that the section at `path` has.
    fn refuse(document: &ConfigDocument<'_>, path: &str, what: &str) {
        let names: Vec<_> = Self::keys().iter().map(|key| key.name).collect();
        document.refuse(path, &names, what);
    }
}
