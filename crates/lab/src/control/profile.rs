//! Rules of the sessions: how many PDRs, SDF filters, QERs and URRs each has.

use std::path::Path;

use adit_types::Qfi;
use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::stop::environment;

/// PDRs of a direction at most: an establishment must fit a datagram.
const FLOWS_MAX: u8 = 64;

/// The rules of each session: per direction one PDR for all traffic behind `flows` PDRs with SDF
/// filters, and a FAR for each direction.
///
/// Probe packets match no filter, so that each is compared with all of them, or with `match_flow`
/// the last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Profile {
    /// The PDRs have a QER with open gates and this QFI, which makes the UPF write a PDU Session
    /// Container.
    pub qfi: Option<u8>,
    /// PDRs with SDF filters per direction.
    pub flows: u8,
    /// Probe packets match the last of them.
    pub match_flow: bool,
    /// Further QERs of every PDR, with a maximum bit rate each.
    pub rate_qers: u8,
    /// Maximum bit rate of those. Unit: kbit/s.
    pub mbr_kbps: Option<u64>,
    /// URRs of every PDR that measure volume.
    pub urrs: u8,
    /// Volume after which each URR reports; without, it never does. Unit: octets.
    pub urr_threshold_bytes: Option<u64>,
}

impl Profile {
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
        if profile.qfi.is_some_and(|qfi| Qfi::new(qfi).is_none()) {
            return Err(wrong("qfi", "a QFI is between 0 and 63"));
        }
        if profile.flows > FLOWS_MAX {
            return Err(wrong("flows", &format!("{FLOWS_MAX} at most")));
        }
        if profile.rate_qers > 8 || profile.urrs > 8 {
            let key = if profile.urrs > 8 { "urrs" } else { "rate-qers" };
            return Err(wrong(key, "8 at most"));
        }
        if profile.match_flow && profile.flows == 0 {
            return Err(wrong("match-flow", "there are no flows to match"));
        }
        Ok(profile)
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
        let profile = Profile::parse(text).unwrap();
        assert_eq!((profile.qfi(), profile.flows, profile.urrs), (Qfi::new(9), 16, 1));
        for (text, wanted) in [
            ("qfi = 64", ", line 1, qfi: a QFI is between 0 and 63"),
            ("qfi = 9\nflows = 65", ", line 2, flows: 64 at most"),
            ("urrs = 9", ", line 1, urrs: 8 at most"),
            ("match-flow = true", ", line 1, match-flow: there are no flows to match"),
            ("\nflow = 1", ", line 2, flow: unknown field `flow`"),
            ("flows = \"many\"", ", line 1, flows: invalid type"),
        ] {
            let error = Profile::parse(text).unwrap_err();
            assert!(error.starts_with(wanted), "{text}: {error}");
        }
    }
}
