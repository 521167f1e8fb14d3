//! The forms that follow from the table of a section.

use super::comparison::ConfigComparison;
use super::described::{KeyInfo, SectionInfo};
use super::section::{ConfigDocument, ConfigSection};

/// The settings of a section.
pub(super) trait Section: Sized + PartialEq {
    /// The comment on the section, by lines.
    const ABOUT: &'static [&'static str];

    /// Its keys, in the order of the documents.
    fn keys() -> Vec<KeyInfo>;

    /// The section, for documents.
    fn info() -> SectionInfo {
        SectionInfo { about: Self::ABOUT, keys: Self::keys() }
    }

    /// Reads all keys.
    fn read(section: &mut ConfigSection<'_>) -> Self;

    /// Compares all keys of the section at `path`.
    fn compare(&self, new: &Self, path: &str, found: &mut ConfigComparison);

    /// The keys that are set and their values, in words.
    fn words(&self) -> Vec<String>;

    /// Adds a problem for each of its keys that the section at `path` has.
    fn refuse(document: &ConfigDocument<'_>, path: &str, what: &str) {
        let names: Vec<_> = Self::keys().iter().map(|key| key.name).collect();
        document.refuse(path, &names, what);
    }
}
