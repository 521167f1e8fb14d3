//! Descriptions of the sections and keys of the file, from which documents are made.

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
    /// The comment on the key, by lines.
    pub about: &'static [&'static str],
    pub takes: Takes,
    pub absent: AbsentKey,
    pub on_reload: OnReload,
    /// Values of the key in the example, one for each table of an array; a value that begins with
    /// `#` is commented out. Empty: the default. `None`: the default, commented out.
    pub example: Option<&'static [&'static str]>,
}

/// The values that a key takes, for documents.
#[derive(Debug)]
pub(crate) enum Takes {
    /// Minimum and maximum.
    Integer(String, String),
    Words(Vec<&'static str>),
    Flag,
    /// A description with an example.
    Text(&'static str),
    List(Box<Takes>),
    AnyOf(Vec<Takes>),
    /// `{ count = 2 }`; the number is the maximum of the count.
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
    /// The default value, as the file would have it.
    Is(String),
    /// The default depends on other values: a description.
    Follows(&'static str),
}
