//! Owns a topology of hwloc, and copies its objects into plain values.
#![allow(
    unsafe_code,
    reason = "hwloc is a C library; this file is the only one of the room that calls it"
)]

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use crate::hwloc_sys::hwloc_obj_type_t as object_type;
use crate::hwloc_sys::{
    hwloc_bitmap_list_snprintf, hwloc_const_bitmap_t, hwloc_get_nbobjs_by_depth,
    hwloc_get_obj_by_depth, hwloc_get_type_depth, hwloc_obj, hwloc_obj_osdev_type_e,
    hwloc_obj_type_t, hwloc_topology_abi_check, hwloc_topology_destroy, hwloc_topology_flags_e,
    hwloc_topology_get_allowed_cpuset, hwloc_topology_get_topology_cpuset, hwloc_topology_init,
    hwloc_topology_load, hwloc_topology_set_flags, hwloc_topology_set_io_types_filter,
    hwloc_topology_set_synthetic, hwloc_topology_set_xml, hwloc_topology_t, hwloc_type_filter_e,
};
use adit_machine::placement::{CpuSet, HugePages};

use crate::TopologyError;

/// Maximum length of a bitmap as text: the list of every second one of the kernel's CPUs, with
/// commas. Unit: octets.
const LIST_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of objects of a synthetic machine: more than any real machine has, and few enough
/// for hwloc to be fast.
const SYNTHETIC_OBJECTS_MAX: u64 = 16_384;

/// A loaded topology.
///
/// Invariant: `raw` came from `hwloc_topology_init`, is loaded, and is destroyed exactly once, by
/// `drop`. All its objects and strings live as long as it, and do not change after loading.
pub(crate) struct HwlocTopology {
    raw: hwloc_topology_t,
}

/// The kinds of objects that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HwlocKind {
    Package,
    Node,
    /// The data cache or unified cache of this level.
    Cache(u8),
    Core,
    Cpu,
    PciDevice,
    OsDevice,
}

impl HwlocKind {
    const fn object_type(self) -> hwloc_obj_type_t::Type {
        match self {
            Self::Package => object_type::HWLOC_OBJ_PACKAGE,
            Self::Node => object_type::HWLOC_OBJ_NUMANODE,
            Self::Cache(1) => object_type::HWLOC_OBJ_L1CACHE,
            Self::Cache(2) => object_type::HWLOC_OBJ_L2CACHE,
            Self::Cache(3) => object_type::HWLOC_OBJ_L3CACHE,
            Self::Cache(4) => object_type::HWLOC_OBJ_L4CACHE,
            Self::Cache(_) => object_type::HWLOC_OBJ_L5CACHE,
            Self::Core => object_type::HWLOC_OBJ_CORE,
            Self::Cpu => object_type::HWLOC_OBJ_PU,
            Self::PciDevice => object_type::HWLOC_OBJ_PCI_DEVICE,
            Self::OsDevice => object_type::HWLOC_OBJ_OS_DEVICE,
        }
    }
}

/// The values of an object, copied from hwloc.
#[derive(Debug, Default)]
pub(crate) struct HwlocObject {
    pub index: u32,
    pub name: String,
    /// CPUs of the object; for a device, the CPUs close to it.
    pub cpus: CpuSet,
    /// Indexes of the object's nodes; for a device, of the nodes that it is attached to.
    pub nodes: CpuSet,
    pub memory_bytes: u64,
    pub page_types: Vec<HugePages>,
    pub cache_bytes: u64,
    /// Address of the PCI device, or of the PCI device that an interface belongs to.
    pub pci_address: Option<String>,
    pub is_network: bool,
}

impl HwlocTopology {
    /// Reads the machine that this process runs on.
    pub(crate) fn live() -> Result<Self, TopologyError> {
        let topology = Self::new()?;
        topology.load().map_err(|error| TopologyError::Live { error })?;
        Ok(topology)
    }

