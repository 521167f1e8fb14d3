//! Functions that are read in one sitting: their length, and parameters that are tuples.

use std::collections::BTreeMap;

use syn::spanned::Spanned;
use syn::visit::Visit;

use super::source::{SourceFile, is_for_tests};

/// Longest function, from its signature to its closing brace. Unit: lines.
const LINES_MAX: usize = 70;

/// Parameters that are tuples, by package, outside tests. Numbers here only go down.
const TUPLE_PARAMETERS_MAX: &[(&str, usize)] = &[("adit-tests", 13)];

/// Functions beyond [`LINES_MAX`], by package. Numbers here only go down.
const LONG_FUNCTIONS_MAX: &[(&str, usize)] = &[("adit-pfcp", 3), ("adit-tests", 11)];

/// Adds a finding for each package with more long functions or more tuple parameters than the tables
/// allow.
pub(super) fn check(files: &[SourceFile], findings: &mut Vec<String>) {
    check_against(files, LONG_FUNCTIONS_MAX, TUPLE_PARAMETERS_MAX, findings);
}

fn check_against(
    files: &[SourceFile],
    long_max: &[(&str, usize)],
    tuples_max: &[(&str, usize)],
    findings: &mut Vec<String>,
) {
    let mut long: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut tuples: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for file in files {
        let mut functions = Functions { for_tests: file.is_program(), ..Functions::default() };
        functions.visit_file(&file.syntax);
        let shown = functions
            .long
            .iter()
            .map(|(name, line, lines)| format!("{}:{line}: {name} has {lines} lines", file.path));
        long.entry(&file.package).or_default().extend(shown);
        let places = functions.tuples.iter().map(|line| format!("{}:{line}", file.path));
        tuples.entry(&file.package).or_default().extend(places);
    }
    let allowed = |table: &[(&str, usize)], package: &str| {
        table.iter().find(|(name, _)| *name == package).map_or(0, |(_, most)| *most)
    };
    for (package, functions) in long {
        let most = allowed(long_max, package);
        if functions.len() > most {
            let beyond = format!("beyond {LINES_MAX} lines, {most} are allowed in {package}");
            findings.extend(functions.iter().map(|function| format!("{function} ({beyond})")));
        }
    }
    for (package, places) in tuples {
        let most = allowed(tuples_max, package);
        if places.len() > most {
            findings.push(format!(
                "{package}: {} parameters are tuples, {most} are allowed: {}",
                places.len(),
                places.join(", ")
            ));
        }
    }
}

/// What is found of a file's functions.
#[derive(Default)]
struct Functions {
    /// What is visited belongs to tests.
    for_tests: bool,
    /// Name, line and length.
    long: Vec<(String, usize, usize)>,
    /// Lines of tuple parameters.
    tuples: Vec<usize>,
}

impl Functions {
    fn add(&mut self, signature: &syn::Signature, end: Option<&syn::Block>, for_tests: bool) {
        let start = signature.span().start().line;
        let end = end.map_or(start, |block| block.span().end().line);
        if end - start + 1 > LINES_MAX {
            self.long.push((signature.ident.to_string(), start, end - start + 1));
        }
        if for_tests || self.for_tests {
            return;
        }
        let tuples = signature
            .inputs
            .iter()
            .filter(|input| matches!(input, syn::FnArg::Typed(typed) if is_tuple(&typed.ty)));
        self.tuples.extend(tuples.map(|input| input.span().start().line));
    }

    fn within(&mut self, for_tests: bool, visit: impl FnOnce(&mut Self)) {
        let before = self.for_tests;
        self.for_tests |= for_tests;
        visit(self);
        self.for_tests = before;
    }
}

/// A tuple with parts, or a reference to one.
fn is_tuple(ty: &syn::Type) -> bool {
    match ty {
        syn::Type::Tuple(tuple) => !tuple.elems.is_empty(),
        syn::Type::Reference(reference) => is_tuple(&reference.elem),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.within(is_for_tests(&item.attrs), |all| syn::visit::visit_item_mod(all, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let for_tests = is_for_tests(&item.attrs);
        self.add(&item.sig, Some(&item.block), for_tests);
        self.within(for_tests, |all| syn::visit::visit_item_fn(all, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig, Some(&item.block), is_for_tests(&item.attrs));
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.add(&item.sig, item.default.as_ref(), is_for_tests(&item.attrs));
        syn::visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str, most: &[(&str, usize)]) -> Vec<String> {
        let mut findings = Vec::new();
        let files = [SourceFile::new("adit-x", path, text).unwrap()];
        check_against(&files, &[], most, &mut findings);
        findings
    }

    #[test]
    fn function_of_71_lines_is_found_and_of_70_is_not() {
        let of = |lines: usize| format!("impl S {{\nfn long() {{{}}}\n}}", "\n".repeat(lines - 1));
        let path = "crates/a/src/lib.rs";
        assert_eq!(findings(path, &of(70), &[]), Vec::<String>::new());
        assert_eq!(
            findings(path, &of(71), &[]),
            ["crates/a/src/lib.rs:2: long has 71 lines (beyond 70 lines, 0 are allowed in adit-x)"]
        );
    }

    #[test]
    fn tuple_parameters_beyond_the_number_of_their_room_are_found() {
        let text = "fn f((a, b): (u8, u8)) {}\ntrait T { fn g(&self, pair: &(u8, u8), unit: ()); }";
        let path = "crates/a/src/lib.rs";
        assert_eq!(findings(path, text, &[("adit-x", 2)]), Vec::<String>::new());
        assert_eq!(
            findings(path, text, &[("adit-x", 1)]),
            ["adit-x: 2 parameters are tuples, 1 are allowed: \
              crates/a/src/lib.rs:1, crates/a/src/lib.rs:2"]
        );
    }

    #[test]
    fn tuple_parameters_of_tests_are_free() {
        let text = "#[cfg(test)] mod tests { fn f(pair: (u8, u8)) {} }";
        assert_eq!(findings("crates/a/src/lib.rs", text, &[]), Vec::<String>::new());
        assert_eq!(
            findings("crates/a/tests/it.rs", "fn f(a: (u8,)) {}", &[]),
            Vec::<String>::new()
        );
    }
}
