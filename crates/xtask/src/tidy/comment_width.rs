//! Comments end at column 100, except rows of tables, figures, and words that cannot break.

use super::source::SourceFile;

/// Maximum length of a line that has only a comment, with its indentation. Unit: characters.
const COLUMNS_MAX: usize = 100;

/// Adds a finding for each comment line that is too long.
pub(super) fn check(files: &[SourceFile], findings: &mut Vec<String>) {
    for file in files {
        for line in long_lines(&file.text) {
            findings.push(format!("{}:{line}: a comment beyond column {COLUMNS_MAX}", file.path));
        }
    }
}

/// Returns the numbers of the lines that are too long, counted from 1.
fn long_lines(text: &str) -> Vec<usize> {
    let mut is_figure = false;
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_figure = false;
            continue;
        };
        let words = comment.trim_start_matches(['/', '!']).trim();
        if words.starts_with("```") {
            is_figure = !is_figure;
        }
        let may_be_long = is_figure || words.starts_with('|') || !words.contains(' ');
        if line.chars().count() > COLUMNS_MAX && !may_be_long {
            found.push(at + 1);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_prose_is_found_and_tables_figures_and_words_are_not() {
        let words = ["word"; 19].join(" ");
        assert_eq!(long_lines(&format!("/// {words}\n/// {words} word")), [2]);
        assert_eq!(long_lines(&format!("    // {words}")), [1]);
        assert!(long_lines(&format!("//! | {words} word |")).is_empty());
        assert!(long_lines(&format!("//! ```text\n//! {words} {words}\n//! ```")).is_empty());
        assert_eq!(long_lines(&format!("//! ```\n//! ```\n//! {words} word")), [3]);
        assert!(long_lines(&format!("/// {}", "x".repeat(120))).is_empty());
        assert!(long_lines(&format!("let x = 1; // {words}")).is_empty());
    }
}
