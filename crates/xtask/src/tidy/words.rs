//! Spelling, and turns of phrase that are not plain, in code, comments and documents.

use std::fs;

use anyhow::Context;
use cargo_metadata::Metadata;

use super::regions::{Region, regions};
use super::source::{SourceFile, with_extension};

/// British spellings, in lower case, as parts of words and of names in code.
const BRITISH: &[&str] = &[
    "neighbour",
    "behaviour",
    "colour",
    "favour",
    "honour",
    "labour",
    "flavour",
    "harbour",
    "centre",
    "licence",
    "defence",
    "offence",
    "artefact",
    "catalogue",
    "cancelled",
    "cancelling",
    "labelled",
    "labelling",
    "modelled",
    "modelling",
    "signalled",
    "signalling",
    "travelled",
    "travelling",
    "channelled",
    "levelled",
    "totalled",
    "initialis",
    "recognis",
    "optimis",
    "serialis",
    "normalis",
    "organis",
    "realis",
    "authoris",
    "synchronis",
    "utilis",
    "minimis",
    "maximis",
    "summaris",
    "prioritis",
    "randomis",
    "specialis",
    "generalis",
    "visualis",
    "analyse",
    "customis",
    "isation",
    "standardis",
    "whilst",
    "amongst",
    "judgement",
    "learnt",
    "spelt",
];

/// Names that programs of operators read and that therefore stay: counters, and a topic of `adit show`
/// with its key in JSON. Comments put them in backticks.
const KEPT: &[&str] = &[
    "neighbours",
    "Neighbours",
    "neighbour_claims_refuted",
    "neighbour_discovery",
    "neighbour_failures",
    "neighbour_mac_changes",
    "neighbour_malformed",
    "neighbour_queue_full",
    "neighbour_seen_refused",
    "neighbour_solicits",
    "neighbour_unresolved",
    "neighbour_wanted_refused",
];

/// Turns that a reader has to translate, each with a replacement.
const TURNS: &[(&str, &str)] = &[
    ("as far as that goes", "name the limit"),
    ("as far as it goes", "name the limit"),
    ("as of [", "see"),
    ("as of `", "see"),
    ("asks for a line", "prefetches"),
    ("what it has not", "say what is missing"),
    ("their chance", "say what happens to them"),
    ("told to the reader", "printed"),
    ("goes along", "say what happens to it"),
    ("brings along", "say what it has"),
    ("may be had", "is available"),
    ("sees to it", "say what it does"),
    ("ells whether", "returns, reports or says"),
    ("ells what", "returns, reports or says"),
    ("ells how", "returns, reports or says"),
];

/// Files that are checked besides Rust: extensions of text.
const EXTENSIONS: &[&str] = &["md", "toml", "sh", "py"];

/// Folders of text that is generated or foreign.
const FOREIGN: &[&str] = &["fuzz/target", "lab-report"];

/// Adds a finding for each word and turn in sources and documents.
///
/// # Errors
/// When a document cannot be read.
pub(super) fn check(
    metadata: &Metadata,
    files: &[SourceFile],
    findings: &mut Vec<String>,
) -> anyhow::Result<()> {
    for file in files.iter().filter(|file| !names_what_it_looks_for(&file.path)) {
        check_rust(&file.path, &file.text, findings);
    }
    let root = metadata.workspace_root.as_std_path();
    for extension in EXTENSIONS {
        for path in with_extension(root, extension)? {
            let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            if FOREIGN.iter().any(|folder| shown.starts_with(folder)) {
                continue;
            }
            let text = fs::read_to_string(&path).with_context(|| shown.clone())?;
            check_document(&shown, &text, findings);
        }
    }
    Ok(())
}

fn names_what_it_looks_for(path: &str) -> bool {
    path.ends_with("xtask/src/tidy/words.rs")
}

/// Checks spelling everywhere, and turns in comments and texts.
fn check_rust(path: &str, text: &str, findings: &mut Vec<String>) {
    for (line, region, part) in regions(text) {
        let place = format!("{path}:{line}");
        if !is_british(part) && region == Region::Code {
            continue;
        }
        let quoted = |word: &&&str| part.contains(&format!("`{word}`"));
        let is_free = |word: &&&str| region != Region::Comment || quoted(word);
        let kept: Vec<&str> = KEPT.iter().filter(is_free).copied().collect();
        check_spelling(&place, part, &kept, findings);
        if region != Region::Code {
            check_turns(&place, part, findings);
        }
    }
}

fn check_document(path: &str, text: &str, findings: &mut Vec<String>) {
    for (number, line) in (1..).zip(text.lines()) {
        let place = format!("{path}:{number}");
        check_spelling(&place, line, KEPT, findings);
        check_turns(&place, line, findings);
    }
}

fn is_british(text: &str) -> bool {
    let lower = text.to_lowercase();
    BRITISH.iter().any(|british| lower.contains(british))
}

fn check_spelling(place: &str, text: &str, kept: &[&str], findings: &mut Vec<String>) {
    if !is_british(text) {
        return;
    }
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for word in text.split(|c| !is_of_word(c)).filter(|word| !kept.contains(word)) {
        if is_british(word) {
            findings.push(format!("{place}: \"{word}\" is British; the house is American"));
        }
    }
}

fn check_turns(place: &str, text: &str, findings: &mut Vec<String>) {
    for (turn, instead) in TURNS.iter().filter(|(turn, _)| text.contains(turn)) {
        findings.push(format!("{place}: \"{turn}\": {instead}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_rust(text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check_rust("x.rs", text, &mut findings);
        findings
    }

    #[test]
    fn british_names_comments_and_documents_are_found() {
        assert_eq!(of_rust("struct NeighbourTable;").len(), 1);
        assert_eq!(of_rust("// its behaviour\nlet x = 1;").len(), 1);
        assert_eq!(of_rust("let text = \"cancelled\";").len(), 1);
        let mut findings = Vec::new();
        check_document("x.md", "one\nThe neighbour's colour", &mut findings);
        assert_eq!(findings.len(), 2);
        assert!(findings[0].starts_with("x.md:2"), "{findings:?}");
    }

    #[test]
    fn american_and_kept_words_pass() {
        assert_eq!(of_rust("/// A neighbor's behavior\nfn cancel() {}"), Vec::<String>::new());
        for kept in KEPT {
            assert_eq!(of_rust(&format!("const NAME: &str = \"{kept}\";")), Vec::<String>::new());
            assert_eq!(of_rust(&format!("// {kept}")).len(), 1);
            assert_eq!(of_rust(&format!("// `{kept}`")), Vec::<String>::new());
        }
    }

    #[test]
    fn turns_are_found_in_comments_and_texts_but_not_in_code() {
        assert_eq!(of_rust("/// Late, as far as that goes.").len(), 1);
        assert_eq!(of_rust("bail!(\"it tells whether\")").len(), 1);
        assert_eq!(of_rust("let x = a as of [0];"), Vec::<String>::new());
    }
}
