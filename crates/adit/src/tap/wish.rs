//! The bodies of requests for a trace and for a capture, and their checks.

use core::net::IpAddr;

use adit_rules::{DropReason, TapDropFilter};
use adit_types::{Nanos, Seid, Teid};
use clap::Args;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::question::{RequestedTapKey, TapQuestion};
use crate::request::session_filter::parse_number;

/// Packets of a trace by default, and at most.
const TRACED_PKTS_DEFAULT: u64 = 20;
const TRACED_PKTS_MAX: u64 = 10_000;

/// How long a trace and a capture last by default.
const TRACE_TIME_DEFAULT: Nanos = Nanos::from_secs(10);
const CAPTURE_TIME_DEFAULT: Nanos = Nanos::from_secs(60);

/// Longest duration of a trace or a capture.
const TAP_TIME_MAX: Nanos = Nanos::from_secs(24 * 3600);

/// Most octets of a frame that a client may request: the longest frame of any port.
const SNAP_BYTES_MAX: u16 = 9216;

/// Which packets to trace: those of a session, a UE or a tunnel, those that are dropped, or both.
/// One of the first three at most.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema, Args)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "ue": "10.45.0.2", "packets": 5, "duration_ms": 10_000, "words": true }))]
pub(crate) struct TraceWish {
    /// Packets of the session with this UP SEID.
    #[arg(long, value_name = "SEID", group = "key")]
    pub session: Option<String>,
    /// Packets to this address of a UE, and in its tunnels, also with a foreign source. For an IPv6
    /// address the /64 counts.
    #[arg(long, value_name = "ADDRESS", group = "key")]
    #[schema(value_type = Option<String>)]
    pub ue: Option<IpAddr>,
    /// Packets in the local tunnel with this TEID, also if no session owns it.
    #[arg(long, value_name = "TEID", group = "key")]
    pub teid: Option<String>,
    /// Packets that are dropped for this reason (`adit show drops --all`), such as `far_drop`;
    /// `any` for all drops.
    #[arg(long, value_name = "REASON")]
    pub drop: Option<String>,
    /// Packets at most.
    #[arg(long, value_name = "COUNT", default_value = "20", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    #[schema(minimum = 1, maximum = 10_000, default = 20)]
    pub packets: Option<u64>,
    /// How long at most.
    #[arg(long = "duration", value_name = "TIME", value_parser = duration_ms, help = DURATION)]
    #[schema(minimum = 1, maximum = 86_400_000, default = 10_000)]
    pub duration_ms: Option<u64>,
    /// Try the fast path with a copy of each packet: what it would do, and whether the stages
    /// differ.
    #[arg(long)]
    #[serde(default)]
    pub path: bool,
    /// Each packet also in plain words, as `adit trace` prints them.
    #[arg(skip)]
    #[serde(default)]
    pub words: bool,
}

/// Which packets to capture. One of `session`, `ue`, `teid`, `interface` and `all` at most.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema, Args)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "ue": "10.45.0.2", "packets": 100, "duration_ms": 10_000 }))]
pub(crate) struct CaptureWish {
    /// Packets of the session with this UP SEID.
    #[arg(long, value_name = "SEID", group = "key")]
    pub session: Option<String>,
    /// Packets to this address of a UE, and in its tunnels, also with a foreign source. For an IPv6
    /// address the /64 counts.
    #[arg(long, value_name = "ADDRESS", group = "key")]
    #[schema(value_type = Option<String>)]
    pub ue: Option<IpAddr>,
    /// Packets in the local tunnel with this TEID, also if no session owns it.
    #[arg(long, value_name = "TEID", group = "key")]
    pub teid: Option<String>,
    /// Packets that arrive on this interface or leave through it.
    #[arg(long, value_name = "NAME", group = "key")]
    pub interface: Option<String>,
    /// All packets; best together with `--sample`.
    #[arg(long, group = "key")]
    #[serde(default)]
    pub all: bool,
    /// Packets that are dropped for this reason (`adit show drops --all`), such as `far_drop`;
    /// `any` for all drops.
    #[arg(long, value_name = "REASON")]
    pub drop: Option<String>,
    /// One packet out of this many.
    #[arg(long = "sample", value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    #[schema(minimum = 1)]
    pub one_of: Option<u32>,
    /// Octets of each frame, with users' data. Without it, frames end with their headers.
    #[arg(long = "snap", value_name = "OCTETS", value_parser = clap::value_parser!(u16).range(1..=9216))]
    #[schema(minimum = 1, maximum = 9216)]
    pub snap_bytes: Option<u16>,
    /// Packets at most.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    #[schema(minimum = 1)]
    pub packets: Option<u64>,
    /// How long at most.
    #[arg(long = "duration", value_name = "TIME", value_parser = duration_ms, default_value = "24h", help = DURATION)]
    #[schema(minimum = 1, maximum = 86_400_000, default = 60_000)]
    pub duration_ms: Option<u64>,
}

