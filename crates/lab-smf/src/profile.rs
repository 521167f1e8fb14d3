//! Rules of the sessions: how many PDRs, SDF filters, QERs and URRs each has.

use std::path::Path;

use adit_types::Qfi;
use anyhow::Result;
use serde::{Deserialize, Serialize};

use adit_lab_process::stop::environment;

/// PDRs of a direction at most: an establishment must fit a datagram.
const FLOWS_MAX: u8 = 64;

/// Bit rates of both directions. Unit: kbit/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expects kbit/s, one number or [uplink, downlink]")]
pub enum Kbps {
    /// The same.
    Both(u64),
    /// Uplink and downlink.
    Each([u64; 2]),
}

impl Kbps {
    /// Uplink and downlink. Unit: bit/s.
    #[must_use]
    pub fn each_bps(self) -> [u64; 2] {
        let each = match self {
            Self::Both(kbps) => [kbps; 2],
            Self::Each(each) => each,
        };
        each.map(|kbps| kbps.saturating_mul(1000))
    }
}

/// The rules of each session: per direction one PDR for all traffic behind `flows` PDRs with SDF
/// filters, and a FAR for each direction.
///
/// Probe packets match no filter, so that each is compared with all of them, or with `match_flow`
/// the last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct SessionProfile {
    /// The PDRs have a QER with open gates and this QFI, which makes the UPF write a PDU Session
    /// Container.
    pub qfi: Option<u8>,
    /// PDRs with SDF filters per direction.
    pub flows: u8,
    /// Probe packets match the last of them.
    pub match_flow: bool,
    /// Further QERs of every PDR, with a maximum bit rate each.
    pub rate_qers: u8,
    /// Maximum bit rate of those.
    pub mbr_kbps: Option<Kbps>,
    /// QER Correlation ID of the first of those; the others follow. UpfSessionIds with the same share the
    /// rates.
    pub correlation_id: Option<u32>,
    /// Maximum bit rate of the QER with the QFI.
    pub flow_mbr_kbps: Option<Kbps>,
    /// Guaranteed bit rate of the QER with the QFI.
    pub flow_gbr_kbps: Option<Kbps>,
    /// Averaging window of all QERs with a rate. Unit: ms.
    pub averaging_window_ms: Option<u32>,
    /// URRs of every PDR that measure volume.
    pub urrs: u8,
    /// Volume after which each URR reports; without, it never does. Unit: octets.
    pub urr_threshold_bytes: Option<u64>,
}

impl SessionProfile {
    /// Reads a file.
    ///
    /// # Errors
    /// A sentence with file, line and key.
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

    /// Names a key whose value cannot be, and why.
    ///
    /// # Errors
    /// There is one.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let wrong = |key, what: &str| Err((key, what.to_owned()));
        if self.qfi.is_some_and(|qfi| Qfi::new(qfi).is_none()) {
            return wrong("qfi", "a QFI is between 0 and 63");
        }
        if self.flows > FLOWS_MAX {
            return Err(("flows", format!("{FLOWS_MAX} at most")));
        }
        if self.rate_qers > 8 || self.urrs > 8 {
            return wrong(if self.urrs > 8 { "urrs" } else { "rate-qers" }, "8 at most");
        }
        if self.match_flow && self.flows == 0 {
            return wrong("match-flow", "there are no flows to match");
        }
        for (rate, key) in
            [(self.flow_mbr_kbps, "flow-mbr-kbps"), (self.flow_gbr_kbps, "flow-gbr-kbps")]
        {
            if rate.is_some() && self.qfi.is_none() {
                return wrong(key, "there is no qfi, whose QER has it");
            }
        }
        if self.mbr_kbps.is_some() && self.rate_qers == 0 {
            return wrong("mbr-kbps", "there are no rate-qers, which have it");
        }
        if self.correlation_id.is_some() && self.mbr_kbps.is_none() {
            return wrong("correlation-id", "there is no mbr-kbps to share");
        }
        Ok(())
    }

    /// The lowest maximum bit rate of uplink and downlink. Unit: bit/s.
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

    /// The QFI.
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
            ("qfi = 64", ", line 1, qfi: a QFI is between 0 and 63"),
            ("qfi = 9\nflows = 65", ", line 2, flows: 64 at most"),
            ("urrs = 9", ", line 1, urrs: 8 at most"),
            ("match-flow = true", ", line 1, match-flow: there are no flows to match"),
            ("\nflow = 1", ", line 2, flow: unknown field `flow`"),
            ("flows = \"many\"", ", line 1, flows: invalid type"),
            ("flow-mbr-kbps = 5", ", line 1, flow-mbr-kbps: there is no qfi"),
            ("mbr-kbps = 5", ", line 1, mbr-kbps: there are no rate-qers"),
            ("correlation-id = 5", ", line 1, correlation-id: there is no mbr-kbps"),
            (
                "rate-qers = 1\nmbr-kbps = [5]",
                ", line 2, mbr-kbps: expects kbit/s, one number or [",
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
