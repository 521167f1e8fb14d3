//! Divides a Rust file into code, comments and string literals.

/// The kind of a region of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Region {
    /// Code.
    Code,
    /// A comment, documentation included.
    Comment,
    /// The contents of a string literal.
    Text,
}

/// Returns the regions of a file, each with the line that it begins in, counted from 1. A region
/// that spans several lines is divided at their ends.
pub(super) fn regions(text: &str) -> Vec<(usize, Region, &str)> {
    let mut parts = Vec::new();
    let mut rest = text;
    let mut line = 1;
    while !rest.is_empty() {
        let (region, len) = next(rest);
        let (part, behind) = rest.split_at(len);
        for (number, piece) in (line..).zip(part.split('\n')) {
            if !piece.trim().is_empty() {
                parts.push((number, region, piece));
            }
        }
        line += part.matches('\n').count();
        rest = behind;
    }
    parts
}

/// Returns the kind and the length of the region at the front of `text`.
fn next(text: &str) -> (Region, usize) {
    if text.starts_with("//") {
        return (Region::Comment, text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return (Region::Comment, text.find("*/").map_or(text.len(), |end| end + 2));
    }
    if let Some(hashes) = raw_string(text) {
        let end = format!("\"{}", "#".repeat(hashes));
        let start = 2 + hashes;
        let len = text[start..].find(&end).map_or(text.len(), |at| start + at + end.len());
        return (Region::Text, len);
    }
    if text.starts_with('"') {
        return (Region::Text, string_len(text));
    }
    (Region::Code, code_len(text))
}

/// Returns the number of `#` of a raw string at the front of `text`; `None` if there is none.
fn raw_string(text: &str) -> Option<usize> {
    let behind = text.strip_prefix('r')?;
    let hashes = behind.len() - behind.trim_start_matches('#').len();
    behind[hashes..].starts_with('"').then_some(hashes)
}

/// Returns the length of a string literal, with its quotes.
fn string_len(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns the length up to the next comment or string. A quote in a character literal begins no
/// string.
fn code_len(text: &str) -> usize {
    let octets = text.as_bytes();
    let is_of_name = |octet: u8| octet.is_ascii_alphanumeric() || octet == b'_';
    let mut at = 0;
    while at < octets.len() {
        let behind = &text[at..];
        let is_raw = (at == 0 || !is_of_name(octets[at - 1])) && raw_string(behind).is_some();
        let is_comment = behind.starts_with("//") || behind.starts_with("/*");
        if at > 0 && (is_comment || is_raw || octets[at] == b'"') {
            return at;
        }
        at += match behind {
            _ if behind.starts_with("'\\") => 2 + behind[3..].find('\'').map_or(1, |end| end + 2),
            _ if behind.starts_with("'\"'") => 3,
            _ => behind.chars().next().map_or(1, char::len_utf8),
        };
    }
    octets.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_of_a_file_are_distinguished() {
        let text = "let a = \"x \\\" // y\"; // end\nlet b = r#\"raw \"\n// no\"#;\n/* two\nlines */ c('\"', '\\'', 'a');";
        let found = regions(text);
        let of = |wanted| -> Vec<&str> {
            found.iter().filter(|(_, region, _)| *region == wanted).map(|part| part.2).collect()
        };
        assert_eq!(of(Region::Text), ["\"x \\\" // y\"", "r#\"raw \"", "// no\"#"]);
        assert_eq!(of(Region::Comment), ["// end", "/* two", "lines */"]);
        assert_eq!(of(Region::Code).concat(), "let a = ; let b = ; c('\"', '\\'', 'a');");
        assert_eq!(found.last().unwrap().0, 5);
    }

    #[test]
    fn lifetimes_begin_no_literal() {
        let found = regions("fn f<'a>(x: &'a str) -> &'a str { \"text\" }");
        assert_eq!(found.iter().filter(|part| part.1 == Region::Text).count(), 1);
    }
}
