//! Selects the sessions that a client requests.

use core::net::IpAddr;

use adit_session::SliceIdentity;
use adit_types::{Seid, Teid};

/// A filter as clients write it; a session matches if it matches all members.
#[derive(Debug, Clone, PartialEq, Eq, Default, clap::Args)]
pub(crate) struct SessionFilterText {
    /// Only sessions with this UE address.
    #[arg(long, value_name = "ADDRESS")]
    pub ue: Option<String>,
    /// Only the session with this UP SEID, such as 0x0000000100000001.
    #[arg(long, value_name = "SEID")]
    pub seid: Option<String>,
    /// Only sessions with this TEID, of adit or of a peer, such as 0x00000001.
    #[arg(long, value_name = "TEID")]
    pub teid: Option<String>,
    /// Only sessions of this data network name.
    #[arg(long, value_name = "NAME")]
    pub dnn: Option<String>,
    /// Only sessions of this slice: SST, or SST-SD such as 1-00a1b2.
    #[arg(long, value_name = "S-NSSAI")]
    pub slice: Option<String>,
}

impl SessionFilterText {
    /// True if all sessions match.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A filter after parsing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionFilter {
    pub ue: Option<IpAddr>,
    pub seid: Option<Seid>,
    pub teid: Option<Teid>,
    /// In lower case.
    pub dnn: Option<String>,
    pub slice: Option<SliceIdentity>,
}

impl SessionFilter {
    /// Parses a filter.
    ///
    /// # Errors
    /// A member cannot be parsed; the text names it.
    pub(crate) fn parse(text: &SessionFilterText) -> Result<Self, String> {
        fn read<T>(
            name: &str,
            text: Option<&String>,
            parse: impl FnOnce(&str) -> Option<T>,
            expects: &str,
        ) -> Result<Option<T>, String> {
            let Some(text) = text else { return Ok(None) };
            let parsed = parse(text.trim());
            parsed.map(Some).ok_or_else(|| format!("{name} \"{text}\" is not {expects}"))
        }
        let seid = |text: &str| parse_number(text).map(Seid);
        let teid = |text: &str| parse_number(text).and_then(|n| u32::try_from(n).ok()).map(Teid);
        Ok(Self {
            ue: read("ue", text.ue.as_ref(), |text| text.parse().ok(), "an IP address")?,
            seid: read("seid", text.seid.as_ref(), seid, "a SEID such as 0x0000000100000001")?,
            teid: read("teid", text.teid.as_ref(), teid, "a TEID such as 0x00000001")?,
            dnn: text.dnn.as_ref().map(|dnn| dnn.trim().to_ascii_lowercase()),
            slice: read(
                "slice",
                text.slice.as_ref(),
                |text| text.parse().ok(),
                "a slice such as 1 or 1-00a1b2",
            )?,
        })
    }
}

/// Parses a decimal number, or a hexadecimal number after `0x`.
pub(crate) fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_adit_prints_them() {
        assert_eq!(parse_number("0x00000100"), Some(256));
        assert_eq!(parse_number("0XfF"), Some(255));
        assert_eq!(parse_number("17"), Some(17));
        assert_eq!((parse_number("ff"), parse_number(""), parse_number("0x")), (None, None, None));
    }

    #[test]
    fn members_are_read_and_wrong_ones_are_named() {
        let text = |name: &str, value: &str| {
            let given = |member: &str| (member == name).then(|| value.to_owned());
            let [ue, seid, teid, dnn, slice] = ["ue", "seid", "teid", "dnn", "slice"].map(given);
            SessionFilter::parse(&SessionFilterText { ue, seid, teid, dnn, slice })
        };
        assert_eq!(text("ue", "2001:db8::1").unwrap().ue, Some("2001:db8::1".parse().unwrap()));
        assert_eq!(text("seid", "0x10").unwrap().seid, Some(Seid(16)));
        assert_eq!(text("teid", "16").unwrap().teid, Some(Teid(16)));
        assert_eq!(text("dnn", "Internet").unwrap().dnn.as_deref(), Some("internet"));
        let slice = text("slice", "1-00a1B2").unwrap().slice.unwrap();
        assert_eq!((slice.sst, slice.sd), (1, Some(0xa1b2)));
        for (name, value) in [
            ("ue", "10.60.0"),
            ("seid", "0xg"),
            ("teid", "0x100000000"),
            ("slice", "1-a1"),
            ("slice", "256"),
        ] {
            let refused = text(name, value).unwrap_err();
            assert!(refused.starts_with(name), "{refused}");
        }
    }
}
