//! Loads the program, once for each port, and its maps, which all ports share.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use adit_types::{InterfaceRole, Nanos, PortId, VlanId};
use libbpf_rs::{MapCore, MapHandle, ObjectBuilder, OpenObject};

use crate::batches::Batches;
use crate::config::{XdpConfig, XdpError};
use crate::layout::{
    CHUNK_LEN, COUNTER_ROWS, COUNTER_WORDS, EGRESS_SETS_MAX, ENTRY_WORDS, GATEWAYS,
    INTERFACE_WORDS, MAPPED_INTERFACES_MAX, NETWORKS, OWN_ADDRS_MAX, POOLS_MAX,
};
use crate::mapped::MappedArray;
use crate::offload::{MappedPool, XdpOffload};
use crate::program::XdpProgram;
use crate::usage::XdpUsage;
use adit_rules::OffloadInterface;

static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/forward.bpf.o"));

/// Names of the maps that are not shared: each port has its own.
const MAPS_OF_PORT: [&str; 2] = ["ports", "xsks_map"];

/// Maximum number of addresses of all pools together. It leaves a chunk for the end of the last
/// pool.
const POOL_ADDRS_MAX: u32 = 1 << 24;

/// Loads the program for each of the devices. `clock` is the clock for the times of packets.
///
/// # Errors
/// The reason why there is no program: a missing privilege, or a kernel without a feature.
pub fn load(
    config: &XdpConfig,
    clock: impl Fn() -> Nanos + Send + 'static,
) -> Result<(XdpOffload, Vec<XdpProgram>), XdpError> {
    let sizes = MapSizes::new(config)?;
    let mut programs: Vec<XdpProgram> = Vec::new();
    let mut shared = SharedMaps(Vec::new());
    for (port, device) in &config.devices {
        let program = load_program(config, *port, *device, &sizes, &shared)?;
        if programs.is_empty() {
            shared = SharedMaps::of(&program)?;
        }
        programs.push(program);
    }
    let Some(first) = programs.first() else {
        return Err(XdpError("no port for XDP".into()));
    };
    first.update("settings", 0, &settings(config, &sizes.pools))?;
    for interface in &config.interfaces {
        let slot = config.devices.iter().position(|(port, _)| *port == interface.port);
        let octets = interface_octets(interface, slot);
        first.update("interfaces", u32::from(interface.id.0), &octets)?;
    }
    for (slot, (_, device)) in (0..).zip(&config.devices) {
        first.update("tx_ports", slot, &device.to_ne_bytes())?;
    }
    Ok((offload(config, sizes, &shared, clock)?, programs))
}

/// The sizes of maps that depend on the configuration.
struct MapSizes {
    pools: Vec<MappedPool>,
    /// Number of chunks of the index of TEIDs.
    teids: usize,
    /// Number of chunks of the index of UE addresses.
    ue_pools: usize,
    /// Number of rows of counters.
    counters: usize,
    /// Number of elements of each map whose size the program does not determine.
    elements: [(&'static str, usize); 6],
}

impl MapSizes {
    fn new(config: &XdpConfig) -> Result<Self, XdpError> {
        let pools = pools(config);
        let processors = libbpf_rs::num_possible_cpus()
            .map_err(|error| XdpError::of("the number of processors is unknown", &error))?;
        let addrs = pools.last().map_or(0, |pool| pool.offset + pool.len);
        let chunks = |numbers: usize| numbers.div_ceil(CHUNK_LEN).max(1);
        let (teids, ue_pools) = (chunks(1 << config.teid_slot_bits), chunks(addrs as usize));
        let counters = processors * COUNTER_ROWS;
        let elements = [
            ("entries", config.sessions_max * 2),
            ("teids", teids),
            ("ue_pools", ue_pools),
            ("ues", config.sessions_max * 2),
            ("next_hops", config.next_hops_max),
            ("counters", counters),
        ];
        Ok(Self { pools, teids, ue_pools, counters, elements })
    }
}

/// The maps that all ports share, with their names.
struct SharedMaps(Vec<(String, MapHandle)>);

impl SharedMaps {
    fn of(program: &XdpProgram) -> Result<Self, XdpError> {
        let mut shared = Vec::new();
        for map in program.object.maps() {
            let name = map.name().to_string_lossy().into_owned();
            if !MAPS_OF_PORT.contains(&name.as_str()) {
                let handle = MapHandle::try_from(&map)
                    .map_err(|error| XdpError::of("a map cannot be shared", &error))?;
                shared.push((name, handle));
            }
        }
        Ok(Self(shared))
    }

    fn find(&self, name: &str) -> Result<&MapHandle, XdpError> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, map)| map).ok_or_else(|| XdpError(format!("no map {name}")))
    }

    /// Maps the values of a map that has `words` words.
    fn map(&self, name: &str, words: usize) -> Result<MappedArray, XdpError> {
        MappedArray::of_map(self.find(name)?, words)
            .map_err(|error| XdpError(format!("map {name} cannot be shared: {error}")))
    }
}

