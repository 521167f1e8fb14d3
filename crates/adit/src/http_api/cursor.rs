//! Cursors: the position at which the next page of a list begins, as text that clients pass back.

use axum::http::StatusCode;

use super::answer::ApiProblem;
use crate::admin::{PageCursor, PagePosition};

/// Formats a cursor: the index of the list, a letter for the kind of position, the position.
pub(super) fn text_of(cursor: PageCursor) -> String {
    let PageCursor { list, from } = cursor;
    match from {
        PagePosition::Start => format!("{list}s"),
        PagePosition::Index(index) => format!("{list}i{index}"),
        PagePosition::Behind(address) => format!("{list}b{address}"),
        PagePosition::Only(index) => format!("{list}o{index}"),
    }
}

/// Parses the text of a cursor; without text returns the start of the list.
///
/// # Errors
/// `text` is not a cursor.
pub(super) fn parse(text: Option<&str>) -> Result<PageCursor, ApiProblem> {
    let Some(text) = text else { return Ok(PageCursor::default()) };
    let what = "cursor takes the member next of the page before";
    read(text).ok_or_else(|| ApiProblem::new(StatusCode::BAD_REQUEST, what))
}

fn read(text: &str) -> Option<PageCursor> {
    let kind = text.find(|c: char| !c.is_ascii_digit())?;
    let (list, rest) = text.split_at(kind);
    let value = rest.get(1..)?;
    let from = match rest.get(..1)? {
        "s" if value.is_empty() => PagePosition::Start,
        "i" => PagePosition::Index(value.parse().ok()?),
        "b" => PagePosition::Behind(value.parse().ok()?),
        "o" => PagePosition::Only(value.parse().ok()?),
        _ => return None,
    };
    Some(PageCursor { list: list.parse().ok()?, from })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_comes_back_as_it_was_and_other_texts_are_refused() {
        for from in [
            PagePosition::Start,
            PagePosition::Index(77),
            PagePosition::Behind("2001:db8::1".parse().unwrap()),
            PagePosition::Only(3),
        ] {
            let cursor = PageCursor { list: 1, from };
            assert_eq!(parse(Some(&text_of(cursor))).unwrap(), cursor);
        }
        assert_eq!(parse(None).unwrap(), PageCursor::default());
        for text in ["", "0", "s", "0x1", "0s1", "256s", "0i-1", "0i4294967296", "0b10.0.0", "0é"]
        {
            assert!(parse(Some(text)).is_err(), "{text}");
        }
    }
}
