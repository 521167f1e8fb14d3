//! Checks spelling, and forbids unclear phrases and words, in code, comments and documents.

use std::fs;

use anyhow::Context;
use cargo_metadata::Metadata;

use super::regions::{Region, regions};
use super::source::{SourceFile, with_extension};

/// British spellings in lower case, as they occur in words and in names in code.
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

/// Names that operators' programs read, and that therefore stay: counters, and a topic of `adit
/// show` with its key in JSON. Comments put them in backticks.
const KEPT_NAMES: &[&str] = &[
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

/// Unclear phrases, each with advice on replacing it.
const UNCLEAR_PHRASES: &[(&str, &str)] = &[
    ("as far as that goes", "name the limit"),
    ("as far as it goes", "name the limit"),
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

/// Everyday words to avoid, in all their forms, each with better words.
const EVERYDAY: &[(&[&str], &str)] = &[
    (&["tell", "tells", "told", "telling"], "returns, reports, notifies or distinguishes"),
    (&["whoever"], "say who acts"),
    (&["as of"], "see, since or by"),
];

/// Words that may not begin a sentence, because the subject is then missing. Better: "The state
/// that a worker shares."
const HEADLESS: &[&str] = &["What", "Whose", "Of"];

/// Extensions of other files that are checked, in addition to Rust.
const EXTENSIONS: &[&str] = &["md", "toml", "sh", "py"];

/// Adds a finding for each such word and phrase in sources and documents.
///
/// # Errors
/// A document cannot be read.
pub(super) fn check(
    metadata: &Metadata,
    files: &[SourceFile],
    findings: &mut Vec<String>,
) -> anyhow::Result<()> {
    for file in files.iter().filter(|file| !has_word_lists(&file.path)) {
        check_rust(&file.path, &file.text, findings);
    }
    let root = metadata.workspace_root.as_std_path();
    for extension in EXTENSIONS {
        for path in with_extension(root, extension)? {
            let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            let text = fs::read_to_string(&path).with_context(|| shown.clone())?;
            check_document(&shown, &text, findings);
            if *extension == "md" {
                check_everyday(&shown, &text, findings);
            }
        }
    }
    Ok(())
}

fn has_word_lists(path: &str) -> bool {
    path.ends_with("xtask/src/tidy/words.rs")
}

/// Checks spelling in all of a file, and phrases in comments and strings.
fn check_rust(path: &str, text: &str, findings: &mut Vec<String>) {
    for (line, region, part) in regions(text) {
        let place = format!("{path}:{line}");
        if !is_british(part) && region == Region::Code {
            continue;
        }
        let quoted = |word: &&&str| part.contains(&format!("`{word}`"));
        let is_free = |word: &&&str| region != Region::Comment || quoted(word);
        let kept: Vec<&str> = KEPT_NAMES.iter().filter(is_free).copied().collect();
        check_spelling(&place, part, &kept, findings);
        if region != Region::Code {
            check_turns(&place, part, findings);
        }
    }
    for CommentLine { line, text, begins, before } in comment_lines(text) {
        for (word, instead) in everyday(before, text) {
            findings.push(format!("{path}:{line}: \"{word}\": {instead}"));
        }
        for word in headless(text, begins) {
            findings.push(format!(
                "{path}:{line}: a sentence begins with \"{word}\": name its subject"
            ));
        }
    }
}

/// One line of a comment.
struct CommentLine<'t> {
    line: usize,
    /// The text without comment markers.
    text: &'t str,
    /// True if a sentence begins with this line.
    begins: bool,
    /// The previous line, if it belongs to the same sentence; otherwise empty.
    before: &'t str,
}

fn comment_lines(text: &str) -> Vec<CommentLine<'_>> {
    let mut lines: Vec<CommentLine<'_>> = Vec::new();
    let (mut code_line, mut last_marker) = (0, "");
    for (line, region, part) in regions(text) {
        if region != Region::Comment {
            code_line = line;
            continue;
        }
        let text = part.trim_start().trim_start_matches(['/', '!', '*']);
        let marker = &part[..part.len() - text.len()];
        let follows = lines.last().filter(|last| {
            last.line + 1 == line
                && code_line != line
                && marker == last_marker
                && !is_end(last.text)
        });
        let before = follows.map_or("", |last| last.text);
        let begins = follows.is_none() || text.trim_start().starts_with("- ");
        lines.push(CommentLine { line, text, begins, before });
        last_marker = marker;
    }
    lines
}

/// True if no sentence of a comment continues after this line.
fn is_end(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || text.starts_with('#') || text.ends_with('.')
}

