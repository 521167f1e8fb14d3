//! Rule profiles: the number of PDRs, SDF filters, QERs and URRs of each session.

use std::path::Path;

use adit_types::Qfi;
use anyhow::Result;
use serde::{Deserialize, Serialize};

use adit_lab_process::stop::environment;

/// Maximum number of PDRs with SDF filters per direction: an establishment must fit a datagram.
const FLOWS_MAX: u8 = 64;
/// Flow description of the whole traffic of a UE. Control planes put it into the PDRs of the
/// default flow.
const ANY_TO_ASSIGNED: &str = "permit out ip from any to assigned";
/// Session AMBR of [`SessionProfile::with_ambr`]: more than a session can send, so that the UPF
/// applies the rate to every packet and drops none. Unit: kbit/s.
const AMBR_KBPS: u64 = 100_000_000;

/// Bit rates of both directions. Unit: kbit/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected kbit/s: one number or [uplink, downlink]")]
pub enum Kbps {
    /// One rate for both directions.
    Both(u64),
    /// Uplink and downlink.
    Each([u64; 2]),
}

impl Kbps {
    /// Returns the rates of uplink and downlink. Unit: bit/s.
    #[must_use]
    pub fn each_bps(self) -> [u64; 2] {
        let each = match self {
            Self::Both(kbps) => [kbps; 2],
            Self::Each(each) => each,
        };
        each.map(|kbps| kbps.saturating_mul(1000))
    }
}

/// The rules of each session: per direction a FAR, `flows` PDRs with SDF filters, and a PDR of
/// lower priority for all traffic.
///
/// Probe packets match no filter or, with `match_flow`, the last one, so that the UPF compares each
/// packet with all filters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct SessionProfile {
    /// QFI of a QER with open gates on all PDRs. It makes the UPF add a PDU Session Container.
    pub qfi: Option<u8>,
    /// Number of PDRs with SDF filters per direction.
    pub flows: u8,
    /// True if probe packets match the last of the `flows` filters.
    pub match_flow: bool,
    /// Flow description of the SDF filter in the PDRs for all traffic; `None` for no filter.
    pub all_traffic_sdf: Option<String>,
    /// Number of further QERs on every PDR, each with a maximum bit rate.
    pub rate_qers: u8,
    /// Maximum bit rate of each of the `rate_qers`.
    pub mbr_kbps: Option<Kbps>,
    /// QER Correlation ID of the first of the `rate_qers`; the others get the identifiers after it.
    /// Sessions with the same identifiers share the rates.
    pub correlation_id: Option<u32>,
    /// Maximum bit rate of the QER with the QFI.
    pub flow_mbr_kbps: Option<Kbps>,
    /// Guaranteed bit rate of the QER with the QFI.
    pub flow_gbr_kbps: Option<Kbps>,
    /// Averaging window of all QERs with a rate. Unit: ms.
    pub averaging_window_ms: Option<u32>,
    /// Number of URRs on every PDR; they measure volume.
    pub urrs: u8,
    /// Volume threshold of each URR; `None` for no reports. Unit: octets.
    pub urr_threshold_bytes: Option<u64>,
}

impl SessionProfile {
    /// Adds a QER with a session AMBR in both directions that drops no packet.
    #[must_use]
    pub fn with_ambr(self) -> Self {
        Self { rate_qers: 1, mbr_kbps: Some(Kbps::Both(AMBR_KBPS)), ..self }
    }

    /// Adds a filter to the PDRs for all traffic, which matches every packet of the UE.
    #[must_use]
    pub fn with_any_filter(self) -> Self {
        Self { all_traffic_sdf: Some(ANY_TO_ASSIGNED.to_owned()), ..self }
    }

    /// Adds a PDR per direction with a filter that probe packets match.
    #[must_use]
    pub fn with_filter(self) -> Self {
        Self { flows: 1, match_flow: true, ..self }
    }

