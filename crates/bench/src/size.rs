//! How much a bench measures.

/// Size of a measurement.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchSize {
    /// Sessions, all with traffic at random.
    #[arg(long, value_name = "COUNT", default_value = "16k", value_parser = parse_count)]
    pub(crate) sessions: usize,
    /// Packets of each measurement.
    #[arg(long, value_name = "COUNT", default_value = "1M", value_parser = parse_count)]
    pub(crate) packets: usize,
    /// Packets in one burst, 1 to 64.
    #[arg(long, value_name = "COUNT", default_value_t = adit_types::limits::BURST_DEFAULT,
          value_parser = parse_burst)]
    pub(crate) burst: usize,
}

/// Parses a count with an optional factor: k (1,000), M (1,000,000).
pub(crate) fn parse_count(text: &str) -> Result<usize, String> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    let count: Option<usize> = digits.parse().ok().and_then(|n: usize| n.checked_mul(factor));
    count.filter(|n| *n > 0).ok_or_else(|| "takes a count such as 500, 16k or 1M".to_owned())
}

/// Parses a count of sessions: at most 4M, for which 10.64.0.0/10 has UE addresses.
pub(crate) fn parse_sessions(text: &str) -> Result<u32, String> {
    let count = u32::try_from(parse_count(text)?).ok().filter(|count| *count <= 4_000_000);
    count.ok_or_else(|| "takes at most 4M sessions".to_owned())
}

/// Parses the number of packets in a burst.
pub(crate) fn parse_burst(text: &str) -> Result<usize, String> {
    let max = adit_types::limits::BURST_MAX;
    let burst = text.parse().ok().filter(|n| (1..=max).contains(n));
    burst.ok_or_else(|| format!("takes a whole number from 1 to {max}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_take_factors() {
        assert_eq!(parse_count("16k"), Ok(16_000));
        assert_eq!(parse_count("3M"), Ok(3_000_000));
        assert!(parse_count("0").is_err());
        assert!(parse_count("1G").is_err());
        assert!(parse_count("").is_err());
    }
}
