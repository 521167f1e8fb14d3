//! Percentages.

/// Returns the share of `part` in `whole`, at most 100; 100 if `whole` is zero. Unit: per cent.
pub(crate) fn percent(part: usize, whole: usize) -> u8 {
    let percent = part.saturating_mul(100).checked_div(whole).unwrap_or(100);
    u8::try_from(percent.min(100)).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_is_bounded_and_rounds_down() {
        assert_eq!(percent(0, 10), 0);
        assert_eq!(percent(1, 3), 33);
        assert_eq!(percent(3, 3), 100);
        assert_eq!(percent(4, 3), 100);
        assert_eq!(percent(0, 0), 100);
        assert_eq!(percent(usize::MAX, usize::MAX), 1, "saturates instead of wrapping around");
    }
}
