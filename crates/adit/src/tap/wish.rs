//! The bodies of requests for a trace and for a capture.

use core::net::IpAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::question::TapQuestion;

/// Which packets to trace: those of a session, a UE or a tunnel, those that are dropped, or both. One of the first three at
/// most.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "ue": "10.45.0.2", "packets": 5, "duration_ms": 10_000, "words": true }))]
pub(crate) struct TraceWish {
    /// Packets of the session with this UP SEID.
    pub session: Option<String>,
    /// Packets to this address of a UE, and from it in tunnels. For an IPv6 address the /64 counts.
    #[schema(value_type = Option<String>)]
    pub ue: Option<IpAddr>,
    /// Packets in the local tunnel with this TEID, also if no session owns it.
    pub teid: Option<String>,
    /// Packets that are dropped for this reason (`/v1/drops` has all), or for "any".
    pub drop: Option<String>,
    /// Packets at most.
    #[schema(minimum = 1, maximum = 10_000, default = 20)]
    pub packets: Option<u64>,
    /// How long at most.
    #[schema(minimum = 1, maximum = 86_400_000, default = 10_000)]
    pub duration_ms: Option<u64>,
    /// Each packet also in plain words, as `adit trace` prints them.
    #[serde(default)]
    pub words: bool,
}

/// Which packets to capture. One of `session`, `ue`, `teid`, `interface` and `all` at most.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "ue": "10.45.0.2", "packets": 100, "duration_ms": 10_000 }))]
pub(crate) struct CaptureWish {
    /// Packets of the session with this UP SEID.
    pub session: Option<String>,
    /// Packets to this address of a UE, and from it in tunnels. For an IPv6 address the /64 counts.
    #[schema(value_type = Option<String>)]
    pub ue: Option<IpAddr>,
    /// Packets in the local tunnel with this TEID, also if no session owns it.
    pub teid: Option<String>,
    /// Packets that arrive on this interface or leave through it.
    pub interface: Option<String>,
    /// All packets; best with `one_of`.
    #[serde(default)]
    pub all: bool,
    /// Packets that are dropped for this reason (`/v1/drops` has all), or for "any".
    pub drop: Option<String>,
    /// One of so many packets.
    #[schema(minimum = 1)]
    pub one_of: Option<u32>,
    /// Octets of each frame, with users' data. Without it, frames end with their headers.
    #[schema(minimum = 1, maximum = 9216)]
    pub snap_bytes: Option<u16>,
    /// Packets at most.
    #[schema(minimum = 1)]
    pub packets: Option<u64>,
    /// How long at most.
    #[schema(minimum = 1, maximum = 86_400_000, default = 60_000)]
    pub duration_ms: Option<u64>,
}

/// How long a capture lasts unless the client says otherwise. Unit: milliseconds.
const CAPTURE_MS_DEFAULT: u64 = 60_000;

impl TraceWish {
    /// The question.
    pub(crate) fn into_question(self) -> TapQuestion {
        let Self { session, ue, teid, drop, packets, duration_ms, words: _ } = self;
        let stages = true;
        TapQuestion {
            session,
            ue,
            teid,
            drop,
            packets,
            duration_ms,
            stages,
            ..TapQuestion::default()
        }
    }
}

impl CaptureWish {
    /// The question.
    ///
    /// # Errors
    /// It says not which packets, or several kinds of them.
    pub(crate) fn into_question(self) -> Result<TapQuestion, String> {
        let Self { session, ue, teid, interface, all, drop, .. } = &self;
        let keys = [session.is_some(), ue.is_some(), teid.is_some(), interface.is_some(), *all];
        let keys = keys.into_iter().filter(|is_given| *is_given).count();
        if keys > 1 || (keys == 0 && drop.is_none()) {
            let what = "a capture is of a session, a UE, a TEID, an interface or all packets, and can have a drop \
                        reason: say which packets to capture";
            return Err(what.to_owned());
        }
        Ok(TapQuestion {
            session: self.session,
            ue: self.ue,
            teid: self.teid,
            interface: self.interface,
            drop: self.drop,
            one_of: self.one_of,
            stages: false,
            snap_bytes: self.snap_bytes,
            packets: self.packets,
            duration_ms: self.duration_ms.or(Some(CAPTURE_MS_DEFAULT)),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn question(wish: serde_json::Value) -> Result<TapQuestion, String> {
        serde_json::from_value::<CaptureWish>(wish).unwrap().into_question()
    }

    #[test]
    fn capture_says_which_packets_and_is_bounded_in_time() {
        let taken = question(json!({ "interface": "n6", "snap_bytes": 100 })).unwrap();
        assert_eq!((taken.interface.as_deref(), taken.snap_bytes), (Some("n6"), Some(100)));
        assert_eq!(taken.duration_ms, Some(CAPTURE_MS_DEFAULT));
        assert!(
            question(json!({ "drop": "any" })).is_ok() && question(json!({ "all": true })).is_ok()
        );
        for wrong in [json!({}), json!({ "packets": 1 }), json!({ "all": true, "teid": "1" })] {
            assert!(question(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
