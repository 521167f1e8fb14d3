//! Numbers for readers.

/// Formats a measured value with the digits in which measurements can differ.
#[must_use]
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 1000.0 => grouped(&format!("{value:.0}")),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// Separates digits into groups of three.
pub(crate) fn grouped(digits: &str) -> String {
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && digits.len() > 4 {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_the_digits_that_measurements_differ_in() {
        let texts = [0.0, 0.0123, 5.171, 17.0, 123.456, 12_345.6].map(figure);
        assert_eq!(texts, ["0", "0.0123", "5.17", "17.00", "123.5", "12\u{202f}346"]);
    }
}
