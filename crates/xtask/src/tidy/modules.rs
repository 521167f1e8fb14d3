//! Reads the modules of one crate and their imports.
//!
//! A re-exported name (`pub use`) counts as imported from the module that defines it. Paths in the
//! arguments of a macro count; those in its expansion do not.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;

use super::source::{SourceFile, is_for_tests};

/// Maximum length of a chain of re-exports that is followed.
const DEPTH_MAX: usize = 16;

/// Index of a module in [`Crate::modules`].
type ModuleIndex = usize;

/// The modules of a crate.
pub(super) struct Crate<'a> {
    modules: Vec<Module<'a>>,
}

/// A module, which is a file or a block within a file.
struct Module<'a> {
    /// Path within the crate; `crate` for the root.
    name: String,
    parent: Option<ModuleIndex>,
    /// The module whose file contains this one.
    file: ModuleIndex,
    children: HashMap<String, ModuleIndex>,
    defined: BTreeSet<String>,
    uses: Vec<UseLeaf>,
    items: Vec<&'a syn::Item>,
}

/// One name that a `use` imports.
struct UseLeaf {
    path: Vec<String>,
    /// The name in this module; `None` for a glob import.
    alias: Option<String>,
    is_public: bool,
}

/// The module or item that a path leads to.
#[derive(Clone, Copy)]
enum PathTarget {
    Module(ModuleIndex),
    ItemOf(ModuleIndex),
}

impl<'a> Crate<'a> {
    /// Reads the crate whose root is the file at `root`; its other files must be among `files`.
    pub(super) fn new(root: &str, files: &'a [SourceFile]) -> Option<Self> {
        let by_path: HashMap<&str, &SourceFile> =
            files.iter().map(|file| (file.path.as_str(), file)).collect();
        let mut all = Self { modules: Vec::new() };
        let file = by_path.get(root)?;
        let index = all.add("crate".to_owned(), None, None);
        all.fill(index, &file.syntax.items, folder_of(root), &by_path);
        Some(all)
    }

    fn add(
        &mut self,
        name: String,
        parent: Option<ModuleIndex>,
        file: Option<ModuleIndex>,
    ) -> ModuleIndex {
        let index = self.modules.len();
        self.modules.push(Module {
            name,
            parent,
            file: file.unwrap_or(index),
            children: HashMap::new(),
            defined: BTreeSet::new(),
            uses: Vec::new(),
            items: Vec::new(),
        });
        index
    }

    /// Reads the items of a module; the files of its children are in `folder`.
    fn fill(
        &mut self,
        index: ModuleIndex,
        items: &'a [syn::Item],
        folder: &str,
        files: &HashMap<&str, &'a SourceFile>,
    ) {
        for item in items {
            match item {
                syn::Item::Mod(item) if !is_for_tests(&item.attrs) => {
                    self.add_child(index, item, folder, files);
                }
                syn::Item::Mod(_) => {}
                syn::Item::Use(item) if !is_for_tests(&item.attrs) => {
                    let is_public = !matches!(item.vis, syn::Visibility::Inherited);
                    let uses = &mut self.modules[index].uses;
                    flatten(&item.tree, &mut Vec::new(), is_public, uses);
                }
                syn::Item::Use(_) => {}
                item => {
                    let module = &mut self.modules[index];
                    module.defined.extend(name_of(item));
                    module.items.push(item);
                }
            }
        }
    }

    fn add_child(
        &mut self,
        parent: ModuleIndex,
        item: &'a syn::ItemMod,
        folder: &str,
        files: &HashMap<&str, &'a SourceFile>,
    ) {
        let name = item.ident.to_string();
        let path = match self.modules[parent].name.as_str() {
            "crate" => name.clone(),
            above => format!("{above}::{name}"),
        };
        let below = format!("{folder}/{name}");
        if let Some((_, items)) = &item.content {
            let file = self.modules[parent].file;
            let child = self.add(path, Some(parent), Some(file));
            self.modules[parent].children.insert(name, child);
            self.fill(child, items, &below, files);
            return;
        }
        let places = [format!("{below}.rs"), format!("{below}/mod.rs")];
        let Some(file) = places.iter().find_map(|place| files.get(place.as_str())) else { return };
        let child = self.add(path, Some(parent), None);
        self.modules[parent].children.insert(name, child);
        self.fill(child, &file.syntax.items, &below, files);
    }

    /// Returns the path of each module that is a file, with the paths of the modules that it
    /// imports from.
    pub(super) fn imports(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut imports: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (index, module) in self.modules.iter().enumerate() {
            let own = module.file;
            let entry = imports.entry(&self.modules[own].name).or_default();
            let targets = self.targets(index).into_iter().map(|target| self.modules[target].file);
            entry.extend(
                targets.filter(|target| *target != own).map(|at| self.modules[at].name.as_str()),
            );
        }
        imports
    }

