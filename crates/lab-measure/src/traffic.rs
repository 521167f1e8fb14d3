//! The offered traffic: directions, sizes, order of the sessions.

use std::path::Path;
use std::str::FromStr;

use clap::ValueEnum;

use super::pcap;
use adit_lab_engine::frame::UePacketKind;
use adit_lab_engine::pacer::OfferedRate;
use adit_lab_engine::plan::SessionOrder;
use adit_lab_engine::stamp::STAMP_BYTES;

/// Which streams run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TrafficDirection {
    /// G-PDUs from the gNBs to N3.
    Uplink,
    /// IP packets from the data network to N6.
    Downlink,
    /// Both directions, each with half of the rate.
    Duplex,
}

impl TrafficDirection {
    /// Returns the name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uplink => "uplink",
            Self::Downlink => "downlink",
            Self::Duplex => "duplex",
        }
    }

    /// Returns the rates of the uplink and downlink streams for a total rate.
    #[must_use]
    pub fn rates(self, rate: OfferedRate) -> Vec<OfferedRate> {
        let half = match rate {
            OfferedRate::Max => OfferedRate::Max,
            OfferedRate::Pps(pps) => OfferedRate::Pps(pps / 2),
        };
        match self {
            Self::Uplink => vec![rate, OfferedRate::Pps(0)],
            Self::Downlink => vec![OfferedRate::Pps(0), rate],
            Self::Duplex => vec![half, half],
        }
    }
}

/// Lengths of the UEs' IP packets with their weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Size {
    /// The size as the user wrote it.
    pub name: String,
    /// Lengths of the IP packets. Unit: octets.
    pub lens: Vec<usize>,
    /// Weight of each length.
    pub weights: Vec<u32>,
}

impl Size {
    /// Makes the size of packets with a payload of `len` octets after their UDP or TCP header.
    ///
    /// # Errors
    /// The payload is too short for the stamp, or the packet too long.
    pub fn of_payload(inner: UePacketKind, len: usize) -> Result<Self, String> {
        let headers = inner.len_min() - STAMP_BYTES;
        if len < STAMP_BYTES || len + headers > LEN_MAX {
            return Err(format!(
                "a payload must have {STAMP_BYTES} to {} bytes",
                LEN_MAX - headers
            ));
        }
        let name = format!("{len} B payload");
        Ok(Self { name, lens: vec![len + headers], weights: vec![1] })
    }

    /// Reads the distribution of packet lengths in a capture. Packets too short for a stamp are
    /// lengthened, packets above 1500 octets shortened.
    ///
    /// # Errors
    /// The file cannot be read or is not a capture.
    pub fn of_pcap(path: &Path) -> Result<Self, String> {
        let mut sizes = std::collections::BTreeMap::new();
        for (len, count) in pcap::lengths(path)? {
            let weight: &mut u32 = sizes.entry(len.clamp(LEN_MIN, PCAP_LEN_MAX)).or_insert(0);
            *weight = weight.saturating_add(count);
        }
        // The sum of all weights must fit 32 bits.
        let total: u64 = sizes.values().map(|weight| u64::from(*weight)).sum();
        let divisor = u32::try_from(total / (1 << 30) + 1).unwrap_or(u32::MAX);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(Self {
            name: format!("pcap {name}"),
            lens: sizes.keys().copied().collect(),
            weights: sizes.values().map(|weight| weight.div_ceil(divisor)).collect(),
        })
    }

    /// Returns the name, with a unit if it is a bare number.
    #[must_use]
    pub fn title(&self) -> String {
        let is_number = self.name.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { format!("{} B", self.name) } else { self.name.clone() }
    }

    /// True if the size was given as the length of payloads.
    #[must_use]
    pub(crate) fn is_payload(&self) -> bool {
        self.name.contains("payload")
    }

    /// Returns the length of the payloads or packets; `None` for a mix. Unit: octets.
    #[must_use]
    pub fn bytes(&self) -> Option<u32> {
        let digits = self.name.split(' ').next().unwrap_or_default();
        digits.parse().ok().filter(|_| self.lens.len() == 1)
    }
}

/// Maximum length of an IP packet. Unit: octets.
const LEN_MAX: usize = 9000;
/// Length of the shortest UDP packet over IPv4 with a stamp. Unit: octets.
const LEN_MIN: usize = 40;
/// Longer packets of a capture count with this length. Unit: octets.
const PCAP_LEN_MAX: usize = 1500;

/// Frames of 86, 592 and 1522 bytes with FCS, the largest with a VLAN tag, as IP packets.
const IMIX: &str = "68:7/574:4/1500:1";

impl FromStr for Size {
    type Err = String;

    /// Parses `64`, `imix`, `pcap:FILE`, or lengths with weights such as `68:7/574:4/1500:1`.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("pcap:") {
            return Self::of_pcap(Path::new(path));
        }
        let list = if text == "imix" { IMIX } else { text };
        let (mut lens, mut weights) = (Vec::new(), Vec::new());
        for part in list.split('/') {
            let (len, weight) = part.split_once(':').unwrap_or((part, "1"));
            let wrong =
                || format!("\"{part}\" is not a size: a length in bytes, LENGTH:WEIGHT/…, or imix");
            let len = len.parse().map_err(|_| wrong())?;
            let weight = weight.parse().ok().filter(|weight| (1..=1000).contains(weight));
            if !(28..=LEN_MAX).contains(&len) {
                return Err(wrong());
            }
            lens.push(len);
            weights.push(weight.ok_or_else(wrong)?);
        }
        Ok(Self { name: text.to_owned(), lens, weights })
    }
}

