//! Creates a TUN device with one queue per worker, and configures it: MTU, addresses, routes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use crate::error::KernelError;
use crate::join::JoinOffer;
use crate::netlink::Netlink;
use crate::network::IpNetwork;
use crate::syscall::{attach_tun, set_tun_offload};
use crate::tun::TunQueue;

/// Maximum number of packets that wait in each queue of the device.
const QUEUE_PKTS: u32 = 2048;

/// Flags of `linux/if_tun.h`: the device passes IP packets, without packet information, behind a
/// header for offloads.
const FLAGS: libc::c_int = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;

/// Sets of offloads, in the bits of `TUNSETOFFLOAD`.
const CHECKSUM: libc::c_uint = libc::TUN_F_CSUM;
const TCP: libc::c_uint = CHECKSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
const TCP_AND_UDP: libc::c_uint = TCP | libc::TUN_F_USO4 | libc::TUN_F_USO6;

/// The configuration of a TUN device.
#[derive(Debug, Clone)]
pub struct TunConfig<'a> {
    /// Name of the device. An existing device of this name is used if it is a TUN device and
    /// accepts the number of queues.
    pub name: &'a str,
    /// Number of queues, one per worker.
    pub queues: usize,
    /// Maximum size of an IP packet.
    pub mtu_bytes: u16,
    /// The device's addresses.
    pub addresses: &'a [IpNetwork],
    /// Networks that the kernel reaches through the device.
    pub routes: &'a [IpNetwork],
}

/// Creates and configures a TUN device. The kernel removes it, with its addresses and routes, when
/// the last queue is dropped.
///
/// # Errors
/// See [`KernelError`]; the device is then removed.
pub fn open_tun(config: &TunConfig<'_>) -> Result<Vec<TunQueue>, KernelError> {
    let name = config.name;
    let multi = if config.queues > 1 { libc::IFF_MULTI_QUEUE } else { 0 };
    let flags = u16::try_from(FLAGS | multi).unwrap_or(0);
    let mut queues = Vec::new();
    for _ in 0..config.queues.max(1) {
        let file = open_driver()?;
        let attached = attach_tun(&file, name, flags);
        attached.map_err(|error| KernelError::device("cannot create TUN device", name, error))?;
        let offer = enable_offloads(&file);
        queues.push(TunQueue::new(file, offer));
    }
    configure(config)?;
    Ok(queues)
}

/// Returns how many packets the kernel dropped so far because the queues of the TUN device `name`
/// were full; zero without such a device. Reads a file of the kernel: only for display.
#[must_use]
pub fn tun_missed_pkts(name: &str) -> u64 {
    parse_missed_pkts(&std::fs::read_to_string("/proc/net/dev").unwrap_or_default(), name)
}

/// Returns how many packets to a device the kernel dropped. `devices` has the format of
/// `/proc/net/dev`: eight numbers about received packets, then octets, packets, errors and drops of
/// sent ones.
fn parse_missed_pkts(devices: &str, name: &str) -> u64 {
    const SENT_DROPPED: usize = 8 + 3;
    let lines = devices.lines().filter_map(|line| line.trim_start().split_once(':'));
    let numbers = lines.into_iter().find(|(device, _)| *device == name).map(|(_, rest)| rest);
    let number = numbers.and_then(|rest| rest.split_whitespace().nth(SENT_DROPPED));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Opens the TUN driver.
pub(crate) fn open_driver() -> Result<File, KernelError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
    options.open("/dev/net/tun").map_err(KernelError::NoTunDriver)
}

/// Enables the largest set of offloads that the kernel supports.
fn enable_offloads(file: &File) -> JoinOffer {
    let offers = [(TCP_AND_UDP, true, true), (TCP, true, false), (CHECKSUM, false, false)];
    let taken = offers.into_iter().find(|(flags, ..)| set_tun_offload(file, *flags).is_ok());
    taken.map_or(JoinOffer { tcp: false, udp: false }, |(_, tcp, udp)| JoinOffer { tcp, udp })
}

fn configure(config: &TunConfig<'_>) -> Result<(), KernelError> {
    let name = config.name;
    let fail = |operation| move |error: io::Error| KernelError::device(operation, name, error);
    let mut netlink = Netlink::open().map_err(fail("cannot configure"))?;
    let index = netlink.index(name).map_err(fail("cannot find"))?;
    // Best effort: if it fails, packets that the kernel itself sends through the device (router
    // solicitations) reach adit, which drops and counts them.
    let _ = netlink.disable_address_generation(index);
    netlink
        .set_up(index, config.mtu_bytes.into(), QUEUE_PKTS, false)
        .map_err(fail("cannot bring up, or set the MTU of,"))?;
    // adit sends ICMP errors to hosts behind N6 with the device's own address as source. Without
    // this setting the kernel would discard them.
    let accept = format!("/proc/sys/net/ipv4/conf/{name}/accept_local");
    let _ = std::fs::write(accept, "1");
    for address in config.addresses {
        netlink.add_address(index, *address, None).map_err(fail("cannot give its address to"))?;
    }
    for route in config.routes {
        netlink.add_route(index, *route).map_err(fail("cannot add the route of a UE pool to"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_packets_are_read_by_the_name_of_the_device() {
        let text = "Inter-| Receive | Transmit\n face |bytes packets errs drop\n    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13\n \
                    adit0: 5 6 0 0 0 0 0 0 70 80 90 1234 0 0 0 0\n";
        assert_eq!(parse_missed_pkts(text, "adit0"), 1234);
        assert_eq!(parse_missed_pkts(text, "lo"), 12);
        assert_eq!(parse_missed_pkts(text, "adit"), 0);
    }
}
