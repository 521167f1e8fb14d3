//! Reads a TOML table key by key and collects all mistakes instead of stopping at the first.
//!
//! A getter always returns a usable value: the one in the file, the default, or a substitute after it
//! has noted a problem. The caller refuses the file unless [`ConfigDocument::problems`] is empty.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use adit_types::limits::WORKERS_MAX;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One mistake in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConfigProblem {
    /// Line of the file, from 1.
    pub line: usize,
    /// Key path, such as `interface[1].addresses`.
    pub path: String,
    /// The fault, and the value to write instead.
    pub what: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => write!(f, "line {}: {}", self.line, self.what),
            path => write!(f, "line {}: {path}: {}", self.line, self.what),
        }
    }
}

/// The file, and the problems found so far.
pub(super) struct ConfigDocument<'i> {
    input: &'i str,
    problems: RefCell<Vec<ConfigProblem>>,
}

impl<'i> ConfigDocument<'i> {
    pub(super) fn new(input: &'i str) -> Self {
        Self { input, problems: RefCell::default() }
    }

    /// All problems noted so far, by line.
    pub(super) fn problems(self) -> Vec<ConfigProblem> {
        let mut problems = self.problems.into_inner();
        problems.sort();
        problems.dedup();
        problems
    }

    pub(super) fn note(&self, offset: usize, path: &str, what: impl Into<String>) {
        let line = 1 + self.input.bytes().take(offset).filter(|byte| *byte == b'\n').count();
        self.problems.borrow_mut().push(ConfigProblem {
            line,
            path: path.to_owned(),
            what: what.into(),
        });
    }
}

/// How a key gives CPUs to threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CpuKey {
    /// It lists them, or is absent.
    Listed,
    /// A plan chooses them: `"auto"`, or `{ count = 2 }` with the number of threads.
    Planned { count: Option<usize> },
}

/// One table of the file; empty if the file does not have it.
pub(super) struct ConfigSection<'d, 'i> {
    document: &'d ConfigDocument<'i>,
    table: Option<&'d DeTable<'i>>,
    path: String,
    offset: usize,
    known: BTreeSet<&'static str>,
}

impl<'d, 'i> ConfigSection<'d, 'i> {
    pub(super) fn root(document: &'d ConfigDocument<'i>, table: &'d DeTable<'i>) -> Self {
        Self {
            document,
            table: Some(table),
            path: String::new(),
            offset: 0,
            known: BTreeSet::new(),
        }
    }

