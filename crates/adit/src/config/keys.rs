//! Keys of sections: how a key is read and compared, and the meaning of its absence.

use super::comparison::{ComparedKey, ConfigComparison, OnReload};
use super::described::{AbsentKey, Takes};
use super::kinds::Kind;
use super::section::ConfigSection;
use super::table::Section;

/// Reads and compares a key whose value the settings have as `T`.
pub(super) trait Key<T: PartialEq> {
    /// Returns the key's value, its default, or a substitute after a problem was noted.
    fn read(&self, section: &mut ConfigSection<'_>, key: &'static str) -> T;

    /// Describes a value in words. `None` if the value is not set, or if the key is a table, whose
    /// keys are described one by one.
    fn show(&self, _value: &T) -> Option<String> {
        None
    }

    /// Returns which values the key takes, and the meaning of its absence.
    fn describe(&self) -> (Takes, AbsentKey);

    /// Compares two values of the key, and adds a difference to `found`.
    fn compare(&self, key: ComparedKey, old: &T, new: &T, found: &mut ConfigComparison) {
        let show = |value| match (self.show(value), self.describe().1) {
            (Some(words), _) => words,
            (None, AbsentKey::Is(words)) => words,
            (None, AbsentKey::Follows(words)) => words.to_owned(),
            (None, AbsentKey::Refused) => String::new(),
        };
        if old != new {
            found.key(key, &show(new), &show(old));
        }
    }
}

/// A key that always has a value.
pub(super) struct Plain<K, T> {
    kind: K,
    /// The default; for a required key, the substitute of a missing or wrong value.
    value: T,
    is_required: bool,
    /// The default in words, if no value in the file can express it.
    follows: &'static str,
}

