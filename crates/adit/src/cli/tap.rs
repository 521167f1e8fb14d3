//! The arguments of `adit trace` and `adit capture`.

use std::path::PathBuf;

use clap::Args;

use super::AdminSocket;
use crate::tap::{CaptureWish, TraceWish};

/// Arguments of a trace.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("followed").args(["session", "ue", "teid", "drop"]).required(true).multiple(true)))]
pub(crate) struct TraceArguments {
    #[command(flatten)]
    pub wish: TraceWish,
    /// Print one JSON document per line.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: AdminSocket,
}

/// Arguments of a capture.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("captured")
    .args(["session", "ue", "teid", "drop", "interface", "all"]).required(true).multiple(true)))]
pub(crate) struct CaptureArguments {
    #[command(flatten)]
    pub wish: CaptureWish,
    #[command(flatten)]
    pub socket: AdminSocket,
    /// Octets of all files together at most, such as `100k`, `20M` or `1G`.
    #[arg(long, value_name = "OCTETS", value_parser = octets)]
    pub size: Option<u64>,
    /// The file to write, which must not exist; `-` is standard output.
    #[arg(short = 'w', long = "write", value_name = "FILE", default_value = "-")]
    pub write: PathBuf,
    /// Begin a new file after this many octets: FILE gets a number before its suffix.
    #[arg(long, value_name = "OCTETS", value_parser = octets)]
    pub rotate: Option<u64>,
    /// With `--rotate`: keep this many files, and remove older ones of this capture.
    #[arg(long, value_name = "COUNT", requires = "rotate",
        value_parser = clap::value_parser!(u32).range(2..))]
    pub keep: Option<u32>,
}

/// Parses a number of octets such as `20M`. Refuses less than 10 000.
fn octets(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "" => Some(1),
        "k" => Some(1_000),
        "M" => Some(1_000_000),
        "G" => Some(1_000_000_000),
        _ => None,
    };
    let octets = number.parse::<u64>().ok().zip(factor);
    let octets = octets.and_then(|(number, factor)| number.checked_mul(factor));
    let wrong = "takes at least 10k: a number of octets, or one with k, M or G";
    octets.filter(|octets| *octets >= 10_000).ok_or_else(|| wrong.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_have_a_factor_and_a_lower_bound() {
        assert_eq!(octets("20M"), Ok(20_000_000));
        assert_eq!(octets("10000"), Ok(10_000));
        for wrong in ["", "k", "9k", "1T", "99999999999999999999", "99999999999G"] {
            assert!(octets(wrong).is_err(), "{wrong}");
        }
    }
}