    /// Reads a profile from a file.
    ///
    /// # Errors
    /// The message names file, line and key.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| environment(format!("{}: {error}", path.display())))?;
        Self::parse(&text).map_err(|error| environment(format!("{}{error}", path.display())))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let profile: Self = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let line = 1 + text.bytes().take(start).filter(|byte| *byte == b'\n').count();
            let key = text.lines().nth(line - 1).and_then(|line| line.split_once('='));
            let key = key.map_or(String::new(), |(key, _)| format!(", {}", key.trim()));
            format!(", line {line}{key}: {}", error.message())
        })?;
        let wrong = |key: &str, what: &str| {
            let at = text.lines().position(|line| line.trim_start().starts_with(key));
            format!(", line {}, {key}: {what}", at.map_or(1, |at| at + 1))
        };
        profile.check().map_err(|(key, what)| wrong(key, &what))?;
        Ok(profile)
    }

    /// Checks the values.
    ///
    /// # Errors
    /// Returns the key of an invalid value, and why it is invalid.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let wrong = |key, what: &str| Err((key, what.to_owned()));
        if self.qfi.is_some_and(|qfi| Qfi::new(qfi).is_none()) {
            return wrong("qfi", "a QFI must be between 0 and 63");
        }
        if self.flows > FLOWS_MAX {
            return Err(("flows", format!("at most {FLOWS_MAX}")));
        }
        if self.rate_qers > 8 || self.urrs > 8 {
            return wrong(if self.urrs > 8 { "urrs" } else { "rate-qers" }, "at most 8");
        }
        if self.match_flow && self.flows == 0 {
            return wrong("match-flow", "needs flows to match");
        }
        if self.all_traffic_sdf.as_ref().is_some_and(|flow| !flow.starts_with("permit out ")) {
            return wrong("all-traffic-sdf", "a flow description must start with \"permit out\"");
        }
        for (rate, key) in
            [(self.flow_mbr_kbps, "flow-mbr-kbps"), (self.flow_gbr_kbps, "flow-gbr-kbps")]
        {
            if rate.is_some() && self.qfi.is_none() {
                return wrong(key, "needs qfi, whose QER has this rate");
            }
        }
        if self.mbr_kbps.is_some() && self.rate_qers == 0 {
            return wrong("mbr-kbps", "needs rate-qers, which have this rate");
        }
        if self.correlation_id.is_some() && self.mbr_kbps.is_none() {
            return wrong("correlation-id", "needs mbr-kbps, the rate to share");
        }
        Ok(())
    }

    /// Returns the lowest maximum bit rate of uplink and of downlink, if any. Unit: bit/s.
    #[must_use]
    pub fn limits_bps(&self) -> [Option<u64>; 2] {
        let rates = [self.mbr_kbps, self.flow_mbr_kbps];
        let of = |direction: usize| {
            let each = rates.iter().flatten().filter_map(|rate| {
                let rates = rate.each_bps();
                rates.get(direction).copied()
            });
            each.min()
        };
        [of(0), of(1)]
    }

    /// Returns the QFI.
    #[must_use]
    pub fn qfi(&self) -> Option<Qfi> {
        self.qfi.and_then(Qfi::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_is_read_and_mistakes_are_named_with_line_and_key() {
        let text = "qfi = 9\nflows = 16\nmatch-flow = true\nrate-qers = 2\nurrs = 1\n";
        let profile = SessionProfile::parse(text).unwrap();
        assert_eq!((profile.qfi(), profile.flows, profile.urrs), (Qfi::new(9), 16, 1));
        for (text, wanted) in [
            ("qfi = 64", ", line 1, qfi: a QFI must be between 0 and 63"),
            ("qfi = 9\nflows = 65", ", line 2, flows: at most 64"),
            ("urrs = 9", ", line 1, urrs: at most 8"),
            ("match-flow = true", ", line 1, match-flow: needs flows to match"),
            ("\nflow = 1", ", line 2, flow: unknown field `flow`"),
            ("flows = \"many\"", ", line 1, flows: invalid type"),
            ("all-traffic-sdf = \"any\"", ", line 1, all-traffic-sdf: a flow description must"),
            ("flow-mbr-kbps = 5", ", line 1, flow-mbr-kbps: needs qfi"),
            ("mbr-kbps = 5", ", line 1, mbr-kbps: needs rate-qers"),
            ("correlation-id = 5", ", line 1, correlation-id: needs mbr-kbps"),
            (
                "rate-qers = 1\nmbr-kbps = [5]",
                ", line 2, mbr-kbps: expected kbit/s: one number or [",
            ),
        ] {
            let error = SessionProfile::parse(text).unwrap_err();
            assert!(error.starts_with(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn limit_of_a_direction_is_the_lowest_of_its_rates() {
        let limits = |text| SessionProfile::parse(text).unwrap().limits_bps();
        assert_eq!(limits("qfi = 9"), [None; 2]);
        assert_eq!(limits("rate-qers = 1\nmbr-kbps = 8"), [Some(8000); 2]);
        let both = "qfi = 9\nrate-qers = 1\nmbr-kbps = [8, 20]\nflow-mbr-kbps = 10";
        assert_eq!(limits(both), [Some(8000), Some(10_000)]);
        assert_eq!(limits("qfi = 9\nflow-gbr-kbps = 8"), [None; 2]);
    }
}
