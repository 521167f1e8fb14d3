//! The value of `tcp_mss` of an n6 interface.

use adit_types::TcpMss;

use super::described::Takes;
use super::kinds::{Kind, Words, integer, words};
use super::section::ConfigValue;

/// Minimum MSS: that of a host that announces none. Unit: octets. Spec: RFC 9293 §3.7.1.
const MSS_MIN: u16 = 536;

const MODES: Words<TcpMss> = words(&[("clamp", TcpMss::Clamp), ("off", TcpMss::Off)]);

/// The [`Kind`] of values that are a word or a number of octets.
pub(super) struct TcpMssKind;

impl Kind<TcpMss> for TcpMssKind {
    fn of(&self, value: &ConfigValue<'_>) -> Result<TcpMss, String> {
        let octets = || integer(MSS_MIN..=u16::MAX).of(value).map(TcpMss::AtMost);
        let refusal = |_| format!("takes {MSS_MIN} to {}, {}", u16::MAX, MODES.names(" or "));
        MODES.of(value).or_else(|_| octets()).map_err(refusal)
    }

    fn show(&self, value: &TcpMss) -> String {
        match value {
            TcpMss::AtMost(octets) => octets.to_string(),
            word => MODES.show(word),
        }
    }

    fn written(&self, value: &TcpMss) -> String {
        match value {
            TcpMss::AtMost(octets) => octets.to_string(),
            word => MODES.written(word),
        }
    }

    fn takes(&self) -> Takes {
        Takes::AnyOf(vec![MODES.takes(), integer(MSS_MIN..=u16::MAX).takes()])
    }
}

/// Returns the value as the file would have it.
pub(crate) fn tcp_mss_text(tcp_mss: TcpMss) -> String {
    TcpMssKind.show(&tcp_mss)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const EXAMPLE: &str = include_str!("../../../../adit.example.toml");

    /// Parses the example with a line for interface n6, and with a second data network.
    fn parsed(line: &str, second: Option<&str>) -> Result<Config, Vec<String>> {
        let mut text = EXAMPLE.replacen("# tcp_mss = \"clamp\"", line, 1);
        if let Some(second) = second {
            text += "\n[[interface]]\nname = \"n6b\"\nrole = \"n6\"\nport = \"core\"\nvlan = 7\n\
                     addresses = [\"10.0.7.2/24\"]\n";
            text += second;
        }
        let config = Config::parse(&text);
        config.map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn tcp_mss_is_a_word_or_octets_and_off_without_it() {
        for (line, value) in [
            ("", TcpMss::Off),
            ("tcp_mss = \"off\"", TcpMss::Off),
            ("tcp_mss = \"clamp\"", TcpMss::Clamp),
            ("tcp_mss = 536", TcpMss::AtMost(536)),
            ("tcp_mss = 65535", TcpMss::AtMost(65_535)),
        ] {
            let config = parsed(line, None).unwrap();
            assert_eq!(
                config.interfaces.iter().map(|of| of.tcp_mss).collect::<Vec<_>>(),
                [TcpMss::Off, value],
                "{line}"
            );
            assert!(line.is_empty() || line.contains(&tcp_mss_text(value)));
        }
        for value in ["535", "65536", "-1", "\"1360\"", "true", "1360.0", "[1360]"] {
            let problems = parsed(&format!("tcp_mss = {value}"), None).unwrap_err();
            let [problem] = &problems[..] else { panic!("{problems:?}") };
            let range = "interface[1].tcp_mss: takes 536 to 65535, \"clamp\" or \"off\"";
            assert!(problem.contains(range), "{problem}");
        }
    }

    #[test]
    fn tcp_mss_is_of_n6_and_the_same_in_a_routing_domain() {
        let n3 = EXAMPLE.replacen("role = \"n3\"", "role = \"n3\"\ntcp_mss = \"off\"", 1);
        let problems = Config::parse(&n3).unwrap_err();
        assert!(problems[0].to_string().contains("interface[0].tcp_mss"), "{problems:?}");
        let clamp = "tcp_mss = \"clamp\"";
        let corp = "network_instance = \"corp\"\n";
        let internet = "network_instance = \"internet\"\n";
        assert!(parsed(clamp, Some(corp)).is_ok());
        assert!(parsed(clamp, Some(&[internet, clamp].concat())).is_ok());
        for second in [internet, "", "tcp_mss = 1360"] {
            let problems = parsed(clamp, Some(second)).unwrap_err();
            let what = "\"n6\" and \"n6b\" are in one routing domain; give both the same tcp_mss";
            assert!(problems[0].contains(what), "{problems:?}");
        }
    }
}