/// A key that may be absent. The text describes the meaning of its absence.
pub(super) struct Optional<K>(K, &'static str);

/// A list. The text describes the meaning of its absence; empty if the list is required.
pub(super) struct ListOf<K>(K, &'static str);

/// Makes keys from a kind of values.
pub(super) trait IntoKey: Sized {
    fn or<T>(self, default: T) -> Plain<Self, T> {
        Plain { kind: self, value: default, is_required: false, follows: "" }
    }

    /// Makes a key whose default follows from other keys, which `words` describe. `unset` stands
    /// for the default until these are checked.
    fn or_follows<T>(self, unset: T, words: &'static str) -> Plain<Self, T> {
        Plain { kind: self, value: unset, is_required: false, follows: words }
    }

    /// Makes a key without a default. `substitute` stands for a value that is missing or wrong.
    fn required<T>(self, substitute: T) -> Plain<Self, T> {
        Plain { kind: self, value: substitute, is_required: true, follows: "" }
    }

    fn optional(self, absent: &'static str) -> Optional<Self> {
        Optional(self, absent)
    }

    fn list(self, absent: &'static str) -> ListOf<Self> {
        ListOf(self, absent)
    }
}

impl<K> IntoKey for K {}

impl<T: PartialEq + Clone, K: Kind<T>> Key<T> for Plain<K, T> {
    fn read(&self, section: &mut ConfigSection<'_>, key: &'static str) -> T {
        let value = match self.is_required {
            true => section.required(key),
            false => section.value(key),
        };
        let read = value.and_then(|value| section.read(key, value, self.kind.of(value)));
        read.unwrap_or_else(|| self.value.clone())
    }

    fn show(&self, value: &T) -> Option<String> {
        let is_set = self.follows.is_empty() || *value != self.value;
        is_set.then(|| with_unit(&self.kind, value))
    }

    fn describe(&self) -> (Takes, AbsentKey) {
        let absent = match (self.is_required, self.follows) {
            (true, _) => AbsentKey::Refused,
            (false, "") => AbsentKey::Is(self.kind.written(&self.value)),
            (false, words) => AbsentKey::Follows(words),
        };
        (self.kind.takes(), absent)
    }
}

impl<T: PartialEq, K: Kind<T>> Key<Option<T>> for Optional<K> {
    fn read(&self, section: &mut ConfigSection<'_>, key: &'static str) -> Option<T> {
        let value = section.value(key)?;
        section.read(key, value, self.0.of(value))
    }

    fn show(&self, value: &Option<T>) -> Option<String> {
        value.as_ref().map(|value| with_unit(&self.0, value))
    }

    fn describe(&self) -> (Takes, AbsentKey) {
        (self.0.takes(), AbsentKey::Follows(self.1))
    }
}

impl<T: PartialEq, K: Kind<T>> Key<Vec<T>> for ListOf<K> {
    fn read(&self, section: &mut ConfigSection<'_>, key: &'static str) -> Vec<T> {
        let items = section.list(key, self.1.is_empty());
        items.iter().filter_map(|item| section.read(key, item, self.0.of_item(item))).collect()
    }

    fn show(&self, value: &Vec<T>) -> Option<String> {
        let items: Vec<_> = value.iter().map(|item| self.0.show(item)).collect();
        (!items.is_empty()).then(|| items.join(", "))
    }

    fn describe(&self) -> (Takes, AbsentKey) {
        let absent =
            if self.1.is_empty() { AbsentKey::Refused } else { AbsentKey::Follows(self.1) };
        (Takes::List(Box::new(self.0.takes())), absent)
    }
}

fn with_unit<T>(kind: &impl Kind<T>, value: &T) -> String {
    format!("{} {}", kind.show(value), kind.unit()).trim_end().to_owned()
}

/// A key whose value is a table, an optional table, or an array of tables.
pub(super) struct Table;

impl<T: Section> Key<T> for Table {
    fn read(&self, section: &mut ConfigSection<'_>, key: &'static str) -> T {
        read_all(section.table(key))
    }

    fn describe(&self) -> (Takes, AbsentKey) {
        (Takes::Table(T::info()), AbsentKey::Follows("none"))
    }

    fn compare(&self, key: ComparedKey, old: &T, new: &T, found: &mut ConfigComparison) {
        old.compare(new, &key.path, found);
    }
}

impl<T: Section> Key<Option<T>> for Table {
    fn compare(
        &self,
        key: ComparedKey,
        old: &Option<T>,
        new: &Option<T>,
        found: &mut ConfigComparison,
    ) {
        match (key.on_reload, old, new) {
            (OnReload::Section(_), Some(old), Some(new)) => old.compare(new, &key.path, found),
            _ if old != new => found.key(key, "", ""),
            _ => {}
        }
    }

    fn read(&self, section: &mut ConfigSection<'_>, key: &'static str) -> Option<T> {
        section.value(key)?;
        Some(read_all(section.table(key)))
    }

    fn describe(&self) -> (Takes, AbsentKey) {
        (Takes::Table(T::info()), AbsentKey::Follows("none"))
    }
}

impl<T: Section> Key<Vec<T>> for Table {
    fn read(&self, section: &mut ConfigSection<'_>, key: &'static str) -> Vec<T> {
        section.tables(key).into_iter().map(read_all).collect()
    }

    fn show(&self, value: &Vec<T>) -> Option<String> {
        let tables: Vec<_> = value.iter().map(|table| table.words().join(", ")).collect();
        (!tables.is_empty()).then(|| tables.join("; "))
    }

    fn describe(&self) -> (Takes, AbsentKey) {
        (Takes::Tables(T::info()), AbsentKey::Follows("none"))
    }
}

/// Reads all keys of a section, and adds a problem for each unknown key.
pub(super) fn read_all<T: Section>(mut section: ConfigSection<'_>) -> T {
    let read = T::read(&mut section);
    section.finish();
    read
}

/// A group of keys that stand in the same table as the keys around the group.
pub(super) struct SameTable;

impl<T: Section> Key<T> for SameTable {
    fn read(&self, section: &mut ConfigSection<'_>, _: &'static str) -> T {
        T::read(section)
    }

    fn describe(&self) -> (Takes, AbsentKey) {
        (Takes::Keys(T::info()), AbsentKey::Follows("none"))
    }

    fn compare(&self, key: ComparedKey, old: &T, new: &T, found: &mut ConfigComparison) {
        let path = key.path.rsplit_once('.').map_or("", |(path, _)| path);
        old.compare(new, path, found);
    }
}
