//! Checks that modules with the same parent do not import from each other: two such modules would
//! really be one module in two files.
//!
//! A module includes all modules below it, so the rule is the same at each level of a crate. It
//! does not apply to a module and its parent: a parent may use its children, and they may use its
//! types.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::Crate;
use super::source::SourceFile;

/// Adds a finding for each cycle of imports.
pub(super) fn check(files: &[SourceFile], findings: &mut Vec<String>) {
    let is_root = |path: &str| path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs");
    for root in files.iter().filter(|file| is_root(&file.path)) {
        let Some(modules) = Crate::new(&root.path, files) else { continue };
        for imports in levels(&modules.imports()).values() {
            for members in loops(imports) {
                findings.push(format!(
                    "{}: {} modules import from each other: {}; of {}",
                    root.path,
                    members.len(),
                    shortest(imports, &members).join(" → "),
                    members.into_iter().collect::<Vec<_>>().join(", ")
                ));
            }
        }
    }
}

type Imports<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Returns the imports among the children of each module. An import counts for all modules that
/// contain the importing or the imported one.
fn levels<'a>(imports: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeMap<&'a str, Imports<'a>> {
    let mut levels: BTreeMap<&str, Imports<'a>> = BTreeMap::new();
    for (from, all) in imports {
        for to in all {
            if let Some((parent, from, to)) = siblings(from, to) {
                let level = levels.entry(parent).or_default();
                level.entry(from).or_default().insert(to);
                level.entry(to).or_default();
            }
        }
    }
    levels
}

/// Returns the closest common parent of two modules, and its two children that contain them. `None`
/// if one of the modules contains the other.
fn siblings<'a>(one: &'a str, other: &'a str) -> Option<(&'a str, &'a str, &'a str)> {
    if one == "crate" || other == "crate" {
        return None;
    }
    let mut at: usize = 0;
    for (name, theirs) in one.split("::").zip(other.split("::")) {
        if name != theirs {
            let parent = one.get(..at.saturating_sub(2))?;
            return Some((parent, one.get(..at + name.len())?, other.get(..at + theirs.len())?));
        }
        at += name.len() + 2;
    }
    None
}

/// Returns the sets of modules that reach each other by imports.
fn loops<'a>(imports: &Imports<'a>) -> Vec<BTreeSet<&'a str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|from| (*from, reached(imports, from))).collect();
    let mut found: Vec<BTreeSet<&str>> = Vec::new();
    for (module, all) in &reached {
        if all.contains(module) && !found.iter().any(|members| members.contains(module)) {
            let mutual = all.iter().filter(|other| reached[**other].contains(module));
            found.push(mutual.copied().collect());
        }
    }
    found
}

/// Returns the modules that `from` reaches by imports, in one step or more.
fn reached<'a>(imports: &Imports<'a>, from: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&str> = imports.get(from).into_iter().flatten().copied().collect();
    while let Some(module) = next.pop() {
        if found.insert(module) {
            next.extend(imports.get(module).into_iter().flatten());
        }
    }
    found
}

/// Returns the shortest path of imports from a module of a cycle back to it.
fn shortest<'a>(imports: &Imports<'a>, members: &BTreeSet<&'a str>) -> Vec<&'a str> {
    let back = |start: &'a str| {
        let mut ways: Vec<Vec<&'a str>> = vec![vec![start]];
        let mut seen = BTreeSet::new();
        while !ways.is_empty() {
            let mut longer = Vec::new();
            for way in &ways {
                let Some(last) = way.last() else { continue };
                for next in imports.get(last).into_iter().flatten() {
                    let further = [way.as_slice(), &[*next]].concat();
                    if *next == start {
                        return further;
                    }
                    if members.contains(next) && seen.insert(*next) {
                        longer.push(further);
                    }
                }
            }
            ways = longer;
        }
        Vec::new()
    };
    members.iter().map(|start| back(start)).min_by_key(Vec::len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let parsed = |(path, text): &(&str, &str)| {
            SourceFile::new("adit-x", &format!("crates/x/src/{path}"), text).unwrap()
        };
        let files: Vec<_> = files.iter().map(parsed).collect();
        let mut findings = Vec::new();
        check(&files, &mut findings);
        findings
    }

    #[test]
    fn modules_that_import_from_each_other_are_found() {
        let found = findings(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "pub struct B; impl B { fn f(_: super::c::C) {} }"),
            ("c.rs", "pub struct C; fn f() { let _ = vec![crate::a::A]; }"),
        ]);
        assert_eq!(
            found,
            ["crates/x/src/lib.rs: 3 modules import from each other: \
              a → b → c → a; of a, b, c"]
        );
    }

    #[test]
    fn name_that_is_passed_on_leads_to_its_definition() {
        let found = findings(&[
            ("lib.rs", "mod a; mod b; pub use b::B as Other;"),
            ("a.rs", "use crate::Other; pub struct A;"),
            ("b.rs", "use super::a; pub struct B(a::A);"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn parts_of_modules_that_import_from_each_other_are_found() {
        let found = findings(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "mod part; pub struct A;"),
            ("a/part.rs", "use crate::b::B;"),
            ("b.rs", "mod part; pub struct B;"),
            ("b/part.rs", "use crate::a::A;"),
        ]);
        assert_eq!(
            found,
            ["crates/x/src/lib.rs: 2 modules import from each other: a → b → a; of a, b"]
        );
    }

    #[test]
    fn modules_beside_each_other_below_the_root_are_found() {
        let found = findings(&[
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; mod c;"),
            ("a/b.rs", "pub struct B(super::c::C);"),
            ("a/c.rs", "pub struct C(Box<super::b::B>);"),
        ]);
        assert_eq!(
            found,
            ["crates/x/src/lib.rs: 2 modules import from each other: \
              a::b → a::c → a::b; of a::b, a::c"]
        );
    }

    #[test]
    fn parent_and_part_close_no_loop() {
        let found = findings(&[
            ("lib.rs", "mod a;"),
            ("a.rs", "mod part; use part::help; pub struct A; fn f() { help() }"),
            ("a/part.rs", "use super::A; pub fn help() -> A {}"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn root_that_passes_on_and_tests_that_import_close_no_loop() {
        let found = findings(&[
            ("lib.rs", "mod a; mod b; pub use a::A; pub struct Root;"),
            ("a.rs", "use crate::Root; pub struct A; #[cfg(test)] mod tests { use crate::b::B; }"),
            ("b.rs", "use crate::{A, Root}; pub struct B;"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }
}