    /// True if the table has `key`.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(key))
    }

    /// The table at `key`; empty if absent.
    pub(super) fn table(&mut self, key: &'static str) -> ConfigSection<'d, 'i> {
        let path = self.path_of(key);
        let found = self.value(key);
        let table = found.and_then(|value| match value.get_ref() {
            DeValue::Table(table) => Some(table),
            other => {
                self.document.note(
                    value.span().start,
                    &path,
                    format!(
                        "must be a table, written [{key}], not {}",
                        with_article(other.type_str())
                    ),
                );
                None
            }
        });
        let offset = found.map_or(self.offset, |value| value.span().start);
        ConfigSection { document: self.document, table, path, offset, known: BTreeSet::new() }
    }

    /// The table at `key`; `None` if absent.
    pub(super) fn table_optional(&mut self, key: &'static str) -> Option<ConfigSection<'d, 'i>> {
        let is_present = self.has(key);
        let table = self.table(key);
        is_present.then_some(table)
    }

    /// The tables of the array at `key`, written `[[key]]`; none if absent.
    pub(super) fn tables(&mut self, key: &'static str) -> Vec<ConfigSection<'d, 'i>> {
        let path = self.path_of(key);
        let Some(value) = self.value(key) else { return Vec::new() };
        let DeValue::Array(items) = value.get_ref() else {
            let what = format!("must be an array of tables, each written [[{key}]]");
            self.document.note(value.span().start, &path, what);
            return Vec::new();
        };
        let section = |(index, item): (usize, &'d Spanned<DeValue<'i>>)| {
            let path = format!("{path}[{index}]");
            let table = item.get_ref().as_table();
            if table.is_none() {
                let what = format!("must be a table, written [[{key}]]");
                self.document.note(item.span().start, &path, what);
            }
            let offset = item.span().start;
            ConfigSection { document: self.document, table, path, offset, known: BTreeSet::new() }
        };
        items.iter().enumerate().map(section).collect()
    }

    /// An integer within `range`. Without a default the key is required.
    pub(super) fn integer<T>(
        &mut self,
        key: &'static str,
        range: RangeInclusive<T>,
        default: Option<T>,
    ) -> T
    where
        T: Copy + PartialOrd + fmt::Display + TryFrom<i64>,
    {
        let (low, high) = (*range.start(), *range.end());
        let Some(value) = self.value_or_required(key, default.is_some()) else {
            return default.unwrap_or(low);
        };
        let parsed = self.as_integer(value).and_then(|n| T::try_from(n).ok());
        parsed.filter(|n| range.contains(n)).unwrap_or_else(|| {
            self.problem(key, format!("takes a whole number from {low} to {high}"));
            low
        })
    }

    /// As [`Self::integer`], for an optional key.
    pub(super) fn integer_optional<T>(
        &mut self,
        key: &'static str,
        range: RangeInclusive<T>,
    ) -> Option<T>
    where
        T: Copy + PartialOrd + fmt::Display + TryFrom<i64>,
    {
        self.value(key)?;
        Some(self.integer(key, range, None))
    }

    /// A boolean, for an optional key.
    pub(super) fn boolean_optional(&mut self, key: &'static str) -> Option<bool> {
        let value = self.value(key)?;
        let read = value.get_ref().as_bool();
        if read.is_none() {
            self.problem(key, "takes true or false");
        }
        read
    }

    /// The integers of a list, each within `range`.
    pub(super) fn integers<T>(&mut self, key: &'static str, range: RangeInclusive<T>) -> Vec<T>
    where
        T: Copy + PartialOrd + fmt::Display + TryFrom<i64>,
    {
        let (low, high) = (*range.start(), *range.end());
        let items = self.list(key, true);
        let mut numbers = Vec::new();
        for item in items {
            match self
                .as_integer(item)
                .and_then(|n| T::try_from(n).ok())
                .filter(|n| range.contains(n))
            {
                Some(number) => numbers.push(number),
                None => {
                    self.problem_at(item, key, format!("takes whole numbers from {low} to {high}"))
                }
            }
        }
        numbers
    }

    /// True if `key` is absent or a list.
    pub(super) fn is_list(&self, key: &str) -> bool {
        let value = self.table.and_then(|table| table.get(key));
        value.is_none_or(|value| matches!(value.get_ref(), DeValue::Array(_)))
    }

    /// How `key` gives CPUs.
    pub(super) fn cpu_key(&mut self, key: &'static str) -> CpuKey {
        match self.value(key).map(Spanned::get_ref) {
            Some(DeValue::String(text)) if text == "auto" => CpuKey::Planned { count: None },
            Some(DeValue::Table(_)) => {
                let mut wanted = self.table(key);
                let count = wanted.integer("count", 1..=WORKERS_MAX, None);
                wanted.finish();
                CpuKey::Planned { count: Some(count) }
            }
            _ => CpuKey::Listed,
        }
    }

    /// The text of a key that another one depends on, and that is read in full elsewhere.
    pub(super) fn peek(&self, key: &str) -> Option<&'d str> {
        self.table?.get(key)?.get_ref().as_str()
    }

    /// A string that parses as `T`. `expects` describes the format, with an example.
    pub(super) fn parsed<T: FromStr>(&mut self, key: &'static str, expects: &str) -> Option<T> {
        let value = self.value_or_required(key, false)?;
        self.parse_value(key, value, expects)
    }

    /// As [`Self::parsed`], for an optional key.
    pub(super) fn parsed_optional<T: FromStr>(
        &mut self,
        key: &'static str,
        expects: &str,
    ) -> Option<T> {
        let value = self.value(key)?;
        self.parse_value(key, value, expects)
    }

    /// The strings of a list, each parsed as `T`.
    pub(super) fn parsed_list<T: FromStr>(
        &mut self,
        key: &'static str,
        required: bool,
        expects: &str,
    ) -> Vec<T> {
        let items = self.list(key, required);
        items.into_iter().filter_map(|item| self.parse_value(key, item, expects)).collect()
    }

    /// A value from a fixed set of names.
    pub(super) fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&str, T)],
        default: Option<T>,
    ) -> Option<T> {
        let Some(value) = self.value_or_required(key, default.is_some()) else { return default };
        let text = value.get_ref().as_str();
        let found = choices.iter().find(|(name, _)| text == Some(name)).map(|(_, value)| *value);
        if found.is_none() {
            let names: Vec<_> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            self.problem(key, format!("takes {}", names.join(" or ")));
        }
        found
    }

    /// An integer out of `range`, or one of `choices`, for an optional key.
    pub(super) fn integer_or_choice<T: Copy>(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u16>,
        of_integer: impl Fn(u16) -> T,
        choices: &[(&str, T)],
    ) -> Option<T> {
        let value = self.value(key)?;
        let named = choices.iter().find(|(name, _)| value.get_ref().as_str() == Some(name));
        let integer = || self.as_integer(value).and_then(|number| u16::try_from(number).ok());
        let found = match named {
            Some((_, choice)) => Some(*choice),
            None => integer().filter(|number| range.contains(number)).map(of_integer),
        };
        if found.is_none() {
            let (low, high) = range.into_inner();
            let names: Vec<_> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            self.problem(key, format!("takes {low} to {high}, {}", names.join(" or ")));
        }
        found
    }

    /// Marks a key as read whose value depends on another one that is wrong.
    pub(super) fn skip(&mut self, key: &'static str) {
        self.value(key);
    }

    /// Notes a problem with each key that is given and that `read` would read.
    pub(super) fn refuse_those_of<T>(
        &mut self,
        read: impl FnOnce(&mut ConfigSection<'_, '_>) -> T,
        what: &str,
    ) {
        let (document, empty) = (ConfigDocument::new(""), DeTable::new());
        let mut section = ConfigSection::root(&document, &empty);
        read(&mut section);
        let keys: Vec<_> = section.known.iter().copied().collect();
        self.refuse(&keys, what);
    }

    /// Notes a problem with each of `keys` that is given.
    pub(super) fn refuse(&mut self, keys: &[&'static str], what: &str) {
        for key in keys {
            if self.value(key).is_some() {
                self.problem(key, what);
            }
        }
    }

    /// A value from a fixed set of names for each of `count` items: one for all, or a list.
    pub(super) fn choice_each<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&str, T)],
        default: T,
        count: usize,
    ) -> Vec<T> {
        if !self.value(key).is_some_and(|value| matches!(value.get_ref(), DeValue::Array(_))) {
            let one = self.choice(key, choices, Some(default)).unwrap_or(default);
            return vec![one; count];
        }
        let items = self.list(key, true);
        let named = |item: &&Spanned<DeValue<'_>>| {
            let text = item.get_ref().as_str();
            choices.iter().find(|(name, _)| text == Some(name)).map(|(_, value)| *value)
        };
        let found: Vec<T> = items.iter().filter_map(named).collect();
        if found.len() != count || items.len() != count {
            let names: Vec<_> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            let names = names.join(" or ");
            self.problem(key, format!("takes {names}, or a list of {count} of them"));
            return vec![default; count];
        }
        found
    }

    /// A list of values from a fixed set of names; empty if absent.
    pub(super) fn choices<T: Copy>(&mut self, key: &'static str, choices: &[(&str, T)]) -> Vec<T> {
        let mut found = Vec::new();
        for item in self.list(key, false) {
            let text = item.get_ref().as_str();
            match choices.iter().find(|(name, _)| text == Some(name)) {
                Some((_, value)) => found.push(*value),
                None => {
                    let names: Vec<_> =
                        choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
                    let what = format!("takes a list of names out of {}", names.join(", "));
                    self.problem_at(item, key, what);
                }
            }
        }
        found
    }

    /// Notes a problem with `key` of this table.
    pub(super) fn problem(&self, key: &str, what: impl Into<String>) {
        let offset = self
            .table
            .and_then(|table| table.get(key))
            .map_or(self.offset, |value| value.span().start);
        self.document.note(offset, &self.path_of(key), what);
    }

    /// Notes every key that no getter has read.
    pub(super) fn finish(self) {
        let Some(table) = self.table else { return };
        for key in table.keys() {
            let name: &str = key.get_ref();
            if self.known.contains(name) {
                continue;
            }
            let near = self.known.iter().find(|known| similar(known, name));
            let known: Vec<_> = self.known.iter().copied().collect();
            let what = match near {
                Some(near) => format!("unknown key; did you mean \"{near}\"?"),
                None => format!("unknown key; known here: {}", known.join(", ")),
            };
            self.document.note(key.span().start, &self.path_of(name), what);
        }
    }

    fn value(&mut self, key: &'static str) -> Option<&'d Spanned<DeValue<'i>>> {
        self.known.insert(key);
        self.table?.get(key)
    }

    fn value_or_required(
        &mut self,
        key: &'static str,
        optional: bool,
    ) -> Option<&'d Spanned<DeValue<'i>>> {
        let value = self.value(key);
        if value.is_none() && !optional {
            self.problem(key, "is missing and has no default");
        }
        value
    }

    fn list(&mut self, key: &'static str, required: bool) -> Vec<&'d Spanned<DeValue<'i>>> {
        let Some(value) = self.value_or_required(key, !required) else { return Vec::new() };
        match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => {
                self.problem(key, "takes a list, written [ ... ]");
                Vec::new()
            }
        }
    }

    #[allow(clippy::unused_self, reason = "uniform with the other getters")]
    fn as_integer(&self, value: &Spanned<DeValue<'_>>) -> Option<i64> {
        let integer = value.get_ref().as_integer()?;
        i64::from_str_radix(integer.as_str(), integer.radix()).ok()
    }

    fn parse_value<T: FromStr>(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        expects: &str,
    ) -> Option<T> {
        let text = value.get_ref().as_str();
        let parsed = text.and_then(|text| text.parse().ok());
        if parsed.is_none() {
            let what = match text {
                Some(text) => format!("\"{text}\" is not {expects}"),
                None => format!("takes {expects}, in quotes"),
            };
            self.problem_at(value, key, what);
        }
        parsed
    }

    fn problem_at(&self, value: &Spanned<DeValue<'_>>, key: &str, what: String) {
        self.document.note(value.span().start, &self.path_of(key), what);
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

fn with_article(noun: &str) -> String {
    let vowel = noun.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {noun}", if vowel { "an" } else { "a" })
}

/// True if the edit distance of two names is at most two.
fn similar(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()] <= 2
}
