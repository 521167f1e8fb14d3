//! The size of packet buffers. All ports share them, so it follows the largest `mtu_bytes`.

use adit_dpdk::Device;

use super::PortSettings;
use super::section::ConfigSection;

/// Smallest size, and the default of ports with an MTU of 1500. Unit: bytes.
const MBUF_BYTES_MIN: u16 = 2048;
const MBUF_BYTES_MAX: u16 = 16_384;

/// Headers of a tunnel around a packet of the largest MTU: adit reassembles tunnel packets in one buffer. Unit: bytes.
const TUNNEL_BYTES: u32 = 84;

/// Notes an `mtu_bytes` whose frames the device cannot have.
pub(super) fn check_mtu(section: &ConfigSection<'_, '_>, device: Option<&Device>, mtu_bytes: u16) {
    let Some(device) = device.filter(|device| mtu_bytes > device.mtu_max()) else { return };
    let iface = device.argument("iface").unwrap_or("NAME");
    let why = if device.is_driver("net_tap") {
        format!(
            "whose driver sends no longer packets; lower it, or write device = \"kernel:tun,name={iface}\" for n6"
        )
    } else if device.is_driver("net_af_xdp") {
        format!(
            "whose frames have to fit a page of memory; lower it, or write device = \"kernel:packet,iface={iface}\""
        )
    } else {
        "whose slots hold no longer packets; remove framesz= and blocksz=, so that slots follow mtu_bytes".to_owned()
    };
    section
        .problem("mtu_bytes", format!("takes at most {} with {device}, {why}", device.mtu_max()));
}

/// Reads `mbuf_bytes`. The default is the number that the ports need.
pub(super) fn read_mbuf_bytes(dpdk: &mut ConfigSection<'_, '_>, ports: &[PortSettings]) -> u16 {
    let need = |port: &PortSettings| port.device.mbuf_bytes(port.mtu_bytes);
    let room = |port: &PortSettings| port.device.dpdk().map_or(u16::MAX, Device::mbuf_bytes_max);
    let largest = ports.iter().max_by_key(|port| need(port));
    let narrowest = ports.iter().min_by_key(|port| room(port));
    let (Some(largest), Some(narrowest)) = (largest, narrowest) else {
        return dpdk.integer("mbuf_bytes", MBUF_BYTES_MIN..=MBUF_BYTES_MAX, Some(MBUF_BYTES_MIN));
    };
    let (needed, most) = (need(largest), room(narrowest));
    let reassembled = ports.iter().map(|port| u32::from(port.mtu_bytes) + TUNNEL_BYTES).max();
    let rounded = needed.max(reassembled.unwrap_or(0)).next_multiple_of(1024);
    let default = rounded.min(most.into()).max(needed);
    let default = u16::try_from(default).unwrap_or(MBUF_BYTES_MAX).max(MBUF_BYTES_MIN);
    let read = dpdk.integer("mbuf_bytes", MBUF_BYTES_MIN..=MBUF_BYTES_MAX, Some(default));
    let PortSettings { name, mtu_bytes, .. } = largest;
    if u32::from(read) < needed {
        let what = format!(
            "takes at least {needed}: port \"{name}\" has an MTU of {mtu_bytes}; without this key adit chooses the size"
        );
        dpdk.problem("mbuf_bytes", what);
    } else if read > most && need(narrowest) <= most.into() {
        let (device, own) = (&narrowest.device, &narrowest.name);
        let iface = device.dpdk().and_then(|device| device.argument("iface")).unwrap_or("NAME");
        let what = format!(
            "takes at most {most} with port \"{own}\" ({device}), whose frames have to fit a page of memory, and is {read}; lower it \
             and mtu_bytes of port \"{name}\" ({mtu_bytes}), or write device = \"kernel:packet,iface={iface}\" there"
        );
        dpdk.problem("mbuf_bytes", what);
    }
    read
}

#[cfg(test)]
mod tests {
    use super::super::{Config, ConfigProblem};

    const EXAMPLE: &str = include_str!("../../../../adit.example.toml");

    /// The example with these devices and MTUs, and further keys of `[dpdk]`.
    fn read(ports: [(&str, u16); 2], dpdk: &str) -> Result<Config, Vec<ConfigProblem>> {
        let mut text = EXAMPLE.replace("[dpdk]\n", &format!("[dpdk]\n{dpdk}\n"));
        for ((device, mtu), iface) in ports.into_iter().zip(["n3", "n6"]) {
            let own = format!("device = \"kernel:packet,iface={iface}\"\nmtu_bytes = 1500");
            assert!(text.contains(&own));
            text = text.replace(&own, &format!("device = \"{device}\"\nmtu_bytes = {mtu}"));
        }
        Config::parse(&text)
    }

    fn mistakes(ports: [(&str, u16); 2], dpdk: &str) -> Vec<(String, String)> {
        let problems = read(ports, dpdk).unwrap_err();
        problems.into_iter().map(|problem| (problem.path, problem.what)).collect()
    }

    #[test]
    fn packet_buffers_follow_the_largest_mtu() {
        let of = |ports, dpdk| read(ports, dpdk).unwrap().dpdk.mbuf_bytes;
        let packet = "kernel:packet,iface=a";
        assert_eq!(of([(packet, 1500), ("kernel:packet,iface=b", 1500)], ""), 2048);
        assert_eq!(of([(packet, 1500), ("kernel:packet,iface=b", 9000)], ""), 9216);
        assert_eq!(of([("net_af_packet0,iface=a", 9100), (packet, 1500)], ""), 9216);
        assert_eq!(of([("net_af_xdp0,iface=a", 3430), (packet, 1500)], ""), 3712);
        assert_eq!(of([(packet, 1500), ("net_memif0", 1500)], "mbuf_bytes = 4096"), 4096);
        let short = mistakes([(packet, 9000), ("net_memif0", 1500)], "mbuf_bytes = 9000");
        let [(path, what)] = &short[..] else { panic!("{short:?}") };
        assert_eq!(path, "dpdk.mbuf_bytes");
        assert!(what.contains("takes at least 9018: port \"access\" has an MTU of 9000"), "{what}");
    }

    #[test]
    fn mtu_that_a_driver_does_not_carry_is_refused_with_what_to_write() {
        let packet = ("kernel:packet,iface=b", 1500);
        for (device, mtu, words) in [
            ("net_af_xdp0,iface=a", 3431, ["at most 3430", "kernel:packet,iface=a"]),
            ("net_af_xdp0,iface=a", 9000, ["at most 3430", "kernel:packet,iface=a"]),
            ("net_tap0,iface=a", 1600, ["at most 1500", "kernel:tun,name=a"]),
            ("net_af_packet0,iface=a,framesz=4096", 9000, ["at most 4012", "remove framesz="]),
        ] {
            let found = mistakes([(device, mtu), packet], "");
            let [(path, what)] = &found[..] else { panic!("{found:?}") };
            assert_eq!(path, "port[0].mtu_bytes");
            assert!(words.iter().all(|word| what.contains(word)), "{what}");
        }
        // The ports share their buffers.
        let found = mistakes([("net_af_xdp0,iface=a", 1500), ("kernel:packet,iface=b", 9000)], "");
        let [(path, what)] = &found[..] else { panic!("{found:?}") };
        assert_eq!(path, "dpdk.mbuf_bytes");
        assert!(what.contains("at most 3712 with port \"access\""), "{what}");
        assert!(what.contains("mtu_bytes of port \"core\" (9000)"), "{what}");
    }
}