/// Loads the program of one port.
fn load_program(
    config: &XdpConfig,
    port: PortId,
    device: u32,
    sizes: &MapSizes,
    shared: &SharedMaps,
) -> Result<XdpProgram, XdpError> {
    let mut open = ObjectBuilder::default()
        .open_memory(PROGRAM)
        .map_err(|error| XdpError::of("the XDP program cannot be read", &error))?;
    prepare(&mut open, sizes, shared)
        .map_err(|error| XdpError::of("the maps of the XDP program cannot be sized", &error))?;
    let object = open
        .load()
        .map_err(|error| XdpError::of("the kernel does not accept the XDP program", &error))?;
    let program = XdpProgram { port, object, link: None, former: None };
    program.update("ports", 0, &port_octets(config, port, is_virtual(device)))?;
    Ok(program)
}

/// Makes the writer of the maps.
fn offload(
    config: &XdpConfig,
    sizes: MapSizes,
    shared: &SharedMaps,
    clock: impl Fn() -> Nanos + Send + 'static,
) -> Result<XdpOffload, XdpError> {
    let ues = MapHandle::try_from(shared.find("ues")?)
        .map_err(|error| XdpError::of("the map of UEs cannot be shared", &error))?;
    let entries = Arc::new(shared.map("entries", config.sessions_max * 2 * ENTRY_WORDS)?);
    let usage = XdpUsage::new(entries, config.sessions_max)
        .map_err(|error| XdpError(format!("no memory for counters: {error}")))?;
    let usage = Arc::new(usage);
    let of_thread = Arc::clone(&usage);
    Ok(XdpOffload {
        batches: Batches::start(move || of_thread.set_now(clock()))?,
        usage,
        teids: shared.map("teids", sizes.teids * CHUNK_LEN / 2)?,
        teid_mask: teid_mask(config),
        same_place: BTreeMap::new(),
        ue_pools: shared.map("ue_pools", sizes.ue_pools * CHUNK_LEN / 2)?,
        pools: sizes.pools,
        ues,
        next_hops: shared.map("next_hops", config.next_hops_max)?,
        networks: shared.map("networks", 2 * NETWORKS / 8)?,
        gateways: shared.map("gateways", EGRESS_SETS_MAX * GATEWAYS / 2)?,
        egress_sets: Vec::new(),
        counters: shared.map("counters", sizes.counters * COUNTER_WORDS)?,
        interfaces: shared.map("interfaces", MAPPED_INTERFACES_MAX * INTERFACE_WORDS)?,
        tunnel_mtus: config
            .interfaces
            .iter()
            .filter(|of| of.role.is_gtpu())
            .map(|of| (of.id, of.mtu_bytes))
            .collect(),
        programs: Vec::new(),
    })
}

/// Returns the mask of the TEID bits that index the map of TEIDs.
fn teid_mask(config: &XdpConfig) -> u32 {
    u32::MAX >> (32 - u32::from(config.teid_slot_bits.clamp(1, 32)))
}

/// Sets the sizes of maps, and reuses the maps that an earlier port's program has created.
fn prepare(open: &mut OpenObject, sizes: &MapSizes, shared: &SharedMaps) -> libbpf_rs::Result<()> {
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if let Some((_, size)) = sizes.elements.iter().find(|(known, _)| *known == name) {
            map.set_max_entries(u32::try_from(*size).unwrap_or(u32::MAX))?;
        }
        if let Ok(known) = shared.find(&name) {
            map.reuse_fd(known.as_fd())?;
        }
    }
    Ok(())
}

