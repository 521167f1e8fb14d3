//! The rules of CONTRIBUTING and ARCHITECTURE, as checks that fail.

mod benches;
mod comment_width;
pub(crate) mod documents;
mod functions;
mod loops;
mod modules;
pub(crate) mod pages;
mod promises;
mod regions;
mod rooms;
mod shared_text;
mod source;
mod type_names;
mod words;

use anyhow::{Context, bail};
use cargo_metadata::MetadataCommand;

/// Runs all checks and prints their findings.
///
/// # Errors
/// A check has a finding, or a file cannot be read or parsed.
pub(crate) fn run() -> anyhow::Result<()> {
    let metadata = MetadataCommand::new().no_deps().exec().context("cargo metadata")?;
    let files = source::read(&metadata)?;
    let mut findings = Vec::new();
    rooms::check(&metadata, &files, &mut findings);
    type_names::check(&files, &mut findings);
    functions::check(&files, &mut findings);
    loops::check(&files, &mut findings);
    benches::check(&files, &mut findings);
    comment_width::check(&files, &mut findings);
    shared_text::check(&files, &mut findings)?;
    promises::check(&metadata, &files, &mut findings)?;
    words::check(&metadata, &files, &mut findings)?;
    let root = metadata.workspace_root.as_std_path();
    let documents = documents::read(root, &mut findings)?;
    documents::check(&documents, |path| root.join(path).exists(), &mut findings);
    pages::check(&documents, |path| root.join(path).is_dir(), &mut findings);
    if findings.is_empty() {
        println!("tidy: {} rooms in order", rooms::count());
        return Ok(());
    }
    findings.sort();
    for finding in &findings {
        eprintln!("{finding}");
    }
    bail!("{} findings", findings.len())
}
