//! `[dpdk]`: memory, and the buffers that all ports share.

use adit_dpdk::{Device, HugepageMode};
use adit_types::Roles;
use adit_types::limits::{HANDOFF_RING_LEN, REASSEMBLY_FRAGMENTS_MAX};

use super::comparison::PACKET_PATH;
use super::datapath::{DatapathSettings, ModelSettings};
use super::declare::section;
use super::keys::IntoKey as _;
use super::kinds::{integer, text, words};
use super::ports::{PortSettings, queues_of_arguments};
use super::section::ConfigDocument;

section! {
    /// Memory, and the buffers that all ports share.
    DpdkSettings(PACKET_PATH) {
        /// "auto" uses hugepages if there are any and logs a warning if not, "require" refuses to
        /// start without them, "never" uses ordinary pages.
        hugepages: HugepageMode, words(&[("auto", HugepageMode::Auto),
            ("require", HugepageMode::Require), ("never", HugepageMode::Never)]).or(HugepageMode::Auto) => [];
        /// Memory of DPDK without hugepages; with hugepages, its limit.
        memory_mib: u32, integer(64..=1_048_576).or(512) => [];
        /// Packet buffers, shared by all ports. Each worker holds up to 512 fragments, and its
        /// traffic needs as many buffers: 1024 per worker is the minimum. Each queue of a
        /// net_af_xdp device keeps 2112 + rx_descriptors more.
        mempool_mbufs: u32, integer(1024..=16_777_216).or(16_384) => [];
        /// Size of a packet buffer. The default follows the largest mtu_bytes: 2048 with 1500, 9216
        /// with 9000. adit reassembles a fragmented tunnel packet in one buffer and drops longer
        /// packets as reassembly_too_long.
        mbuf_bytes: u16, integer(MBUF_BYTES_MIN..=MBUF_BYTES_MAX).or_follows(0,
            "by the largest mtu_bytes") => ["# 2048"];
        /// Descriptors of each receive queue.
        rx_descriptors: u16, integer(64..=32_768).or(1024) => [];
        /// Descriptors of each transmit queue.
        tx_descriptors: u16, integer(64..=32_768).or(1024) => [];
        /// Arguments of DPDK's environment abstraction layer, after those that adit derives.
        eal_extra_args: Vec<String>, text("an argument").list("none") => ["[]"];
    }
}

/// Smallest size of a packet buffer, and the default of ports with an MTU of 1500. Unit: bytes.
const MBUF_BYTES_MIN: u16 = 2048;
const MBUF_BYTES_MAX: u16 = 16_384;

/// Maximum size of a tunnel's headers. The default size of packet buffers adds it to the largest
/// MTU, since adit reassembles tunnel packets in one buffer. Unit: bytes.
const TUNNEL_BYTES: u32 = 84;

/// Describes the maximum of waiting packets, for error messages.
pub(super) const HALF_OF_MBUFS: &str = "half of the dpdk.mempool_mbufs that tunnel packets in fragments \
                                        (512 for each worker) and net_af_xdp devices leave: traffic \
                                        needs the rest";

impl DpdkSettings {
    /// Checks the section, and sets the size of packet buffers unless the file does.
    pub(super) fn check(
        &mut self,
        document: &ConfigDocument<'_>,
        datapath: &DatapathSettings,
        ports: &[PortSettings],
    ) {
        if let Some(what) = self.check_size(ports) {
            document.problem("dpdk.mbuf_bytes", what);
        }
        // Packets in rings from receivers or from a scheduler must not keep ports from receiving.
        let in_rings = match &datapath.model {
            ModelSettings::EventDriven(events) => {
                usize::try_from(events.events_max).unwrap_or(usize::MAX)
            }
            _ => {
                datapath.roles().receivers()
                    * datapath.roles().processing_thread_count()
                    * HANDOFF_RING_LEN
            }
        };
        let workers = datapath.roles().processing_thread_count();
        let by_drivers = self.kept_by_drivers(ports);
        let needed = 2 * workers * REASSEMBLY_FRAGMENTS_MAX + in_rings + by_drivers;
        if usize::try_from(self.mempool_mbufs).is_ok_and(|mbufs| mbufs < needed) {
            let mut what = format!(
                "takes at least {needed}: each of {workers} workers may hold {REASSEMBLY_FRAGMENTS_MAX} \
                 fragments of tunnel packets, and traffic needs as many"
            );
            if in_rings > 0 {
                what.push_str(&format!("; {in_rings} may wait in the rings of receivers"));
            }
            if by_drivers > 0 {
                what.push_str(&format!("; the queues of net_af_xdp devices keep {by_drivers}"));
            }
            document.problem("dpdk.mempool_mbufs", what);
        }
    }

