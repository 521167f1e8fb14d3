//! The keys of the file, for documents.

use super::comparison::OnReload;

/// A section, for documents.
#[derive(Debug)]
pub(crate) struct SectionInfo {
    pub about: &'static [&'static str],
    pub keys: Vec<KeyInfo>,
}

/// A key of a section, for documents.
#[derive(Debug)]
pub(crate) struct KeyInfo {
    pub name: &'static str,
    /// The comment on it, by lines.
    pub about: &'static [&'static str],
    pub takes: Takes,
    pub absent: AbsentKey,
    pub on_reload: OnReload,
    /// Its values in the tables of the example; those that begin with `#` are commented out. Empty:
    /// the default. `None`: the default, commented out.
    pub example: Option<&'static [&'static str]>,
}

/// The values that a key takes, for documents.
#[derive(Debug)]
pub(crate) enum Takes {
    /// From and to.
    Integer(String, String),
    Words(Vec<&'static str>),
    Flag,
    /// A description with an example.
    Text(&'static str),
    List(Box<Takes>),
    AnyOf(Vec<Takes>),
    /// `{ count = 2 }`, and the largest.
    Count(usize),
    Table(SectionInfo),
    Tables(SectionInfo),
    /// Further keys of the same table.
    Keys(SectionInfo),
}

/// The meaning of an absent key.
#[derive(Debug)]
pub(crate) enum AbsentKey {
    /// The key is required.
    Refused,
    /// A value, as the file would have it.
    Is(String),
    /// In words.
    Follows(&'static str),
}
