//! Text that a CP function sends.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_rules::sdf::FlowSelector;
use adit_session::{PORT_RANGES_MAX, parse_flow_description};
use adit_types::Direction;

/// Flow descriptions: any text is refused or becomes a filter of bounded size that packets can
/// match; white space makes no difference.
pub(super) fn flow_description(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    let filter = match parse_flow_description(text) {
        Ok(filter) => filter,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    for range in filter.remote_ports.iter().chain(&filter.local_ports) {
        assert!(range.first <= range.last);
    }
    assert!(filter.remote_ports.len() <= PORT_RANGES_MAX);
    assert!(filter.local_ports.len() <= PORT_RANGES_MAX);
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    assert_eq!(parse_flow_description(&words.join(" ")), Ok(filter.clone()));
    for (src, dst) in [
        (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::BROADCAST)),
        (IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
    ] {
        let flow = FlowSelector {
            src,
            dst,
            protocol: 17,
            src_port: 53,
            dst_port: u16::MAX,
            tos: 0xff,
            spi: None,
            flow_label: 0,
        };
        let back = FlowSelector { src: dst, dst: src, src_port: u16::MAX, dst_port: 53, ..flow };
        // Both directions of a flow belong to one service data flow.
        assert_eq!(
            filter.matches(Direction::Downlink, &flow),
            filter.matches(Direction::Uplink, &back)
        );
    }
}