/// The help text of the option `--duration`.
const DURATION: &str = "How long at most, such as `500ms`, `10s`, `5m` or `2h`";

impl TraceWish {
    /// Checks the request, and replaces omitted values by their defaults.
    ///
    /// # Errors
    /// A value is wrong; the text has the fault and its remedy.
    pub(crate) fn check(&self) -> Result<TapQuestion, String> {
        let Self { session, ue, teid, drop, packets, duration_ms, path, words: _ } = self;
        let (key, drop) = (key(session, *ue, teid, &None)?, dropped_for(drop)?);
        if key == RequestedTapKey::Any && drop.is_none() {
            let what = "a trace is of a session, a UE, a TEID or a drop reason: say which packets to follow";
            return Err(what.to_owned());
        }
        let pkts_max = packets.unwrap_or(TRACED_PKTS_DEFAULT);
        if !(1..=TRACED_PKTS_MAX).contains(&pkts_max) {
            return Err(format!("a trace follows 1 to {TRACED_PKTS_MAX} packets"));
        }
        let time_max = time_max(*duration_ms, TRACE_TIME_DEFAULT)?;
        let (one_of, stages, path, snap_bytes) = (1, true, *path, None);
        Ok(TapQuestion { key, drop, one_of, stages, path, snap_bytes, pkts_max, time_max })
    }
}

impl CaptureWish {
    /// Checks the request, and replaces omitted values by their defaults.
    ///
    /// # Errors
    /// A value is wrong; the text has the fault and its remedy.
    pub(crate) fn check(&self) -> Result<TapQuestion, String> {
        let Self { session, ue, teid, interface, all, drop, one_of, snap_bytes, .. } = self;
        let (key, drop) = (key(session, *ue, teid, interface)?, dropped_for(drop)?);
        let is_any = key == RequestedTapKey::Any;
        if (*all && !is_any) || (!*all && is_any && drop.is_none()) {
            let what = "a capture is of a session, a UE, a TEID, an interface or all packets, and can have a drop \
                        reason: say which packets to capture";
            return Err(what.to_owned());
        }
        if snap_bytes.is_some_and(|bytes| bytes == 0 || bytes > SNAP_BYTES_MAX) {
            return Err(format!("a captured frame has 1 to {SNAP_BYTES_MAX} octets"));
        }
        let (one_of, pkts_max) = (one_of.unwrap_or(1), self.packets.unwrap_or(u64::MAX));
        if one_of == 0 || pkts_max == 0 {
            return Err("a capture takes 1 or more packets, one of 1 or more".to_owned());
        }
        let time_max = time_max(self.duration_ms, CAPTURE_TIME_DEFAULT)?;
        let (stages, path, snap_bytes) = (false, false, *snap_bytes);
        Ok(TapQuestion { key, drop, one_of, stages, path, snap_bytes, pkts_max, time_max })
    }
}

/// Parses a time such as `10s`. Returns milliseconds.
fn duration_ms(text: &str) -> Result<u64, String> {
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
    let duration = number.saturating_mul(ms);
    match duration == 0 || duration > TAP_TIME_MAX.0 / 1_000_000 {
        true => Err("takes 1ms to 24h".to_owned()),
        false => Ok(duration),
    }
}

fn time_max(duration_ms: Option<u64>, default: Nanos) -> Result<Nanos, String> {
    let time = duration_ms.map_or(default, |ms| Nanos(ms.saturating_mul(1_000_000)));
    match time == Nanos(0) || time > TAP_TIME_MAX {
        true => Err("a trace or a capture lasts 1ms to 24h".to_owned()),
        false => Ok(time),
    }
}

