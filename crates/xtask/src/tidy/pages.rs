//! Determines the pages of the site: the documents that `docs/index.md` links to, and those that a
//! linked README.md links to in its own folder.

use super::documents::{Documents, FileLink};

/// The index. Its links are the table of contents; its headings of level 2 divide that into parts.
const INDEX: &str = "docs/index.md";

/// A page of the site.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// Path from the root, of both the repository and the site.
    pub path: String,
    /// The heading above its link in the index; empty before the first heading.
    pub part: String,
    /// True if the page is in the site through the README.md of its folder.
    pub is_nested: bool,
}

/// Returns the pages in the order of the table of contents.
pub(crate) fn pages(documents: &Documents) -> Vec<Page> {
    let mut pages: Vec<Page> = Vec::new();
    let mut add = |path: &str, part: &str, is_nested: bool| {
        if documents.contains_key(path) && pages.iter().all(|page| page.path != path) {
            pages.push(Page { path: path.to_owned(), part: part.to_owned(), is_nested });
        }
    };
    let Some(index) = documents.get(INDEX) else { return pages };
    for FileLink { line, target, .. } in index.file_links(INDEX) {
        let Some(target) = target else { continue };
        let above = index.parts.iter().take_while(|(at, _)| *at < line).last();
        let part = above.map_or("", |(_, part)| part);
        add(&target, part, false);
        let Some(folder) = target.strip_suffix("README.md").filter(|folder| !folder.is_empty())
        else {
            continue;
        };
        let Some(readme) = documents.get(&target) else { continue };
        for FileLink { target: page, .. } in readme.file_links(&target) {
            if let Some(page) = page.filter(|page| page.starts_with(folder)) {
                add(&page, part, true);
            }
        }
    }
    pages
}

/// Adds a finding for each document in `docs` that is not a page, and for each link of a page that
/// breaks on the site: to a document that is not a page, or to a folder. `is_folder` returns
/// whether the repository has a folder.
pub(super) fn check(
    documents: &Documents,
    is_folder: impl Fn(&str) -> bool,
    findings: &mut Vec<String>,
) {
    let pages = pages(documents);
    let has = |path: &str| pages.iter().any(|page| page.path == path);
    for path in documents.keys().filter(|path| path.starts_with("docs/") && !has(path)) {
        findings.push(format!("{path}: {INDEX} does not lead to it"));
    }
    for Page { path, .. } in &pages {
        let Some(document) = documents.get(path) else { continue };
        for FileLink { line, link, target, .. } in document.file_links(path) {
            let Some(target) = target else { continue };
            if documents.contains_key(&target) && !has(&target) {
                findings.push(format!("{path}:{line}: {INDEX} does not lead to {target}"));
            } else if is_folder(&target) {
                findings.push(format!("{path}:{line}: {link} is a folder: link to a file of it"));
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::tidy::documents::Document;

    pub(crate) fn documents(texts: &[(&str, &str)]) -> Documents {
        let read = |(path, text): &(&str, &str)| {
            ((*path).to_owned(), Document::new(path, text, &mut Vec::new()))
        };
        texts.iter().map(read).collect()
    }

    /// Returns an index with two parts, a folder with a README.md, and a page that no link leads
    /// to.
    pub(crate) fn index_of_two_parts() -> Documents {
        let index = "# Index\n[a](../README.md) [x](https://x.example/y.md)\n\n## One\n- [b](b.md#b)\n\n\
            ## Two\n| [c](c/README.md) | [again](b.md) |\n|---|---|";
        documents(&[
            (INDEX, index),
            ("README.md", "# Adit\n[i](docs/index.md) [f](docs) [m](Makefile)"),
            ("docs/b.md", "# Bees `b`\n[d](c/d.md) [z](z.md)"),
            ("docs/c/README.md", "# Seas\n[b](../b.md) [d](d.md)"),
            ("docs/c/d.md", "# Dees"),
            ("docs/z.md", "# Zees"),
        ])
    }

    #[test]
    fn page_that_the_index_does_not_reach_is_found() {
        let mut findings = Vec::new();
        check(&index_of_two_parts(), |path| path == "docs", &mut findings);
        assert_eq!(
            findings,
            [
                "docs/index.md: docs/index.md does not lead to it",
                "docs/z.md: docs/index.md does not lead to it",
                "README.md:2: docs/index.md does not lead to docs/index.md",
                "README.md:2: docs is a folder: link to a file of it",
                "docs/b.md:2: docs/index.md does not lead to docs/z.md",
            ]
        );
    }
}
