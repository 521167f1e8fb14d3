//! Reads a TOML table key by key and collects all mistakes instead of stopping at the first.
//!
//! Reading a key always returns a usable value: the one in the file, the default, or a substitute
//! after a problem was noted. The file is refused unless [`ConfigDocument::problems`] is empty.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

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

/// A value of the file, with its position there.
pub(super) type ConfigValue<'t> = Spanned<DeValue<'t>>;

/// The file, and the problems found so far.
pub(super) struct ConfigDocument<'t> {
    input: &'t str,
    root: &'t DeTable<'t>,
    problems: RefCell<Vec<ConfigProblem>>,
    /// Paths of values that could not be read, and have a substitute.
    unread: RefCell<BTreeSet<String>>,
}

impl<'t> ConfigDocument<'t> {
    pub(super) fn new(input: &'t str, root: &'t DeTable<'t>) -> Self {
        Self { input, root, problems: RefCell::default(), unread: RefCell::default() }
    }

    pub(super) fn root(&'t self) -> ConfigSection<'t> {
        self.section(Some(self.root), String::new(), 0)
    }

    fn section(
        &'t self,
        table: Option<&'t DeTable<'t>>,
        path: String,
        offset: usize,
    ) -> ConfigSection<'t> {
        ConfigSection { document: self, table, path, offset, known: BTreeSet::new() }
    }

    /// Returns all problems noted so far, sorted by line.
    pub(super) fn problems(self) -> Vec<ConfigProblem> {
        let mut problems = self.problems.into_inner();
        problems.sort();
        problems.dedup();
        problems
    }

    pub(super) fn note(&self, offset: usize, path: &str, what: impl Into<String>) {
        let line = 1 + self.input.bytes().take(offset).filter(|byte| *byte == b'\n').count();
        let problem = ConfigProblem { line, path: path.to_owned(), what: what.into() };
        self.problems.borrow_mut().push(problem);
    }

    /// Adds a problem with the value at `path`, unless that value is a substitute: then the problem
    /// was added before.
    pub(super) fn problem(&self, path: &str, what: impl Into<String>) {
        if self.is_read(path) {
            self.note(self.find(path).1, path, what);
        }
    }

    /// True unless the value at `path` is a substitute.
    pub(super) fn is_read(&self, path: &str) -> bool {
        !self.unread.borrow().contains(path)
    }

    /// True if the file has a value at `path`.
    pub(super) fn has(&self, path: &str) -> bool {
        self.find(path).0
    }

    /// Adds the problem `what` for each of `keys` that the section at `path` has.
    pub(super) fn refuse(&self, path: &str, keys: &[&str], what: &str) {
        for path in keys.iter().map(|key| format!("{path}.{key}")).filter(|path| self.has(path)) {
            self.problem(&path, what);
        }
    }

    /// Returns whether the file has `path`, and the offset of its value or of the nearest table.
    fn find(&self, path: &str) -> (bool, usize) {
        let (mut table, mut items, mut offset) = (Some(self.root), None::<&DeArray<'_>>, 0);
        for part in path.split(['.', '[']) {
            let found = match part.strip_suffix(']') {
                Some(index) => index.parse::<usize>().ok().and_then(|index| items?.get(index)),
                None => table.and_then(|table| table.get(part)),
            };
            let Some(value) = found else { return (false, offset) };
            offset = value.span().start;
            (table, items) = (value.get_ref().as_table(), value.get_ref().as_array());
        }
        (true, offset)
    }
}

/// One table of the file; empty if the file lacks it.
pub(super) struct ConfigSection<'t> {
    document: &'t ConfigDocument<'t>,
    table: Option<&'t DeTable<'t>>,
    path: String,
    offset: usize,
    known: BTreeSet<&'static str>,
}

impl<'t> ConfigSection<'t> {
    /// Returns the value of `key`, and marks `key` as known.
    pub(super) fn value(&mut self, key: &'static str) -> Option<&'t ConfigValue<'t>> {
        self.known.insert(key);
        self.table?.get(key)
    }

    /// Returns the value of a key without a default. Adds a problem if it is missing.
    pub(super) fn required(&mut self, key: &'static str) -> Option<&'t ConfigValue<'t>> {
        let value = self.value(key);
        if value.is_none() {
            self.unread(key, self.offset, "is missing and has no default");
        }
        value
    }

    /// Adds the problem `what` because the value of `key`, or an item of the value, cannot be read.
    /// `offset`: position of the value or item.
    pub(super) fn unread(&self, key: &str, offset: usize, what: impl Into<String>) {
        let path = self.path_of(key);
        self.document.note(offset, &path, what);
        self.document.unread.borrow_mut().insert(path);
    }

    /// Returns the result of reading `value`, or adds a problem. `value` may be an item of `key`.
    pub(super) fn read<T>(
        &self,
        key: &str,
        value: &ConfigValue<'_>,
        read: Result<T, String>,
    ) -> Option<T> {
        read.map_err(|what| self.unread(key, value.span().start, what)).ok()
    }

    /// Returns the table at `key`; empty if absent.
    pub(super) fn table(&mut self, key: &'static str) -> ConfigSection<'t> {
        let found = self.value(key);
        let table = found.and_then(|value| {
            let table = value.get_ref().as_table();
            if table.is_none() {
                let kind = with_article(value.get_ref().type_str());
                let what = format!("must be a table, written [{key}], not {kind}");
                self.unread(key, value.span().start, what);
            }
            table
        });
        let offset = found.map_or(self.offset, |value| value.span().start);
        self.document.section(table, self.path_of(key), offset)
    }

    /// Returns the tables of the array at `key`, written `[[key]]`; none if absent.
    pub(super) fn tables(&mut self, key: &'static str) -> Vec<ConfigSection<'t>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let Some(items) = value.get_ref().as_array() else {
            let what = format!("must be an array of tables, each written [[{key}]]");
            self.unread(key, value.span().start, what);
            return Vec::new();
        };
        let section = |(index, item): (usize, &'t ConfigValue<'t>)| {
            let (name, offset) = (format!("{key}[{index}]"), item.span().start);
            let table = item.get_ref().as_table();
            if table.is_none() {
                self.unread(&name, offset, format!("must be a table, written [[{key}]]"));
            }
            self.document.section(table, self.path_of(&name), offset)
        };
        items.iter().enumerate().map(section).collect()
    }

    /// Returns the items of the list at `key`.
    pub(super) fn list(&mut self, key: &'static str, required: bool) -> &'t [ConfigValue<'t>] {
        let value = if required { self.required(key) } else { self.value(key) };
        let Some(value) = value else { return &[] };
        let items = value.get_ref().as_array();
        if items.is_none() {
            self.unread(key, value.span().start, "takes a list, written [ ... ]");
        }
        items.map_or(&[], |items| &items[..])
    }

    /// Adds a problem for every key that was not read.
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

    fn path_of(&self, key: &str) -> String {
        path_of(&self.path, key)
    }
}

pub(crate) fn path_of(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
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
