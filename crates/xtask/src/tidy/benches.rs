//! Checks that the benches which PERF notes name exist.
//!
//! Code that is written for speed has a note such as `PERF (rules/matcher): reason`.
//! `rules/matcher` names `crates/rules/benches/matcher.rs`; `adit-bench datapath --mixed` and
//! `adit-lab saturate` name commands.

use super::regions::{Region, regions};
use super::source::SourceFile;

/// The commands that measure, and the enums of their subcommands.
const COMMANDS: &[(&str, &str)] =
    &[("adit-bench ", "BenchCommand"), ("adit-lab ", "MeasureCommand")];

/// Adds a finding for each PERF note that names no bench, or one that does not exist.
pub(super) fn check(files: &[SourceFile], findings: &mut Vec<String>) {
    for file in files {
        let comments = regions(&file.text).into_iter().filter(|part| part.1 == Region::Comment);
        for (line, _, comment) in comments {
            let Some(note) = perf_note(comment) else { continue };
            let place = format!("{}:{line}", file.path);
            match note.strip_prefix(" (").and_then(|note| note.split_once(')')) {
                None => findings.push(format!("{place}: name the bench: PERF (BENCH)")),
                Some((bench, _)) if !exists(bench, files) => {
                    findings.push(format!("{place}: there is no bench {bench}"));
                }
                Some(_) => {}
            }
        }
    }
}

/// Returns the text after the word PERF, if the comment begins with it. Elsewhere in a comment the
/// word is no note.
fn perf_note(comment: &str) -> Option<&str> {
    let text = comment.trim_start_matches(['/', '*', '!', ' ']);
    text.strip_prefix("PERF").filter(|note| !note.starts_with(char::is_alphanumeric))
}

/// True if the bench exists. Does not check the options of a command.
pub(super) fn exists(bench: &str, files: &[SourceFile]) -> bool {
    for (program, parser) in COMMANDS {
        if let Some(command) = bench.strip_prefix(program) {
            let command = command.split(' ').next();
            return variants(files, parser).iter().any(|name| Some(name.as_str()) == command);
        }
    }
    let Some((room, bench)) = bench.split_once('/') else { return false };
    let path = format!("crates/{room}/benches/{bench}.rs");
    files.iter().any(|file| file.path == path)
}

/// Returns the variants of an enum in lower case, which are the names of its subcommands.
fn variants(files: &[SourceFile], parser: &str) -> Vec<String> {
    let items = files.iter().flat_map(|file| &file.syntax.items);
    let found = items.filter_map(|item| match item {
        syn::Item::Enum(item) if item.ident == parser => Some(&item.variants),
        _ => None,
    });
    found.flatten().map(|variant| variant.ident.to_string().to_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(note: &str) -> Vec<String> {
        let sources = [
            ("crates/x/src/lib.rs", format!("// {note}\nfn f() {{}}")),
            ("crates/x/benches/one.rs", String::new()),
            ("crates/b/src/lib.rs", "enum BenchCommand { Datapath(Options) }".to_owned()),
            ("crates/l/src/lib.rs", "enum MeasureCommand { Saturate }".to_owned()),
        ];
        let files = sources.map(|(path, text)| SourceFile::new("adit-x", path, &text).unwrap());
        let mut findings = Vec::new();
        check(&files, &mut findings);
        findings
    }

    #[test]
    fn note_with_a_bench_that_exists_passes() {
        let benches = ["adit-bench datapath", "adit-bench datapath --mixed", "adit-lab saturate"];
        for bench in benches.into_iter().chain(["x/one"]) {
            assert_eq!(findings(&format!("PERF ({bench}): why")), Vec::<String>::new());
        }
    }

    #[test]
    fn note_with_a_bench_that_does_not_exist_is_found() {
        for bench in ["adit-bench gone", "adit-lab gone", "x/gone", "one", "hope"] {
            assert_eq!(
                findings(&format!("PERF ({bench}): why")),
                [format!("crates/x/src/lib.rs:1: there is no bench {bench}")]
            );
        }
    }

    #[test]
    fn note_without_a_bench_is_found() {
        for note in ["PERF: why", "PERF why", "PERF", "PERF (x/one: why"] {
            assert_eq!(
                findings(note),
                ["crates/x/src/lib.rs:1: name the bench: PERF (BENCH)"],
                "{note}"
            );
        }
    }

    #[test]
    fn word_that_begins_no_comment_is_no_note() {
        for comment in ["as PERF notes do", "see PERF (x/gone): why", "PERFECT"] {
            assert_eq!(findings(comment), Vec::<String>::new(), "{comment}");
        }
    }
}