    /// Returns the modules that define the names that a module uses.
    fn targets(&self, index: ModuleIndex) -> Vec<ModuleIndex> {
        let module = &self.modules[index];
        let mut mentions = Mentions::default();
        module.items.iter().for_each(|item| mentions.visit_item(item));
        let mut paths = mentions.paths;
        for leaf in &module.uses {
            let is_named = leaf.alias.as_ref().is_some_and(|alias| mentions.first.contains(alias));
            // A re-export counts as an import of the modules that use the name.
            if !leaf.is_public || is_named {
                paths.push(leaf.path.clone());
            }
        }
        let found = paths.iter().filter_map(|path| self.resolve(index, path, DEPTH_MAX));
        let items = found.filter_map(|target| match target {
            PathTarget::ItemOf(module) => Some(module),
            PathTarget::Module(_) => None,
        });
        items.collect()
    }

    /// Resolves a path in module `from` to a module or item; `None` if that is in another crate.
    fn resolve(&self, from: ModuleIndex, path: &[String], depth: usize) -> Option<PathTarget> {
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => 0,
            "self" => from,
            "super" => self.modules[from].parent?,
            name => match self.lookup(from, name, depth)? {
                PathTarget::Module(module) => module,
                item => return Some(item),
            },
        };
        while let Some((name, behind)) = rest.split_first() {
            rest = behind;
            at = match name.as_str() {
                "super" => self.modules[at].parent?,
                "self" => at,
                name => match self.lookup(at, name, depth) {
                    Some(PathTarget::Module(module)) => module,
                    Some(item) => return Some(item),
                    // The item is not found, so a macro defines it.
                    None => return Some(PathTarget::ItemOf(at)),
                },
            };
        }
        Some(PathTarget::Module(at))
    }

    /// Resolves a name in a module to a module or item.
    fn lookup(&self, at: ModuleIndex, name: &str, depth: usize) -> Option<PathTarget> {
        let module = &self.modules[at];
        if module.defined.contains(name) {
            return Some(PathTarget::ItemOf(at));
        }
        if let Some(child) = module.children.get(name) {
            return Some(PathTarget::Module(*child));
        }
        let depth = depth.checked_sub(1)?;
        let named = module.uses.iter().find(|leaf| leaf.alias.as_deref() == Some(name));
        if let Some(leaf) = named {
            // `use x::x` imports from another crate. Resolving `x` through the import itself would
            // not end.
            return (leaf.path.first().map(String::as_str) != Some(name))
                .then(|| self.resolve(at, &leaf.path, depth))
                .flatten();
        }
        let globs = module.uses.iter().filter(|leaf| leaf.alias.is_none());
        globs.filter_map(|leaf| self.resolve(at, &leaf.path, depth)).find_map(|target| match target
        {
            PathTarget::Module(module) if module != at => self.lookup(module, name, depth),
            _ => None,
        })
    }
}

/// Returns the folder of a crate's root file.
fn folder_of(root: &str) -> &str {
    root.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Adds the names that a `use` imports, with their full paths.
fn flatten(tree: &syn::UseTree, at: &mut Vec<String>, is_public: bool, leaves: &mut Vec<UseLeaf>) {
    let mut add = |last: &syn::Ident, alias: Option<&syn::Ident>| {
        let mut path = at.clone();
        if last != "self" || path.is_empty() {
            path.push(last.to_string());
        }
        let alias = alias.map(ToString::to_string).or_else(|| path.last().cloned());
        leaves.push(UseLeaf { path, alias, is_public });
    };
    match tree {
        syn::UseTree::Path(path) => {
            at.push(path.ident.to_string());
            flatten(&path.tree, at, is_public, leaves);
            at.pop();
        }
        syn::UseTree::Name(name) => add(&name.ident, None),
        syn::UseTree::Rename(rename) => add(&rename.ident, Some(&rename.rename)),
        syn::UseTree::Glob(_) => leaves.push(UseLeaf { path: at.clone(), alias: None, is_public }),
        syn::UseTree::Group(group) => {
            group.items.iter().for_each(|tree| flatten(tree, at, is_public, leaves));
        }
    }
}

/// Returns the name that an item defines.
fn name_of(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// The names that the code of a module uses.
#[derive(Default)]
struct Mentions {
    /// The first identifiers of all paths.
    first: BTreeSet<String>,
    /// The paths of at least two identifiers.
    paths: Vec<Vec<String>>,
}

impl Mentions {
    fn add(&mut self, path: Vec<String>) {
        self.first.extend(path.first().cloned());
        if path.len() > 1 {
            self.paths.push(path);
        }
    }

    /// Adds the paths in the tokens of a macro.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.add(core::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' && !path.is_empty() => colons += 1,
                TokenTree::Group(group) => {
                    self.add(core::mem::take(&mut path));
                    colons = 0;
                    self.add_tokens(group.stream());
                }
                _ => {
                    self.add(core::mem::take(&mut path));
                    colons = 0;
                }
            }
        }
        self.add(path);
    }
}

impl<'ast> Visit<'ast> for Mentions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_for_tests(&item.attrs) {
            syn::visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_for_tests(&item.attrs) {
            syn::visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let mut leaves = Vec::new();
        flatten(&item.tree, &mut Vec::new(), false, &mut leaves);
        self.paths.extend(leaves.into_iter().map(|leaf| leaf.path));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.add(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, macro_call: &'ast syn::Macro) {
        self.visit_path(&macro_call.path);
        self.add_tokens(macro_call.tokens.clone());
    }
}