    pub(crate) fn of_xml(path: &Path) -> Result<Self, TopologyError> {
        let refused = || TopologyError::NotXml { path: path.to_owned() };
        let topology = Self::new()?;
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| refused())?;
        // SAFETY: the topology is initialized and not loaded; hwloc copies what it keeps of the
        // string.
        let set = unsafe { hwloc_topology_set_xml(topology.raw, name.as_ptr()) };
        if set != 0 {
            return Err(refused());
        }
        topology.load().map_err(|_| refused())?;
        Ok(topology)
    }

    pub(crate) fn of_synthetic(text: &str) -> Result<Self, TopologyError> {
        let refused = || TopologyError::NotSynthetic { text: text.to_owned() };
        if lowest_level_count(text) > SYNTHETIC_OBJECTS_MAX {
            return Err(TopologyError::TooLarge { text: text.to_owned() });
        }
        let topology = Self::new()?;
        let description = CString::new(text).map_err(|_| refused())?;
        // SAFETY: the topology is initialized and not loaded; hwloc copies what it keeps of the
        // string.
        let set = unsafe { hwloc_topology_set_synthetic(topology.raw, description.as_ptr()) };
        if set != 0 {
            return Err(refused());
        }
        topology.load().map_err(|_| refused())?;
        Ok(topology)
    }

    /// Creates an empty topology, if the installed hwloc library has the ABI that adit was built
    /// with.
    fn new() -> Result<Self, TopologyError> {
        let mut raw: hwloc_topology_t = ptr::null_mut();
        // SAFETY: `raw` may be written, and is only used after success.
        let status = unsafe { hwloc_topology_init(&raw mut raw) };
        if status != 0 {
            return Err(TopologyError::Live { error: io::Error::last_os_error() });
        }
        let topology = Self { raw };
        // SAFETY: the topology is initialized.
        if unsafe { hwloc_topology_abi_check(topology.raw) } != 0 {
            return Err(TopologyError::OtherLibrary);
        }
        Ok(topology)
    }

    fn load(&self) -> Result<(), io::Error> {
        // Includes the CPUs outside the cpuset of this process: they belong to the machine as well.
        let flags = hwloc_topology_flags_e::HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED;
        // SAFETY: the topology is initialized and not loaded.
        let flagged = unsafe { hwloc_topology_set_flags(self.raw, flags.into()) };
        let keep = hwloc_type_filter_e::HWLOC_TYPE_FILTER_KEEP_IMPORTANT;
        // SAFETY: as above.
        let filtered = unsafe { hwloc_topology_set_io_types_filter(self.raw, keep) };
        if flagged != 0 || filtered != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above; the topology is loaded only once, since only constructors call this.
        match unsafe { hwloc_topology_load(self.raw) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns the CPUs of the machine.
    pub(crate) fn cpus(&self) -> Result<CpuSet, TopologyError> {
        // SAFETY: the topology is loaded.
        let set = unsafe { hwloc_topology_get_topology_cpuset(self.raw) };
        // SAFETY: the set belongs to the topology, which lives on.
        unsafe { copy_set(set) }
    }

    /// Returns the CPUs that the cpuset of the process allowed when the description was made.
    pub(crate) fn allowed(&self) -> Result<CpuSet, TopologyError> {
        // SAFETY: the topology is loaded.
        let set = unsafe { hwloc_topology_get_allowed_cpuset(self.raw) };
        // SAFETY: the set belongs to the topology, which lives on.
        unsafe { copy_set(set) }
    }

    /// Copies all objects of a kind.
    pub(crate) fn objects(&self, kind: HwlocKind) -> Result<Vec<HwlocObject>, TopologyError> {
        // SAFETY: the topology is loaded. For nodes, for devices, and for kinds without objects the
        // depth is a negative constant, which the calls below accept.
        let depth: c_int = unsafe { hwloc_get_type_depth(self.raw, kind.object_type()) };
        // SAFETY: the topology is loaded; for a depth without objects the call returns 0.
        let count = unsafe { hwloc_get_nbobjs_by_depth(self.raw, depth) };
        let mut objects = Vec::new();
        for index in 0..count {
            // SAFETY: the topology is loaded, and `index` is below the number of objects.
            let raw = unsafe { hwloc_get_obj_by_depth(self.raw, depth, index) };
            // SAFETY: the pointer is null or an object of this topology, which does not change.
            let Some(object) = (unsafe { raw.as_ref() }) else { continue };
            objects.push(copy_object(object, kind)?);
        }
        Ok(objects)
    }
}

impl Drop for HwlocTopology {
    fn drop(&mut self) {
        // SAFETY: the topology is initialized, and no other code destroys it.
        unsafe { hwloc_topology_destroy(self.raw) }
    }
}

/// Copies an object, which must belong to a loaded topology and be of `kind`.
fn copy_object(object: &hwloc_obj, kind: HwlocKind) -> Result<HwlocObject, TopologyError> {
    // A device has no CPUs of its own; its place is the first ancestor that has.
    let place = place_of(object);
    let mut copy = HwlocObject {
        index: object.os_index,
        // SAFETY: the name is null or a string of the topology, which outlives this call.
        name: unsafe { copy_text(object.name) },
        // SAFETY: the set is null or belongs to the topology.
        cpus: unsafe { copy_set(place.cpuset) }?,
        // SAFETY: as above.
        nodes: unsafe { copy_set(place.nodeset) }?,
        ..HwlocObject::default()
    };
    // SAFETY: attributes are null or belong to the object.
    let Some(attributes) = (unsafe { object.attr.as_ref() }) else { return Ok(copy) };
    match kind {
        HwlocKind::Node => {
            // SAFETY: the attributes of a NUMA node are this member of the union.
            let node = unsafe { attributes.numanode };
            copy.memory_bytes = node.local_memory;
            if !node.page_types.is_null() {
                let length = node.page_types_len as usize;
                // SAFETY: hwloc has `page_types_len` entries there, which do not change.
                let types = unsafe { std::slice::from_raw_parts(node.page_types, length) };
                copy.page_types.extend(types.iter().map(|pages| HugePages {
                    page_bytes: pages.size,
                    total_count: pages.count,
                    free_count: None,
                }));
            }
        }
        HwlocKind::Cache(_) => {
            // SAFETY: the attributes of a cache are this member of the union.
            copy.cache_bytes = unsafe { attributes.cache }.size;
        }
        HwlocKind::PciDevice => copy.pci_address = pci_address(object),
        HwlocKind::OsDevice => {
            // SAFETY: the attributes of an operating system's device are this member of the union.
            let device = unsafe { attributes.osdev };
            copy.is_network = device.type_ == hwloc_obj_osdev_type_e::HWLOC_OBJ_OSDEV_NETWORK;
            copy.pci_address = pci_address(object);
        }
        HwlocKind::Package | HwlocKind::Core | HwlocKind::Cpu => {}
    }
    Ok(copy)
}

/// Returns the object itself, or its first ancestor that has CPUs.
fn place_of(object: &hwloc_obj) -> &hwloc_obj {
    let mut place = object;
    while place.cpuset.is_null() {
        // SAFETY: a parent is null or an object of the same topology, which outlives the borrow of
        // `object`.
        let Some(parent) = (unsafe { place.parent.as_ref() }) else { break };
        place = parent;
    }
    place
}

/// Returns the address of the PCI device that `object` is or belongs to.
fn pci_address(object: &hwloc_obj) -> Option<String> {
    let mut at = object;
    while at.type_ != object_type::HWLOC_OBJ_PCI_DEVICE {
        // SAFETY: a parent is null or an object of the same topology, which outlives the borrow of
        // `object`.
        at = unsafe { at.parent.as_ref() }?;
    }
    // SAFETY: attributes are null or belong to the object.
    let attributes = unsafe { at.attr.as_ref() }?;
    // SAFETY: the attributes of a PCI device are this member of the union.
    let pci = unsafe { attributes.pcidev };
    Some(format!("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func))
}

/// Copies a text; empty for null.
///
/// # Safety
/// `text` is null or a string that lives until the call returns.
unsafe fn copy_text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller promises that `text` is such a string.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Copies a set; empty for null.
///
/// # Safety
/// `set` is null or a bitmap that lives until the call returns.
unsafe fn copy_set(set: hwloc_const_bitmap_t) -> Result<CpuSet, TopologyError> {
    if set.is_null() {
        return Ok(CpuSet::default());
    }
    let mut list = vec![0u8; LIST_BYTES_MAX];
    // SAFETY: the buffer has the stated length, and hwloc ends the text with a NUL. The caller
    // promises that `set` is a bitmap.
    let length = unsafe { hwloc_bitmap_list_snprintf(list.as_mut_ptr().cast(), list.len(), set) };
    let length = usize::try_from(length).ok().filter(|length| *length < list.len());
    let text = length.map(|length| String::from_utf8_lossy(&list[..length]).into_owned());
    let shown = text.unwrap_or_else(|| "a longer list than all of them".to_owned());
    shown.parse().map_err(|_| TopologyError::TooManyCpus { cpus: shown.chars().take(80).collect() })
}

/// Returns how many objects a synthetic description has on its lowest level: the product of the
/// numbers behind its colons.
fn lowest_level_count(text: &str) -> u64 {
    let numbers = text.split_whitespace().filter_map(|level| {
        let digits = level.rsplit_once(':').map_or(level, |(_, number)| number);
        let end = digits.find(|char: char| !char.is_ascii_digit()).unwrap_or(digits.len());
        digits.get(..end)?.parse::<u64>().ok()
    });
    numbers.fold(1, u64::saturating_mul)
}
