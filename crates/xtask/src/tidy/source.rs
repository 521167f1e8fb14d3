//! The source files of the workspace, each parsed once.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use cargo_metadata::Metadata;

/// A Rust source file.
pub(super) struct SourceFile {
    pub package: String,
    /// Path from the root of the workspace.
    pub path: String,
    pub text: String,
    /// The syntax tree of the file.
    pub syntax: syn::File,
}

impl SourceFile {
    /// Parses a file.
    ///
    /// # Errors
    /// The text is not Rust.
    pub(super) fn new(package: &str, path: &str, text: &str) -> anyhow::Result<Self> {
        Ok(Self {
            package: package.to_owned(),
            path: path.to_owned(),
            text: text.to_owned(),
            syntax: syn::parse_file(text).with_context(|| path.to_owned())?,
        })
    }

    /// True for files of tests, benches and examples, which are programs of their own.
    pub(super) fn is_program(&self) -> bool {
        let folders = ["/tests/", "/benches/", "/examples/"];
        !self.path.contains("/src/") && folders.iter().any(|folder| self.path.contains(folder))
    }
}

/// Reads all source files of the workspace's packages.
///
/// # Errors
/// A file cannot be read or parsed.
pub(super) fn read(metadata: &Metadata) -> anyhow::Result<Vec<SourceFile>> {
    let root = metadata.workspace_root.as_std_path();
    let mut files = Vec::new();
    for package in metadata.workspace_packages() {
        let Some(folder) = package.manifest_path.parent() else { continue };
        for path in with_extension(folder.as_std_path(), "rs")? {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            files.push(SourceFile::new(&package.name, &shown, &text)?);
        }
    }
    Ok(files)
}

/// Returns the sorted paths of all files below `folder` whose names end in `.extension`. Skips
/// build outputs and reports.
///
/// # Errors
/// A folder cannot be read.
pub(super) fn with_extension(folder: &Path, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() {
                if !name.starts_with('.') && !name.starts_with("target") && name != "lab-report" {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// True if an attribute compiles its item for tests only: `#[test]`, or a `cfg` that requires
/// `test`.
pub(super) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        if attribute.path().is_ident("test") {
            return true;
        }
        if !attribute.path().is_ident("cfg") {
            return false;
        }
        attribute.parse_args::<syn::Meta>().is_ok_and(|meta| requires_test(&meta))
    })
}

fn requires_test(meta: &syn::Meta) -> bool {
    if meta.path().is_ident("test") {
        return true;
    }
    let syn::Meta::List(list) = meta else { return false };
    let parts = list.parse_args_with(
        syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated,
    );
    let parts = parts.unwrap_or_default();
    if list.path.is_ident("all") {
        parts.iter().any(requires_test)
    } else {
        list.path.is_ident("any") && !parts.is_empty() && parts.iter().all(requires_test)
    }
}
