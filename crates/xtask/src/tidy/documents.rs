//! Checks Markdown documents: code blocks end, links lead to files that exist, and anchors match
//! headings.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::ops::Range;
use std::path::Path;

use anyhow::Context;
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::source::with_extension;

/// The documents by their paths from the root of the repository.
pub(crate) type Documents = BTreeMap<String, Document>;

/// Reads all documents below `root`. Adds a finding for each code block that does not end.
///
/// # Errors
/// A document cannot be read.
pub(crate) fn read(root: &Path, findings: &mut Vec<String>) -> anyhow::Result<Documents> {
    let mut documents = Documents::new();
    for path in with_extension(root, "md")? {
        let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let text = fs::read_to_string(&path).with_context(|| shown.clone())?;
        let document = Document::new(&shown, &text, findings);
        documents.insert(shown, document);
    }
    Ok(documents)
}

/// The headings and links of a document.
#[derive(Default)]
pub(crate) struct Document {
    /// Text of the first heading.
    pub title: String,
    /// Lines and texts of the headings of level 2.
    pub parts: Vec<(usize, String)>,
    /// Anchors of all headings.
    anchors: HashSet<String>,
    /// Lines and destinations of all links.
    links: Vec<(usize, String)>,
}

impl Document {
    /// Parses the document at `path`. Adds a finding for each code block that does not end.
    pub(crate) fn new(path: &str, text: &str, findings: &mut Vec<String>) -> Self {
        let line_at = |offset: usize| 1 + text.bytes().take(offset).filter(|&o| o == b'\n').count();
        let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
        let mut document = Self::default();
        let mut heading: Option<String> = None;
        for (event, Range { start, end }) in Parser::new_ext(text, options).into_offset_iter() {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(level)) => {
                    let heading = heading.take().unwrap_or_default();
                    document.add_heading(level, line_at(start), heading.trim());
                }
                Event::Text(part) | Event::Code(part) => {
                    heading.iter_mut().for_each(|heading| heading.push_str(&part));
                }
                Event::SoftBreak => heading.iter_mut().for_each(|heading| heading.push(' ')),
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.links.push((line_at(start), dest_url.into_string()));
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => {
                    let block = text.get(start..end).unwrap_or_default();
                    check_fences(path, line_at(start), block, findings);
                }
                _ => {}
            }
        }
        document
    }

    /// Adds a heading, with the anchor that GitHub generates for it.
    fn add_heading(&mut self, level: HeadingLevel, line: usize, heading: &str) {
        if self.title.is_empty() {
            heading.clone_into(&mut self.title);
        }
        if level == HeadingLevel::H2 {
            self.parts.push((line, heading.to_owned()));
        }
        let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
        let anchor = heading.to_lowercase().chars().filter(kept).collect::<String>();
        let anchor = anchor.replace(' ', "-");
        if self.anchors.insert(anchor.clone()) {
            return;
        }
        let mut number = 1;
        while !self.anchors.insert(format!("{anchor}-{number}")) {
            number += 1;
        }
    }

    /// Returns the links of this document, which is at `path`, to files and headings.
    pub(crate) fn file_links(&self, path: &str) -> impl Iterator<Item = FileLink<'_>> {
        self.links.iter().filter(|(_, link)| is_to_a_file(link)).map(move |(line, link)| {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            FileLink { line: *line, link, target: resolved(path, file), anchor }
        })
    }
}

/// True for a link to a file or a heading; false for a web address.
pub(crate) fn is_to_a_file(link: &str) -> bool {
    !link.contains("://") && !link.starts_with("mailto:")
}

/// A link to a file or a heading.
pub(crate) struct FileLink<'a> {
    pub line: usize,
    /// The link as it is written.
    pub link: &'a str,
    /// Path of the file from the root of the repository; `None` if the file is outside.
    pub target: Option<String>,
    /// The anchor; empty if there is none.
    pub anchor: &'a str,
}

/// Checks the fenced code block that begins in `line`. A fence with a language never ends a block,
/// so such a fence inside a block shows that the end of the block is missing before it.
fn check_fences(path: &str, line: usize, block: &str, findings: &mut Vec<String>) {
    let mut lines = block.lines().map(|line| line.trim_start_matches([' ', '\t', '>']));
    let opening = lines.next().unwrap_or_default();
    let mark = opening.chars().next().unwrap_or('`');
    let fence_len = |line: &str| line.chars().take_while(|&c| c == mark).count();
    let opening_len = fence_len(opening);
    let mut is_closed = false;
    for (number, inner) in (line + 1..).zip(lines) {
        if fence_len(inner) < opening_len {
            continue;
        }
        is_closed = inner.trim_start_matches(mark).trim().is_empty();
        if !is_closed {
            findings.push(format!(
                "{path}:{number}: a code block begins within the one of line {line}, which has no end"
            ));
        }
    }
    if !is_closed {
        findings.push(format!("{path}:{line}: the code block has no end"));
    }
}