/// Parses `random`, `sequential`, `zipf`, or `zipf` with an exponent such as `zipf:1.1`.
///
/// # Errors
/// `text` is none of these.
pub fn order(text: &str) -> Result<SessionOrder, String> {
    match text.split_once(':') {
        None if text == "random" => Ok(SessionOrder::Random),
        None if text == "sequential" => Ok(SessionOrder::Sequential),
        None if text == "zipf" => Ok(SessionOrder::Zipf { s: 1.0 }),
        Some(("zipf", s)) => match s.parse() {
            Ok(s) if (0.01..=10.0).contains(&s) => Ok(SessionOrder::Zipf { s }),
            _ => Err("the exponent of zipf must be between 0.01 and 10".to_owned()),
        },
        _ => Err("the order must be random, sequential, zipf or zipf:EXPONENT".to_owned()),
    }
}

/// Parses a rate in packets per second: a number, optionally with k, M or G, and optionally `pps`.
///
/// # Errors
/// `text` is no such rate.
pub fn rate_pps(text: &str) -> Result<u64, String> {
    scaled_number(text.strip_suffix("pps").unwrap_or(text))
        .ok_or_else(|| format!("\"{text}\" is not a rate such as 1000000, 500k or 1.5Mpps"))
}

/// Parses a rate in bits per second: a number, optionally with k, M or G.
///
/// # Errors
/// `text` is no such rate.
pub fn bit_rate(text: &str) -> Result<u64, String> {
    scaled_number(text)
        .ok_or_else(|| format!("\"{text}\" is not a bit rate such as 64000, 500k, 20M or 1.2G"))
}

/// Parses a positive number, optionally with k, M or G.
fn scaled_number(text: &str) -> Option<u64> {
    let scales = [('k', 1000u64), ('M', 1_000_000), ('G', 1_000_000_000)];
    let found = scales.iter().find_map(|(unit, scale)| Some((text.strip_suffix(*unit)?, *scale)));
    let (number, scale) = found.unwrap_or((text, 1));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut value = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(scale));
    let mut place = scale;
    for digit in fraction.chars() {
        let digit = digit.to_digit(10).map(u64::from);
        place /= 10;
        let more = digit.filter(|digit| *digit == 0 || place > 0).map(|digit| digit * place);
        value = value.zip(more).and_then(|(value, more)| value.checked_add(more));
    }
    value.filter(|value| *value > 0)
}

/// Parses a time span in s, the default unit, or ms. Returns ns.
///
/// # Errors
/// `text` is no such time, or more than a day.
pub fn span_ns(text: &str) -> Result<u64, String> {
    let (number, scale) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1_000_000u64),
        (_, Some(number)) => (number, 1_000_000_000),
        _ => (text, 1_000_000_000),
    };
    let value = number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale));
    value
        .filter(|ns| (1_000_000..=86_400_000_000_000).contains(ns))
        .ok_or_else(|| format!("\"{text}\" is not a time such as 10s or 500ms, at most one day"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_times_and_sizes_are_read_as_people_write_them() {
        assert_eq!(rate_pps("1.5Mpps"), Ok(1_500_000));
        assert_eq!(rate_pps("100pps"), Ok(100));
        assert_eq!(rate_pps("500k"), Ok(500_000));
        assert_eq!(bit_rate("1.2G"), Ok(1_200_000_000));
        assert!(bit_rate("1.2Gpps").is_err() && bit_rate("0").is_err());
        for text in ["", "0", "x", "1.5", "-1", "1e6", "99999999999999999999", "1.x5k"] {
            assert!(rate_pps(text).is_err(), "{text}");
        }
        assert_eq!(span_ns("500ms"), Ok(500_000_000));
        assert_eq!(span_ns("10s"), Ok(10_000_000_000));
        assert!(span_ns("0s").is_err() && span_ns("10m").is_err());
        let imix: Size = "imix".parse().unwrap();
        assert_eq!((imix.lens, imix.weights), (vec![68, 574, 1500], vec![7, 4, 1]));
        assert_eq!("64".parse::<Size>().unwrap().weights, [1]);
        for text in ["", "64:0", "10", "64/x", "70000"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
        let payload = Size::of_payload(UePacketKind::Udp4, 64).unwrap();
        assert_eq!((payload.lens.clone(), payload.title()), (vec![92], "64 B payload".to_owned()));
        assert_eq!(
            (payload.bytes(), "64".parse::<Size>().unwrap().title()),
            (Some(64), "64 B".into())
        );
        assert!(Size::of_payload(UePacketKind::Tcp6, 11).is_err());
        assert_eq!(order("zipf:1.1"), Ok(SessionOrder::Zipf { s: 1.1 }));
        assert!(order("zipf:0").is_err() && order("sorted").is_err());
    }

    #[test]
    fn duplex_halves_the_rate() {
        assert_eq!(
            TrafficDirection::Duplex.rates(OfferedRate::Pps(10)),
            [OfferedRate::Pps(5), OfferedRate::Pps(5)]
        );
        assert_eq!(
            TrafficDirection::Downlink.rates(OfferedRate::Max),
            [OfferedRate::Pps(0), OfferedRate::Max]
        );
    }
}
