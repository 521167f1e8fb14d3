//! Checks that no two types share a name: a type in the `src` of a room has a name that no other
//! type of the workspace has. Test programs may share names with each other, but not with a room.

use std::collections::BTreeMap;

use syn::visit::Visit;

use super::source::SourceFile;

/// The place where a type is defined.
struct TypeDefinition {
    place: String,
    in_program: bool,
}

/// Adds a finding for each name that two types have.
pub(super) fn check(files: &[SourceFile], findings: &mut Vec<String>) {
    let mut by_name: BTreeMap<String, Vec<TypeDefinition>> = BTreeMap::new();
    for file in files {
        let mut names = TypeNames::default();
        names.visit_file(&file.syntax);
        for (name, line) in names.found {
            let place = format!("{}:{line}", file.path);
            let in_program = file.is_program();
            by_name.entry(name).or_default().push(TypeDefinition { place, in_program });
        }
    }
    for (name, definitions) in by_name {
        let in_rooms: Vec<_> = definitions.iter().filter(|found| !found.in_program).collect();
        if definitions.len() < 2 || in_rooms.is_empty() {
            continue;
        }
        let keeps = in_rooms[0];
        for other in definitions.iter().filter(|found| found.place != keeps.place) {
            findings.push(format!("{}: type {name} has the name of {}", other.place, keeps.place));
        }
    }
}

/// The names of types, with their lines. Skips associated types, which are not types of their own.
#[derive(Default)]
struct TypeNames {
    found: Vec<(String, usize)>,
}

impl TypeNames {
    fn add(&mut self, name: &syn::Ident) {
        self.found.push((name.to_string(), name.span().start().line));
    }
}

impl<'ast> Visit<'ast> for TypeNames {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.add(&item.ident);
        syn::visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.add(&item.ident);
        syn::visit::visit_item_enum(self, item);
    }

    fn visit_item_union(&mut self, item: &'ast syn::ItemUnion) {
        self.add(&item.ident);
        syn::visit::visit_item_union(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.add(&item.ident);
        syn::visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.add(&item.ident);
        syn::visit::visit_item_type(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let parsed = |(path, text): &(&str, &str)| SourceFile::new("adit-x", path, text).unwrap();
        let files: Vec<_> = files.iter().map(parsed).collect();
        let mut findings = Vec::new();
        check(&files, &mut findings);
        findings
    }

    #[test]
    fn name_of_two_rooms_is_found() {
        let found = findings(&[
            ("crates/a/src/lib.rs", "struct Twin;"),
            ("crates/b/src/lib.rs", "\nfn f() { enum Twin {} }"),
        ]);
        assert_eq!(
            found,
            ["crates/b/src/lib.rs:2: type Twin has the name of crates/a/src/lib.rs:1"]
        );
    }

    #[test]
    fn name_of_a_room_in_a_test_program_is_found() {
        let found = findings(&[
            ("crates/a/src/lib.rs", "pub trait Twin {}"),
            ("crates/a/tests/it.rs", "type Twin = u8;"),
        ]);
        assert_eq!(
            found,
            ["crates/a/tests/it.rs:1: type Twin has the name of crates/a/src/lib.rs:1"]
        );
    }

    #[test]
    fn test_programs_share_names_and_associated_types_are_none() {
        let implementation = "impl Iterator for S { type Item = u8; } struct Item;";
        let found = findings(&[
            ("crates/a/src/lib.rs", implementation),
            ("crates/a/tests/one.rs", "struct Twin;"),
            ("crates/a/tests/two.rs", "struct Twin;"),
            ("crates/b/src/lib.rs", "impl Iterator for T { type Item = u8; }"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }
}