/// Adds a finding for each link in `documents` whose file, or heading in another document, is
/// missing. `exists` returns whether the repository has a file or folder at a path.
pub(super) fn check(
    documents: &Documents,
    exists: impl Fn(&str) -> bool,
    findings: &mut Vec<String>,
) {
    for (path, document) in documents {
        for FileLink { line, link, target, anchor } in document.file_links(path) {
            let Some(target) = target.filter(|target| exists(target)) else {
                let file = link.split('#').next().unwrap_or_default();
                findings.push(format!("{path}:{line}: there is no file {file}"));
                continue;
            };
            // The anchors of files that are no documents are line numbers.
            let Some(target) = documents.get(&target) else { continue };
            if !anchor.is_empty() && !target.anchors.contains(anchor) {
                findings.push(format!("{path}:{line}: there is no heading for {link}"));
            }
        }
    }
}

/// Resolves `file`, as the document at `path` names it, to a path from the root of the repository.
/// `None` if it is outside.
pub(crate) fn resolved(path: &str, file: &str) -> Option<String> {
    if file.is_empty() {
        return Some(path.to_owned());
    }
    let folder = match (file.starts_with('/'), path.rsplit_once('/')) {
        (false, Some((folder, _))) => folder,
        _ => "",
    };
    let mut parts = Vec::new();
    for part in folder.split('/').chain(file.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the findings in documents that are the only files of a repository.
    fn found(texts: &[(&str, &str)]) -> Vec<String> {
        let mut findings = Vec::new();
        let read = |(path, text): &(&str, &str)| {
            ((*path).to_owned(), Document::new(path, text, &mut findings))
        };
        let documents = texts.iter().map(read).collect::<Documents>();
        check(&documents, |path| documents.contains_key(path), &mut findings);
        findings
    }

    #[test]
    fn code_block_without_end_is_found() {
        let expected = ["a.md:2: the code block has no end"];
        assert_eq!(found(&[("a.md", "x\n```sh\nls\n")]), expected);
        assert_eq!(found(&[("a.md", "x\n```")]), expected);
        assert_eq!(found(&[("a.md", "x\n~~~~\nls\n~~~\n")]), expected);
        assert_eq!(found(&[("a.md", "x\n- ```\n  ls\n\nx\n")]), expected);
    }

    #[test]
    fn code_block_whose_end_is_that_of_the_next_one_is_found() {
        let findings = found(&[("a.md", "```sh\nls\n\n## Next\n\n```sh\nls\n```\n")]);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("a.md:6: a code block begins within the one of line 1"));
    }

    #[test]
    fn code_blocks_with_an_end_pass() {
        let blocks = "```sh\nls\n```\n\n~~~\n```\n~~~\n\n- ````md\n  ```sh\n  ```\n  ````\n\n> ```\n> x\n> ```";
        assert_eq!(found(&[("a.md", blocks)]), Vec::<String>::new());
        assert_eq!(found(&[("a.md", "```\n```\n\n    ```sh\n")]), Vec::<String>::new());
    }

    #[test]
    fn link_to_a_missing_file_is_found() {
        let expected = ["docs/a.md:2: there is no file b.md"];
        assert_eq!(found(&[("docs/a.md", "x\n[b](b.md)"), ("b.md", "")]), expected);
        assert_eq!(found(&[("docs/a.md", "x\n![b](b.md)")]), expected);
        assert_eq!(found(&[("docs/a.md", "x\n[b][]\n\n[b]: b.md#c")]), expected);
        assert_eq!(found(&[("docs/a.md", "[b](../../docs/a.md)")]).len(), 1);
    }

    #[test]
    fn link_to_a_missing_heading_is_found() {
        let findings =
            found(&[("a.md", "# A\n[b](b.md#c) [a](#b)"), ("b.md", "```\n# C\n```\n# B")]);
        assert_eq!(
            findings,
            ["a.md:2: there is no heading for b.md#c", "a.md:2: there is no heading for #b"]
        );
        assert_eq!(found(&[("a.md", "# A\n# A\n[a](#a-2)")]).len(), 1);
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let a = "# A `b` (c): [d](b.md)\n## a-b_é's\n# A b c d\n[1](#a-b-c-d) [2](#a-b_és) [3](#a-b-c-d-1)";
        let b = "[1](/docs/a.md#a-b-c-d) [2](a.md) [3](../README.md#x) [4](https://x.example/y.md#z) [5](#y)\n\nY\n=";
        let texts = [("docs/a.md", a), ("docs/b.md", b), ("README.md", "# X\n`[no](link.md)`")];
        assert_eq!(found(&texts), Vec::<String>::new());
    }
}
