//! Group files: each group is a set of sessions with equal rules and equal offered rates.
//!
//! ```toml
//! [[group]]
//! name = "limited"
//! sessions = 4                  # number of sessions; groups take consecutive sessions
//! size = 1052                   # octets of the IP packet, or a mix; default 1000
//! uplink = ["800M", "1.2G"]     # bit/s offered by each session, each for --step in turn
//! downlink = "100M"             # one constant rate; if missing, no traffic
//! rules = { qfi = 9, rate-qers = 1, mbr-kbps = 1_000_000 }   # as in a rule profile
//! ```

use std::path::Path;

use anyhow::Result;
use serde::Deserialize;

use super::traffic::{Size, bit_rate};
use adit_lab_engine::clock::scaled;
use adit_lab_engine::pacer::{OfferedRate, RateStep};
use adit_lab_engine::stamp::STREAMS_MAX;
use adit_lab_process::stop::environment;
use adit_lab_smf::SessionProfile;

/// Maximum number of groups: each has an uplink and a downlink stream.
const GROUPS_MAX: usize = STREAMS_MAX / 2;

/// A group of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionGroup {
    pub name: String,
    /// Index of the group's first session.
    pub first: u32,
    /// Number of sessions.
    pub sessions: u32,
    /// Sizes of the group's packets.
    pub size: Size,
    /// Rates that each session offers one after the other, uplink and downlink. Unit: bit/s of IP.
    pub offered_bps: [Vec<u64>; 2],
    /// The group's share, per direction, of a rate that several groups have together. Unit: bit/s.
    pub share_bps: Option<u64>,
    pub rules: SessionProfile,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupFile {
    group: Vec<GroupSection>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupSection {
    name: String,
    sessions: u32,
    size: Option<GroupValue>,
    uplink: Option<GroupValues>,
    downlink: Option<GroupValues>,
    share: Option<GroupValue>,
    #[serde(default)]
    rules: SessionProfile,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a string or a number")]
enum GroupValue {
    Text(String),
    Number(u64),
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a rate such as \"1.2G\", or a list of rates")]
enum GroupValues {
    One(GroupValue),
    Many(Vec<GroupValue>),
}

impl GroupValue {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
        }
    }
}

/// Reads a group file.
///
/// # Errors
/// The error names the file, and the line or group.
pub(crate) fn read(path: &Path) -> Result<Vec<SessionGroup>> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| environment(format!("{}: {error}", path.display())))?;
    parse(&text).map_err(|error| environment(format!("{}, {error}", path.display())))
}

fn parse(text: &str) -> Result<Vec<SessionGroup>, String> {
    let file: GroupFile = toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = 1 + text.bytes().take(start).filter(|byte| *byte == b'\n').count();
        format!("line {line}: {}", error.message())
    })?;
    if file.group.is_empty() || file.group.len() > GROUPS_MAX {
        return Err(format!("expected 1 to {GROUPS_MAX} groups, not {}", file.group.len()));
    }
    let mut groups: Vec<SessionGroup> = Vec::new();
    for section in &file.group {
        let first = groups.last().map_or(0, |last| last.first + last.sessions);
        let name = &section.name;
        if groups.iter().any(|group| group.name == *name) {
            return Err(format!("group {name}: another has the same name"));
        }
        let group = section.group(first).map_err(|error| format!("group {name}: {error}"))?;
        groups.push(group);
    }
    Ok(groups)
}

impl GroupSection {
    fn group(&self, first: u32) -> Result<SessionGroup, String> {
        /// Maximum number of sessions in one address plan.
        const SESSIONS_MAX: u32 = 1 << 24;
        self.rules.check().map_err(|(key, what)| format!("rules, {key}: {what}"))?;
        if self.sessions == 0 || first.saturating_add(self.sessions) > SESSIONS_MAX {
            return Err(format!("expected 1 to {SESSIONS_MAX} sessions in total"));
        }
        let rates = |words: &Option<GroupValues>| -> Result<Vec<u64>, String> {
            let words = match words {
                None => return Ok(Vec::new()),
                Some(GroupValues::One(word)) => std::slice::from_ref(word),
                Some(GroupValues::Many(words)) => words,
            };
            words.iter().map(|word| bit_rate(&word.text())).collect()
        };
        let size = self.size.as_ref().map_or_else(|| "1000".to_owned(), GroupValue::text);
        Ok(SessionGroup {
            name: self.name.clone(),
            first,
            sessions: self.sessions,
            size: size.parse()?,
            offered_bps: [rates(&self.uplink)?, rates(&self.downlink)?],
            share_bps: self.share.as_ref().map(|share| bit_rate(&share.text())).transpose()?,
            rules: self.rules.clone(),
        })
    }
}

impl SessionGroup {
    /// Returns the rates that each session offers in turns (0 uplink, 1 downlink). Unit: bit/s.
    #[must_use]
    pub(crate) fn offered_bps(&self, direction: usize) -> &[u64] {
        self.offered_bps.get(direction).map_or(&[], Vec::as_slice)
    }