fn key(
    session: &Option<String>,
    ue: Option<IpAddr>,
    teid: &Option<String>,
    interface: &Option<String>,
) -> Result<RequestedTapKey, String> {
    match (session, ue, teid, interface) {
        (None, None, None, None) => Ok(RequestedTapKey::Any),
        (Some(text), None, None, None) => {
            let wrong = || format!("\"{text}\" is no SEID; take one of `adit show sessions`");
            parse_number(text).map(Seid).map(RequestedTapKey::Session).ok_or_else(wrong)
        }
        (None, Some(addr), None, None) => Ok(RequestedTapKey::Ue(addr)),
        (None, None, Some(text), None) => {
            let wrong = || format!("\"{text}\" is no TEID; take one of `adit show sessions`");
            let teid = parse_number(text).and_then(|teid| u32::try_from(teid).ok());
            teid.map(Teid).map(RequestedTapKey::Teid).ok_or_else(wrong)
        }
        (None, None, None, Some(name)) => Ok(RequestedTapKey::Interface(name.clone())),
        _ => Err("session, ue, teid and interface exclude each other: name one of them".to_owned()),
    }
}

fn dropped_for(name: &Option<String>) -> Result<Option<TapDropFilter>, String> {
    let Some(name) = name else { return Ok(None) };
    if name == "any" {
        return Ok(Some(TapDropFilter::Any));
    }
    let found = DropReason::ALL.iter().find(|reason| reason.name() == name);
    found.copied().map(|reason| Some(TapDropFilter::Only(reason))).ok_or_else(|| {
        let names: Vec<&str> = DropReason::ALL.iter().map(|reason| reason.name()).collect();
        format!("no drop reason \"{name}\"; there are any, {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn times_have_a_unit_and_bounds() {
        assert_eq!(duration_ms("500ms"), Ok(500));
        assert_eq!(duration_ms("2h"), Ok(7_200_000));
        for wrong in ["", "10", "s", "0s", "25h", "1d", "-1s", "99999999999999999999s"] {
            assert!(duration_ms(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn traces_that_cannot_be_made_are_refused_with_what_to_do() {
        let trace = |wish: Value| serde_json::from_value::<TraceWish>(wish).unwrap().check();
        let taken = trace(json!({ "ue": "10.0.0.1" })).unwrap();
        assert_eq!((taken.pkts_max, taken.time_max), (20, TRACE_TIME_DEFAULT));
        for (wish, word) in [
            (json!({}), "a session, a UE"),
            (json!({ "ue": "10.0.0.1", "packets": 0 }), "10000"),
            (json!({ "ue": "10.0.0.1", "packets": 10_001 }), "10000"),
            (json!({ "ue": "10.0.0.1", "duration_ms": 0 }), "24h"),
            (json!({ "drop": "x" }), "far_drop"),
            (json!({ "ue": "10.0.0.1", "teid": "1" }), "exclude"),
            (json!({ "session": "zero" }), "SEID"),
        ] {
            let refused = trace(wish.clone()).unwrap_err();
            assert!(refused.contains(word), "{wish}: {refused}");
        }
    }

    #[test]
    fn capture_says_which_packets_and_is_bounded_in_time() {
        let capture = |wish: Value| serde_json::from_value::<CaptureWish>(wish).unwrap().check();
        let taken = capture(json!({ "interface": "n6", "snap_bytes": 100 })).unwrap();
        assert_eq!(
            (taken.key, taken.snap_bytes),
            (RequestedTapKey::Interface("n6".into()), Some(100))
        );
        assert_eq!((taken.pkts_max, taken.time_max), (u64::MAX, CAPTURE_TIME_DEFAULT));
        assert!(
            capture(json!({ "drop": "any" })).is_ok() && capture(json!({ "all": true })).is_ok()
        );
        for (wish, word) in [
            (json!({}), "say which"),
            (json!({ "packets": 1 }), "say which"),
            (json!({ "all": true, "teid": "1" }), "say which"),
            (json!({ "all": true, "snap_bytes": 9217 }), "9216"),
            (json!({ "all": true, "one_of": 0 }), "1 or more"),
            (json!({ "all": true, "packets": 0 }), "1 or more"),
        ] {
            let refused = capture(wish.clone()).unwrap_err();
            assert!(refused.contains(word), "{wish}: {refused}");
        }
    }
}