/// Returns the pools that have a direct index.
fn pools(config: &XdpConfig) -> Vec<MappedPool> {
    let mut offset = 0_u32;
    let mut mapped = Vec::new();
    for (domain, prefix) in &config.ue_pools_v4 {
        let Some(len) = 1_u32.checked_shl(32 - u32::from(prefix.len())) else { continue };
        if mapped.len() < POOLS_MAX && offset.saturating_add(len) <= POOL_ADDRS_MAX {
            let first = prefix.addr().to_bits();
            mapped.push(MappedPool { domain: *domain, first, len, offset });
            offset += len;
        }
    }
    mapped
}

/// Concatenates numbers in native byte order.
fn octets(numbers: impl IntoIterator<Item = u32>) -> Vec<u8> {
    numbers.into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// Builds `struct settings`.
fn settings(config: &XdpConfig, pools: &[MappedPool]) -> Vec<u8> {
    let len = u32::try_from(pools.len()).unwrap_or_default();
    let words =
        pools.iter().flat_map(|pool| [u32::from(pool.domain.0), pool.first, pool.len, pool.offset]);
    let mut value = octets([teid_mask(config), len].into_iter().chain(words));
    value.resize(8 + POOLS_MAX * 16, 0);
    value
}

/// Builds `struct interface`. `slot`: index of its device in `tx_ports`, if the program can send
/// through it.
fn interface_octets(interface: &OffloadInterface, slot: Option<usize>) -> Vec<u8> {
    let slot = slot.filter(|_| interface.vlan == VlanId::UNTAGGED);
    let port = slot.and_then(|slot| u16::try_from(slot + 1).ok()).unwrap_or_default();
    let mut value = interface.mac.0.to_vec();
    value.extend(interface.mtu_bytes.to_ne_bytes());
    value.extend(interface.v4.map_or(0, |addr| addr.to_bits()).to_ne_bytes());
    value.extend(port.to_ne_bytes());
    value.extend(u16::from(interface.keeps_syns).to_ne_bytes());
    value
}

/// False if a network device is known to be hardware, whose frames come from a wire; a virtual
/// device may deliver frames with incomplete checksums.
fn is_virtual(device: u32) -> bool {
    let name = nix::net::if_::if_indextoname(device);
    let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.is_empty() || !Path::new("/sys/class/net").join(name).join("device").exists()
}

/// Builds `struct port` from the interfaces on the untagged link of a port.
fn port_octets(config: &XdpConfig, port: PortId, is_virtual: bool) -> Vec<u8> {
    let on_link = |of: &&OffloadInterface| of.port == port && of.vlan == VlanId::UNTAGGED;
    let link = || config.interfaces.iter().filter(on_link);
    let n3 = link().find(|of| of.role.is_gtpu() && of.v4.is_some());
    let own_v4: Vec<u32> = link().filter_map(|of| Some(of.v4?.to_bits())).collect();
    let upper = |of: &OffloadInterface| of.v6.map(|addr| (addr.to_bits() >> 64) as u64);
    let own_v6: Vec<u64> = link().filter_map(upper).collect();
    let fits = own_v4.len() <= OWN_ADDRS_MAX && own_v6.len() <= OWN_ADDRS_MAX;
    let n6 = link().find(|of| of.role == InterfaceRole::N6).filter(|_| fits);
    let bit = |of: Option<&OffloadInterface>| {
        of.filter(|of| usize::from(of.id.0) < MAPPED_INTERFACES_MAX)
            .map_or(0, |of| 1_u32 << of.id.0)
    };
    let id = |of: Option<&OffloadInterface>| of.map_or(0, |of| u32::from(of.id.0));
    let mut value = link().next().map_or([0; 6], |of| of.mac.0).to_vec();
    let keeps_syns = n6.is_some_and(|of| of.keeps_syns);
    value.extend([u8::from(is_virtual), u8::from(keeps_syns)]);
    value.extend(octets([
        bit(n3),
        n3.and_then(|of| of.v4).map_or(0, |addr| addr.to_bits()),
        bit(n6),
        n6.map_or(0, |of| u32::from(of.domain.0)),
        id(n3),
        id(n6),
        u32::try_from(own_v4.len().min(OWN_ADDRS_MAX)).unwrap_or_default(),
        u32::try_from(own_v6.len().min(OWN_ADDRS_MAX)).unwrap_or_default(),
    ]));
    let padded = own_v4.into_iter().chain(core::iter::repeat(0)).take(OWN_ADDRS_MAX);
    value.extend(octets(padded));
    let padded = own_v6.into_iter().chain(core::iter::repeat(0)).take(OWN_ADDRS_MAX);
    value.extend(padded.flat_map(u64::to_ne_bytes));
    value
}
