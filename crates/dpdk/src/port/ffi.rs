//! The ethdev calls that open and describe a port, one function each.
//!
//! Every function takes the id of a port that the caller owns. DPDK checks the id, and returns an
//! error if the port does not exist.

use core::ffi::{CStr, c_char};
use core::mem::MaybeUninit;

use adit_dpdk_sys as sys;
use adit_types::MacAddr;

use super::{PortConfig, PortStats, frame};
use crate::errno::Errno;
use crate::mempool::Mempool;

/// Size of a port name, with its final NUL. Unit: octets.
const NAME_SIZE: usize = sys::RTE_ETH_NAME_MAX_LEN as usize;

fn check(code: i32) -> Result<(), Errno> {
    if code < 0 { Err(Errno::of_return(code)) } else { Ok(()) }
}

/// Returns a plain C structure with every bit zero.
///
/// # Safety
/// Zero must be a valid value of every field.
unsafe fn zeroed<T>() -> T {
    // SAFETY: the caller promises that zero is a valid value.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

pub(super) fn port_by_name(name: &CStr) -> Option<u16> {
    let mut id = 0;
    // SAFETY: reads a C string, writes one number.
    (unsafe { sys::rte_eth_dev_get_port_by_name(name.as_ptr(), &raw mut id) } == 0).then_some(id)
}

/// Returns the names of all ports of DPDK.
pub(super) fn port_names() -> Vec<String> {
    let mut names = Vec::new();
    let mut next = 0;
    loop {
        // SAFETY: takes any number.
        let id = unsafe { sys::rte_eth_find_next(next) };
        if u32::from(id) >= sys::RTE_MAX_ETHPORTS {
            return names;
        }
        let mut name: [c_char; NAME_SIZE] = [0; NAME_SIZE];
        // SAFETY: `name` has the size that DPDK requires for this call.
        if unsafe { sys::rte_eth_dev_get_name_by_port(id, name.as_mut_ptr()) } == 0 {
            names.push(text(&name));
        }
        next = id + 1;
    }
}

/// Converts a C array of characters up to its NUL.
fn text(array: &[c_char]) -> String {
    let bytes: Vec<u8> =
        array.iter().take_while(|c| **c != 0).map(|c| c.to_ne_bytes()[0]).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(super) fn add_virtual(name: &CStr, arguments: &CStr) -> Result<(), Errno> {
    // SAFETY: three C strings, which DPDK copies.
    check(unsafe { sys::rte_eal_hotplug_add(c"vdev".as_ptr(), name.as_ptr(), arguments.as_ptr()) })
}

/// Removes a virtual device. Does nothing if it no longer exists.
pub(super) fn remove_virtual(name: &CStr) {
    // SAFETY: two C strings.
    unsafe { sys::rte_eal_hotplug_remove(c"vdev".as_ptr(), name.as_ptr()) };
}

pub(super) fn dev_info(id: u16) -> Result<sys::rte_eth_dev_info, Errno> {
    // SAFETY: numbers and pointers only.
    let mut info = unsafe { zeroed() };
    // SAFETY: writes one structure.
    check(unsafe { sys::rte_eth_dev_info_get(id, &raw mut info) })?;
    Ok(info)
}

pub(super) fn driver_name(info: &sys::rte_eth_dev_info) -> String {
    if info.driver_name.is_null() {
        return String::new();
    }
    // SAFETY: a C string of the driver, which stays loaded.
    unsafe { CStr::from_ptr(info.driver_name) }.to_string_lossy().into_owned()
}

/// Configures queues, MTU, the IPv4 checksum offload if the port has it, and RSS if there are
/// several receive queues.
pub(super) fn configure(
    id: u16,
    config: &PortConfig<'_>,
    offer: &sys::rte_eth_dev_info,
) -> Result<(), Errno> {
    // SAFETY: numbers and pointers only; zero selects every default.
    let mut conf: sys::rte_eth_conf = unsafe { zeroed() };
    conf.rxmode.mtu = frame::nominal_mtu(config, offer);
    conf.rxmode.offloads = offer.rx_offload_capa & u64::from(sys::RTE_ETH_RX_OFFLOAD_IPV4_CKSUM);
    let hashes = offer.flow_type_rss_offloads & rss_fields();
    if config.rx_queues > 1 && hashes != 0 {
        conf.rxmode.mq_mode = sys::rte_eth_rx_mq_mode::RTE_ETH_MQ_RX_RSS;
        conf.rx_adv_conf.rss_conf.rss_hf = hashes;
    }
    // SAFETY: reads one structure.
    check(unsafe {
        sys::rte_eth_dev_configure(id, config.rx_queues, config.tx_queues, &raw const conf)
    })
}

/// Headers whose fields RSS hashes if the device supports it, with their names for operators:
/// addresses and ports of IP, UDP and TCP, and TEIDs.
const RSS_TYPES: [(u32, &str); 7] = [
    (sys::RTE_ETH_RSS_IPV4, "ipv4"),
    (sys::RTE_ETH_RSS_NONFRAG_IPV4_UDP, "ipv4-udp"),
    (sys::RTE_ETH_RSS_NONFRAG_IPV4_TCP, "ipv4-tcp"),
    (sys::RTE_ETH_RSS_IPV6, "ipv6"),
    (sys::RTE_ETH_RSS_NONFRAG_IPV6_UDP, "ipv6-udp"),
    (sys::RTE_ETH_RSS_NONFRAG_IPV6_TCP, "ipv6-tcp"),
    (sys::RTE_ETH_RSS_GTPU, "gtpu"),
];

fn rss_fields() -> u64 {
    RSS_TYPES.iter().fold(0, |all, (bits, _)| all | u64::from(*bits))
}

/// Reads the configuration of a port.
fn configured(id: u16) -> Result<sys::rte_eth_conf, Errno> {
    // SAFETY: numbers and pointers only.
    let mut conf = unsafe { zeroed() };
    // SAFETY: writes one structure.
    check(unsafe { sys::rte_eth_dev_conf_get(id, &raw mut conf) })?;
    Ok(conf)
}

/// Returns the names of the headers that RSS hashes, as the driver reports, or as configured if it
/// does not report any.
pub(super) fn rss(id: u16) -> Vec<&'static str> {
    // SAFETY: numbers and pointers only; no key is requested.
    let mut reported: sys::rte_eth_rss_conf = unsafe { zeroed() };
    // SAFETY: writes one structure.
    let code = unsafe { sys::rte_eth_dev_rss_hash_conf_get(id, &raw mut reported) };
    let in_use = match code {
        0 => reported.rss_hf,
        _ => configured(id).map_or(0, |conf| conf.rx_adv_conf.rss_conf.rss_hf),
    };
    let types = RSS_TYPES.iter().filter(|(bits, _)| in_use & u64::from(*bits) != 0);
    types.map(|(_, name)| *name).collect()
}

/// Returns the offloads in use, by DPDK's names.
pub(super) fn offloads(id: u16) -> Result<Vec<String>, Errno> {
    let conf = configured(id)?;
    let bits = |flags: u64| (0..u64::BITS).map(|bit| 1 << bit).filter(move |bit| flags & bit != 0);
    let name = |name: *const c_char| {
        // SAFETY: `name` is DPDK's own C string, which is never freed.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    };
    let rx = bits(conf.rxmode.offloads).map(|bit| {
        // SAFETY: valid for any number; returns a C string.
        format!("rx {}", name(unsafe { sys::rte_eth_dev_rx_offload_name(bit) }))
    });
    let tx = bits(conf.txmode.offloads).map(|bit| {
        // SAFETY: as above.
        format!("tx {}", name(unsafe { sys::rte_eth_dev_tx_offload_name(bit) }))
    });
    Ok(rx.chain(tx).collect())
}

pub(super) fn adjust_descriptors(id: u16, rx: u16, tx: u16) -> Result<(u16, u16), Errno> {
    let (mut rx, mut tx) = (rx, tx);
    // SAFETY: writes two numbers.
    check(unsafe { sys::rte_eth_dev_adjust_nb_rx_tx_desc(id, &raw mut rx, &raw mut tx) })?;
    Ok((rx, tx))
}

/// Returns the NUMA node for the memory of the port's queues. If the device has no node, as virtual
/// devices have not, it is the node of the packet pool.
fn memory_node(id: u16, pool: &Mempool) -> u32 {
    // SAFETY: takes any number.
    let of_device = unsafe { sys::rte_eth_dev_socket_id(id) };
    let node = if of_device == sys::SOCKET_ID_ANY { pool.node() } else { of_device };
    node.cast_unsigned()
}

pub(super) fn setup_rx(
    id: u16,
    queue: u16,
    descriptors: u16,
    offer: &sys::rte_eth_dev_info,
    pool: &Mempool,
) -> Result<(), Errno> {
    let conf = &raw const offer.default_rxconf;
    // SAFETY: reads one structure; the pool outlives the port.
    check(unsafe {
        sys::rte_eth_rx_queue_setup(
            id,
            queue,
            descriptors,
            memory_node(id, pool),
            conf,
            pool.as_ptr(),
        )
    })
}

pub(super) fn setup_tx(
    id: u16,
    queue: u16,
    descriptors: u16,
    offer: &sys::rte_eth_dev_info,
    pool: &Mempool,
) -> Result<(), Errno> {
    let conf = &raw const offer.default_txconf;
    // SAFETY: reads one structure.
    check(unsafe {
        sys::rte_eth_tx_queue_setup(id, queue, descriptors, memory_node(id, pool), conf)
    })
}

pub(super) fn start(id: u16) -> Result<(), Errno> {
    // SAFETY: takes any number.
    check(unsafe { sys::rte_eth_dev_start(id) })
}

/// Enables promiscuous mode. A driver that does not support the mode receives all frames anyway.
pub(super) fn promiscuous(id: u16) -> Result<(), Errno> {
    // SAFETY: takes any number.
    unless_unsupported(unsafe { sys::rte_eth_promiscuous_enable(id) })
}

/// Lets frames to all groups through, such as neighbor solicitations (RFC 4861 §7.2.1), which the
/// filter of a card drops otherwise. A driver that does not support the mode has no filter.
pub(super) fn all_multicast(id: u16) -> Result<(), Errno> {
    // SAFETY: takes any number.
    unless_unsupported(unsafe { sys::rte_eth_allmulticast_enable(id) })
}

fn unless_unsupported(status: i32) -> Result<(), Errno> {
    match check(status) {
        Err(errno) if errno.value() == libc::ENOTSUP => Ok(()),
        outcome => outcome,
    }
}

pub(super) fn mac(id: u16) -> Result<MacAddr, Errno> {
    let mut addr = sys::rte_ether_addr { addr_bytes: [0; 6] };
    // SAFETY: writes one structure.
    check(unsafe { sys::rte_eth_macaddr_get(id, &raw mut addr) })?;
    Ok(MacAddr(addr.addr_bytes))
}

/// Returns whether the link is up, and its speed in Mb/s if known.
pub(super) fn link(id: u16) -> Result<(bool, Option<u32>), Errno> {
    // SAFETY: numbers only.
    let mut link: sys::rte_eth_link = unsafe { zeroed() };
    // SAFETY: writes one structure.
    check(unsafe { sys::rte_eth_link_get_nowait(id, &raw mut link) })?;
    let is_up = u32::from(link.link_status()) == sys::RTE_ETH_LINK_UP;
    let known = link.link_speed != sys::RTE_ETH_SPEED_NUM_NONE
        && link.link_speed != sys::RTE_ETH_SPEED_NUM_UNKNOWN;
    Ok((is_up, known.then_some(link.link_speed)))
}

pub(super) fn stats(id: u16) -> Result<PortStats, Errno> {
    // SAFETY: numbers only.
    let mut raw: sys::rte_eth_stats = unsafe { zeroed() };
    // SAFETY: writes one structure.
    check(unsafe { sys::rte_eth_stats_get(id, &raw mut raw) })?;
    Ok(PortStats {
        ipackets: raw.ipackets,
        opackets: raw.opackets,
        ibytes: raw.ibytes,
        obytes: raw.obytes,
        imissed: raw.imissed,
        ierrors: raw.ierrors,
        oerrors: raw.oerrors,
        rx_nombuf: raw.rx_nombuf,
    })
}

pub(super) fn xstats(id: u16) -> Result<Vec<(String, u64)>, Errno> {
    // SAFETY: for a null array of length zero the call only returns the count.
    let count = unsafe { sys::rte_eth_xstats_get(id, core::ptr::null_mut(), 0) };
    check(count)?;
    let Ok(len) = usize::try_from(count) else { return Ok(Vec::new()) };
    let mut values = vec![sys::rte_eth_xstat { id: 0, value: 0 }; len];
    // SAFETY: numbers only.
    let mut names: Vec<sys::rte_eth_xstat_name> = (0..len).map(|_| unsafe { zeroed() }).collect();
    // SAFETY: `values` has room for `count`.
    let got = unsafe { sys::rte_eth_xstats_get(id, values.as_mut_ptr(), count.cast_unsigned()) };
    check(got)?;
    // SAFETY: `names` has room for `count`.
    check(unsafe { sys::rte_eth_xstats_get_names(id, names.as_mut_ptr(), count.cast_unsigned()) })?;
    // If the number of counters has grown meanwhile, the driver returns a larger number than fits
    // and writes nothing; the zeros in `values` are dropped.
    let got = usize::try_from(got).unwrap_or(0);
    let valid = if got > len { 0 } else { got };
    Ok(values[..valid]
        .iter()
        .filter_map(|stat| {
            let name = names.get(usize::try_from(stat.id).ok()?)?;
            Some((text(&name.name), stat.value))
        })
        .collect())
}
