//! Text that a peer, a server or a record chose, on its way to a terminal.

use std::borrow::Cow;
use std::fmt::Write;

/// True for characters that a terminal executes instead of showing them: controls, and those that
/// change the direction of text.
const fn is_terminal_control(char: char) -> bool {
    matches!(char,
        '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Returns the text in one line, with characters that a terminal executes escaped as `\u{1b}`.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_terminal_control) {
        return Cow::Borrowed(text);
    }
    let escaped = text.chars().fold(String::new(), |mut escaped, char| {
        match is_terminal_control(char) {
            true => escaped.extend(char.escape_unicode()),
            false => escaped.push(char),
        }
        escaped
    });
    Cow::Owned(escaped)
}

/// Escapes, in the strings of `json`, characters that a terminal executes. JSON has already escaped
/// those below U+0020; the others have at most four hexadecimal digits.
pub(crate) fn printable_json(json: &str) -> Cow<'_, str> {
    let is_raw = |char: char| char >= ' ' && is_terminal_control(char);
    if !json.contains(is_raw) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len());
    for char in json.chars() {
        match is_raw(char) {
            // Writing to a `String` cannot fail.
            true => drop(write!(escaped, "\\u{:04x}", u32::from(char))),
            false => escaped.push(char),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\u{1b}[2J\n\u{9b}31m\u{202e}b\u{7f}";

    #[test]
    fn what_a_terminal_obeys_is_shown_as_its_code_point() {
        let shown = printable(HOSTILE);
        assert_eq!(shown, "a\\u{1b}[2J\\u{a}\\u{9b}31m\\u{202e}b\\u{7f}");
        for text in ["internet", "smf-1.5gc", "größe 網", ""] {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn json_means_the_same_and_has_nothing_that_a_terminal_obeys() {
        let json = serde_json::to_string_pretty(&serde_json::json!({ "id": HOSTILE })).unwrap();
        let shown = printable_json(&json);
        assert!(!shown.contains(|char| char != '\n' && is_terminal_control(char)), "{shown:?}");
        let value: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(value["id"], HOSTILE);
    }
}
