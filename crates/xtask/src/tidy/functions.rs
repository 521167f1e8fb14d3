//! Checks the length of functions, and that no parameter is a tuple.

use syn::spanned::Spanned;
use syn::visit::Visit;

use super::source::{SourceFile, is_for_tests};

/// Maximum length of a function, from its signature to its closing brace. Unit: lines.
const LINES_MAX: usize = 70;

/// Adds a finding for each function that is too long, and for each tuple parameter outside tests.
pub(super) fn check(files: &[SourceFile], findings: &mut Vec<String>) {
    for file in files {
        let mut functions = Functions { for_tests: file.is_program(), ..Functions::default() };
        functions.visit_file(&file.syntax);
        for (name, line, lines) in functions.long {
            findings.push(format!(
                "{}:{line}: {name} has {lines} lines, {LINES_MAX} at most",
                file.path
            ));
        }
        for line in functions.tuples {
            findings.push(format!("{}:{line}: a parameter is a tuple: name its parts", file.path));
        }
    }
}

/// The findings in a file.
#[derive(Default)]
struct Functions {
    /// True while the visitor is in test code.
    for_tests: bool,
    /// Name, line and length of each function that is too long.
    long: Vec<(String, usize, usize)>,
    /// Lines of the tuple parameters.
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

/// True for a tuple, other than `()`, and for a reference to one.
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

    fn findings(path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check(&[SourceFile::new("adit-x", path, text).unwrap()], &mut findings);
        findings
    }

    #[test]
    fn function_of_71_lines_is_found_and_of_70_is_not() {
        let of = |lines: usize| format!("impl S {{\nfn long() {{{}}}\n}}", "\n".repeat(lines - 1));
        let path = "crates/a/src/lib.rs";
        assert_eq!(findings(path, &of(70)), Vec::<String>::new());
        assert_eq!(
            findings(path, &of(71)),
            ["crates/a/src/lib.rs:2: long has 71 lines, 70 at most"]
        );
    }

    #[test]
    fn long_function_of_a_test_is_found() {
        let text = format!("#[test]\nfn long() {{{}}}", "\n".repeat(70));
        assert_eq!(
            findings("crates/a/tests/it.rs", &text),
            ["crates/a/tests/it.rs:2: long has 71 lines, 70 at most"]
        );
    }

    #[test]
    fn tuple_parameters_are_found() {
        let text = "fn f((a, b): (u8, u8)) {}\ntrait T { fn g(&self, pair: &(u8, u8), unit: ()); }";
        assert_eq!(
            findings("crates/a/src/lib.rs", text),
            [
                "crates/a/src/lib.rs:1: a parameter is a tuple: name its parts",
                "crates/a/src/lib.rs:2: a parameter is a tuple: name its parts"
            ]
        );
    }

    #[test]
    fn tuple_parameters_of_tests_are_free() {
        let text = "#[cfg(test)] mod tests { fn f(pair: (u8, u8)) {} }";
        assert_eq!(findings("crates/a/src/lib.rs", text), Vec::<String>::new());
        assert_eq!(findings("crates/a/tests/it.rs", "fn f(a: (u8,)) {}"), Vec::<String>::new());
    }
}