    /// Returns the mean length of the group's packets in octets, as numerator and denominator.
    fn len(&self) -> (u64, u64) {
        let weights = self.size.weights.iter().copied().map(u64::from);
        let lens = self.size.lens.iter().map(|len| u64::try_from(*len).unwrap_or(u64::MAX));
        let octets = lens.zip(weights.clone()).map(|(len, weight)| len * weight).sum();
        (octets, weights.sum::<u64>().max(1))
    }

    /// Returns the length of the group's longest packet. Unit: octets.
    #[must_use]
    pub(crate) fn len_max(&self) -> u64 {
        let longest = self.size.lens.iter().max().copied().unwrap_or(0);
        u64::try_from(longest).unwrap_or(u64::MAX)
    }

    /// Returns the rates of all sessions together in a direction (0 uplink, 1 downlink),
    /// cyclically, each for `step_ns`, until `duration_ns`.
    #[must_use]
    pub(crate) fn course(&self, direction: usize, step_ns: u64, duration_ns: u64) -> Vec<RateStep> {
        let rates = self.offered_bps(direction);
        let (octets, packets) = self.len();
        let pps = |bps: u64| {
            scaled(bps.saturating_mul(u64::from(self.sessions)), packets, 8 * octets.max(1))
        };
        let step = |bps: &u64, ns| RateStep { rate: OfferedRate::Pps(pps(*bps)), ns };
        match rates {
            [] => Vec::new(),
            [rate] => vec![step(rate, duration_ns)],
            rates => {
                let turns = usize::try_from(duration_ns.div_ceil(step_ns)).unwrap_or(usize::MAX);
                rates.iter().cycle().take(turns).map(|rate| step(rate, step_ns)).collect()
            }
        }
    }

    /// Returns the total rate that the rules allow the sessions in a direction. Unit: bit/s.
    #[must_use]
    pub(crate) fn limit_bps(&self, direction: usize) -> Option<u64> {
        if self.share_bps.is_some() {
            return self.share_bps;
        }
        let limit = self.rules.limits_bps().get(direction).copied().flatten()?;
        Some(if self.has_shared_rate() {
            limit
        } else {
            limit.saturating_mul(u64::from(self.sessions))
        })
    }

    /// True if the group's sessions share one rate.
    #[must_use]
    pub(crate) fn has_shared_rate(&self) -> bool {
        self.rules.correlation_id.is_some() || self.share_bps.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
[[group]]
name = "limited"
sessions = 4
size = 1250
uplink = ["80M", "120M"]
downlink = "1M"
rules = { qfi = 9, rate-qers = 1, mbr-kbps = [100_000, 800] }
[[group]]
name = "free"
sessions = 2
downlink = 8000
"#;

    #[test]
    fn groups_follow_each_other_with_their_rates_and_limits() {
        let groups = parse(GOOD).unwrap();
        assert_eq!((groups[0].first, groups[1].first, groups[1].sessions), (0, 4, 2));
        assert_eq!(groups[0].offered_bps[0], [80_000_000, 120_000_000]);
        assert_eq!(groups[0].limit_bps(0), Some(400_000_000));
        assert_eq!(groups[0].limit_bps(1), Some(3_200_000));
        assert_eq!((groups[1].limit_bps(1), groups[1].size.lens[0]), (None, 1000));
        let step = |pps, ns| RateStep { rate: OfferedRate::Pps(pps), ns };
        let course = groups[0].course(0, 2, 5);
        assert_eq!(course, [step(32_000, 2), step(48_000, 2), step(32_000, 2)]);
        assert_eq!(groups[0].course(1, 2, 5), [step(400, 5)]);
        assert_eq!(groups[1].course(1, 2, 5), [step(2, 5)]);
        assert_eq!(groups[1].course(0, 2, 5), []);
    }

    #[test]
    fn sessions_that_share_a_rate_have_it_once() {
        let share = GOOD.replace("downlink = 8000", "downlink = 8000\nshare = \"9k\"");
        let groups = parse(&share).unwrap();
        assert_eq!((groups[1].limit_bps(1), groups[1].has_shared_rate()), (Some(9000), true));
        let shared = GOOD.replace("rate-qers = 1,", "rate-qers = 1, correlation-id = 7,");
        let groups = parse(&shared).unwrap();
        assert_eq!(groups[0].limit_bps(0), Some(100_000_000));
    }

    #[test]
    fn mistakes_are_named_with_line_or_group() {
        for (from, to, wanted) in [
            ("sessions = 2", "session = 2", "line 11: unknown field `session`"),
            ("\"1M\"", "\"fast\"", "group limited: \"fast\" is not a bit rate"),
            ("size = 1250", "size = 5", "group limited: \"5\" is not a size"),
            ("sessions = 2", "sessions = 0", "group free: expected 1 to"),
            ("\"free\"", "\"limited\"", "group limited: another has the same name"),
            ("rate-qers = 1,", "", "group limited: rules, mbr-kbps: needs rate-qers"),
        ] {
            let error = parse(&GOOD.replace(from, to)).unwrap_err();
            assert!(error.starts_with(wanted), "{error}");
        }
    }

    #[test]
    fn groups_of_the_repository_are_valid() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/groups");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            read(&entry.unwrap().path()).unwrap();
            count += 1;
        }
        assert!(count >= 4, "{count}");
    }
}