/// Returns the words of a text in lower case, without code in backticks.
fn words(text: &str) -> Vec<String> {
    let prose: Vec<&str> = text.split('`').step_by(2).collect();
    let prose = prose.join(" ` ").to_lowercase();
    let is_of_word = |c: char| c.is_alphanumeric() || c == '`';
    prose.split(|c| !is_of_word(c)).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Returns the everyday words in `text`, including one that begins at the end of `before`.
fn everyday(before: &str, text: &str) -> Vec<(&'static str, &'static str)> {
    let own = words(text);
    let pairs = words(before).into_iter().next_back().into_iter().chain(own.iter().cloned());
    let pairs: Vec<String> = pairs.collect();
    let uses = |form: &str| match form.contains(' ') {
        true => pairs.windows(2).filter(|pair| pair.join(" ") == form).count(),
        false => own.iter().filter(|word| *word == form).count(),
    };
    let mut found = Vec::new();
    for (forms, instead) in EVERYDAY {
        for form in *forms {
            found.extend(std::iter::repeat_n((*form, *instead), uses(form)));
        }
    }
    found
}

/// Returns the first words of those sentences in a comment line that lack a subject.
fn headless(text: &str, begins: bool) -> Vec<&str> {
    let sentences = text.split(". ").skip(usize::from(!begins));
    let first = sentences.filter_map(|sentence| {
        let words = sentence.split(|c: char| !c.is_alphanumeric() && c != '`');
        words.into_iter().find(|word| !word.is_empty())
    });
    first.filter(|word| HEADLESS.contains(word)).collect()
}

/// Checks the words of a document, except in code blocks.
fn check_everyday(path: &str, text: &str, findings: &mut Vec<String>) {
    let (mut is_code, mut before) = (false, "");
    for (line, text) in (1..).zip(text.lines()) {
        is_code ^= text.trim_start().starts_with("```");
        if is_code {
            continue;
        }
        for (word, instead) in everyday(before, text) {
            findings.push(format!("{path}:{line}: \"{word}\": {instead}"));
        }
        before = text;
    }
}

fn check_document(path: &str, text: &str, findings: &mut Vec<String>) {
    for (number, line) in (1..).zip(text.lines()) {
        let place = format!("{path}:{number}");
        check_spelling(&place, line, KEPT_NAMES, findings);
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
    for (turn, instead) in UNCLEAR_PHRASES.iter().filter(|(turn, _)| text.contains(turn)) {
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
        for kept in KEPT_NAMES {
            assert_eq!(of_rust(&format!("const NAME: &str = \"{kept}\";")), Vec::<String>::new());
            assert_eq!(of_rust(&format!("// {kept}")).len(), 1);
            assert_eq!(of_rust(&format!("// `{kept}`")), Vec::<String>::new());
        }
    }

    #[test]
    fn everyday_words_are_found_in_comments_but_not_in_code_and_texts() {
        for (comment, found) in [
            ("/// Tells the peer, who was told.", 2),
            ("// Whoever asks.", 1),
            ("//! The time, as of [`X`].", 1),
            ("/// The time, as\n/// of now.", 1),
            ("/// The time. As\n\n/// of now.", 0),
            ("/// The name `told` of `tell`.", 0),
            ("/// The retold story, intelligent.", 0),
            ("fn tell() { let told = \"as of\"; }", 0),
        ] {
            assert_eq!(of_rust(comment).len(), found, "{comment}");
        }
        let findings = of_rust("fn f() {}\n// It told.");
        assert!(findings[0].starts_with("x.rs:2: \"told\""), "{findings:?}");
    }

    #[test]
    fn sentences_without_a_subject_are_found_where_they_begin() {
        for (comment, found) in [
            ("/// What workers share.", 1),
            ("//! Whose turn it is.", 1),
            ("/// One. Of two. What follows.", 2),
            ("/// The first.\n/// Of the second.", 1),
            ("/// The first\n/// Of the second.", 0),
            ("/// One\n///\n/// Of two.", 1),
            ("/// - Of two.", 1),
            ("/// # Errors\n/// What fails.", 1),
            ("let a = 1; // One\nlet b = 2; // Of two", 1),
            ("/// `What` it is: What.", 0),
            ("/// Whatever, Often.", 0),
        ] {
            assert_eq!(of_rust(comment).len(), found, "{comment}");
        }
    }

    #[test]
    fn everyday_words_are_found_in_documents_outside_code() {
        let mut findings = Vec::new();
        let text = "It tells.\n\n```sh\ntell\n```\nIt told, as\nof now: `tell`.";
        check_everyday("x.md", text, &mut findings);
        let places: Vec<&str> = findings.iter().filter_map(|of| of.split(": ").next()).collect();
        assert_eq!(places, ["x.md:1", "x.md:6", "x.md:7"]);
    }

    #[test]
    fn turns_are_found_in_comments_and_texts_but_not_in_code() {
        assert_eq!(of_rust("/// Late, as far as that goes.").len(), 1);
        assert_eq!(of_rust("bail!(\"it tells whether\")").len(), 1);
        assert_eq!(of_rust("let x = a as of [0];"), Vec::<String>::new());
    }
}
