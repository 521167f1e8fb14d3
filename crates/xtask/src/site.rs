//! `cargo xtask docs`: renders the documents as a site with mdBook. The table of contents is
//! derived from `docs/index.md`, and other files that the pages link to are copied.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use cargo_metadata::MetadataCommand;

use crate::tidy::documents::{self, Documents};
use crate::tidy::pages::{Page, pages};

/// Configuration and style of mdBook.
const CONFIGURATION: [&str; 2] = ["docs/book.toml", "docs/site.css"];

/// Renders the site, or prints what is missing. With `CI` in the environment a missing mdBook is an
/// error.
///
/// # Errors
/// mdBook fails or warns, or a link of the site leads nowhere.
pub(crate) fn run() -> anyhow::Result<()> {
    match Command::new("mdbook").arg("--version").output() {
        Ok(_) => render(),
        Err(_) if std::env::var_os("CI").is_none() => {
            println!("skipped: site: mdbook is missing: scripts/install.sh docs");
            Ok(())
        }
        Err(error) => Err(error).context("mdbook cannot be run: scripts/install.sh docs"),
    }
}

fn render() -> anyhow::Result<()> {
    let metadata = MetadataCommand::new().no_deps().exec().context("cargo metadata")?;
    let root = metadata.workspace_root.as_std_path();
    let target = metadata.target_directory.as_std_path();
    let (book, site) = (&target.join("site-sources"), &target.join("site"));
    for folder in [book, site].into_iter().filter(|folder| folder.exists()) {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let documents = documents::read(root, &mut Vec::new())?;
    let pages = pages(&documents);
    let sources = book.join("src");
    for path in files(&documents, &pages) {
        copy(&root.join(&path), &sources.join(&path))?;
    }
    fs::write(sources.join("SUMMARY.md"), summary(&documents, &pages))?;
    for path in CONFIGURATION.map(Path::new) {
        copy(&root.join(path), &book.join(path.file_name().unwrap_or_default()))?;
    }
    let output =
        Command::new("mdbook").arg("build").arg(book).arg("--dest-dir").arg(site).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || said.contains("WARN") {
        bail!("mdbook: {said}");
    }
    let dead = dead_links(&read_site(site)?);
    if !dead.is_empty() {
        bail!("the site has dead links:\n{}", dead.join("\n"));
    }
    println!("{}: {} pages, no dead link", site.join("index.html").display(), pages.len());
    Ok(())
}

/// Returns the paths of the pages and of all files that they link to.
fn files(documents: &Documents, pages: &[Page]) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    for Page { path, .. } in pages {
        files.insert(path.clone());
        if let Some(document) = documents.get(path) {
            files.extend(document.file_links(path).filter_map(|link| link.target));
        }
    }
    files
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::copy(from, to).with_context(|| from.display().to_string())?;
    Ok(())
}

/// Formats the table of contents for mdBook.
fn summary(documents: &Documents, pages: &[Page]) -> String {
    let mut summary = String::new();
    let mut part = "";
    for page in pages {
        if page.part != part {
            part = &page.part;
            let _ = write!(summary, "\n# {part}\n\n");
        }
        let title = documents.get(&page.path).map_or("", |document| &document.title);
        let mark = match (part.is_empty(), page.is_nested) {
            (true, _) => "",
            (false, false) => "- ",
            (false, true) => "  - ",
        };
        let _ = writeln!(summary, "{mark}[{title}]({})", page.path);
    }
    summary
}

/// Reads the files of a site by their paths. The value is the text of a page, and empty for other
/// files.
fn read_site(site: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut texts = BTreeMap::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(site.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                folders.push(path);
                continue;
            }
            let is_page = path.extension().is_some_and(|extension| extension == "html");
            let text = if is_page { fs::read_to_string(entry.path())? } else { String::new() };
            texts.insert(path.display().to_string(), text);
        }
    }
    Ok(texts)
}

/// Returns a finding for each link within a site that leads to no file or to no anchor in a file.
fn dead_links(site: &BTreeMap<String, String>) -> Vec<String> {
    let ids = |text| values(text, "id").collect::<BTreeSet<_>>();
    let places = site.iter().map(|(path, text)| (path, ids(text))).collect::<BTreeMap<_, _>>();
    let mut dead = Vec::new();
    for (path, text) in site {
        for link in values(text, "href").chain(values(text, "src")) {
            if !documents::is_to_a_file(link) || link.starts_with("data:") {
                continue;
            }
            let (file, place) = link.split_once('#').unwrap_or((link, ""));
            let is_alive = documents::resolved(path, file).is_some_and(|target| {
                let ids = places.get(&target);
                ids.is_some_and(|ids| place.is_empty() || ids.contains(place))
            });
            if !is_alive {
                dead.push(format!("{path}: {link}"));
            }
        }
    }
    dead
}

/// Returns the values of an attribute in all tags of a page.
fn values<'a>(text: &'a str, attribute: &'a str) -> impl Iterator<Item = &'a str> {
    let tags = text.split('<').skip(1).filter_map(|tag| tag.split('>').next());
    tags.filter_map(move |tag| {
        let (_, rest) = tag.split_once(&format!(" {attribute}=\""))?;
        rest.split('"').next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::pages::tests::index_of_two_parts;

    #[test]
    fn contents_follow_the_index_and_the_readme_of_a_folder() {
        let documents = index_of_two_parts();
        let pages = pages(&documents);
        assert_eq!(
            summary(&documents, &pages),
            "[Adit](README.md)\n\n# One\n\n- [Bees b](docs/b.md)\n\n# Two\n\n\
             - [Seas](docs/c/README.md)\n  - [Dees](docs/c/d.md)\n"
        );
        let files = files(&documents, &pages);
        assert!(files.contains("Makefile") && !files.contains("docs/c/z.md"), "{files:?}");
    }

    #[test]
    fn dead_link_of_a_page_is_found() {
        let a = "<h1 id=\"x\"><a class=\"y\" href=\"../b.html#z\">href=\"no\"</a><img src=\"a.webp\">\
            <a href=\"#x\"><a href=\"#y\"><a href=\"https://x.example/\"><a href=\"../b.html#w\"><a href=\"../../b.html\">";
        let files =
            [("c/a.html", a), ("b.html", "<p id=\"z\"><a href=\"c/a.html\"><a href=\"c\">")];
        let site = files.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
        assert_eq!(
            dead_links(&site),
            [
                "b.html: c",
                "c/a.html: #y",
                "c/a.html: ../b.html#w",
                "c/a.html: ../../b.html",
                "c/a.html: a.webp"
            ]
        );
    }
}