    /// Sets the size of packet buffers unless the file does. Returns why the size does not fit;
    /// `None` if it does.
    fn check_size(&mut self, ports: &[PortSettings]) -> Option<String> {
        let need = |port: &PortSettings| port.device.mbuf_bytes(port.mtu_bytes);
        let room =
            |port: &PortSettings| port.device.dpdk().map_or(u16::MAX, Device::mbuf_bytes_max);
        let largest = ports.iter().max_by_key(|port| need(port))?;
        let narrowest = ports.iter().min_by_key(|port| room(port))?;
        let (needed, most) = (need(largest), room(narrowest));
        if self.mbuf_bytes == 0 {
            let reassembled =
                ports.iter().map(|port| u32::from(port.mtu_bytes) + TUNNEL_BYTES).max();
            let rounded = needed.max(reassembled.unwrap_or(0)).next_multiple_of(1024);
            let default = rounded.min(most.into()).max(needed);
            self.mbuf_bytes = u16::try_from(default).unwrap_or(MBUF_BYTES_MAX).max(MBUF_BYTES_MIN);
        }
        let (read, PortSettings { name, mtu_bytes, .. }) = (self.mbuf_bytes, largest);
        if u32::from(read) < needed {
            return Some(format!(
                "takes at least {needed}: port \"{name}\" has an MTU of {mtu_bytes}; without this key adit chooses the size"
            ));
        }
        if read <= most || need(narrowest) > most.into() {
            return None;
        }
        let (device, own) = (&narrowest.device, &narrowest.name);
        let iface = device.dpdk().and_then(|device| device.argument("iface")).unwrap_or("NAME");
        Some(format!(
            "takes at most {most} with port \"{own}\" ({device}), whose frames have to fit a page of memory, and is {read}; lower it \
             and mtu_bytes of port \"{name}\" ({mtu_bytes}), or write device = \"kernel:packet,iface={iface}\" there"
        ))
    }

    /// Returns the maximum of buffers for packets that wait for one reason: half of those that
    /// fragments and drivers leave.
    pub(super) fn half_of_mbufs(&self, roles: Roles, ports: &[PortSettings]) -> usize {
        let all = usize::try_from(self.mempool_mbufs).unwrap_or(usize::MAX);
        let fragments = roles.processing_thread_count() * REASSEMBLY_FRAGMENTS_MAX;
        all.saturating_sub(fragments + self.kept_by_drivers(ports)) / 2
    }

    /// Returns how many packet buffers the drivers of all ports keep.
    fn kept_by_drivers(&self, ports: &[PortSettings]) -> usize {
        // An AF_XDP queue that ever lacks buffers never receives again.
        let of_port = |port: &PortSettings| {
            let device = port.device.dpdk()?;
            let (queues, _) = queues_of_arguments(device)?;
            Some(usize::from(queues) * device.kept_mbufs_per_queue(self.rx_descriptors.into()))
        };
        ports.iter().filter_map(of_port).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, ConfigProblem};

    const EXAMPLE: &str = include_str!("../../../../adit.example.toml");

    /// Parses the example with these devices and MTUs, and further keys of `[dpdk]`.
    fn read(ports: [(&str, u16); 2], dpdk: &str) -> Result<Config, Vec<ConfigProblem>> {
        let text = EXAMPLE.replace("\nmtu_bytes = 1500\n", "\n");
        let mut text = text.replace("[dpdk]\n", &format!("[dpdk]\n{dpdk}\n"));
        for ((device, mtu), iface) in ports.into_iter().zip(["n3", "n6"]) {
            let own = format!("device = \"kernel:packet,iface={iface}\"");
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
