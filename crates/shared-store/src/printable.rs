//! Makes text of servers printable, for operators.

/// Maximum of octets of a text that are shown.
const SHOWN_OCTETS_MAX: usize = 300;

/// Escapes control characters in a text of a server and limits its length: it goes to logs and
/// terminals.
pub(crate) fn printable(octets: &[u8]) -> String {
    let shown = octets.get(..SHOWN_OCTETS_MAX).unwrap_or(octets);
    let text = shown.escape_ascii().to_string();
    // `escape_ascii` also escapes quotes, which are harmless here.
    let text = text.replace("\\'", "'").replace("\\\"", "\"");
    if shown.len() < octets.len() { text + " …" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_bounded_and_has_no_control_characters() {
        assert_eq!(printable(b"it's \"a\" word"), "it's \"a\" word");
        let long = printable(&[b'\n'; 5000]);
        assert!(long.len() < 1000 && !long.contains('\n'), "{long}");
    }
}
