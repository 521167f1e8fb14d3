//! The request of a client for a trace or a capture, and its checks.

use core::net::IpAddr;

use adit_rules::{DropReason, DroppedFor};
use adit_types::{Nanos, Seid, Teid};

use crate::session_filter::number;

/// Packets of a trace unless the client says otherwise.
pub(crate) const TRACED_PKTS_DEFAULT: u64 = 20;

/// Packets of a trace at most.
pub(crate) const TRACED_PKTS_MAX: u64 = 10_000;

/// How long a trace lasts unless the client says otherwise.
pub(crate) const TRACE_TIME_DEFAULT: Nanos = Nanos::from_secs(10);

/// How long a trace or a capture lasts at most.
pub(crate) const TAP_TIME_MAX: Nanos = Nanos::from_secs(24 * 3600);

/// Octets of a frame that a worker reports if the client requests headers only: all of them, in
/// tunnels over IPv6, too.
pub(crate) const HEADER_SNAP_BYTES: u16 = 224;

/// Octets of a frame that a client may have at most: the longest frame of any port.
pub(crate) const SNAP_BYTES_MAX: u16 = 9216;

/// A request for a trace or a capture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TapQuestion {
    /// Only packets of the session with this UP SEID.
    pub session: Option<String>,
    /// Only packets to this address of a UE, and from it in tunnels.
    pub ue: Option<IpAddr>,
    /// Only packets in this local tunnel.
    pub teid: Option<String>,
    /// Only packets that arrive on this interface or leave through it.
    pub interface: Option<String>,
    /// Only packets that are dropped for this reason; `any`: for whatever reason.
    pub drop: Option<String>,
    /// One of so many packets.
    pub one_of: Option<u32>,
    /// The stages and rules that packets met.
    pub stages: bool,
    /// Octets of each frame; headers only without it.
    pub snap_bytes: Option<u16>,
    /// Packets at most.
    pub packets: Option<u64>,
    /// How long at most.
    pub duration_ms: Option<u64>,
}

/// The key of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AskedKey {
    Any,
    Session(Seid),
    Ue(IpAddr),
    Teid(Teid),
    Interface(String),
}

/// A question within its bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckedQuestion {
    pub key: AskedKey,
    pub drop: Option<DroppedFor>,
    pub one_of: u32,
    pub stages: bool,
    /// `None`: headers only.
    pub snap_bytes: Option<u16>,
    pub pkts_max: u64,
    pub time_max: Nanos,
}

impl CheckedQuestion {
    /// "trace" or "capture".
    pub(crate) const fn kind(&self) -> &'static str {
        if self.stages { "trace" } else { "capture" }
    }

    /// The packets in words, for the log and for `adit show taps`.
    pub(crate) fn subject(&self) -> String {
        let key = match &self.key {
            AskedKey::Any => "all packets".to_owned(),
            AskedKey::Session(seid) => format!("session {seid}"),
            AskedKey::Ue(addr) => format!("UE {addr}"),
            AskedKey::Teid(teid) => format!("TEID {teid}"),
            AskedKey::Interface(name) => format!("interface {name}"),
        };
        match self.drop {
            None => key,
            Some(DroppedFor::Any) => format!("{key}, dropped"),
            Some(DroppedFor::Only(reason)) => format!("{key}, dropped as {}", reason.name()),
        }
    }
}

