//! The arguments of `adit trace` and `adit capture`.

use core::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::AdminSocket;

/// Which packets, and from which adit.
#[derive(Debug, Clone, Args)]
pub(crate) struct TapSelection {
    /// Packets of the PFCP session with this UP SEID (`adit show sessions`).
    #[arg(long, value_name = "SEID", group = "key")]
    pub session: Option<String>,
    /// Packets to this address of a UE, and in its tunnels, also with a foreign source. For an IPv6
    /// address the /64 counts.
    #[arg(long, value_name = "ADDRESS", group = "key")]
    pub ue: Option<IpAddr>,
    /// Packets in the local tunnel with this TEID, also if no session owns it.
    #[arg(long, value_name = "TEID", group = "key")]
    pub teid: Option<String>,
    /// Packets that are dropped for this reason (`adit show counters`), such as `far_drop`; `any` for all drops.
    #[arg(long, value_name = "REASON")]
    pub drop: Option<String>,
    /// How long at most, such as `500ms`, `10s`, `5m` or `2h`.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    #[command(flatten)]
    pub socket: AdminSocket,
}

impl TapSelection {
    /// How long at most. Unit: milliseconds.
    pub(crate) fn duration_ms(&self) -> Option<u64> {
        self.duration.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Arguments of a trace.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("followed").args(["session", "ue", "teid", "drop"]).required(true).multiple(true)))]
pub(crate) struct TraceArguments {
    #[command(flatten)]
    pub selection: TapSelection,
    /// Packets at most.
    #[arg(long, value_name = "COUNT", default_value_t = 20,
        value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub packets: u64,
    /// Print one JSON document per line.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of a capture.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("captured")
    .args(["session", "ue", "teid", "drop", "interface", "all"]).required(true).multiple(true)))]
pub(crate) struct CaptureArguments {
    #[command(flatten)]
    pub selection: TapSelection,
    /// Packets that arrive on this interface or leave through it.
    #[arg(long, value_name = "NAME", group = "key")]
    pub interface: Option<String>,
    /// All packets; best with `--sample`.
    #[arg(long, group = "key")]
    pub all: bool,
    /// One of so many packets.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub sample: Option<u32>,
    /// Octets of each frame, with users' data. Without it, frames end with their headers.
    #[arg(long, value_name = "OCTETS", value_parser = clap::value_parser!(u16).range(1..=9216))]
    pub snap: Option<u16>,
    /// Packets at most.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub packets: Option<u64>,
    /// Octets of all files together at most, such as `100k`, `20M` or `1G`.
    #[arg(long, value_name = "OCTETS", value_parser = octets)]
    pub size: Option<u64>,
    /// The file to write, which must not exist; `-` is standard output.
    #[arg(short = 'w', long = "write", value_name = "FILE", default_value = "-")]
    pub write: PathBuf,
    /// Begin a new file after so many octets: FILE gets a number before its suffix.
    #[arg(long, value_name = "OCTETS", value_parser = octets)]
    pub rotate: Option<u64>,
    /// With `--rotate`: keep so many files, and remove older ones of this capture.
    #[arg(long, value_name = "COUNT", requires = "rotate",
        value_parser = clap::value_parser!(u32).range(2..))]
    pub keep: Option<u32>,
}

/// Reads a time such as `10s`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "takes a number with ms, s, m or h, such as 10s".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let most = Duration::from_secs(24 * 3600);
    let duration = Duration::from_millis(number.saturating_mul(ms));
    match duration.is_zero() || duration > most {
        true => Err("takes 1ms to 24h".to_owned()),
        false => Ok(duration),
    }
}

/// Reads a number of octets such as `20M`.
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
    fn times_have_a_unit_and_bounds() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        for wrong in ["", "10", "s", "0s", "25h", "1d", "-1s", "99999999999999999999s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn octets_have_a_factor_and_a_lower_bound() {
        assert_eq!(octets("20M"), Ok(20_000_000));
        assert_eq!(octets("10000"), Ok(10_000));
        for wrong in ["", "k", "9k", "1T", "99999999999999999999", "99999999999G"] {
            assert!(octets(wrong).is_err(), "{wrong}");
        }
    }
}