impl TapQuestion {
    /// The question with defaults for omitted values.
    ///
    /// # Errors
    /// The fault, and its remedy.
    pub(crate) fn check(&self) -> Result<CheckedQuestion, String> {
        let key = self.key()?;
        let drop = self.drop.as_deref().map(dropped_for).transpose()?;
        if self.stages && key == AskedKey::Any && drop.is_none() {
            let what = "a trace is of a session, a UE, a TEID or a drop reason: say which packets to follow";
            return Err(what.to_owned());
        }
        let default = if self.stages { TRACED_PKTS_DEFAULT } else { u64::MAX };
        let pkts_max = self.packets.unwrap_or(default);
        let most = if self.stages { TRACED_PKTS_MAX } else { u64::MAX };
        if pkts_max == 0 || pkts_max > most {
            return Err(format!("a trace follows 1 to {TRACED_PKTS_MAX} packets"));
        }
        let default = if self.stages { TRACE_TIME_DEFAULT } else { TAP_TIME_MAX };
        let time_max = self.duration_ms.map_or(default, |ms| Nanos(ms.saturating_mul(1_000_000)));
        if time_max == Nanos(0) || time_max > TAP_TIME_MAX {
            return Err("a trace or a capture lasts 1ms to 24h".to_owned());
        }
        if self.snap_bytes.is_some_and(|bytes| bytes == 0 || bytes > SNAP_BYTES_MAX) {
            return Err(format!("a captured frame has 1 to {SNAP_BYTES_MAX} octets"));
        }
        if self.one_of == Some(0) {
            return Err("a tap takes one of 1 or more packets".to_owned());
        }
        Ok(CheckedQuestion {
            key,
            drop,
            one_of: self.one_of.unwrap_or(1),
            stages: self.stages,
            snap_bytes: self.snap_bytes,
            pkts_max,
            time_max,
        })
    }

    fn key(&self) -> Result<AskedKey, String> {
        let Self { session, ue, teid, interface, .. } = self;
        let given = [session.is_some(), ue.is_some(), teid.is_some(), interface.is_some()];
        if given.into_iter().filter(|is_given| *is_given).count() > 1 {
            return Err(
                "session, ue, teid and interface exclude each other: name one of them".to_owned()
            );
        }
        if let Some(text) = session {
            let seid = number(text).map(Seid);
            let wrong = || format!("\"{text}\" is no SEID; take one of `adit show sessions`");
            return seid.map(AskedKey::Session).ok_or_else(wrong);
        }
        if let Some(text) = teid {
            let teid = number(text).and_then(|teid| u32::try_from(teid).ok()).map(Teid);
            let wrong = || format!("\"{text}\" is no TEID; take one of `adit show sessions`");
            return teid.map(AskedKey::Teid).ok_or_else(wrong);
        }
        Ok(match (ue, interface) {
            (Some(addr), _) => AskedKey::Ue(*addr),
            (None, Some(name)) => AskedKey::Interface(name.clone()),
            (None, None) => AskedKey::Any,
        })
    }
}

fn dropped_for(name: &str) -> Result<DroppedFor, String> {
    if name == "any" {
        return Ok(DroppedFor::Any);
    }
    let found = DropReason::ALL.iter().find(|reason| reason.name() == name);
    found.copied().map(DroppedFor::Only).ok_or_else(|| {
        let names: Vec<&str> = DropReason::ALL.iter().map(|reason| reason.name()).collect();
        format!("no drop reason \"{name}\"; there are any, {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(question: TapQuestion) -> String {
        question.check().unwrap_err()
    }

    #[test]
    fn questions_that_cannot_be_answered_are_refused_with_what_to_do() {
        let trace = TapQuestion { stages: true, ..TapQuestion::default() };
        assert!(refused(trace.clone()).contains("a session, a UE"));
        let ue = TapQuestion { ue: Some([10, 0, 0, 1].into()), ..trace };
        let checked = ue.check().unwrap();
        assert_eq!((checked.pkts_max, checked.time_max), (20, TRACE_TIME_DEFAULT));
        assert!(refused(TapQuestion { packets: Some(0), ..ue.clone() }).contains("10000"));
        assert!(refused(TapQuestion { packets: Some(10_001), ..ue.clone() }).contains("10000"));
        assert!(refused(TapQuestion { duration_ms: Some(0), ..ue.clone() }).contains("24h"));
        assert!(refused(TapQuestion { snap_bytes: Some(9217), ..ue.clone() }).contains("9216"));
        assert!(refused(TapQuestion { one_of: Some(0), ..ue.clone() }).contains("1 or more"));
        assert!(refused(TapQuestion { drop: Some("x".into()), ..ue.clone() }).contains("far_drop"));
        assert!(refused(TapQuestion { teid: Some("1".into()), ..ue.clone() }).contains("exclude"));
        let (session, ue) = (Some("zero".into()), None);
        assert!(refused(TapQuestion { session, ue, ..TapQuestion::default() }).contains("SEID"));
        let capture = TapQuestion::default().check().unwrap();
        assert_eq!((capture.pkts_max, capture.time_max), (u64::MAX, TAP_TIME_MAX));
    }
}
